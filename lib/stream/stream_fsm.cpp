//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "stream/stream_fsm.hpp"

#include <algorithm>
#include <utility>

namespace rdma::detail {

stream_fsm::range stream_fsm::ring_state::free(
  std::uint32_t written, std::uint32_t read) const noexcept
{
  return {position, std::min(size - position, size - unread(written, read))};
}

std::uint32_t stream_fsm::ring_state::unread(
  std::uint32_t written, std::uint32_t read) const noexcept
{
  // Bytes of earlier rings that are unread take no room in this one.
  return written - (static_cast<std::int32_t>(read - base) >= 0 ? read : base);
}

stream_message stream_fsm::next(stream_message_type type) noexcept
{
  ++sent_;
  told_reposted_ = reposted_;
  told_read_ = read_;
  in_.follow(read_);
  stream_message m;
  m.type = type;
  m.odd_ring = out_odd_;
  m.received = reposted_;
  m.read = read_;
  return m;
}

stream_message stream_fsm::hello(const remote_buffer& ring) noexcept
{
  greeted_ = true;
  stream_message m = next(stream_message_type::hello);
  m.count = receives_;
  m.ring = ring;
  return m;
}

stream_message stream_fsm::data(std::size_t size) noexcept
{
  stream_message m = next(stream_message_type::data);
  m.count = static_cast<std::uint32_t>(size);
  return m;
}

stream_fsm::range stream_fsm::writable() const noexcept
{
  return can_send_bytes() ? out_.free(written_, peer_read_) : range{};
}

stream_message stream_fsm::written(std::uint32_t size) noexcept
{
  written_ += size;
  out_.advance(size);
  stream_message m = next(stream_message_type::written);
  m.count = size;
  return m;
}

stream_message stream_fsm::finish(bool resets) noexcept
{
  finished_ = true;
  return next(resets ? stream_message_type::reset : stream_message_type::finish);
}

bool stream_fsm::credit_due() const noexcept
{
  // As far as the peer knows. It cannot send bytes if this is not more than the reserve.
  const std::uint32_t peer_room = receives_ - (arrived_count_ - told_reposted_);
  return can_tell()
    && (untold() >= receives_ / 4 || (untold() >= untold_min && peer_room <= reserve)
      || read_ - told_read_ >= in_.size / 4);
}

stream_message stream_fsm::credit() noexcept
{
  return next(stream_message_type::credit);
}

// A ring delays the peer if it was half full as the peer saw it, or has no room for several of the
// peer's writes. The sizes for growing and shrinking are far enough apart that a peer that always
// writes the same does not cause both.
std::uint32_t stream_fsm::wanted_ring(std::uint32_t least, std::uint32_t most) const noexcept
{
  if (offered_ != 0 || !is_old_ring_read() || !can_tell())
    return 0;
  if ((peak_ >= in_.size / 2 || largest_ >= in_.size / 4) && in_.size < most)
    return std::min(in_.size * 4, most);
  if (arrived_count_ - peak_since_ >= messages_before_shrinking && peak_ < in_.size / 16
    && in_.size > least)
    return std::max(in_.size / 4, least);
  return 0;
}

stream_message stream_fsm::ring(const remote_buffer& offered) noexcept
{
  offered_ = static_cast<std::uint32_t>(offered.size());
  stream_message m = next(stream_message_type::ring);
  m.odd_ring = !in_odd_;
  m.ring = offered;
  return m;
}

stream_fsm::arrival stream_fsm::receive(const stream_message& m) noexcept
{
  using enum stream_message_type;
  if (arrived_count_++ - peak_since_ >= messages_before_shrinking)
    begin_watching();
  if ((m.type == hello) == peer_greeted_ || arrived_count_ - reposted_ > receives_
    || !take_totals(m) || (m.type != ring && !take_ring_in_use(m.odd_ring)))
    return arrival::violation;
  const bool has_place = m.type == data || m.type == written || m.type == finish;
  if (has_place && peer_finished_)
    return arrival::violation;
  switch (m.type)
  {
  case hello:
    peer_greeted_ = true;
    peer_receives_ = std::min(m.count, receives_max); // more messages under way serve nobody
    return peer_receives_ >= receives_min && take_ring(m) ? arrival::nothing : arrival::violation;
  case data:
    return arrival::data;
  case written:
    return take_written(m);
  case credit:
    return arrival::nothing;
  case ring:
    return m.odd_ring != out_odd_ && take_ring(m) ? arrival::nothing : arrival::violation;
  case finish:
    peer_finished_ = true;
    return arrival::finished;
  case reset:
    return arrival::reset;
  }
  return arrival::violation;
}

// The peer cannot have received more than this end has sent, and its totals do not decrease.
bool stream_fsm::take_totals(const stream_message& m) noexcept
{
  if (m.received - peer_received_ > sent_ - peer_received_
    || m.read - peer_read_ > written_ - peer_read_)
    return false;
  peer_received_ = m.received;
  peer_read_ = m.read;
  out_.follow(peer_read_);
  return true;
}

// The peer offers another ring only when this end uses the last one, and has read the one before.
bool stream_fsm::take_ring(const stream_message& m) noexcept
{
  const access needed =
    order_ == order::none ? access::remote_write : access::remote_write | access::remote_read;
  if (m.ring.size() < ring_min || m.ring.size() > ring_max || !permits(m.ring.rights(), needed))
    return false;
  if (m.type == stream_message_type::ring)
  {
    if (static_cast<std::int32_t>(peer_read_ - out_.base) < 0)
      return false;
    out_odd_ = !out_odd_;
  }
  out_ = {.size = static_cast<std::uint32_t>(m.ring.size()), .position = 0, .base = written_};
  peer_ring_ = m.ring;
  return true;
}

// The peer names the ring that it writes to, from the next byte on.
bool stream_fsm::take_ring_in_use(bool is_odd) noexcept
{
  if (is_odd == in_odd_)
    return true;
  if (offered_ == 0)
    return false;
  in_ = {.size = std::exchange(offered_, 0), .position = 0, .base = arrived_bytes_};
  in_odd_ = is_odd;
  begin_watching();
  return true;
}

void stream_fsm::begin_watching() noexcept
{
  peak_ = 0;
  largest_ = 0;
  peak_since_ = arrived_count_;
}

stream_fsm::arrival stream_fsm::take_written(const stream_message& m) noexcept
{
  if (m.count > in_.free(arrived_bytes_, read_).size)
    return arrival::violation;
  arrived_ = {in_odd_, {in_.position, m.count}};
  in_.advance(m.count);
  arrived_bytes_ += m.count;
  largest_ = std::max(largest_, m.count);
  peak_ = std::max(peak_, in_.unread(arrived_bytes_, told_read_));
  return arrival::written;
}

} // namespace rdma::detail

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
  // Bytes of earlier rings that are unread take no room in this one.
  const std::uint32_t from = static_cast<std::int32_t>(read - base) >= 0 ? read : base;
  return {position, std::min(size - position, size - (written - from))};
}

stream_message stream_fsm::next(stream_message_type type) noexcept
{
  ++sent_;
  told_reposted_ = reposted_;
  told_read_ = read_;
  stream_message m;
  m.type = type;
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
  m.odd_ring = out_odd_;
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
  return room() != 0
    && (reposted_ - told_reposted_ >= receives_ / 4 || read_ - told_read_ >= in_.size / 4);
}

stream_message stream_fsm::credit() noexcept
{
  return next(stream_message_type::credit);
}

std::uint32_t stream_fsm::wanted_ring(std::uint32_t most) const noexcept
{
  // A ring that was half full at once is too small.
  const bool is_full = arrived_bytes_ - read_ >= in_.size / 2;
  return is_full && offered_ == 0 && is_old_ring_read() && in_.size < most && room() != 0
    ? std::min(in_.size * 4, most)
    : 0;
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
  ++arrived_count_;
  if ((m.type == hello) == peer_greeted_ || arrived_count_ - reposted_ > receives_
    || !take_totals(m))
    return arrival::violation;
  const bool has_place = m.type == data || m.type == written || m.type == finish;
  if (has_place && peer_finished_)
    return arrival::violation;
  switch (m.type)
  {
  case hello:
    peer_greeted_ = true;
    peer_receives_ = m.count;
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
  return true;
}

// The peer offers another ring only when this end uses the last one, and has read the one before.
bool stream_fsm::take_ring(const stream_message& m) noexcept
{
  if (m.ring.size() < ring_min || m.ring.size() > ring_max)
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

stream_fsm::arrival stream_fsm::take_written(const stream_message& m) noexcept
{
  if (m.odd_ring != in_odd_)
  {
    if (offered_ == 0)
      return arrival::violation;
    in_ = {.size = std::exchange(offered_, 0), .position = 0, .base = arrived_bytes_};
    in_odd_ = m.odd_ring;
  }
  const range free = in_.free(arrived_bytes_, read_);
  if (m.count > free.size)
    return arrival::violation;
  arrived_ = {in_odd_, {in_.position, m.count}};
  in_.advance(m.count);
  arrived_bytes_ += m.count;
  return arrival::written;
}

} // namespace rdma::detail

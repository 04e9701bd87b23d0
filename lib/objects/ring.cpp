//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include <boost_rdma/detail/objects/ring.hpp>

#include "verbs/pause.hpp"

#include <boost/asio/error.hpp>

#include <bit>
#include <utility>

// The state machines of rings.

namespace rdma::detail::objects {
namespace {

// Less than the largest message of any device. Parts also let the consumer begin earlier.
constexpr std::size_t write_size_max = 256 * 1024;

} // namespace

ring_writer::ring_writer(const ring_layout& layout) noexcept
  : layout_(layout)
  , many_(std::max<std::uint64_t>(layout.capacity / 8, 1))
  , count_max_(write_size_max / (8 * layout.entry_words))
{
}

ring_writer::action ring_writer::next() noexcept
{
  const std::uint64_t staged = pushed_ - posted_;
  if (staged != 0 && credits() != 0 && may_write())
  {
    const std::uint64_t first = posted_;
    const std::uint64_t to_end = layout_.capacity - layout_.index_of(first);
    const std::uint64_t count = std::min({staged, credits(), to_end, count_max_});
    const unsigned slot = (first_ + writes_++) % writes_max;
    posted_ += count;
    in_flight_[slot] = {posted_, false};
    stale_ = true;
    return {action::kind::write, slot, first, count, {}};
  }
  const bool blocked = staged != 0 && credits() == 0;
  if (reading_ || pausing_ || credits() >= (layout_.capacity + 1) / 2 || !(stale_ || blocked))
    return {};
  if (fruitless_ >= reads_without_pause && !rested_)
  {
    pausing_ = true;
    return {action::kind::pause, 0, 0, 0, pause_.next().pause};
  }
  reading_ = true;
  stale_ = false;
  rested_ = false;
  return {.what = action::kind::read};
}

// A device completes the writes of a queue pair in order, but executors may reorder handlers.
void ring_writer::wrote(unsigned slot) noexcept
{
  in_flight_[slot].ended = true;
  for (; writes_ != 0 && in_flight_[first_].ended; first_ = (first_ + 1) % writes_max, --writes_)
    written_ = in_flight_[first_].end;
}

bool ring_writer::was_consumed(std::uint64_t count) noexcept
{
  reading_ = false;
  if (count - consumed_ > posted_ - consumed_)
    return false;
  if (count == consumed_)
  {
    fruitless_ = std::min(fruitless_ + 1, reads_without_pause);
    return true;
  }
  consumed_ = count;
  fruitless_ = 0;
  pause_.reset();
  return true;
}

void ring_writer::rested() noexcept
{
  pausing_ = false;
  rested_ = true;
}

// ---- open_ring

access_request open_ring::request(std::size_t) noexcept
{
  return {
    .kind = request_kind::read, .offset = 0, .bytes = std::as_writable_bytes(std::span(found_))};
}

step open_ring::next(bool cancelled) noexcept
{
  header found{.kind = {}};
  std::ranges::copy(std::as_bytes(std::span(found_)).first<sizeof found>(),
    std::as_writable_bytes(std::span(&found, 1)).begin());
  layout_ = {std::exchange(found.capacity, expected_.capacity), ring_entry_words(expected_.size)};
  const bool fits = std::has_single_bit(layout_.capacity)
    && layout_.capacity <= ring_layout::capacity_max && layout_.size() <= size_;
  const bool unused = found_[ring_layout::consumed_offset / 8] == 0 && found_.back() < ring_parity;
  if (found != expected_ || !fits || !unused)
    return step::finish(error::object_mismatch);
  return cancelled ? step::finish(boost::asio::error::operation_aborted) : step::finish();
}

void look_for_parity(const std::uint64_t* word, std::uint64_t parity) noexcept
{
  const std::atomic_ref looked(const_cast<std::uint64_t&>(*word));
  for (int i = 0; i != 32; ++i)
  {
    // relaxed: the reader looks again
    if ((looked.load(std::memory_order_relaxed) & ring_parity) == parity)
      return;
    detail::pause();
  }
}

} // namespace rdma::detail::objects

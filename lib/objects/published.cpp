//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include <boost_rdma/detail/objects/published.hpp>

#include <boost/asio/error.hpp>

#include <algorithm>

namespace rdma::detail::objects {
namespace {

constexpr unsigned loads_between_pauses = 8;

access_request read_words(std::uint64_t offset, std::span<std::uint64_t> words) noexcept
{
  return {.kind = request_kind::read, .offset = offset, .bytes = std::as_writable_bytes(words)};
}

access_request read_word(std::uint64_t offset, std::uint64_t& word) noexcept
{
  return read_words(offset, std::span(&word, 1));
}

access_request exchange_word(
  std::uint64_t offset, std::uint64_t expected, std::uint64_t desired) noexcept
{
  return {.kind = request_kind::compare_exchange,
    .offset = offset,
    .compare_or_add = expected,
    .swap = desired};
}

step aborted() noexcept
{
  return step::finish(boost::asio::error::operation_aborted);
}

} // namespace

// ---- parts_reader

step parts_reader::begin(std::uint64_t offset) noexcept
{
  offset_ = offset;
  done_ = in_step_ = 0;
  return next();
}

step parts_reader::next() noexcept
{
  done_ += in_step_;
  in_step_ = std::min(part_ * in_flight_, to_.size() - done_);
  return step::access((in_step_ + part_ - 1) / part_);
}

access_request parts_reader::request(std::size_t i) const noexcept
{
  const std::size_t at = done_ + i * part_;
  const std::size_t size = std::min(part_, done_ + in_step_ - at);
  return {.kind = request_kind::read,
    .offset = offset_ + at,
    .bytes = std::span(static_cast<std::byte*>(to_.data()) + at, size),
    .registered = to_.registration()};
}

// ---- open_published

open_published::open_published(const header& expected, const remote_buffer& memory) noexcept
  : expected_(expected)
  , memory_size_(memory.size())
  , ec_(check_memory(memory, sizeof(header)))
{
}

access_request open_published::request(std::size_t) noexcept
{
  return {.kind = request_kind::read,
    .offset = 0,
    .bytes = std::as_writable_bytes(std::span(&found_, 1))};
}

step open_published::next(bool cancelled) noexcept
{
  header expected = expected_; // the parameters are the owner's
  expected.capacity = found_.capacity;
  expected.parameters[0] = found_.parameters[0];
  expected.parameters[1] = found_.parameters[1];
  const auto lease = std::min<std::uint64_t>(found_.parameters[1], INT64_MAX);
  const published_layout layout{.value_size = found_.size,
    .buffers = found_.capacity,
    .slots = found_.parameters[0],
    .lease = std::chrono::milliseconds(static_cast<std::int64_t>(lease))};
  if (found_ != expected || !layout.is_valid())
    return step::finish(error::object_mismatch);
  if (memory_size_ < layout.size())
    return step::finish(error::remote_range_too_small);
  if (cancelled)
    return aborted();
  layout_ = layout;
  return step::finish();
}

// ---- load_published

step load_published::look() noexcept
{
  stage_ = stage::look;
  return step::access(1);
}

step load_published::begin() noexcept
{
  return size_ == layout_.value_size ? look() : step::finish(error::wrong_size);
}

access_request load_published::request(std::size_t i) noexcept
{
  if (stage_ == stage::value)
    return value_.request(i);
  return read_word(
    stage_ == stage::look ? layout_.current : layout_.generation(version_.buffer), word_);
}

step load_published::next(bool cancelled) noexcept
{
  if (stage_ == stage::check && word_ == version_.generation)
    return step::finish();
  if (cancelled)
    return aborted();
  switch (stage_)
  {
  case stage::look:
    version_ = published_version::of(word_);
    if (version_.buffer >= layout_.buffers)
      return step::finish(error::object_mismatch);
    stage_ = stage::value;
    return value_.begin(layout_.value(version_.buffer));
  case stage::value:
    if (!value_.is_complete())
      return value_.next();
    stage_ = stage::check;
    return step::access(1);
  case stage::check:
    if (++torn_ == loads_max)
      return step::finish(error::contended);
    if (torn_ % loads_between_pauses != 0)
      return look();
    stage_ = stage::pause;
    return pause_.next();
  case stage::pause:
    return look();
  }
  return step::finish(); // not reached
}

// ---- take_snapshot

take_snapshot::take_snapshot(const published_layout& layout, clock_function clock)
  : layout_(layout)
  , clock_(clock)
  , image_(1 + layout.slots)
  , watch_(layout.slots, layout.lease)
{
  ended_.reserve(layout.slots);
}

step take_snapshot::look() noexcept
{
  stage_ = stage::look;
  return step::access(1);
}

access_request take_snapshot::request(std::size_t i) noexcept
{
  switch (stage_)
  {
  case stage::look:
    return read_words(layout_.current, image_);
  case stage::verify:
    return read_word(layout_.current, image_.front());
  case stage::expire:
  {
    const std::uint64_t word = image_[1 + ended_[i]];
    return exchange_word(layout_.slot(ended_[i]), word, pin_word::of(word).freed().packed());
  }
  default:
    return exchange_word(layout_.slot(slot_), expected_, desired_);
  }
}

void take_snapshot::answered(std::size_t, std::uint64_t was) noexcept
{
  if (stage_ != stage::expire) // of which several answers may come at once
    exchanged_ = was == expected_;
}

// Begins at a random slot so that readers that start together claim different ones.
bool take_snapshot::find_free() noexcept
{
  const auto ticks = static_cast<std::uint64_t>(changed_.time_since_epoch().count());
  const std::uint64_t first = (ticks * 0x9e37'79b9'7f4a'7c15) >> 32;
  for (std::uint64_t i = 0; i != layout_.slots; ++i)
  {
    slot_ = (first + i) % layout_.slots;
    if (!pin_word::of(image_[1 + slot_]).pinned)
      return true;
  }
  return false;
}

step take_snapshot::exchange(stage entered, const pin_word& desired) noexcept
{
  stage_ = entered;
  desired_ = desired.packed();
  return step::access(1);
}

step take_snapshot::give_up(const error_code& ec) noexcept
{
  ec_ = ec;
  expected_ = desired_;
  return exchange(stage::give_up, pin_word::of(expected_).freed());
}

step take_snapshot::looked(bool cancelled) noexcept
{
  if (cancelled)
    return aborted();
  if (attempts_++ == attempts_max)
    return step::finish(error::contended);
  version_ = published_version::of(image_.front());
  if (version_.buffer >= layout_.buffers)
    return step::finish(error::object_mismatch);
  changed_ = clock_();
  if (!find_free())
    return without_slot();
  full_since_.reset();
  expected_ = image_[1 + slot_];
  return exchange(stage::claim, pin_word::of(expected_).pinning(version_.buffer));
}

step take_snapshot::without_slot() noexcept
{
  if (!full_since_)
    full_since_ = changed_;
  ended_.clear();
  for (std::size_t i = 0; i != layout_.slots; ++i)
    if (watch_.has_ended(i, image_[1 + i], changed_))
      ended_.push_back(i);
  if (!ended_.empty())
  {
    freed_ += static_cast<unsigned>(ended_.size());
    stage_ = stage::expire;
    return step::access(ended_.size());
  }
  if (changed_ - *full_since_ >= layout_.lease)
    return step::finish(error::object_full);
  --attempts_; // limited by the lease instead
  stage_ = stage::pause;
  return pause_.next();
}

step take_snapshot::verified(bool cancelled) noexcept
{
  const published_version now = published_version::of(image_.front());
  if (now.packed() == version_.packed())
    return step::finish();
  if (cancelled)
    return give_up(boost::asio::error::operation_aborted);
  if (now.buffer >= layout_.buffers)
    return give_up(error::object_mismatch);
  if (attempts_++ == attempts_max)
    return give_up(error::contended);
  ++moves_;
  version_ = now;
  changed_ = clock_();
  expected_ = desired_;
  return exchange(stage::move, pin_word::of(expected_).moved_to(now.buffer));
}

step take_snapshot::next(bool cancelled) noexcept
{
  switch (stage_)
  {
  case stage::look:
    return looked(cancelled);
  case stage::claim:
  case stage::move:
    if (!exchanged_) // another reader claimed the slot, or the lease has ended
      return look();
    stage_ = stage::verify;
    return step::access(1);
  case stage::verify:
    return verified(cancelled);
  case stage::give_up:
    return step::finish(ec_);
  default:
    return look();
  }
}

// ---- read_snapshot

error_code read_snapshot::check(
  const published_layout& layout, std::uint64_t offset, std::size_t size) noexcept
{
  if (size == 0)
    return error::empty_buffer;
  if (offset > layout.value_size || size > layout.value_size - offset)
    return error::out_of_range;
  return {};
}

access_request read_snapshot::request(std::size_t i) noexcept
{
  return checking_ ? read_word(layout_.slot(slot_), word_) : value_.request(i);
}

step read_snapshot::next(bool cancelled) noexcept
{
  if (checking_)
    return step::finish(
      pin_word::of(word_).is_of_claim(claim_) ? error_code() : error::lease_ended);
  if (cancelled)
    return aborted();
  if (!value_.is_complete())
    return value_.next();
  checking_ = true;
  return step::access(1);
}

// ---- change_pin

pin_word change_pin::desired() const noexcept
{
  const pin_word pin = pin_word::of(expected_);
  return renews_ ? pin.moved_to(pin.buffer) : pin.freed();
}

step change_pin::exchange() noexcept
{
  changed_ = clock_();
  return step::access(1);
}

access_request change_pin::request(std::size_t) noexcept
{
  return exchange_word(layout_.slot(slot_), expected_, desired().packed());
}

step change_pin::next(bool) noexcept
{
  if (was_ == expected_)
    return step::finish();
  if (!pin_word::of(was_).is_of_claim(pin_word::of(expected_).claim))
    return step::finish(error::lease_ended);
  if (++attempts_ == attempts_max)
    return step::finish(error::contended);
  expected_ = was_; // another renewal of the snapshot was faster
  return exchange();
}

} // namespace rdma::detail::objects

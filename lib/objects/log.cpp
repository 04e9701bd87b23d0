//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include <boost_rdma/detail/objects/log.hpp>

#include <boost/asio/error.hpp>

#include <algorithm>
#include <bit>
#include <cstring>

namespace rdma::detail::objects {
namespace {

access_request read_control(log_control& control) noexcept
{
  return {.kind = request_kind::read,
    .offset = log_tail_offset,
    .bytes = std::as_writable_bytes(std::span(&control, 1))};
}

} // namespace

entry_state state_of(std::span<const std::uint64_t> entry, lap expected) noexcept
{
  const int first = compare_lap(entry[0], expected);
  if (first != 0)
    return first < 0 ? entry_state::unfinished : entry_state::changing;
  if (log_word::of(entry[0]).mark == log_word::mark::skipped)
    return entry_state::skipped;
  const bool complete = std::ranges::all_of(
    entry, [expected](std::uint64_t word) { return compare_lap(word, expected) == 0; });
  return complete ? entry_state::committed : entry_state::changing;
}

void decode_entry(std::span<const std::uint64_t> entry, std::span<std::byte> value) noexcept
{
  for (std::size_t i = 0; i != entry.size(); ++i)
  {
    const std::uint32_t data = log_word::of(entry[i]).data;
    std::memcpy(value.data() + 4 * i, &data, std::min<std::size_t>(4, value.size() - 4 * i));
  }
}

// ---- log_append

step log_append::begin(
  const log_shape& shape, std::span<std::uint64_t> image, std::span<const std::byte> value) noexcept
{
  shape_ = shape;
  image_ = image;
  value_ = value;
  return look();
}

step log_append::enter(stage entered, std::size_t requests) noexcept
{
  stage_ = entered;
  return step::access(requests);
}

step log_append::look() noexcept
{
  return enter(stage::look, 1);
}

step log_append::inspect() noexcept
{
  return enter(stage::inspect, 2);
}

step log_append::give_up_index() noexcept
{
  return ++attempts_ == attempts_max ? step::finish(error::contended) : look();
}

std::uint64_t log_append::entry_offset(std::uint64_t index) const noexcept
{
  return log_entries_offset + 8 * image_.size() * shape_.place_of(index);
}

std::uint64_t log_append::desired(std::size_t word) const noexcept
{
  const lap lap = shape_.lap_of(index_);
  if (stage_ == stage::withdraw)
    return log_word{0, lap, log_word::mark::skipped}.packed();
  std::uint32_t data = 0;
  std::memcpy(&data, value_.data() + 4 * word, std::min<std::size_t>(4, value_.size() - 4 * word));
  return log_word{data, lap, log_word::mark::written}.packed();
}

access_request log_append::read_place(std::uint64_t index) const noexcept
{
  return {.kind = request_kind::read,
    .offset = entry_offset(index),
    .bytes = std::as_writable_bytes(image_)};
}

access_request log_append::request(std::size_t i) noexcept
{
  switch (stage_)
  {
  case stage::look:
    return read_control(control_);
  case stage::reserve:
    if (i == 0)
      return {.kind = request_kind::fetch_add, .offset = log_tail_offset, .compare_or_add = 1};
    return read_place(guess_);
  case stage::inspect:
    return i == 0 ? read_place(index_) : read_control(control_);
  default:
    const std::size_t word = stage_ == stage::fill ? i + 1 : 0;
    return {.kind = request_kind::compare_exchange,
      .offset = entry_offset(index_) + 8 * word,
      .compare_or_add = image_[word],
      .swap = desired(word)};
  }
}

void log_append::answered(std::size_t i, std::uint64_t was) noexcept
{
  if (stage_ == stage::reserve && i == 0)
    index_ = was;
  if (stage_ != stage::fill && stage_ != stage::commit && stage_ != stage::withdraw)
    return;
  const std::size_t word = stage_ == stage::fill ? i + 1 : 0;
  const bool changed = was == image_[word];
  if (word == 0)
    exchanged_ = changed;
  image_[word] = changed ? desired(word) : was;
}

step log_append::looked(bool cancelled) noexcept
{
  if (cancelled)
    return step::finish(boost::asio::error::operation_aborted);
  if (control_.has_room(control_.tail, shape_))
  {
    guess_ = control_.tail;
    return enter(stage::reserve, 2);
  }
  // The log is full if `first` was read after `tail`.
  if (tail_before_ && !control_.has_room(*tail_before_, shape_))
    return step::finish(error::object_full);
  tail_before_ = control_.tail;
  return look();
}

// Writes the entry, for which there is room. The image is the place.
step log_append::advance(bool cancelled) noexcept
{
  const lap lap = shape_.lap_of(index_);
  const auto compare = [lap](std::uint64_t word) { return compare_lap(word, lap); };
  if (compare(image_[0]) == 0)
    return give_up_index(); // skipped
  if (std::ranges::any_of(image_, [&](std::uint64_t word) { return compare(word) > 0; }))
    return give_up_index(); // trimmed
  if (cancelled)
    return enter(stage::withdraw, 1);
  const auto others = image_.subspan(1);
  if (std::ranges::all_of(others, [&](std::uint64_t word) { return compare(word) == 0; }))
    return enter(stage::commit, 1);
  return enter(stage::fill, others.size());
}

step log_append::next(bool cancelled) noexcept
{
  switch (stage_)
  {
  case stage::look:
    return looked(cancelled);
  case stage::reserve:
    return index_ == guess_ ? advance(cancelled) : inspect();
  case stage::inspect:
    if (control_.first > index_)
      return give_up_index();
    if (control_.has_room(index_, shape_))
      return advance(cancelled);
    if (cancelled)
      return step::finish(boost::asio::error::operation_aborted);
    stage_ = stage::pause;
    ++waits_;
    return pause_.next();
  case stage::pause:
    return inspect();
  case stage::fill:
    return advance(cancelled);
  case stage::commit:
    return exchanged_ ? step::finish() : advance(cancelled);
  case stage::withdraw:
    return step::finish(boost::asio::error::operation_aborted);
  }
  return step::finish(); // not reached
}

// ---- log_trim

access_request log_trim::request(std::size_t) noexcept
{
  if (!looked_)
    return read_control(control_);
  return {.kind = request_kind::compare_exchange,
    .offset = log_first_offset,
    .compare_or_add = control_.first,
    .swap = index_};
}

void log_trim::answered(std::size_t, std::uint64_t was) noexcept
{
  if (!looked_)
    return;
  exchanged_ = was == control_.first;
  control_.first = was;
}

step log_trim::next(bool cancelled) noexcept
{
  looked_ = true;
  if (exchanged_ || index_ <= control_.first)
    return step::finish();
  if (index_ > control_.tail)
    return step::finish(error::out_of_range);
  return cancelled ? step::finish(boost::asio::error::operation_aborted) : step::access(1);
}

// ---- open_log, create_log

header with_shape(header of_type, const log_shape& shape) noexcept
{
  of_type.capacity = shape.capacity();
  of_type.parameters[0] = static_cast<std::uint64_t>(shape.lease.count());
  return of_type;
}

access_request open_log::request(std::size_t) noexcept
{
  return {.kind = request_kind::read,
    .offset = 0,
    .bytes = std::as_writable_bytes(std::span(&found_, 1))};
}

step open_log::next(bool) noexcept
{
  const auto lease = std::chrono::microseconds(found_.parameters[0]);
  if (!std::has_single_bit(found_.capacity) || found_.capacity > log_shape::capacity_max
    || lease < log_shape::lease_min || lease > log_shape::lease_max)
    return step::finish(error::object_mismatch);
  shape_ = {.order = static_cast<unsigned>(std::countr_zero(found_.capacity)), .lease = lease};
  if (found_ != with_shape(expected_, shape_))
    return step::finish(error::object_mismatch);
  return step::finish(log_size(shape_.capacity(), found_.size) > size_
      ? error_code(error::remote_range_too_small)
      : error_code());
}

step create_log::begin()
{
  if (memory_)
    return step::finish(memory_);
  zeros_.resize(std::min(size_, chunk_max));
  return step::access(1);
}

access_request create_log::request(std::size_t) noexcept
{
  if (written_ == size_)
    return {.kind = request_kind::write,
      .offset = 0,
      .bytes = std::as_writable_bytes(std::span(&header_, 1))};
  const std::uint64_t bytes = std::min<std::uint64_t>(size_ - written_, zeros_.size());
  return {.kind = request_kind::write, .offset = written_, .bytes = std::span(zeros_).first(bytes)};
}

step create_log::next(bool cancelled) noexcept
{
  if (written_ == size_)
    return step::finish();
  if (cancelled)
    return step::finish(boost::asio::error::operation_aborted);
  written_ += std::min<std::uint64_t>(size_ - written_, zeros_.size());
  return step::access(1);
}

} // namespace rdma::detail::objects

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include <boost_rdma/detail/objects/log.hpp>

#include <boost/asio/error.hpp>

#include <algorithm>

// Reading a log, and skipping the indexes of processes that have died.

namespace rdma::detail::objects {

step log_read::begin(const log_shape& shape, bool may_seal, std::uint64_t index,
  std::span<std::uint64_t> image, std::span<std::byte> values, std::size_t value_size) noexcept
{
  shape_ = shape;
  may_seal_ = may_seal;
  index_ = index;
  image_ = image;
  values_ = values;
  value_size_ = value_size;
  return values.empty() ? step::finish() : look(UINT64_MAX);
}

// Reads at most this number of entries, without a gap at the end of the memory.
step log_read::look(std::uint64_t entries) noexcept
{
  begin_ = index_;
  entries_ = std::min({entries, std::uint64_t{image_.size() / copy_words(value_size_)},
    std::uint64_t{values_.size() / value_size_}, shape_.capacity() - shape_.place_of(index_)});
  stage_ = stage::look;
  return step::access(2);
}

std::span<std::uint64_t> log_read::entry(std::size_t i) const noexcept
{
  const std::size_t words = copy_words(value_size_);
  return image_.subspan(i * words, words);
}

// Returns the number of the n-th entry in the image whose process has had enough time, or entries_.
std::size_t log_read::expired(std::size_t n) const noexcept
{
  for (std::size_t i = 0; i != entries_ && begin_ + i < overdue_; ++i)
    if (state_of(entry(i), shape_.lap_of(begin_ + i)) == entry_state::unfinished && n-- == 0)
      return i;
  return entries_;
}

access_request log_read::request(std::size_t i) noexcept
{
  const auto offset = [this](std::uint64_t index)
  { return log_entries_offset + 8 * copy_words(value_size_) * shape_.place_of(index); };
  if (stage_ == stage::seal)
  {
    const std::size_t sealed = expired(i);
    const std::uint64_t index = begin_ + sealed;
    return {.kind = request_kind::compare_exchange,
      .offset = offset(index),
      .compare_or_add = entry(sealed)[0],
      .swap = log_word{0, shape_.lap_of(index), log_word::mark::skipped}.packed()};
  }
  if (i == 0) // the larger one has the registered memory of the handle
    return {.kind = request_kind::read,
      .offset = offset(begin_),
      .bytes = std::as_writable_bytes(image_.first(entries_ * copy_words(value_size_)))};
  return {.kind = request_kind::read,
    .offset = log_tail_offset,
    .bytes = std::as_writable_bytes(std::span(&control_, 1))};
}

step log_read::looked(bool cancelled) noexcept
{
  if (control_.first > index_)
  {
    index_ = control_.first;
    return step::finish(error::out_of_range);
  }
  entry_state state = entry_state::skipped;
  for (std::size_t i = 0; i != entries_; ++i)
  {
    state = state_of(entry(i), shape_.lap_of(index_));
    const bool ends = state == entry_state::skipped ? count_ != 0 : state != entry_state::committed;
    if (ends)
      break; // the entries of a read have consecutive indexes
    if (state == entry_state::committed)
      decode_entry(entry(i), values_.subspan(count_++ * value_size_, value_size_));
    ++index_;
  }
  if (count_ != 0)
    return step::finish();
  if (cancelled)
    return step::finish(boost::asio::error::operation_aborted);
  if (state == entry_state::unfinished)
    return wait();
  if (state == entry_state::changing && ++torn_ == torn_max)
    return step::finish(error::contended);
  return look(UINT64_MAX);
}

// Counts the time of unfinished entries by the pauses of this operation: the clock goes on if this
// process is stopped.
step log_read::wait() noexcept
{
  const std::uint64_t reserved = std::min(control_.tail, control_.first + shape_.capacity());
  if (index_ >= overdue_)
  {
    overdue_ = reserved;
    waited_ = {};
    if (index_ < overdue_)
      pause_.reset();
  }
  if (may_seal_ && waited_ >= shape_.lease)
  {
    std::size_t n = 0;
    while (n != seals_max && expired(n) != entries_)
      ++n;
    stage_ = stage::seal;
    seals_ += static_cast<unsigned>(n);
    return step::access(n);
  }
  stage_ = stage::pause;
  const step pause = pause_.next();
  waited_ += pause.pause;
  return pause;
}

step log_read::next(bool cancelled) noexcept
{
  if (stage_ == stage::look)
    return looked(cancelled);
  const std::uint64_t reserved = control_.tail > index_ ? control_.tail - index_ : 0;
  return look(std::max<std::uint64_t>(reserved, 1));
}

} // namespace rdma::detail::objects

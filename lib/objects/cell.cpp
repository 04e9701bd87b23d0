//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include <boost_rdma/detail/objects/cell.hpp>

#include <boost/asio/error.hpp>

#include <algorithm>
#include <bit>

namespace rdma::detail::objects {
namespace {

constexpr std::size_t head_word = 0;
constexpr std::size_t current = 1; // first word of the current copy

constexpr std::uint64_t data_mask = UINT32_MAX;

constexpr unsigned reads_between_pauses = 8;

// Bytes 4 * word to 4 * word + 3 of the value; zeros behind its end.
std::uint32_t data_of(std::span<const std::byte> value, std::size_t word) noexcept
{
  std::uint32_t data = 0;
  const std::size_t at = 4 * word;
  std::memcpy(&data, value.data() + at, std::min<std::size_t>(4, value.size() - at));
  return data;
}

std::span<std::byte> bytes_of(std::span<std::uint64_t> words) noexcept
{
  return std::as_writable_bytes(words);
}

} // namespace

bool decode_cell(
  std::span<const std::uint64_t> image, std::span<std::byte> value, tag& version) noexcept
{
  const std::size_t width = copy_words(value.size());
  const std::size_t whole = value.size() / 4;
  const tag committed = cell_head::of(image[head_word]).committed;
  const std::uint64_t* const words = image.data() + current;
  const std::uint64_t tagged = cell_word{0, committed}.packed();
  version = committed;
  std::uint64_t different = 0;
  std::size_t i = 0;
  if constexpr (std::endian::native == std::endian::little)
    for (; i + 2 <= whole; i += 2)
    {
      different |= (words[i] ^ tagged) | (words[i + 1] ^ tagged);
      const std::uint64_t data = (words[i] & data_mask) | (words[i + 1] << 32);
      std::memcpy(value.data() + 4 * i, &data, 8);
    }
  for (; i != width; ++i)
  {
    different |= words[i] ^ tagged;
    const auto data = static_cast<std::uint32_t>(words[i]);
    std::memcpy(value.data() + 4 * i, &data, std::min<std::size_t>(4, value.size() - 4 * i));
  }
  if (different >> 32 == 0)
    return true;
  if (image.size() == current + width)
    return false;
  // The other words are in the next copy.
  for (i = 0; i != width; ++i)
  {
    if (cell_word::of(words[i]).tag == committed)
      continue;
    const cell_word word = cell_word::of(words[width + i]);
    if (word.tag != committed)
      return false;
    std::memcpy(value.data() + 4 * i, &word.data, std::min<std::size_t>(4, value.size() - 4 * i));
  }
  return true;
}

void encode_cell(std::span<std::uint64_t> image, std::span<const std::byte> value) noexcept
{
  const std::size_t width = copy_words(value.size());
  image[head_word] = cell_head{0, 0, cell_head::phase::idle}.packed();
  for (std::size_t i = 0; i != width; ++i)
    image[current + i] = image[current + width + i] = cell_word{data_of(value, i), 0}.packed();
}

// ---- cell_load

step cell_load::begin(
  std::uint64_t offset, std::span<std::uint64_t> image, std::span<std::byte> value)
{
  offset_ = offset;
  image_ = image;
  value_ = value;
  read_words_ = current + copy_words(value.size());
  return step::access(1);
}

access_request cell_load::request(std::size_t) const noexcept
{
  return {
    .kind = request_kind::read, .offset = offset_, .bytes = bytes_of(image_.first(read_words_))};
}

step cell_load::next(bool cancelled) noexcept
{
  if (!std::exchange(pausing_, false))
  {
    if (decode_cell(image_.first(read_words_), value_, version_))
      return step::finish();
    if (++torn_ == reads_max)
      return step::finish(error::contended);
    pausing_ = torn_ % reads_between_pauses == 0;
  }
  if (cancelled)
    return step::finish(boost::asio::error::operation_aborted);
  read_words_ = image_.size(); // with the next copy, whose store may have stopped
  return pausing_ ? pause_.next() : step::access(1);
}

// ---- cell_store

step cell_store::begin(std::uint64_t offset, std::span<std::uint64_t> image,
  std::span<const std::byte> value, std::optional<tag> expected)
{
  offset_ = offset;
  image_ = image;
  value_ = value;
  expected_ = expected;
  return look();
}

step cell_store::look() noexcept
{
  stage_ = stage::look;
  return step::access(1);
}

// Another process has taken the attempt over.
step cell_store::look_again() noexcept
{
  patience_ = std::min(2 * patience_, patience_max);
  return look();
}

step cell_store::exchange_head(stage entered, const cell_head& desired) noexcept
{
  stage_ = entered;
  desired_head_ = desired.packed();
  return step::access(1);
}

std::uint32_t cell_store::data_for(std::size_t word) const noexcept
{
  return first_ == current ? cell_word::of(image_[word + width()]).data
                           : data_of(value_, word - first_);
}

// Changes all words of a copy to `written`, also those that have it already.
step cell_store::write_copy(stage entered, std::size_t first, tag written) noexcept
{
  stage_ = entered;
  first_ = first;
  written_ = written;
  return step::access(width());
}

access_request cell_store::request(std::size_t i) noexcept
{
  switch (stage_)
  {
  case stage::look:
    return {.kind = request_kind::read, .offset = offset_, .bytes = bytes_of(image_)};
  case stage::fill:
  case stage::copy:
  {
    const std::size_t word = first_ + i;
    return {.kind = request_kind::compare_exchange,
      .offset = offset_ + 8 * word,
      .compare_or_add = image_[word],
      .swap = cell_word{data_for(word), written_}.packed()};
  }
  default:
    return {.kind = request_kind::compare_exchange,
      .offset = offset_,
      .compare_or_add = image_[head_word],
      .swap = desired_head_};
  }
}

void cell_store::answered(std::size_t i, std::uint64_t was) noexcept
{
  if (stage_ == stage::look)
    return;
  const bool copies = stage_ == stage::fill || stage_ == stage::copy;
  const std::size_t word = copies ? first_ + i : head_word;
  const bool changed = was == image_[word];
  if (!copies)
    exchanged_ = changed;
  const std::uint64_t desired =
    copies ? cell_word{data_for(word), written_}.packed() : desired_head_;
  image_[word] = changed ? desired : was;
}

// Returns true if a later attempt has written to the copy.
bool cell_store::superseded() const noexcept
{
  return std::ranges::any_of(image_.subspan(first_, width()),
    [this](std::uint64_t word) { return is_newer(cell_word::of(word).tag, written_); });
}

step cell_store::looked(bool cancelled) noexcept
{
  const cell_head head = cell_head::of(image_[head_word]);
  if (std::exchange(seen_, image_[head_word]) != image_[head_word])
  {
    looks_ = 0;
    pause_.reset();
  }
  if (cancelled)
    return step::finish(boost::asio::error::operation_aborted);
  if (head.phase == cell_head::phase::copying)
    return copy();
  version_ = head.committed;
  if (expected_ && head.committed != *expected_)
    return step::finish();
  if (head.phase == cell_head::phase::claimed && looks_++ != patience_)
  {
    stage_ = stage::pause;
    return pause_.next();
  }
  return exchange_head(
    stage::claim, {head.committed, next_of(head.newest), cell_head::phase::claimed});
}

// Copies the next copy, which may have been committed by a process that has stopped.
step cell_store::copy() noexcept
{
  const tag committed = cell_head::of(image_[head_word]).committed;
  const bool complete = std::ranges::all_of(image_.subspan(current + width(), width()),
    [committed](std::uint64_t word) { return cell_word::of(word).tag == committed; });
  return complete ? write_copy(stage::copy, current, committed) : look();
}

// The copy is complete, or a later store has begun.
step cell_store::finish_copy() noexcept
{
  return stored_ ? step::finish() : look();
}

step cell_store::next(bool cancelled) noexcept
{
  const cell_head head = cell_head::of(image_[head_word]);
  const auto copy_is_written = [this]
  {
    return std::ranges::all_of(image_.subspan(first_, width()),
      [this](std::uint64_t word) { return cell_word::of(word).tag == written_; });
  };
  switch (stage_)
  {
  case stage::look:
    return looked(cancelled);
  case stage::pause:
    return look();
  case stage::claim:
    if (!exchanged_)
      return look();
    return write_copy(stage::fill, current + width(), head.newest);
  case stage::fill:
    if (superseded())
      return look_again();
    if (cancelled)
      return exchange_head(stage::withdraw, {head.committed, head.newest, cell_head::phase::idle});
    if (!copy_is_written())
      return step::access(width());
    return exchange_head(stage::commit, {written_, written_, cell_head::phase::copying});
  case stage::commit:
    if (!exchanged_)
      return look_again();
    stored_ = true;
    version_ = written_;
    return write_copy(stage::copy, current, written_);
  case stage::copy:
    if (superseded())
      return finish_copy();
    if (!copy_is_written())
      return step::access(width());
    return exchange_head(stage::release, {written_, written_, cell_head::phase::idle});
  case stage::release:
    return finish_copy();
  case stage::withdraw:
    return step::finish(boost::asio::error::operation_aborted);
  }
  return step::finish(); // not reached
}

} // namespace rdma::detail::objects

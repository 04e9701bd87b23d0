//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include <boost_rdma/detail/objects/map_lookup.hpp>

#include <boost/asio/error.hpp>

#include <algorithm>
#include <cstring>

namespace rdma::detail::objects {

// ---- map_read

step map_read::begin(const map_table& table, std::uint64_t bucket, std::span<const std::byte> key,
  const options& how, const map_buffers& buffers)
{
  table_ = &table;
  bucket_ = bucket;
  key_ = key;
  how_ = how;
  buffers_ = buffers;
  stale_ = 0;
  load_ = {};
  return load_cell();
}

step map_read::load_cell()
{
  loading_ = true;
  return load_.begin(table_->shape.cell_offset(bucket_), buffers_.cell_of(table_->shape),
    buffers_.value_of(table_->shape));
}

access_request map_read::request(std::size_t i) const noexcept
{
  access_request result;
  if (loading_)
    result = load_.request(i);
  else
  {
    const std::size_t link = reading()[i];
    const std::size_t words = table_->shape.block_words();
    result = {.kind = request_kind::read,
      .offset = table_->shape.block_offset(buffers_.head().links[link].block),
      .bytes = std::as_writable_bytes(buffers_.words.subspan(place_of(link) * words, words))};
  }
  result.memory = &table_->memory;
  return result;
}

std::span<const std::uint8_t> map_read::reading() const noexcept
{
  const std::span wanted(wanted_.data(), wanted_count_);
  return wanted.subspan(taken_, std::min<std::size_t>(buffers_.blocks, wanted_count_ - taken_));
}

std::size_t map_read::place_of(std::size_t link) const noexcept
{
  return link % buffers_.blocks;
}

// Looks for the key in the entries from `slot` on, which are those from `place` on in the buffers.
bool map_read::find(std::size_t slot, std::size_t place, const map_head& head) noexcept
{
  for (std::size_t i = 0; i != map_entries && !found_; ++i)
    if (head.is_used(slot + i) && !key_.empty()
      && std::memcmp(buffers_.entry(table_->shape, place + i).data(), key_.data(), key_.size())
        == 0)
      found_ = place + i;
  return found_.has_value();
}

step map_read::loaded() noexcept
{
  const map_head head = buffers_.head();
  found_.reset();
  if (head.state() != bucket_state::open && !(head.state() == bucket_state::frozen && how_.frozen))
    return step::finish();
  if ((key_.empty() || find(0, 0, head)) && !how_.all_slots)
    return step::finish();
  wanted_count_ = taken_ = 0;
  for (std::size_t link = 0; link != map_links; ++link)
  {
    if (!head.has_block(link))
      continue;
    if (head.links[link].block >= table_->shape.blocks)
      return step::finish(error::object_mismatch);
    wanted_[wanted_count_++] = static_cast<std::uint8_t>(link);
  }
  if (wanted_count_ == 0)
    return step::finish();
  loading_ = false;
  ++block_reads_;
  return step::access(reading().size());
}

// Takes the entries of a block. Returns false if a word is of another allocation.
bool map_read::take_block(std::size_t link, const map_head& head) const noexcept
{
  const std::size_t words = table_->shape.block_words();
  const std::uint64_t* const from = buffers_.words.data() + place_of(link) * words;
  std::byte* const to = buffers_.entry(table_->shape, map_entries * (1 + place_of(link))).data();
  for (std::size_t i = 0; i != words; ++i)
  {
    const cell_word word = cell_word::of(from[i]);
    if (word.tag != head.links[link].number)
      return false;
    std::memcpy(to + 4 * i, &word.data, 4);
  }
  return true;
}

step map_read::next(bool cancelled)
{
  if (loading_)
  {
    const step loads = load_.next(cancelled);
    return loads.what == step::action::finish && !loads.ec ? loaded() : loads;
  }
  const map_head head = buffers_.head();
  if (std::ranges::all_of(reading(), [&](std::size_t link) { return take_block(link, head); }))
  {
    for (const std::size_t link : reading())
      find(map_entries * (1 + link), map_entries * (1 + place_of(link)), head);
    taken_ = static_cast<std::uint8_t>(taken_ + reading().size());
    return found_ || taken_ == wanted_count_ ? step::finish() : step::access(reading().size());
  }
  ++stale_;
  if (failed() >= reads_max)
    return step::finish(error::contended);
  return cancelled ? step::finish(boost::asio::error::operation_aborted) : load_cell();
}

// ---- map_lookup

step map_lookup::begin(shared_tables* shared, std::span<const std::byte> key, const options& how,
  const map_buffers& buffers, map_position position)
{
  shared_ = shared;
  if (shared == nullptr)
    return step::finish(error::closed);
  tables_ = &shared->get();
  if (tables_->current.shape.buckets == 0)
    return step::finish(error::closed);
  position_ = key.empty() ? position : tables_->first.shape.position_of(key);
  how_ = how;
  return read(stage::read_current, tables_->current, key, buffers);
}

step map_lookup::read(
  stage entered, const map_table& from, std::span<const std::byte> key, const map_buffers& buffers)
{
  stage_ = entered;
  return read_.begin(from, from.shape.bucket_of(position_), key,
    {.all_slots = how_.all_slots,
      .frozen = entered == stage::read_previous && !how_.wait_if_frozen},
    buffers);
}

// The owner has made a larger table.
step map_lookup::follow()
{
  if (const map_tables& known = shared_->get(); &known != tables_)
  {
    tables_ = &known;
    return read(stage::read_current, known.current);
  }
  if (shared_->is_owner())
    return step::finish(error::object_mismatch);
  stage_ = stage::read_directory;
  read_.load() = {};
  return read_.load().begin(map_directory_offset, read_.buffers().cell.first(map_directory_words),
    read_.buffers().slots.first(sizeof(map_directory)));
}

access_request map_lookup::request(std::size_t i) const noexcept
{
  if (stage_ != stage::read_directory)
    return read_.request(i);
  access_request result = read_.load().request(i);
  result.memory = &tables_->first.memory;
  return result;
}

step map_lookup::was_read()
{
  const bucket_state state = read_.buffers().head().state();
  if (state == bucket_state::open)
    return step::finish();
  if (stage_ == stage::read_current)
  {
    if (state == bucket_state::frozen)
      return follow();
    if (tables_->previous.shape.buckets != 0)
      return read(stage::read_previous, tables_->previous);
  }
  else if (state == bucket_state::frozen)
  {
    // The bucket of the current table was pending since this operation began, so a frozen bucket
    // has the entries of a moment of this operation. A change has to wait for the owner.
    if (!how_.wait_if_frozen)
      return step::finish();
    stage_ = stage::pause;
    return pause_.next();
  }
  return step::finish(error::object_mismatch);
}

step map_lookup::next(bool cancelled)
{
  const auto aborted = step::finish(boost::asio::error::operation_aborted);
  switch (stage_)
  {
  case stage::pause:
    return cancelled ? aborted : read(stage::read_current, tables_->current);
  case stage::read_directory:
  {
    const step loads = read_.load().next(cancelled);
    if (loads.what != step::action::finish || loads.ec)
      return loads;
    map_directory directory;
    std::memcpy(&directory, read_.buffers().slots.data(), sizeof directory);
    map_tables found = *tables_;
    if (!found.set(directory) || found.current.shape.buckets <= tables_->current.shape.buckets)
      return step::finish(error::object_mismatch);
    shared_->set(found);
    tables_ = &shared_->get();
    return cancelled ? aborted : read(stage::read_current, tables_->current);
  }
  default:
  {
    const step reads = read_.next(cancelled);
    if (reads.what != step::action::finish || reads.ec)
      return reads;
    const step then = was_read();
    return cancelled && then.what != step::action::finish ? aborted : then;
  }
  }
}

} // namespace rdma::detail::objects

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include <boost_rdma/detail/objects/map.hpp>

#include <boost/asio/error.hpp>

#include <algorithm>
#include <bit>
#include <random>

namespace rdma::detail::objects {
namespace {

std::span<std::byte> bytes_of(std::span<std::uint64_t> words) noexcept
{
  return std::as_writable_bytes(words);
}

} // namespace

std::uint64_t hash_of(std::span<const std::byte> key, std::uint64_t seed) noexcept
{
  std::uint64_t hash = mix(seed ^ key.size());
  for (std::size_t at = 0; at < key.size(); at += 8)
  {
    std::uint64_t part = 0;
    std::memcpy(&part, key.data() + at, std::min<std::size_t>(8, key.size() - at));
    hash = mix(hash ^ part) + seed;
  }
  return mix(hash);
}

// ---- map_read

step map_read::begin(const map_shape& shape, std::uint64_t bucket, std::span<const std::byte> key,
  bool all_slots, const map_room& room)
{
  all_slots_ = all_slots;
  shape_ = shape;
  bucket_ = bucket;
  key_ = key;
  room_ = room;
  return load();
}

step map_read::load()
{
  loading_ = true;
  load_ = {};
  return load_.begin(
    shape_.cell_offset(bucket_), room_.cell, room_.slots.first(shape_.bucket_size()));
}

map_head map_read::head() const noexcept
{
  map_head head;
  std::memcpy(&head, room_.slots.data(), sizeof head);
  return head;
}

access_request map_read::request(std::size_t i) const noexcept
{
  if (loading_)
    return load_.request(i);
  const std::size_t link = wanted_[i];
  const std::size_t words = shape_.block_words();
  return {.kind = request_kind::read,
    .offset = shape_.block_offset(head().links[link].block),
    .bytes = bytes_of(room_.words.subspan(link * words, words))};
}

bool map_read::find(std::size_t begin, std::size_t end, const map_head& head) noexcept
{
  for (std::size_t slot = begin; slot != end && !found_ && !key_.empty(); ++slot)
    if (head.is_used(slot) && std::memcmp(entry(slot).data(), key_.data(), shape_.key_size) == 0)
      found_ = slot;
  return found_.has_value();
}

step map_read::loaded() noexcept
{
  const map_head found = head();
  found_.reset();
  if (find(0, map_entries, found) && !all_slots_)
    return step::finish();
  wanted_count_ = 0;
  for (std::size_t link = 0; link != map_links; ++link)
  {
    if (!found.has_block(link))
      continue;
    if (found.links[link].block >= shape_.blocks)
      return step::finish(error::object_mismatch);
    wanted_[wanted_count_++] = link;
  }
  if (wanted_count_ == 0)
    return step::finish();
  loading_ = false;
  ++block_reads_;
  return step::access(wanted_count_);
}

// Takes the entries of a block. Returns false if a word is of another allocation.
bool map_read::take_block(std::size_t link, const map_head& head) const noexcept
{
  const std::size_t words = shape_.block_words();
  const std::uint64_t* const from = room_.words.data() + link * words;
  std::byte* const to = entry(map_entries * (1 + link)).data();
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
  const map_head named = head();
  const std::span wanted(wanted_.data(), wanted_count_);
  if (std::ranges::all_of(wanted, [&](std::size_t link) { return take_block(link, named); }))
  {
    find(map_entries, map_slots, named);
    return step::finish();
  }
  if (++stale_ == reads_max)
    return step::finish(error::contended);
  return cancelled ? step::finish(boost::asio::error::operation_aborted) : load();
}

// ---- map_change

step map_change::begin(
  const map_shape& shape, map_action action, std::span<const std::byte> entry, const map_room& room)
{
  shape_ = shape;
  action_ = action;
  entry_ = entry;
  room_ = room;
  bucket_ = shape.bucket_of(entry.first(shape.key_size));
  return read();
}

step map_change::read()
{
  stage_ = stage::read;
  const bool all_slots = action_ == map_action::erase; // another entry may take the key's place
  return read_.begin(shape_, bucket_, entry_.first(shape_.key_size), all_slots, room_);
}

// Prepares the value that the bucket will have, or finds that nothing changes.
step map_change::decide() noexcept
{
  head_ = read_.head();
  version_ = read_.version();
  replaced_.reset();
  names_own_ = false;
  const auto found = read_.found();
  was_present_ = found.has_value();
  if (action_ == map_action::erase)
  {
    if (!found)
      return end();
    clear(*found);
    return store();
  }
  if (found ? action_ == map_action::insert : action_ == map_action::update)
    return end();
  if (found)
    return *found < map_entries ? put(*found) : put_out_of_line(*found);
  for (std::size_t slot = 0; slot != map_entries; ++slot)
    if (!head_.is_used(slot))
      return put(slot);
  // A block with room is better than one more block.
  for (const bool shared : {true, false})
    for (std::size_t slot = map_entries; slot != map_slots; ++slot)
      if (!head_.is_used(slot) && head_.has_block(slot / map_entries - 1) == shared)
        return put_out_of_line(slot);
  return end(error::object_full);
}

// Removes an entry. Blocks are used only while all slots of the cell are.
void map_change::clear(std::size_t slot) noexcept
{
  const auto last = static_cast<std::size_t>(std::bit_width(head_.used)) - 1;
  if (slot < map_entries && last >= map_entries)
  {
    std::ranges::copy(read_.entry(last), read_.entry(slot).begin());
    slot = last;
  }
  head_.set_used(slot, false);
  if (slot < map_entries)
    return;
  const std::size_t link = slot / map_entries - 1;
  if (!head_.has_block(link))
    replaced_ = head_.links[link]; // by none
}

step map_change::put(std::size_t slot) noexcept
{
  std::ranges::copy(entry_, read_.entry(slot).begin());
  head_.set_used(slot, true);
  return store();
}

// Blocks do not change: the bucket will name another one, with this entry and the others.
step map_change::put_out_of_line(std::size_t slot) noexcept
{
  link_ = slot / map_entries - 1;
  if (head_.has_block(link_))
    replaced_ = head_.links[link_];
  std::ranges::copy(entry_, read_.entry(slot).begin());
  head_.set_used(slot, true);
  return own_ ? write() : look();
}

step map_change::look() noexcept
{
  if (looks_++ == looks_max)
    return end(error::object_full);
  stage_ = stage::look;
  // Processes should try different blocks.
  const std::uint64_t random = mix(hash_of(entry_, version_) + looks_);
  const std::uint64_t count = std::min<std::uint64_t>(states_.size(), shape_.blocks);
  first_state_ = random % (shape_.blocks - count + 1);
  chosen_ = (random >> 32) % count;
  return step::access(1);
}

step map_change::looked() noexcept
{
  const std::size_t count = std::min<std::uint64_t>(states_.size(), shape_.blocks);
  for (std::size_t i = 0; i != count; ++i, chosen_ = (chosen_ + 1) % count)
    if (!block_state::of(states_[chosen_]).taken)
    {
      stage_ = stage::take;
      return step::access(1);
    }
  return look();
}

// Only this operation accesses the block, until a bucket names it.
step map_change::write() noexcept
{
  stage_ = stage::write;
  const std::size_t first = map_entries * (1 + link_);
  for (std::size_t slot = first; slot != first + map_entries; ++slot)
    if (!head_.is_used(slot)) // its memory may have anything of this process
      std::ranges::fill(read_.entry(slot), std::byte());
  const std::byte* const from = read_.entry(first).data();
  const auto image = block_image();
  for (std::size_t i = 0; i != image.size(); ++i)
  {
    std::uint32_t data = 0;
    std::memcpy(&data, from + 4 * i, 4);
    image[i] = cell_word{data, own_->number}.packed();
  }
  head_.links[link_] = *own_;
  names_own_ = true;
  return step::access(1);
}

step map_change::store() noexcept
{
  stage_ = stage::store;
  std::memcpy(room_.slots.data(), &head_, sizeof head_);
  store_ = {};
  return store_.begin(shape_.cell_offset(bucket_), room_.cell,
    room_.slots.first(shape_.bucket_size()), read_.version());
}

step map_change::stored(const step& ended)
{
  if (ended.ec)
    return end(ended.ec);
  if (!store_.stored())
    return ++retries_ == stores_max ? end(error::contended) : read();
  changed_ = true;
  version_ = store_.version();
  if (names_own_)
    own_.reset();
  return end();
}

// Frees the blocks that no bucket names.
step map_change::end(error_code ec) noexcept
{
  end_ = ec;
  unused_count_ = 0;
  if (own_)
    unused_[unused_count_++] = *own_;
  if (changed_ && replaced_)
    unused_[unused_count_++] = *replaced_;
  if (unused_count_ == 0)
    return step::finish(end_);
  stage_ = stage::free;
  return step::access(unused_count_);
}

access_request map_change::request(std::size_t i) noexcept
{
  switch (stage_)
  {
  case stage::read:
    return read_.request(i);
  case stage::look:
    return {.kind = request_kind::read,
      .offset = shape_.state_offset(first_state_),
      .bytes =
        bytes_of(std::span(states_).first(std::min<std::uint64_t>(states_.size(), shape_.blocks)))};
  case stage::take:
  {
    const block_state free = block_state::of(states_[chosen_]);
    return {.kind = request_kind::compare_exchange,
      .offset = shape_.state_offset(first_state_ + chosen_),
      .compare_or_add = free.packed(),
      .swap = block_state{true, free.number + 1}.packed()};
  }
  case stage::write:
    return {.kind = request_kind::write,
      .offset = shape_.block_offset(own_->block),
      .bytes = bytes_of(block_image())};
  case stage::store:
    return store_.request(i);
  case stage::free:
    break;
  }
  return {.kind = request_kind::compare_exchange,
    .offset = shape_.state_offset(unused_[i].block),
    .compare_or_add = block_state{true, unused_[i].number}.packed(),
    .swap = block_state{false, unused_[i].number}.packed()};
}

void map_change::answered(std::size_t i, std::uint64_t was) noexcept
{
  if (stage_ == stage::store)
    store_.answered(i, was);
  else if (stage_ == stage::take)
    taken_ = was == block_state::of(states_[chosen_]).packed();
}

step map_change::next(bool cancelled)
{
  switch (stage_)
  {
  case stage::read:
  {
    const step reads = read_.next(cancelled);
    if (reads.what != step::action::finish)
      return reads;
    return reads.ec ? end(reads.ec) : decide();
  }
  case stage::look:
    return cancelled ? end(boost::asio::error::operation_aborted) : looked();
  case stage::take:
    if (taken_)
      own_ = {static_cast<std::uint32_t>(first_state_ + chosen_),
        block_state::of(states_[chosen_]).number + 1};
    if (cancelled)
      return end(boost::asio::error::operation_aborted);
    return own_ ? write() : look();
  case stage::write:
    return cancelled ? end(boost::asio::error::operation_aborted) : store();
  case stage::store:
  {
    const step stores = store_.next(cancelled);
    return stores.what == step::action::finish ? stored(stores) : stores;
  }
  case stage::free:
    break;
  }
  return step::finish(end_);
}

// ---- open_map, create_map

header with_shape(header of_type, const map_shape& shape) noexcept
{
  of_type.capacity = shape.buckets;
  of_type.reserved[0] = shape.blocks;
  of_type.reserved[1] = shape.seed;
  return of_type;
}

std::uint64_t random_seed()
{
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

access_request open_map::request(std::size_t) noexcept
{
  return {.kind = request_kind::read,
    .offset = 0,
    .bytes = std::as_writable_bytes(std::span(&found_, 1))};
}

step open_map::next(bool) noexcept
{
  shape_.buckets = found_.capacity;
  shape_.blocks = found_.reserved[0];
  shape_.seed = found_.reserved[1];
  const auto possible = [](std::uint64_t n) { return n != 0 && n <= map_shape::buckets_max; };
  if (found_ != with_shape(expected_, shape_) || !possible(shape_.buckets)
    || !possible(shape_.blocks))
    return step::finish(error::object_mismatch);
  return step::finish(shape_.size() > size_ ? error::remote_range_too_small : error_code());
}

step create_map::begin()
{
  if (memory_)
    return step::finish(memory_);
  zeros_.resize(std::min(shape_.size(), chunk_max));
  return step::access(1);
}

access_request create_map::request(std::size_t) noexcept
{
  const std::uint64_t left = shape_.size() - written_;
  return {.kind = request_kind::write,
    .offset = left == 0 ? 0 : written_,
    .bytes = left == 0 ? std::as_writable_bytes(std::span(&header_, 1))
                       : std::span(zeros_).first(std::min<std::uint64_t>(left, zeros_.size()))};
}

step create_map::next(bool cancelled) noexcept
{
  const std::uint64_t left = shape_.size() - written_;
  if (left == 0)
    return step::finish();
  if (cancelled)
    return step::finish(boost::asio::error::operation_aborted);
  written_ += std::min<std::uint64_t>(left, zeros_.size());
  return step::access(1);
}

} // namespace rdma::detail::objects

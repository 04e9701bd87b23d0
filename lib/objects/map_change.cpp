//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include <boost_rdma/detail/objects/map_change.hpp>

#include <boost/asio/error.hpp>

#include <algorithm>
#include <bit>
#include <cstring>

namespace rdma::detail::objects {

// ---- block_taking

step block_taking::begin(const map_table& table, std::uint64_t random) noexcept
{
  table_ = table;
  random_ = random;
  looks_ = 0;
  taken_.reset();
  return look();
}

step block_taking::look() noexcept
{
  if (looks_++ == looks_max)
    return step::finish(error::object_full);
  looking_ = true;
  random_ = mix(random_ + looks_);
  first_ = random_ % (table_.shape.blocks - count() + 1);
  chosen_ = (random_ >> 32) % count();
  return step::access(1);
}

access_request block_taking::request(std::size_t) noexcept
{
  if (looking_)
    return {.kind = request_kind::read,
      .offset = table_.shape.state_offset(first_),
      .bytes = std::as_writable_bytes(std::span(states_).first(count())),
      .memory = &table_.memory};
  const block_state free = block_state::of(states_[chosen_]);
  return {.kind = request_kind::compare_exchange,
    .offset = table_.shape.state_offset(first_ + chosen_),
    .compare_or_add = states_[chosen_],
    .swap = block_state{true, free.number + 1}.packed(),
    .memory = &table_.memory};
}

void block_taking::answered(std::size_t, std::uint64_t was) noexcept
{
  if (!looking_ && was == states_[chosen_])
    taken_ = {static_cast<std::uint32_t>(first_ + chosen_), block_state::of(was).number + 1};
}

step block_taking::next() noexcept
{
  if (!looking_)
    return taken_ ? step::finish() : look();
  for (std::size_t i = 0; i != count(); ++i, chosen_ = (chosen_ + 1) % count())
    if (!block_state::of(states_[chosen_]).taken)
    {
      looking_ = false;
      return step::access(1);
    }
  return look();
}

access_request block_taking::free(const map_table& table, const map_link& block) noexcept
{
  return {.kind = request_kind::compare_exchange,
    .offset = table.shape.state_offset(block.block),
    .compare_or_add = block_state{true, block.number}.packed(),
    .swap = block_state{false, block.number}.packed(),
    .memory = &table.memory};
}

void encode_block(const map_shape& shape, const map_buffers& buffers, std::size_t link,
  std::uint32_t number, std::span<std::uint64_t> image) noexcept
{
  const map_head head = buffers.head();
  const std::size_t first = map_entries * (1 + link);
  for (std::size_t slot = first; slot != first + map_entries; ++slot)
    if (!head.is_used(slot)) // its memory may have anything of this process
      std::ranges::fill(buffers.entry(shape, slot), std::byte());
  const std::byte* const from = buffers.entry(shape, first).data();
  for (std::size_t i = 0; i != shape.block_words(); ++i)
  {
    std::uint32_t data = 0;
    std::memcpy(&data, from + 4 * i, 4);
    image[i] = cell_word{data, number}.packed();
  }
}

// ---- map_change

step map_change::begin(shared_tables* shared, map_action action, std::span<const std::byte> key,
  std::span<const std::byte> entry, const map_buffers& buffers)
{
  shared_ = shared;
  action_ = action;
  key_ = key;
  entry_ = entry;
  buffers_ = buffers;
  return look_up();
}

step map_change::look_up()
{
  stage_ = stage::look_up;
  // Another entry may take the place of an erased one.
  return lookup_.begin(
    shared_, key_, {.all_slots = action_ == map_action::erase, .wait_if_frozen = true}, buffers_);
}

// Prepares the value that the bucket will have, or finds that nothing changes.
step map_change::decide() noexcept
{
  head_ = buffers_.head();
  version_ = reading().version();
  replaced_.reset();
  names_spare_ = false;
  if (spare_ && spare_table_.shape.buckets != table().shape.buckets)
    spare_.reset(); // a block of a table that is not used much longer
  const auto found = reading().found();
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
  const auto last = static_cast<std::size_t>(std::bit_width(head_.slots())) - 1;
  if (slot < map_entries && last >= map_entries)
  {
    std::ranges::copy(slot_entry(last), slot_entry(slot).begin());
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
  std::ranges::copy(entry_, slot_entry(slot).begin());
  head_.set_used(slot, true);
  return store();
}

// Blocks do not change: the bucket will name another one, with this entry and the others.
step map_change::put_out_of_line(std::size_t slot) noexcept
{
  link_ = slot / map_entries - 1;
  if (head_.has_block(link_))
    replaced_ = head_.links[link_];
  std::ranges::copy(entry_, slot_entry(slot).begin());
  head_.set_used(slot, true);
  if (spare_)
    return write();
  stage_ = stage::take;
  return taking_.begin(table(), hash_of(entry_, version_));
}

// Only this operation accesses the block, until a bucket names it.
step map_change::write() noexcept
{
  stage_ = stage::write;
  head_.links[link_] = *spare_;
  names_spare_ = true;
  buffers_.set_head(head_);
  encode_block(table().shape, buffers_, link_, spare_->number, block_image());
  return step::access(1);
}

step map_change::store() noexcept
{
  stage_ = stage::store;
  buffers_.set_head(head_);
  store_ = {};
  const map_shape& shape = table().shape;
  return store_.begin(shape.cell_offset(reading().bucket()), buffers_.cell_of(shape),
    buffers_.value_of(shape), version_);
}

step map_change::stored(const step& ended)
{
  if (ended.ec)
    return end(ended.ec);
  if (!store_.stored())
  {
    retries_ += 1 + reading().failed();
    return retries_ >= attempts_max ? end(error::contended) : look_up();
  }
  changed_ = true;
  version_ = store_.version();
  if (names_spare_)
    spare_.reset();
  return end();
}

// Frees the blocks that no bucket names.
step map_change::end(error_code ec) noexcept
{
  end_ = ec;
  freed_count_ = 0;
  if (spare_)
    freed_[freed_count_++] = block_taking::free(spare_table_, *spare_);
  if (changed_ && replaced_)
    freed_[freed_count_++] = block_taking::free(table(), *replaced_);
  if (freed_count_ == 0)
    return step::finish(end_);
  stage_ = stage::free;
  return step::access(freed_count_);
}

access_request map_change::request(std::size_t i) noexcept
{
  access_request result;
  switch (stage_)
  {
  case stage::look_up:
    return lookup_.request(i);
  case stage::take:
    return taking_.request(i);
  case stage::write:
    result = {.kind = request_kind::write,
      .offset = table().shape.block_offset(spare_->block),
      .bytes = std::as_writable_bytes(block_image())};
    break;
  case stage::store:
    result = store_.request(i);
    break;
  case stage::free:
    return freed_[i];
  }
  result.memory = &table().memory;
  return result;
}

void map_change::answered(std::size_t i, std::uint64_t was) noexcept
{
  if (stage_ == stage::store)
    store_.answered(i, was);
  else if (stage_ == stage::take)
    taking_.answered(i, was);
}

step map_change::next(bool cancelled)
{
  const error_code aborted = boost::asio::error::operation_aborted;
  switch (stage_)
  {
  case stage::look_up:
  {
    const step looks = lookup_.next(cancelled);
    if (looks.what != step::action::finish)
      return looks;
    return looks.ec ? end(looks.ec) : decide();
  }
  case stage::take:
  {
    const step takes = taking_.next();
    spare_ = taking_.taken();
    spare_table_ = table();
    if (cancelled)
      return end(aborted);
    if (takes.what != step::action::finish)
      return takes;
    return takes.ec ? end(takes.ec) : write();
  }
  case stage::write:
    return cancelled ? end(aborted) : store();
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

} // namespace rdma::detail::objects

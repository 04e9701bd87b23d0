//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include <boost_rdma/detail/objects/map_growth.hpp>

#include <boost/asio/error.hpp>

#include <algorithm>
#include <cstring>

namespace rdma::detail::objects {
namespace {

map_directory::table describe(const map_table& table, const map_table& first) noexcept
{
  if (table.shape.buckets == first.shape.buckets)
    return {};
  const device_kind kind =
    table.memory.key(device_kind::nic) != 0 ? device_kind::nic : device_kind::software;
  return {.address = table.memory.address(),
    .buckets = table.shape.buckets,
    .blocks = table.shape.blocks,
    .key = table.memory.key(kind),
    .kind = static_cast<std::uint32_t>(kind)};
}

// Number of blocks for the entries that are not in the cell.
std::size_t blocks_for(std::size_t entries) noexcept
{
  return entries <= map_entries ? 0 : (entries - 1) / map_entries;
}

} // namespace

// Nobody but the owner finds the new table before it is announced, and no bucket is frozen before
// that.
step map_growth::begin(const map_tables& tables, const map_buffers& from, const map_buffers& to)
{
  tables_ = tables;
  from_ = from;
  to_ = to;
  directory_ = {describe(new_table(), tables.first), describe(old_table(), tables.first)};
  stage_ = stage::announce;
  return store_.begin(
    map_directory_offset, directory_cell_, std::as_bytes(std::span(&directory_, 1)), {});
}

step map_growth::store(stage entered, const map_table& table, std::uint64_t bucket,
  const map_buffers& value, tag expected)
{
  stage_ = entered;
  store_ = {};
  return store_.begin(table.shape.cell_offset(bucket), value.cell_of(table.shape),
    value.value_of(table.shape), expected);
}

step map_growth::read_old()
{
  stage_ = stage::read_old;
  return read_.begin(old_table(), bucket_, {}, {.all_slots = true, .frozen = true}, from_);
}

bool map_growth::moves(std::size_t slot) const noexcept
{
  const map_shape& shape = new_table().shape;
  return from_.head().is_used(slot)
    && shape.bucket_of(shape.position_of(from_.entry(shape, slot).first(shape.key_size)))
    == new_bucket();
}

// Before it is frozen, so that a lack of blocks leaves the bucket as it is.
step map_growth::old_was_read()
{
  const bucket_state state = from_.head().state();
  half_ = 0;
  if (state == bucket_state::frozen) // by an earlier attempt, which may have opened the new ones
    return read_new();
  if (state != bucket_state::open)
    return step::finish(error::object_mismatch);
  std::array<std::size_t, 2> counts{};
  for (; half_ != counts.size(); ++half_)
    for (std::size_t slot = 0; slot != map_slots; ++slot)
      counts[half_] += moves(slot);
  half_ = 0;
  wanted_ = blocks_for(counts[0]) + blocks_for(counts[1]);
  return reserve();
}

// Takes the blocks that are wanted, then goes on.
step map_growth::reserve()
{
  if (spare_count_ < wanted_)
  {
    stage_ = stage::take;
    // Other ones than an earlier attempt has tried.
    return taking_.begin(new_table(), mix(new_bucket() << 32 | announced_) + spare_count_);
  }
  map_head head = from_.head();
  if (head.state() == bucket_state::frozen)
    return write();
  head.set_state(bucket_state::frozen);
  from_.set_head(head);
  return store(stage::freeze, old_table(), bucket_, from_, read_.version());
}

step map_growth::read_new()
{
  stage_ = stage::read_new;
  return read_.begin(new_table(), new_bucket(), {}, {}, to_);
}

// Prepares the new bucket, unless an earlier attempt to grow has opened it.
step map_growth::new_was_read(bool cancelled)
{
  const map_shape& shape = new_table().shape;
  if (to_.head().state() != bucket_state::pending)
    return next_bucket(cancelled);
  pending_ = read_.version();
  map_head head;
  std::size_t count = 0;
  std::ranges::fill(to_.slots, std::byte());
  for (std::size_t slot = 0; slot != map_slots; ++slot)
    if (moves(slot))
    {
      std::ranges::copy(from_.entry(shape, slot), to_.entry(shape, count).begin());
      head.set_used(count++, true);
    }
  to_.set_head(head);
  links_ = 0;
  wanted_ = blocks_for(count);
  return reserve();
}

step map_growth::write() noexcept
{
  if (links_ == wanted_)
    return store(stage::open, new_table(), new_bucket(), to_, pending_);
  stage_ = stage::write;
  map_head head = to_.head();
  const map_link block = head.links[links_] = spare_[--spare_count_];
  to_.set_head(head);
  encode_block(new_table().shape, to_, links_++, block.number, to_.words);
  return step::access(1);
}

step map_growth::next_bucket(bool cancelled)
{
  if (half_++ == 0)
    return read_new();
  if (++bucket_ == old_table().shape.buckets)
    return step::finish();
  return cancelled ? step::finish(boost::asio::error::operation_aborted) : read_old();
}

access_request map_growth::request(std::size_t i) noexcept
{
  access_request result;
  switch (stage_)
  {
  case stage::announce:
    result = store_.request(i);
    result.memory = &tables_.first.memory;
    break;
  case stage::read_old:
  case stage::read_new:
    return read_.request(i);
  case stage::freeze:
    result = store_.request(i);
    result.memory = &old_table().memory;
    break;
  case stage::take:
    return taking_.request(i);
  case stage::write:
    return {.kind = request_kind::write,
      .offset = new_table().shape.block_offset(to_.head().links[links_ - 1].block),
      .bytes = std::as_writable_bytes(to_.words.first(new_table().shape.block_words())),
      .memory = &new_table().memory};
  case stage::open:
    result = store_.request(i);
    result.memory = &new_table().memory;
    break;
  case stage::free:
    return block_taking::free(new_table(), spare_[i]);
  }
  return result;
}

void map_growth::answered(std::size_t i, std::uint64_t was) noexcept
{
  if (stage_ == stage::take)
    taking_.answered(i, was);
  else if (stage_ == stage::announce || stage_ == stage::freeze || stage_ == stage::open)
    store_.answered(i, was);
}

step map_growth::advance(bool cancelled)
{
  step then;
  const auto has_ended = [&then] { return then.what == step::action::finish && !then.ec; };
  switch (stage_)
  {
  case stage::announce:
    then = store_.next(cancelled);
    announced_ = store_.version();
    return has_ended() ? read_old() : then;
  case stage::read_old:
    then = read_.next(cancelled);
    return has_ended() ? old_was_read() : then;
  case stage::take:
    then = taking_.next();
    if (!has_ended())
      return then;
    spare_[spare_count_++] = *taking_.taken();
    return reserve();
  case stage::freeze:
    // Changes may forestall it, each of which has had an effect then.
    then = store_.next(cancelled);
    if (!has_ended())
      return then;
    return store_.stored() ? read_new() : read_old();
  case stage::read_new:
    then = read_.next(false);
    return has_ended() ? new_was_read(cancelled) : then;
  case stage::write:
    return write();
  case stage::open:
    then = store_.next(false);
    if (!has_ended())
      return then;
    // Only this process changes a pending bucket.
    return store_.stored() ? next_bucket(cancelled) : step::finish(error::object_mismatch);
  case stage::free:
    break;
  }
  return step::finish(end_);
}

step map_growth::next(bool cancelled)
{
  const step then = advance(cancelled);
  return then.what == step::action::finish ? end(then.ec) : then;
}

// Frees the blocks that no bucket names.
step map_growth::end(const error_code& ec) noexcept
{
  if (stage_ == stage::free || spare_count_ == 0)
    return step::finish(ec);
  end_ = ec;
  stage_ = stage::free;
  return step::access(spare_count_);
}

} // namespace rdma::detail::objects

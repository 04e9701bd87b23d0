//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_UNIT_MAP_SIMULATION_HPP
#define BOOST_RDMA_TEST_UNIT_MAP_SIMULATION_HPP

#include "unit/object_simulation.hpp"

#include <boost_rdma/detail/objects/map_operations.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

// Maps on simulated memory, with small entries.

namespace test {

using objects::map_action;
using objects::map_shape;

using key_type = std::uint16_t;
using number = std::uint16_t;
inline constexpr map_shape form = {sizeof(key_type), sizeof(number), 0, 0, 0};

inline map_shape shape_of(std::uint64_t buckets, std::uint64_t blocks, std::uint64_t seed = 1)
{
  return {form.key_size, form.value_size, buckets, blocks, seed};
}

/// Returns the tables of a map that has not grown.
inline objects::map_tables tables_of(const map_shape& shape, std::uint64_t address = 0)
{
  const objects::map_table only{
    shape, rdma::remote_buffer(rdma::device_kind::software, address, shape.size(), 1)};
  return {only, only, {}};
}

inline objects::map_position position_of(const map_shape& shape, key_type key)
{
  return shape.position_of(std::as_bytes(std::span(&key, 1)));
}

using operations = objects::map_operations<key_type, number>;

/// Returns the tables of a handle that is not the owner's.
inline std::shared_ptr<objects::shared_tables> handle(const objects::map_tables& tables)
{
  auto result = std::make_shared<objects::shared_tables>();
  result->set(tables);
  return result;
}

struct find : operations::find
{
  find(const objects::map_tables& seen, key_type key)
    : operations::find(handle(seen), key)
  {
  }
  std::optional<number> result() const { return std::get<0>(results()); }
  unsigned block_reads() const { return reading().block_reads(); }
  unsigned stale() const { return reading().stale(); }
};

struct change : operations::change
{
  change(const objects::map_tables& seen, map_action what, key_type key, number value)
    : operations::change(handle(seen), what, key, value)
    , stored(value)
  {
  }
  number stored;
};

using entries = std::map<key_type, number>;

/// The memory of a table, seen by something that stops the time.
struct observed_table
{
  explicit observed_table(const map_shape& of, std::uint64_t address = 0)
    : shape(of)
    , first(address / 8)
  {
  }

  // The entries that the committed version of a bucket names; nothing if it is damaged.
  std::optional<entries> bucket(const std::vector<std::uint64_t>& memory, std::uint64_t which,
    std::set<std::uint32_t>& blocks) const
  {
    std::array<std::byte, form.slots_size()> slots{};
    objects::tag version = 0;
    const std::span all(memory);
    if (!objects::decode_cell(
          all.subspan(first + shape.cell_offset(which) / 8, shape.cell_size() / 8),
          std::span(slots).first(shape.bucket_size()), version))
      return std::nullopt;
    objects::map_head head;
    std::memcpy(&head, slots.data(), sizeof head);
    for (std::size_t link = 0; link != objects::map_links; ++link)
    {
      if (!head.has_block(link))
        continue;
      if ((head.used & objects::map_head::group) != objects::map_head::group)
        return std::nullopt; // blocks are used only while all slots of the cell are
      const auto [block, allocation] = head.links[link];
      if (block >= shape.blocks || !blocks.insert(block).second
        || memory[first + shape.state_offset(block) / 8]
          != objects::block_state{true, allocation}.packed())
        return std::nullopt;
      for (std::size_t i = 0; i != shape.block_words(); ++i)
      {
        const auto word = objects::cell_word::of(memory[first + shape.block_offset(block) / 8 + i]);
        if (word.tag != allocation)
          return std::nullopt;
        const std::size_t slot = objects::map_entries * (1 + link);
        std::memcpy(slots.data() + sizeof head + slot * shape.entry_size() + 4 * i, &word.data, 4);
      }
    }
    entries result;
    for (std::size_t slot = 0; slot != objects::map_slots; ++slot)
    {
      if (!head.is_used(slot))
        continue;
      std::array<std::uint16_t, 2> entry;
      std::memcpy(entry.data(), slots.data() + sizeof head + 4 * slot, 4);
      if (!result.emplace(entry[0], entry[1]).second)
        return std::nullopt; // the key is there twice
    }
    return result;
  }

  // Number of blocks that are taken; nothing if a bucket is damaged.
  std::optional<std::size_t> leaked(const std::vector<std::uint64_t>& memory) const
  {
    std::set<std::uint32_t> named;
    for (std::uint64_t i = 0; i != shape.buckets; ++i)
      if (!bucket(memory, i, named))
        return std::nullopt;
    std::size_t taken = 0;
    for (std::uint64_t i = 0; i != shape.blocks; ++i)
      taken += objects::block_state::of(memory[first + shape.state_offset(i) / 8]).taken;
    return taken - named.size();
  }

  [[nodiscard]] objects::bucket_state state(
    const std::vector<std::uint64_t>& memory, std::uint64_t which) const
  {
    std::array<std::byte, form.bucket_size()> value;
    objects::tag version = 0;
    objects::map_head head;
    if (objects::decode_cell(
          std::span(memory).subspan(first + shape.cell_offset(which) / 8, shape.cell_size() / 8),
          value, version))
      std::memcpy(&head, value.data(), sizeof head);
    return head.state();
  }

  [[nodiscard]] objects::cell_head head(
    const std::vector<std::uint64_t>& memory, std::uint64_t which) const
  {
    return objects::cell_head::of(memory[first + shape.cell_offset(which) / 8]);
  }

  map_shape shape;
  std::uint64_t first; // word
};

/// A machine of the caller.
template <class Machine>
struct lent
{
  objects::step begin() { return machine->begin(); }
  objects::access_request request(std::size_t i) { return machine->request(i); }
  void answered(std::size_t i, std::uint64_t was) { machine->answered(i, was); }
  objects::step next(bool cancelled) { return machine->next(cancelled); }

  Machine* machine;
};

/// One process, which does one operation after the other.
struct single_map
{
  explicit single_map(const map_shape& map)
    : shape(map)
    , tables(tables_of(map))
    , simulation(map.seed, map.size() / 8)
  {
  }

  // Returns the machine, which has the operation's memory.
  template <class Machine>
  auto& run(Machine&& machine)
  {
    using running = lent<std::remove_reference_t<Machine>>;
    simulation.start<running>(
      0, {&machine}, [this](const rdma::error_code& error, running&) { ec = error; });
    while (simulation.turn())
      ;
    return machine;
  }

  // Returns true if it had an effect.
  bool put(map_action action, key_type key, number value = 0)
  {
    return run(change(tables, action, key, value)).changed();
  }
  std::optional<number> look_up(key_type key) { return run(find(tables, key)).result(); }

  map_shape shape;
  objects::map_tables tables;
  object_simulation simulation;
  rdma::error_code ec;
};

} // namespace test

#endif // BOOST_RDMA_TEST_UNIT_MAP_SIMULATION_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_UNIT_MAP_GROWTH_SIMULATION_HPP
#define BOOST_RDMA_TEST_UNIT_MAP_GROWTH_SIMULATION_HPP

#include "unit/map_simulation.hpp"

#include <boost_rdma/detail/objects/map_growth.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

// Maps that grow, on simulated memory.

namespace test {

/// The growth to the newest of some tables.
struct grow : objects::map_growth
{
  explicit grow(const objects::map_tables& to)
    : target(to)
  {
  }
  objects::step begin() { return map_growth::begin(target, old_buffers.all(), new_buffers.all()); }

  objects::map_tables target;
  operations::buffers_type old_buffers{};
  operations::buffers_type new_buffers{};
};

/// The tables of a map, one behind the other in memory.
struct table_row
{
  // `later_blocks`: of the tables after the first one; 0: twice as many as in the one before.
  table_row(const map_shape& first, std::size_t count, std::uint64_t later_blocks = 0)
  {
    map_shape shape = first;
    for (std::size_t i = 0; i != count; ++i)
    {
      tables.push_back(tables_of(shape, size).first);
      size += shape.size();
      shape.buckets *= 2;
      shape.blocks = later_blocks != 0 ? later_blocks : 2 * shape.blocks;
    }
  }

  void encode(std::vector<std::uint64_t>& memory) const
  {
    for (std::size_t i = 1; i != tables.size(); ++i)
      objects::encode_pending(tables[i].shape,
        std::span(memory).subspan(tables[i].memory.address() / 8, tables[i].shape.size() / 8));
  }

  /// The tables when the map has grown to one of these.
  [[nodiscard]] objects::map_tables at(std::size_t current) const
  {
    return {tables[0], tables[current], current == 0 ? objects::map_table() : tables[current - 1]};
  }

  std::vector<objects::map_table> tables;
  std::uint64_t size = 0;
};

/// One process, which does one operation after the other on a map that can grow.
struct growing_map : single_map
{
  growing_map(const map_shape& first, std::size_t count)
    : single_map(first)
    , row(first, count)
  {
    simulation.memory.resize(row.size / 8);
    row.encode(simulation.memory);
    for (const auto& each : row.tables)
      observed.emplace_back(each.shape, each.memory.address());
  }

  table_row row;
  std::vector<observed_table> observed;
};

} // namespace test

#endif // BOOST_RDMA_TEST_UNIT_MAP_GROWTH_SIMULATION_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_OBJECTS_MAP_OPEN_HPP
#define BOOST_RDMA_DETAIL_OBJECTS_MAP_OPEN_HPP

#include <boost_rdma/detail/objects/map_layout.hpp>
#include <boost_rdma/detail/objects/step.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

// The state machines that open and create maps.

namespace rdma::detail::objects {

// Reads the header of a map, and compares it with the one that this side expects. Then reads the
// directory.
class open_map
{
public:
  // `expected` has no buckets, and `entry` only the sizes of an entry. `checked`: error of the
  // memory.
  open_map(const header& expected, const map_shape& entry, const error_code& checked,
    const remote_buffer& memory) noexcept
    : expected_(expected)
    , checked_(checked)
  {
    tables_.first = {entry, memory};
  }

  step begin() noexcept { return checked_ ? step::finish(checked_) : step::access(1); }
  access_request request(std::size_t i) noexcept;
  void answered(std::size_t, std::uint64_t) noexcept {}
  step next(bool cancelled);

  // After success.
  [[nodiscard]] const map_tables& tables() const noexcept { return tables_; }

private:
  header expected_;
  header found_{.kind = {}};
  map_tables tables_;
  error_code checked_;
  bool compared_ = false;
  cell_load load_;
  std::array<std::uint64_t, map_directory_words> cell_{};
  map_directory directory_;
};

// Writes an empty map.
class create_map
{
public:
  create_map(const header& of_type, const map_shape& shape, const error_code& checked,
    const remote_buffer& memory) noexcept
    : header_(with_shape(of_type, shape))
    , checked_(checked)
  {
    tables_.first = {shape, memory};
  }

  step begin();
  access_request request(std::size_t) noexcept;
  void answered(std::size_t, std::uint64_t) noexcept {}
  step next(bool cancelled) noexcept;

  // After success.
  [[nodiscard]] const map_tables& tables() const noexcept { return tables_; }

private:
  static constexpr std::uint64_t chunk_max = 256 * 1024;

  [[nodiscard]] std::uint64_t left() const noexcept
  {
    return tables_.first.shape.size() - written_;
  }

  header header_;
  map_tables tables_;
  error_code checked_;
  std::uint64_t written_ = sizeof(header); // the header is written at the end
  std::vector<std::byte> zeros_;
};

} // namespace rdma::detail::objects

#endif // BOOST_RDMA_DETAIL_OBJECTS_MAP_OPEN_HPP

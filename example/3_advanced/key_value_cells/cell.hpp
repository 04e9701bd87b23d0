//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_EXAMPLE_KEY_VALUE_CELLS_CELL_HPP
#define BOOST_RDMA_EXAMPLE_KEY_VALUE_CELLS_CELL_HPP

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace key_value_cells {

// The content of the table: plain data with the same layout on both sides. Both hosts must have the
// same byte order. A portable protocol defines it (compare-exchange uses that of the memory's
// owner).

constexpr std::size_t key_size_max = 24;
constexpr std::size_t value_size_max = 96;

/// Texts without NUL, padded with NUL. An unused entry has an empty key.
struct entry
{
  std::array<char, key_size_max> key{};
  std::array<char, value_size_max> value{};
};

/// All zero, like newly leased memory: a complete cell without an entry.
struct cell
{
  std::uint64_t version = 0; ///< odd while the entry is being written: see remote_map
  entry content;
};
static_assert(sizeof(cell) == 128 && offsetof(cell, content) == sizeof(cell::version));

/// Throws std::length_error if the text does not fit.
template <std::size_t size>
std::array<char, size> field_of(std::string_view text)
{
  if (text.size() > size)
    throw std::length_error(
      "more than " + std::to_string(size) + " characters: " + std::string(text));
  std::array<char, size> field{};
  std::ranges::copy(text, field.begin());
  return field;
}

template <std::size_t size>
std::string text_of(const std::array<char, size>& field)
{
  return {field.begin(), std::ranges::find(field, '\0')};
}

} // namespace key_value_cells

#endif // BOOST_RDMA_EXAMPLE_KEY_VALUE_CELLS_CELL_HPP

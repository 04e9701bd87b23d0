//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_EXAMPLE_COMMON_TEXT_HPP
#define BOOST_RDMA_EXAMPLE_COMMON_TEXT_HPP

#include <algorithm>
#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

namespace example {

/// Returns a text as a field of a fixed size, padded with NUL. Throws std::length_error if it does
/// not fit.
template <std::size_t size>
std::array<char, size> padded(std::string_view text)
{
  if (text.size() > size)
    throw std::length_error(
      "more than " + std::to_string(size) + " characters: " + std::string(text));
  std::array<char, size> field{};
  std::ranges::copy(text, field.begin());
  return field;
}

/// Returns the text of a field that a peer has written: it may fill the whole field, and need not
/// be text.
template <std::size_t size>
std::string printable(const std::array<char, size>& field)
{
  std::string text(field.begin(), std::ranges::find(field, '\0'));
  std::ranges::replace_if(
    text, [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

} // namespace example

#endif // BOOST_RDMA_EXAMPLE_COMMON_TEXT_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_COMPLETION_CHUNK_POSITION_HPP
#define BOOST_RDMA_LIB_COMPLETION_CHUNK_POSITION_HPP

#include <bit>
#include <cstdint>

namespace rdma::detail {

// Position of an element in chunks of First, First, 2 First, 4 First and so on. Elements of such
// chunks never move, and are found without a lock: the array of pointers to the chunks does not
// grow.
template <std::uint32_t First>
struct chunk_position
{
  static_assert(std::has_single_bit(First));

  std::uint32_t chunk;
  std::uint32_t offset;

  explicit constexpr chunk_position(std::uint32_t index) noexcept
    : chunk(static_cast<std::uint32_t>(std::bit_width(index / First)))
    , offset(chunk == 0 ? index : index - size_of(chunk))
  {
  }

  [[nodiscard]] static constexpr std::uint32_t size_of(std::uint32_t chunk) noexcept
  {
    return chunk == 0 ? First : First << (chunk - 1);
  }

  // Returns the number of chunks of `count` elements.
  [[nodiscard]] static constexpr std::uint32_t chunks_for(std::uint32_t count) noexcept
  {
    return chunk_position(count - 1).chunk + 1;
  }
};

static_assert(chunk_position<2>(1).chunk == 0 && chunk_position<2>(2).chunk == 1
  && chunk_position<2>(3).offset == 1 && chunk_position<2>(7).chunk == 2
  && chunk_position<2>(7).offset == 3 && chunk_position<2>(8).chunk == 3
  && chunk_position<2>::size_of(3) == 8 && chunk_position<2>::chunks_for(16) == 4);

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_COMPLETION_CHUNK_POSITION_HPP

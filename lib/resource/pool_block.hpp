//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RESOURCE_POOL_BLOCK_HPP
#define BOOST_RDMA_LIB_RESOURCE_POOL_BLOCK_HPP

#include "boost_rdma/detail/registration.hpp"

#include <cstdint>

namespace rdma::detail {

class pool_impl;

// The registration of one block, to which a registered_buffer refers. Blocks without a
// registered_buffer have none.
struct alignas(64) pool_block : registration
{
  pool_impl* pool = nullptr;
  pool_block* next = nullptr; // next in the free list
  static constexpr std::uint32_t large = ~std::uint32_t{0};
  std::uint32_t class_index = 0; // or `large`: a run of pages
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_RESOURCE_POOL_BLOCK_HPP

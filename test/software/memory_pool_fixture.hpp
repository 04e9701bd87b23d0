//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_SOFTWARE_MEMORY_POOL_FIXTURE_HPP
#define BOOST_RDMA_TEST_SOFTWARE_MEMORY_POOL_FIXTURE_HPP

#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"

#include <boost_rdma/memory_pool.hpp>

#include <memory_resource>
#include <string>

// Pools for tests.

namespace test {

inline error_code code_of_allocation(std::pmr::memory_resource& from, std::size_t bytes,
  std::size_t alignment, std::string* text = nullptr)
{
  try
  {
    from.deallocate(from.allocate(bytes, alignment), bytes, alignment);
  }
  catch (const rdma::pool_bad_alloc& e)
  {
    if (text != nullptr)
      *text = e.what();
    return e.code();
  }
  return {};
}

inline rdma::memory_pool_options small_arenas()
{
  rdma::memory_pool_options options;
  options.arena_size = options.arena_size_max = 65536;
  options.thread_cache_bytes_max = 0;
  return options;
}

} // namespace test

#endif // BOOST_RDMA_TEST_SOFTWARE_MEMORY_POOL_FIXTURE_HPP

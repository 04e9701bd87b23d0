//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/asio_tokens.hpp"

TEST_CASE("fetch_add goes with every kind of token")
{
  BOOST_RDMA_TEST_NEEDS(atomics);
  test::with_every_token<test::fetch_add_operation>();
}

TEST_CASE("compare_exchange goes with every kind of token")
{
  BOOST_RDMA_TEST_NEEDS(atomics);
  test::with_every_token<test::compare_exchange_operation>();
}

TEST_CASE("binding a window goes with every kind of token")
{
  BOOST_RDMA_TEST_NEEDS(memory_windows);
  test::with_every_token<test::bind_window_operation>();
}

TEST_CASE("invalidating a key goes with every kind of token")
{
  BOOST_RDMA_TEST_NEEDS(memory_windows);
  test::with_every_token<test::invalidate_operation>();
}

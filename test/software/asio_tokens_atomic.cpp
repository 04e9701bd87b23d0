//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/asio_tokens.hpp"

TEST_CASE("async_fetch_add accepts every kind of token")
{
  BOOST_RDMA_TEST_NEEDS(atomics);
  test::with_every_token<test::fetch_add_operation>();
}

TEST_CASE("async_compare_exchange forwards its token and has a default one")
{
  BOOST_RDMA_TEST_NEEDS(atomics);
  test::with_own_tokens<test::compare_exchange_operation>();
}

TEST_CASE("async_bind_window accepts every kind of token")
{
  BOOST_RDMA_TEST_NEEDS(memory_windows);
  test::with_every_token<test::bind_window_operation>();
}

TEST_CASE("async_invalidate accepts every kind of token")
{
  BOOST_RDMA_TEST_NEEDS(memory_windows);
  test::with_every_token<test::invalidate_operation>();
}

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/asio_tokens.hpp"

TEST_CASE("sending goes with every kind of token")
{
  test::with_every_token<test::send_operation>();
}

TEST_CASE("sending with immediate data goes with every kind of token")
{
  test::with_every_token<test::send_with_immediate_operation>();
}

TEST_CASE("sending with invalidation goes with every kind of token")
{
  BOOST_RDMA_TEST_NEEDS(memory_windows);
  test::with_every_token<test::send_with_invalidate_operation>();
}

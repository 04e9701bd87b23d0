//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/asio_tokens.hpp"

TEST_CASE("async_write accepts every kind of token")
{
  test::with_every_token<test::write_operation>();
}

TEST_CASE("async_write_with_immediate accepts every kind of token")
{
  BOOST_RDMA_TEST_NEEDS(write_with_immediate);
  test::with_every_token<test::write_with_immediate_operation>();
}

TEST_CASE("async_read accepts every kind of token")
{
  test::with_every_token<test::read_operation>();
}

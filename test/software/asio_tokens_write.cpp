//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/asio_tokens.hpp"

TEST_CASE("writing goes with every kind of token")
{
  test::with_every_token<test::write_operation>();
}

TEST_CASE("writing with immediate data goes with every kind of token")
{
  BOOST_RDMA_TEST_NEEDS(write_with_immediate);
  test::with_every_token<test::write_with_immediate_operation>();
}

TEST_CASE("reading goes with every kind of token")
{
  test::with_every_token<test::read_operation>();
}

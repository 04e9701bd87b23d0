//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/asio_tokens.hpp"

TEST_CASE("async_write forwards its token and has a default one")
{
  test::with_own_tokens<test::write_operation>();
}

TEST_CASE("async_write_with_immediate forwards its token and has a default one")
{
  BOOST_RDMA_TEST_NEEDS(write_with_immediate);
  test::with_own_tokens<test::write_with_immediate_operation>();
}

TEST_CASE("async_read forwards its token and has a default one")
{
  test::with_own_tokens<test::read_operation>();
}

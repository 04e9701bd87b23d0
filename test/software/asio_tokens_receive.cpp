//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/asio_tokens.hpp"

TEST_CASE("async_receive forwards its token and has a default one")
{
  test::with_own_tokens<test::receive_operation>();
}

TEST_CASE("async_receive_message accepts every kind of token")
{
  test::with_every_token<test::receive_message_operation>();
}

TEST_CASE("async_submit accepts every kind of token")
{
  test::with_every_token<test::submit_operation>();
}

TEST_CASE("async_submit of a batch larger than send_depth forwards its token and has a default one")
{
  test::with_own_tokens<test::submit_in_parts_operation>();
}

TEST_CASE(
  "async_receive_message of a shared receive queue forwards its token and has a default one")
{
  BOOST_RDMA_TEST_NEEDS(shared_receive_queues);
  test::with_own_tokens<test::shared_receive_operation>();
}

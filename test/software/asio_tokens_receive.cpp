//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/asio_tokens.hpp"

TEST_CASE("async_receive accepts every kind of token")
{
  test::with_every_token<test::receive_operation>();
}

TEST_CASE("async_receive_message accepts every kind of token")
{
  test::with_every_token<test::receive_message_operation>();
}

TEST_CASE("async_submit accepts every kind of token")
{
  test::with_every_token<test::submit_operation>();
}

TEST_CASE("async_submit of a batch larger than send_depth accepts every kind of token")
{
  test::with_every_token<test::submit_in_parts_operation>();
}

TEST_CASE("async_receive_message of a shared receive queue accepts every kind of token")
{
  BOOST_RDMA_TEST_NEEDS(shared_receive_queues);
  test::with_every_token<test::shared_receive_operation>();
}

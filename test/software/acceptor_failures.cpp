//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/allocations.hpp"
#include "common/catch.hpp"
#include "connect/connection_service.hpp"
#include "software/connect_fixture.hpp"

#include <boost/asio/post.hpp>

#include <future>

// Acceptors without memory for a client.

using namespace test;

TEST_CASE("an acceptor accepts the next client when an allocation for the one before has failed")
{
  // The registration of the client's socket, its stream, its connection, and the entry in the list
  // of handshakes. Later allocations are not tested: any_completion_handler of Boost 1.81
  // dereferences a null pointer if one of its own fails.
  const std::size_t n = GENERATE(range(0u, 4u));
  CAPTURE(n);
  connect_fixture f;
  connect_fixture::accepted server;
  f.acceptor.async_accept(server.handler());
  std::promise<void> ready;
  asio::post(rdma::detail::connection_service::of(f.io.get_executor()).io(),
    [&]
    {
      failing_allocation::apply_to_this_thread();
      ready.set_value();
    });
  ready.get_future().wait();
  {
    const failing_allocation failure(n);
    plain_peer unlucky = plain_peer::connect(f.io, f.acceptor.local_endpoint());
    CHECK(unlucky.read_end());
    CHECK(failure.happened());
  }
  CHECK(f.serves_a_good_client(server));
}

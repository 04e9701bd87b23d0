//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/allocations.hpp"
#include "common/catch.hpp"
#include "software/connect_fixture.hpp"

// Acceptors without memory for a client.

using namespace test;

TEST_CASE("an acceptor accepts the next client when an allocation for the one before has failed")
{
  // The registration of the client's socket, its stream, its connection, and the entry in the list
  // of handshakes. faults_connect.cpp tests all allocations of a handshake.
  const std::size_t n = GENERATE(range(0u, 4u));
  CAPTURE(n);
  connect_fixture f;
  connect_fixture::accepted server;
  f.acceptor.async_accept(server.handler());
  const spared_faults own; // only the library's threads fail, of which one works
  {
    const failing_allocations failure(n, false);
    plain_peer unlucky = plain_peer::connect(f.io, f.acceptor.local_endpoint());
    CHECK(unlucky.read_end());
    CHECK(failure.failed() == 1);
  }
  CHECK(f.serves_a_good_client(server));
}

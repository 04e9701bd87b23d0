//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"

#include <optional>

// Tests absent peers. connect() returns at once, so only a send detects an absent peer.

using namespace test;

namespace {

// Returns a context that gives up as early as the device allows.
rdma::context hasty_context()
{
  rdma::context_options options;
  options.software.retry_time_min = std::chrono::milliseconds(50);
  return make_context(options);
}

rdma::queue_pair_options hasty()
{
  rdma::queue_pair_options options;
  options.timeout = 8; // 1 ms
  options.retry_count = 1;
  return options;
}

// A queue pair that is connected to a peer that does not exist.
struct absent_peer_link
{
  explicit absent_peer_link(const rdma::endpoint_description& peer)
  {
    (void)near.local_endpoint();
    near.connect(peer);
  }

  // Checks that the first send fails once with retry_exceeded and that other operations are
  // flushed.
  void check_alone()
  {
    CHECK(near.is_connected()); // the absence is not detected yet
    near.async_receive(rdma::no_data, received.handler());
    near.async_send(text, first.handler());
    near.async_send(text, second.handler());
    REQUIRE(run_until(io, [&] { return first.done() && second.done() && received.done(); }));
    CHECK(first.ec == rdma::wc_status::retry_exceeded);
    CHECK(first.value() == 0);
    CHECK(second.ec == rdma::wc_status::flushed);
    CHECK(received.ec == rdma::wc_status::flushed);
    CHECK_FALSE(near.is_connected());
    CHECK(near.diagnose().code == rdma::wc_status::retry_exceeded);
    bytes_record late;
    near.async_send(text, late.handler());
    REQUIRE(run_until(io, [&] { return late.done(); }));
    CHECK(late.ec == rdma::wc_status::flushed);
    near.close();
    REQUIRE(run_out(io));
    for (const bytes_record* each : {&first, &second, &received, &late})
      CHECK(each->calls == 1);
  }

  asio::io_context io;
  rdma::context context = hasty_context();
  rdma::registered_buffer text = buffer_of(context, "is anybody there?");
  bytes_record first;
  bytes_record second;
  bytes_record received;
  rdma::queue_pair near{io, context, hasty()};
};

} // namespace

TEST_CASE("a send fails once with retry_exceeded when nothing listens on the peer's host")
{
  std::optional<rdma::endpoint_description> gone;
  {
    asio::io_context io;
    rdma::context context = make_context();
    rdma::queue_pair peer(io, context);
    gone = peer.local_endpoint();
  }
  absent_peer_link b(*gone);
  b.check_alone();
}

TEST_CASE("a send fails once with retry_exceeded when the peer's queue pair was destroyed")
{
  linked_pair others; // keeps the device listening
  rdma::endpoint_description gone;
  {
    rdma::queue_pair peer(others.io, others.far_context);
    gone = peer.local_endpoint();
  }
  absent_peer_link b(gone);
  b.check_alone();
  // Other connections are not affected.
  bytes_record sent;
  bytes_record received;
  others.far.async_receive(rdma::no_data, received.handler());
  others.near.async_send(rdma::no_data, sent.handler());
  REQUIRE(run_until(others.io, [&] { return sent.done() && received.done(); }));
  CHECK(sent.ec == error_code());
  CHECK(received.ec == error_code());
}

TEST_CASE("a send fails once with retry_exceeded when the peer never connects")
{
  asio::io_context io;
  rdma::context context = make_context();
  rdma::queue_pair peer(io, context);
  rdma::registered_buffer into = buffer_of(context, "untouched");
  bytes_record received;
  peer.async_receive(into, received.handler());
  absent_peer_link b(peer.local_endpoint());
  b.check_alone();
  // The peer is not affected.
  CHECK_FALSE(peer.is_connected());
  CHECK(peer.diagnose().code == error_code());
  io.poll();
  CHECK_FALSE(received.done());
  peer.close();
  REQUIRE(run_until(io, [&] { return received.done(); }));
  CHECK(received.ec == asio::error::operation_aborted);
  CHECK(text_of(into) == "untouched");
}

TEST_CASE("a send fails once with retry_exceeded when the peer is connected to another queue pair")
{
  linked_pair others;
  absent_peer_link b(others.far.local_endpoint());
  b.check_alone();
  CHECK(others.near.is_connected());
  bytes_record sent;
  bytes_record received;
  others.far.async_receive(rdma::no_data, received.handler());
  others.near.async_send(rdma::no_data, sent.handler());
  REQUIRE(run_until(others.io, [&] { return sent.done() && received.done(); }));
  CHECK(sent.ec == error_code());
  CHECK(received.ec == error_code());
}

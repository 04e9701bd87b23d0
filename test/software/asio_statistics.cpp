//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/every_operation.hpp"
#include "software/connect_fixture.hpp"
#include "software/stream_fixture.hpp"

#include <boost_rdma/batch.hpp>
#include <boost_rdma/statistics.hpp>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <optional>
#include <thread>

// Tests context::statistics().

using namespace test;

namespace {

using rdma::wc_status;

std::uint64_t errors_in(const rdma::statistics& s)
{
  return std::accumulate(s.errors.begin(), s.errors.end(), std::uint64_t{0});
}

std::uint64_t operations_in(const rdma::statistics& s)
{
  return s.sends.completed + s.receives.completed + s.reads.completed + s.writes.completed
    + s.batches.completed + s.atomics + s.binds + s.invalidations;
}

/// Performs the operation of every_operation.hpp and returns what it added to the statistics of
/// near_context.
template <class Operation>
rdma::statistics after()
{
  operation_fixture<rdma::queue_pair> f;
  Operation::prepare(f);
  record<typename Operation::result> r;
  const rdma::statistics before = f.near_context.statistics();
  REQUIRE(operations_in(before) == 0);
  Operation::start(f, r.handler());
  REQUIRE(run_until(f.io, [&] { return r.done(); }));
  REQUIRE(r.ec == error_code());
  Operation::check(f, r.value());
  const rdma::statistics s = f.near_context.statistics();
  CHECK(operations_in(s) == 1);
  CHECK(errors_in(s) == 0);
  return s;
}

bool is(const rdma::operation_statistics& counted, std::uint64_t completed, std::uint64_t bytes)
{
  return counted.completed == completed && counted.bytes == bytes;
}

} // namespace

TEST_CASE("statistics count sends and their bytes")
{
  CHECK(is(after<send_operation>().sends, 1, 16));
  CHECK(is(after<send_with_immediate_operation>().sends, 1, 16));
  BOOST_RDMA_TEST_NEEDS(memory_windows);
  CHECK(is(after<send_with_invalidate_operation>().sends, 1, 16));
}

TEST_CASE("statistics count receives and the bytes that arrived")
{
  CHECK(is(after<receive_operation>().receives, 1, 9));
  CHECK(is(after<receive_message_operation>().receives, 1, 9));
  BOOST_RDMA_TEST_NEEDS(shared_receive_queues);
  CHECK(is(after<shared_receive_operation>().receives, 1, 6));
}

TEST_CASE("statistics count reads and writes and their bytes")
{
  CHECK(is(after<read_operation>().reads, 1, 16));
  CHECK(is(after<write_operation>().writes, 1, 16));
  BOOST_RDMA_TEST_NEEDS(write_with_immediate);
  CHECK(is(after<write_with_immediate_operation>().writes, 1, 16));
}

TEST_CASE("statistics count atomic operations")
{
  BOOST_RDMA_TEST_NEEDS(atomics);
  CHECK(after<fetch_add_operation>().atomics == 1);
  CHECK(after<compare_exchange_operation>().atomics == 1);
}

TEST_CASE("statistics count binds and invalidations of memory windows")
{
  BOOST_RDMA_TEST_NEEDS(memory_windows);
  linked_pair l;
  const rdma::memory_region region(
    l.far_context, 64, rdma::access::local_write | rdma::access::window_bind);
  rdma::memory_window window(l.far_context);
  remote_record bound;
  l.far.async_bind_window(window, region, rdma::access::remote_read, bound.handler());
  REQUIRE(run_until(l.io, [&] { return bound.done(); }));
  plain_record invalidated;
  l.far.async_invalidate(window.key(), invalidated.handler());
  REQUIRE(run_until(l.io, [&] { return invalidated.done(); }));
  const rdma::statistics s = l.far_context.statistics();
  CHECK(s.binds == 1);
  CHECK(s.invalidations == 1);
  CHECK(operations_in(s) == 2);
}

TEST_CASE("statistics count a batch as one operation, also one that is posted in parts")
{
  linked_pair l(of_depth(4));
  const rdma::memory_region target(l.far_context, 64, exposed);
  const rdma::registered_buffer buffer = buffer_of(l.near_context, "12345678");
  rdma::batch batch;
  for (int i = 0; i < 10; ++i)
    batch.write(buffer, target.remote());
  bytes_record r;
  l.near.async_submit(batch, r.handler());
  REQUIRE(run_until(l.io, [&] { return r.done(); }));
  REQUIRE(r.ec == error_code());
  const rdma::statistics s = l.near_context.statistics();
  CHECK(is(s.batches, 1, 80));
  CHECK(operations_in(s) == 1);
}

TEST_CASE("statistics count errors by the status of the work request")
{
  BOOST_RDMA_TEST_NEEDS(exact_statuses);
  rdma::queue_pair_options options;
  options.rnr_retry_count = 0;
  linked_pair l(options, {});
  const rdma::memory_region readable(
    l.far_context, 64, rdma::access::local_write | rdma::access::remote_read);
  bytes_record failed;
  bytes_record flushed;
  const rdma::registered_buffer received = l.near_context.allocate(8);
  l.near.async_receive(received, flushed.handler());
  auto expected = wc_status::rnr_retry_exceeded;
  SECTION("without a receive")
  {
    l.near.async_send(buffer_of(l.near_context, "text"), failed.handler());
  }
  SECTION("with a receive that is too small")
  {
    expected = has(feature::local_statuses) ? wc_status::remote_invalid_request_error
                                            : wc_status::remote_operation_error;
    l.far.async_receive(l.far_context.allocate(1), [](error_code, std::size_t) {});
    l.near.async_send(buffer_of(l.near_context, "text"), failed.handler());
  }
  REQUIRE(run_until(l.io, [&] { return failed.done() && flushed.done(); }));
  const rdma::statistics s = l.near_context.statistics();
  CHECK(s.errors_of(expected) == 1);
  CHECK(s.errors_of(wc_status::flushed) == 1);
  CHECK(errors_in(s) == 2);
  CHECK(operations_in(s) == 0);
  CHECK(s.software.broken + s.nic.broken == 1);
  CHECK(s.software.established + s.nic.established == 0);
}

TEST_CASE("statistics include completion queues and queue pairs that were destroyed")
{
  const rdma::context near_context = make_context();
  const rdma::context far_context = make_context();
  for (std::uint64_t i = 1; i <= 2; ++i)
  {
    asio::io_context io;
    rdma::queue_pair near(io, near_context);
    rdma::queue_pair far(io, far_context);
    connect(near, far);
    const rdma::memory_region target(far_context, 64, exposed);
    bytes_record r;
    near.async_write(buffer_of(near_context, "bytes"), target.remote(), r.handler());
    REQUIRE(run_until(io, [&] { return r.done(); }));
    CHECK(is(near_context.statistics().writes, i, 5 * i));
    const rdma::statistics s = near_context.statistics();
    CHECK(s.software.established + s.nic.established == 1);
  }
  const rdma::statistics s = near_context.statistics();
  CHECK(is(s.writes, 2, 10));
  CHECK(s.software.established_total + s.nic.established_total == 2);
  CHECK(s.software.established + s.nic.established == 0);
  CHECK(s.software.closed + s.nic.closed == 2);
}

TEST_CASE("statistics can be taken while another thread completes operations")
{
  linked_pair l;
  const rdma::memory_region target(l.far_context, 64, exposed);
  const rdma::registered_buffer buffer = buffer_of(l.near_context, "12345678");
  constexpr std::uint64_t writes = 1000;
  std::atomic<bool> done{false};
  std::thread reader(
    [&, context = l.near_context]
    {
      for (std::uint64_t last = 0; !done;)
      {
        const std::uint64_t now = context.statistics().writes.completed;
        if (now < last || now > writes)
          std::abort();
        last = now;
      }
    });
  for (std::uint64_t i = 0; i < writes; ++i)
  {
    bytes_record r;
    l.near.async_write(buffer, target.remote(), r.handler());
    CHECK(run_until(l.io, [&] { return r.done(); }));
  }
  done = true;
  reader.join();
  CHECK(is(l.near_context.statistics().writes, writes, 8 * writes));
}

TEST_CASE("statistics count the connections of both sides and how they ended")
{
  connect_fixture f;
  connect_fixture::accepted server;
  f.acceptor.async_accept(server.handler());
  plain_record connected;
  rdma::queue_pair client(f.io, f.client_context);
  client.async_connect(f.acceptor.local_endpoint(), connected.handler());
  REQUIRE(run_until(f.io, [&] { return connected.done() && server.calls != 0; }));
  REQUIRE(connected.ec == error_code());
  for (const rdma::context& each : {f.client_context, f.server_context})
  {
    const rdma::statistics s = each.statistics();
    CHECK(s.software.established + s.nic.established == 1);
    CHECK(s.software.established_total + s.nic.established_total == 1);
    CHECK(operations_in(s) == 0); // the library's own messages to confirm the path do not count
  }
  plain_record ended;
  server.peer->async_wait_close(ended.handler());
  client.close();
  REQUIRE(run_until(f.io, [&] { return ended.done(); }));
  const rdma::statistics here = f.client_context.statistics();
  const rdma::statistics there = f.server_context.statistics();
  CHECK(here.software.closed + here.nic.closed == 1);
  CHECK(here.software.established + here.nic.established == 0);
  CHECK(there.software.closed_by_peer + there.nic.closed_by_peer == 1);
  CHECK(there.software.established + there.nic.established == 0);
}

TEST_CASE("statistics count a connection as lost whose peer is gone without closing it")
{
  connect_fixture f;
  connect_fixture::accepted server;
  f.acceptor.async_accept(server.handler());
  rdma::queue_pair own(f.io, f.client_context);
  {
    plain_peer peer = plain_peer::connect(f.io, f.acceptor.local_endpoint());
    peer.send(good_request(own.local_endpoint()));
    REQUIRE(confirm_as_client(peer, own, peer.read_header()));
    REQUIRE(run_until(f.io, [&] { return server.calls != 0; }));
  }
  plain_record ended;
  server.peer->async_wait_close(ended.handler());
  REQUIRE(run_until(f.io, [&] { return ended.done(); }));
  const rdma::statistics s = f.server_context.statistics();
  CHECK(s.software.lost + s.nic.lost == 1);
}

TEST_CASE("statistics count attempts to connect that failed")
{
  need(feature::endpoint_descriptions);
  asio::io_context io;
  const rdma::context context = make_context();
  tcp::endpoint nobody;
  {
    const plain_server server;
    nobody = server.endpoint();
  }
  rdma::queue_pair client(io, context);
  plain_record connected;
  client.async_connect(nobody, connected.handler());
  REQUIRE(run_until(io, [&] { return connected.done(); }));
  REQUIRE(connected.ec);
  client.close();
  const rdma::statistics s = context.statistics();
  CHECK(s.software.failed + s.nic.failed == 1);
  CHECK(s.software.established_total + s.nic.established_total == 0);
  CHECK(s.software.closed + s.nic.closed == 0);
}

TEST_CASE("statistics count streams by TCP as connections, and streams by RDMA as those of devices")
{
  for (const bool by_rdma : {false, true})
  {
    connected_pair f(by_rdma);
    for (const rdma::context& each : {f.client_context, f.server_context})
    {
      const rdma::statistics s = each.statistics();
      CHECK(s.tcp.established == (by_rdma ? 0u : 1u));
      CHECK(s.software.established + s.nic.established == (by_rdma ? 1u : 0u));
    }
    f.b.close();
    f.accepted.reset();
    REQUIRE(run_until(f.io, [&] { return f.server_context.statistics().tcp.established == 0; }));
    CHECK(f.client_context.statistics().tcp.closed == (by_rdma ? 0u : 1u));
    CHECK(f.server_context.statistics().tcp.closed == (by_rdma ? 0u : 1u));
    CHECK(f.server_context.statistics().tcp.established_total == (by_rdma ? 0u : 1u));
  }
}

TEST_CASE("statistics include those of the pool and the registration cache")
{
  const rdma::context context = make_context();
  const rdma::registered_buffer buffer = context.allocate(4096);
  const rdma::statistics s = context.statistics();
  CHECK(s.pool.buffers == 1);
  CHECK(s.pool.bytes_registered >= 4096);
  CHECK(s.cache.disabled_reason == context.registration_cache_statistics().disabled_reason);
}

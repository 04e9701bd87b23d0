//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "software/plain_peer_client.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>

#include <deque>
#include <future>
#include <utility>

// Tests the ends of connections: by shutdown, by close, and by a peer that stops responding.

namespace {

using namespace test;
using namespace std::chrono_literals;
using rdma::detail::frame_type;

/// A client and the queue pair that an acceptor created for it.
struct pair_fixture : connect_fixture
{
  explicit pair_fixture(const rdma::queue_pair_options& options = {})
    : client(io, client_context, options)
  {
    plain_record connected;
    acceptor.async_accept(accepted_.handler());
    client.async_connect(acceptor.local_endpoint(), connected.handler());
    REQUIRE(run_until(io, [&] { return connected.done() && accepted_.calls != 0; }));
    REQUIRE(!connected.ec);
    REQUIRE(!accepted_.ec);
  }

  [[nodiscard]] rdma::queue_pair& server() { return *accepted_.peer; }

  rdma::queue_pair client;

private:
  accepted accepted_;
};

/// Posts receives and stores their results.
struct receives
{
  receives(rdma::queue_pair& queue_pair, int count)
    : buffer(queue_pair.context().allocate(64))
    , records(static_cast<std::size_t>(count))
  {
    for (bytes_record& each : records)
      queue_pair.async_receive(buffer, each.handler());
  }
  [[nodiscard]] bool done() const
  {
    return std::all_of(
      records.begin(), records.end(), [](const bytes_record& each) { return each.done(); });
  }
  [[nodiscard]] auto count(const error_code& ec) const
  {
    return std::count_if(records.begin(), records.end(),
      [&](const bytes_record& each) { return each.calls == 1 && each.ec == ec; });
  }
  rdma::registered_buffer buffer;
  std::deque<bytes_record> records;
};

/// Posts sends and stores their results.
struct sends
{
  sends(rdma::queue_pair& queue_pair, int count)
    : buffer(buffer_of(queue_pair.context(), "message"))
    , records(static_cast<std::size_t>(count))
  {
    for (bytes_record& each : records)
      queue_pair.async_send(buffer, each.handler());
  }
  [[nodiscard]] auto count(const error_code& ec) const
  {
    return std::count_if(records.begin(), records.end(),
      [&](const bytes_record& each) { return each.calls == 1 && each.ec == ec; });
  }
  rdma::registered_buffer buffer;
  std::deque<bytes_record> records;
};

error_code outcome_of_send(asio::io_context& io, rdma::queue_pair& queue_pair)
{
  sends one(queue_pair, 1);
  REQUIRE(run_until(io, [&] { return one.records[0].done(); }));
  return one.records[0].ec;
}

} // namespace

TEST_CASE("async_shutdown ends the connection on both sides after all sent messages have arrived")
{
  constexpr int count = 20;
  pair_fixture f;
  receives at_server(f.server(), count + 3);
  receives at_client(f.client, count + 3);
  plain_record shut;
  plain_record client_ended;
  plain_record server_ended;
  f.client.async_wait_close(client_ended.handler());
  f.server().async_wait_close(server_ended.handler());
  sends from_client(f.client, count);
  sends from_server(f.server(), count);
  f.client.async_shutdown(shut.handler());
  CHECK(shut.calls == 0);
  sends too_late(f.client, 2);
  REQUIRE(run_until(f.io,
    [&]
    {
      return shut.done() && client_ended.done() && server_ended.done() && at_server.done()
        && at_client.done();
    }));
  CHECK(shut.ec == error_code());
  CHECK(from_client.count({}) == count);
  CHECK(from_server.count({}) == count);
  CHECK(at_server.count({}) == count);
  CHECK(at_client.count({}) == count);
  CHECK(at_server.count(error::peer_closed) == 3);
  CHECK(at_client.count(asio::error::operation_aborted) == 3);
  CHECK(too_late.count(asio::error::shut_down) == 2);
  CHECK(client_ended.ec == error_code());
  CHECK(server_ended.ec == error::peer_closed);
  CHECK(outcome_of_send(f.io, f.server()) == error::peer_closed);
  CHECK(outcome_of_send(f.io, f.client) == asio::error::operation_aborted);
  CHECK_FALSE(f.client.is_connected());
  CHECK(f.client.is_open());
}

TEST_CASE("async_shutdown waits until the peer posts receives for all sent messages")
{
  pair_fixture f;
  plain_record shut;
  sends from_client(f.client, 1);
  f.client.async_shutdown(shut.handler());
  // The server's message arrives after the shutdown began, and shows that the client's has not
  // arrived.
  receives at_client(f.client, 1);
  sends from_server(f.server(), 1);
  REQUIRE(run_until(f.io, [&] { return at_client.done() && from_server.records[0].done(); }));
  CHECK(at_client.count({}) == 1);
  CHECK_FALSE(shut.done());
  receives at_server(f.server(), 1);
  REQUIRE(run_until(f.io, [&] { return shut.done() && at_server.done(); }));
  CHECK(shut.ec == error_code());
  CHECK(at_server.count({}) == 1);
}

TEST_CASE("async_shutdown completes when both sides shut down and when it is repeated")
{
  pair_fixture f;
  plain_record first, second, third;
  f.client.async_shutdown(first.handler());
  f.server().async_shutdown(second.handler());
  f.client.async_shutdown(third.handler());
  REQUIRE(run_until(f.io, [&] { return first.done() && second.done() && third.done(); }));
  for (const plain_record* each : {&first, &second, &third})
    CHECK(each->ec == error_code());
}

TEST_CASE(
  "async_shutdown completes without error when the peer's shutdown has ended the connection")
{
  pair_fixture f;
  plain_record first, ended, second;
  f.server().async_wait_close(ended.handler());
  f.client.async_shutdown(first.handler());
  REQUIRE(run_until(f.io, [&] { return first.done() && ended.done(); }));
  CHECK(ended.ec == error::peer_closed);
  f.server().async_shutdown(second.handler());
  REQUIRE(run_until(f.io, [&] { return second.done(); }));
  CHECK(second.ec == error_code());
}

TEST_CASE("async_shutdown reports why it fails")
{
  pair_fixture f;
  plain_record shut;
  SECTION("not connected")
  {
    rdma::queue_pair loner(f.io, f.client_context);
    loner.async_shutdown(shut.handler());
    REQUIRE(run_until(f.io, [&] { return shut.done(); }));
    CHECK(shut.ec == error::not_connected);
  }
  SECTION("closed")
  {
    f.client.close();
    f.client.async_shutdown(shut.handler());
    REQUIRE(run_until(f.io, [&] { return shut.done(); }));
    CHECK(shut.ec == error::closed);
  }
  SECTION("moved from")
  {
    const rdma::queue_pair taken(std::move(f.client));
    f.client.async_shutdown(shut.handler());
    REQUIRE(run_until(f.io, [&] { return shut.done(); }));
    CHECK(shut.ec == error::closed);
  }
  SECTION("connected without a control channel")
  {
    linked_pair l;
    l.near.async_shutdown(shut.handler());
    REQUIRE(run_until(l.io, [&] { return shut.done(); }));
    CHECK(shut.ec == asio::error::operation_not_supported);
  }
  SECTION("the peer closes meanwhile")
  {
    sends stuck(f.client, 1); // the server has no receive for it
    f.client.async_shutdown(shut.handler());
    f.server().close();
    REQUIRE(run_until(f.io, [&] { return shut.done(); }));
    CHECK((shut.ec == error::peer_closed || shut.ec.category() == rdma::wc_category()));
  }
  SECTION("closed meanwhile")
  {
    sends stuck(f.client, 1);
    f.client.async_shutdown(shut.handler());
    f.client.close();
    REQUIRE(run_until(f.io, [&] { return shut.done(); }));
    CHECK(shut.ec == asio::error::operation_aborted);
  }
  CHECK(shut.calls == 1);
}

TEST_CASE("each cancellation type withdraws async_shutdown and async_wait_close")
{
  for (const auto type : {asio::cancellation_type::terminal, asio::cancellation_type::partial,
         asio::cancellation_type::total})
  {
    pair_fixture f;
    asio::cancellation_signal shut_signal;
    asio::cancellation_signal wait_signal;
    plain_record shut, ended, goes_on;
    sends stuck(f.client, 1);
    f.client.async_shutdown(asio::bind_cancellation_slot(shut_signal.slot(), shut.handler()));
    f.client.async_wait_close(asio::bind_cancellation_slot(wait_signal.slot(), ended.handler()));
    f.client.async_wait_close(goes_on.handler());
    shut_signal.emit(type);
    wait_signal.emit(type);
    REQUIRE(run_until(f.io, [&] { return shut.done() && ended.done(); }));
    CHECK(shut.ec == asio::error::operation_aborted);
    CHECK(ended.ec == asio::error::operation_aborted);
    CHECK_FALSE(goes_on.done());
    // The shutdown has begun nevertheless.
    CHECK(outcome_of_send(f.io, f.client) == asio::error::shut_down);
    f.client.close();
    REQUIRE(run_until(f.io, [&] { return goes_on.done(); }));
    shut_signal.emit(type);
    wait_signal.emit(type);
    CHECK(shut.calls == 1);
    CHECK(ended.calls == 1);
  }
}

TEST_CASE("async_wait_close reports the reason of the end to all waiting handlers")
{
  pair_fixture f;
  plain_record at_client, at_server, again;
  f.client.async_wait_close(at_client.handler());
  f.server().async_wait_close(at_server.handler());
  SECTION("by a close")
  {
    f.client.close();
    REQUIRE(run_until(f.io, [&] { return at_client.done() && at_server.done(); }));
    CHECK(at_client.ec == asio::error::operation_aborted);
    CHECK(at_server.ec == error::peer_closed);
  }
  SECTION("by an operation that failed")
  {
    rdma::registered_buffer buffer = f.client_context.allocate(8);
    bytes_record written;
    const rdma::remote_buffer nowhere(8, 8, {1, 1}, exposed);
    f.client.async_write(buffer, nowhere, written.handler());
    REQUIRE(run_until(f.io, [&] { return at_client.done() && written.done(); }));
    CHECK(at_client.ec == written.ec);
    CHECK(at_client.ec.category() == rdma::wc_category());
    f.client.close();
    REQUIRE(run_until(f.io, [&] { return at_server.done(); }));
  }
  f.client.async_wait_close(again.handler());
  CHECK(again.calls == 0); // handlers are never called inside the initiating call
  REQUIRE(run_until(f.io, [&] { return again.done(); }));
  CHECK(again.ec == at_client.ec);
  CHECK(at_client.calls == 1);
  CHECK(at_server.calls == 1);
}

TEST_CASE("a fatal event of an idle queue pair ends waits and shutdowns on both sides")
{
  pair_fixture f;
  plain_record ended, here, there;
  f.client.async_wait_close(ended.handler());
  f.client.core()->on_device_event(
    {rdma::device_event_type::queue_pair_fatal, 0, f.client.number()});
  f.client.async_shutdown(here.handler());
  f.server().async_shutdown(there.handler());
  REQUIRE(run_until(f.io, [&] { return ended.done() && here.done() && there.done(); }));
  CHECK(ended.ec == error::queue_pair_failed);
  CHECK(here.ec == error::queue_pair_failed);
  CHECK(there.ec == error::peer_closed);
}

TEST_CASE("async_wait_close completes when the queue pair fails to connect or is closed")
{
  connect_fixture f;
  rdma::queue_pair unlucky(f.io, f.client_context);
  rdma::queue_pair idle(f.io, f.client_context);
  plain_record failed, closed, connected;
  unlucky.async_wait_close(failed.handler());
  idle.async_wait_close(closed.handler());
  tcp::endpoint nobody;
  {
    plain_server gone;
    nobody = gone.endpoint();
  }
  unlucky.async_connect(nobody, connected.handler());
  REQUIRE(run_until(f.io, [&] { return failed.done() && connected.done(); }));
  CHECK(failed.ec == connected.ec);
  CHECK_FALSE(closed.done());
  idle.close();
  REQUIRE(run_until(f.io, [&] { return closed.done(); }));
  CHECK(closed.ec == asio::error::operation_aborted);
}

TEST_CASE(
  "async_shutdown and async_wait_close work with futures, coroutines, deferred and operator||")
{
  using namespace asio::experimental::awaitable_operators;
  pair_fixture f;
  std::future<void> ended = f.server().async_wait_close(asio::use_future);
  plain_record deferred_end;
  auto later = f.client.async_wait_close(asio::deferred);
  std::move(later)(deferred_end.handler());
  bool timed_out = false;
  std::exception_ptr problem;
  asio::co_spawn(
    f.io,
    [&]() -> asio::awaitable<void>
    {
      asio::steady_timer timer(co_await asio::this_coro::executor, 1ms);
      // The connection stays open: the timer expires first, and the wait is cancelled.
      const auto first = co_await (
        timer.async_wait(asio::use_awaitable) || f.client.async_wait_close(asio::use_awaitable));
      timed_out = first.index() == 0;
      co_await f.client.async_shutdown(asio::use_awaitable);
    },
    [&](std::exception_ptr e) { problem = e; });
  REQUIRE(run_until(f.io, [&] { return deferred_end.done(); }));
  REQUIRE(run_until(f.io, [&] { return ended.wait_for(0s) == std::future_status::ready; }));
  CHECK(timed_out);
  CHECK(problem == nullptr);
  CHECK(deferred_end.ec == error_code());
  try
  {
    ended.get();
    FAIL("the wait did not report that the peer closed");
  }
  catch (const rdma::system_error& e)
  {
    CHECK(e.code() == error::peer_closed);
  }
}

TEST_CASE("waits for the end are destroyed without a call with their io_context")
{
  const auto handler_token = std::make_shared<int>();
  {
    rdma::context context = make_context();
    asio::io_context io;
    auto queue_pair = std::make_shared<rdma::queue_pair>(io, context);
    queue_pair->async_wait_close([handler_token](error_code) { FAIL("called"); });
    queue_pair->async_wait_close([handler_token, queue_pair](error_code) { FAIL("called"); });
  }
  CHECK(handler_token.use_count() == 1);
}

TEST_CASE(
  "operations end with peer_lost when the peer is silent for longer than the heartbeat limit")
{
  BOOST_RDMA_TEST_NEEDS(endpoint_descriptions);
  rdma::queue_pair_options options;
  options.heartbeat_limit = 200ms;
  plain_peer_client silent(options);
  plain_peer_client c(options);
  receives waiting(c.client, 2);
  sends stuck(c.client, 2); // the peer posts no receives
  SECTION("from the beginning") {}
  SECTION("after heartbeats for longer than the limit")
  {
    // The silent peer's last heartbeat shows when the limit has passed since then.
    silent.peer->send(rdma::detail::encode_frame(frame_type::heartbeat));
    CHECK(run_until(c.io, silent.io,
      [&]
      {
        c.peer->send(frame_type::heartbeat);
        return silent.ended.done();
      }));
    CHECK_FALSE(c.ended.done());
  }
  REQUIRE(run_until(c.io, [&] { return c.ended.done() && waiting.done(); }));
  REQUIRE(run_until(c.io, [&] { return stuck.records[0].done() && stuck.records[1].done(); }));
  CHECK(c.ended.ec == error::peer_lost);
  CHECK(waiting.count(error::peer_lost) == 2);
  CHECK(stuck.count(error::peer_lost) == 2);
  CHECK(c.client.diagnose().code == error::peer_lost);
}

TEST_CASE("heartbeats are sent as often as the peer requests and not at all without a request")
{
  rdma::queue_pair_options options;
  options.heartbeat_limit = 0ms; // this side accepts any silence
  options.heartbeat_interval = 20ms;
  plain_peer_client quiet(options);
  plain_peer_client asked(options, 200ms);
  for (int i = 0; i < 5; ++i)
    CHECK(asked.peer->await(frame_type::heartbeat)); // five intervals of both clients pass
  for (plain_peer_client* each : {&quiet, &asked})
  {
    CHECK(each->request.find("heartbeat=0") != std::string::npos);
    each->client.close();
    std::vector<frame_type> types;
    while (const auto found = each->peer->read_frame())
      types.push_back(*found);
    REQUIRE_FALSE(types.empty());
    CHECK(types.back() == frame_type::bye);
    if (each == &quiet)
      CHECK(types.size() == 1);
  }
}

TEST_CASE("programs that do not run their io_context for longer than the limit stay connected")
{
  rdma::queue_pair_options options;
  options.heartbeat_limit = 100ms;
  pair_fixture f(options);
  plain_record ended;
  f.client.async_wait_close(ended.handler());
  // No thread runs the pair's io_context: heartbeats do not depend on it.
  REQUIRE(lose_silent_peer(2 * options.heartbeat_limit));
  f.io.poll();
  CHECK_FALSE(ended.done());
  receives at_server(f.server(), 1);
  CHECK(outcome_of_send(f.io, f.client) == error_code());
}

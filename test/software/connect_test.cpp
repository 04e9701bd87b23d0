//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/handlers.hpp"
#include "software/connect_fixture.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>

#include <atomic>
#include <filesystem>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

// Tests connecting when both sides use this library.

namespace {

using namespace test;

std::size_t open_descriptors()
{
  return static_cast<std::size_t>(std::distance(
    std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator()));
}

// Waits until the condition holds while the library's own thread runs; returns false on time-out.
template <class Condition>
bool eventually(Condition done)
{
  const auto limit = std::chrono::steady_clock::now() + patience;
  while (!done())
  {
    if (std::chrono::steady_clock::now() > limit)
      return false;
    std::this_thread::yield();
  }
  return true;
}

} // namespace

TEST_CASE("a client connects to an acceptor and messages arrive in both directions")
{
  connect_fixture f;
  connect_fixture::accepted server;
  plain_record connected;
  rdma::queue_pair client(f.io, f.client_context);
  f.acceptor.async_accept(server.handler());
  client.async_connect(f.acceptor.local_endpoint(), connected.handler());
  // Handlers are never called inside the initiating call.
  CHECK(connected.calls + server.calls == 0);
  REQUIRE(run_until(f.io, [&] { return connected.done() && server.calls == 1; }));
  REQUIRE(!connected.ec);
  REQUIRE(!server.ec);

  auto request = buffer_of(f.client_context, "question");
  auto answer = buffer_of(f.server_context, "the answer");
  auto heard = f.server_context.allocate(64);
  auto told = f.client_context.allocate(64);
  bytes_record received, sent, replied, got;
  server.peer->async_receive(heard, received.handler());
  client.async_receive(told, got.handler());
  client.async_send(request, sent.handler());
  server.peer->async_send(answer, replied.handler());
  REQUIRE(run_until(
    f.io, [&] { return received.done() && sent.done() && replied.done() && got.done(); }));
  CHECK(!sent.ec);
  CHECK(!replied.ec);
  CHECK(text_of(rdma::mutable_buffer(heard).first(received.value())) == "question");
  CHECK(text_of(rdma::mutable_buffer(told).first(got.value())) == "the answer");
}

TEST_CASE("diagnose names the TCP endpoint and the remedy when nothing listens there")
{
  asio::io_context io;
  rdma::context context = make_context();
  tcp::acceptor vacated(io, loopback()); // a port that nobody else is given meanwhile
  const tcp::endpoint nobody = vacated.local_endpoint();
  tcp::socket bound(io, tcp::v4());
  vacated.close();
  bound.set_option(asio::socket_base::reuse_address(true));
  bound.bind(nobody);
  rdma::queue_pair client(io, context);
  plain_record connected;
  client.async_connect(nobody, connected.handler());
  REQUIRE(run_until(io, [&] { return connected.done(); }));
  CHECK(connected.ec == asio::error::connection_refused);
  const std::string text = client.diagnose().text();
  INFO(text);
  CHECK(text.find("connecting to 127.0.0.1:" + std::to_string(nobody.port()) + " failed") == 0);
  CHECK(text.find(connected.ec.message() + ". Nothing listens at that address and port.")
    != std::string::npos);
}

TEST_CASE("operations end with peer_closed when the peer closes")
{
  connect_fixture f;
  connect_fixture::accepted server;
  plain_record connected;
  rdma::queue_pair client(f.io, f.client_context);
  f.acceptor.async_accept(server.handler());
  client.async_connect(f.acceptor.local_endpoint(), connected.handler());
  REQUIRE(run_until(f.io, [&] { return connected.done() && server.calls == 1; }));

  bytes_record received;
  auto buffer = f.client_context.allocate(64);
  client.async_receive(buffer, received.handler());
  server.peer->close();
  REQUIRE(run_until(f.io, [&] { return received.done(); }));
  CHECK(received.ec == error::peer_closed);
  CHECK(!client.is_connected());
  CHECK(client.is_open());
  CHECK(client.diagnose().code == error::peer_closed);

  bytes_record later;
  client.async_receive(buffer, later.handler());
  REQUIRE(run_until(f.io, [&] { return later.done(); }));
  CHECK(later.ec == error::peer_closed);
}

TEST_CASE("connected queue pairs without operations do not keep the io_context running")
{
  connect_fixture f;
  connect_fixture::accepted server;
  plain_record connected;
  rdma::queue_pair client(f.io, f.client_context);
  f.acceptor.async_accept(server.handler());
  client.async_connect(f.acceptor.local_endpoint(), connected.handler());
  REQUIRE(run_out(f.io));
  CHECK(connected.calls == 1);
  CHECK(server.calls == 1);
  CHECK(client.is_connected());
  // The library still watches the connection.
  server.peer->close();
  CHECK(eventually([&] { return !client.is_connected(); }));
}

TEST_CASE("accepts and clients can start in any order and number")
{
  connect_fixture f;
  constexpr std::size_t count = 20;
  std::vector<rdma::queue_pair> clients;
  std::vector<rdma::queue_pair> servers;
  std::size_t connected = 0;
  for (std::size_t i = 0; i < count; ++i)
  {
    clients.emplace_back(f.io, f.client_context);
    clients.back().async_connect(f.acceptor.local_endpoint(),
      [&](error_code ec)
      {
        CHECK(!ec);
        ++connected;
      });
  }
  std::function<void()> accept_one = [&]
  {
    f.acceptor.async_accept(
      [&](error_code ec, rdma::queue_pair peer)
      {
        REQUIRE(!ec);
        servers.push_back(std::move(peer));
        if (servers.size() + 4 <= count)
          accept_one();
      });
  };
  for (int i = 0; i < 4; ++i)
    accept_one();
  REQUIRE(run_until(f.io, [&] { return connected == count && servers.size() == count; }));
}

TEST_CASE("an io_context with several threads accepts many clients concurrently")
{
  connect_fixture f;
  constexpr int count = 40;
  std::atomic<int> connected{0}, accepted{0}, failed{0};
  std::mutex mutex;
  std::vector<rdma::queue_pair> kept;
  auto guard = asio::make_work_guard(f.io);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] { f.io.run(); });
  for (int i = 0; i < count; ++i)
    f.acceptor.async_accept(
      [&](error_code ec, rdma::queue_pair peer)
      {
        std::lock_guard lock(mutex);
        kept.push_back(std::move(peer));
        ec ? ++failed : ++accepted;
      });
  for (int i = 0; i < count; ++i)
  {
    auto client = std::make_shared<rdma::queue_pair>(asio::make_strand(f.io), f.client_context);
    client->async_connect(
      f.acceptor.local_endpoint(), [&, client](error_code ec) { ec ? ++failed : ++connected; });
  }
  CHECK(eventually([&] { return connected + accepted + failed == 2 * count; }));
  CHECK(failed == 0);
  guard.reset();
}

TEST_CASE("connect and accept work with futures")
{
  connect_fixture f;
  std::jthread runner;
  rdma::queue_pair client(f.io, f.client_context);
  std::future<rdma::queue_pair> server = f.acceptor.async_accept(asio::use_future);
  std::future<void> connected = client.async_connect(f.acceptor.local_endpoint(), asio::use_future);
  runner = std::jthread([&] { f.io.run(); });
  connected.get();
  CHECK(server.get().is_connected());
}

TEST_CASE("connect and accept work with coroutines, deferred operations and user-defined tokens")
{
  connect_fixture f;
  int done = 0;
  asio::co_spawn(
    f.io,
    [&]() -> asio::awaitable<void>
    {
      for (int i = 0; i < 2; ++i)
      {
        rdma::queue_pair peer = co_await f.acceptor.async_accept(asio::use_awaitable);
        CHECK(peer.is_open()); // the client may have disconnected already
      }
      ++done;
    },
    asio::detached);
  auto outcome = std::shared_ptr<result<std::monostate>>();
  asio::co_spawn(
    f.io,
    [&]() -> asio::awaitable<void>
    {
      rdma::queue_pair first(f.io, f.client_context);
      co_await first.async_connect(f.acceptor.local_endpoint(), asio::use_awaitable);
      rdma::queue_pair second(f.io, f.client_context);
      auto operation = second.async_connect(f.acceptor.local_endpoint(), asio::deferred);
      co_await std::move(operation)(asio::use_awaitable);
      rdma::queue_pair third(f.io, f.client_context);
      outcome = third.async_connect(tcp::endpoint(loopback(1)), watched_t<std::monostate>{});
      ++done;
      third.close();
    },
    asio::detached);
  REQUIRE(run_until(f.io, [&] { return done == 2 && outcome && outcome->calls == 1; }));
  CHECK(outcome->ec);
}

TEST_CASE("connect and accept use the default token of their executor")
{
  using executor = asio::use_awaitable_t<>::executor_with_default<asio::any_io_executor>;
  connect_fixture f;
  rdma::basic_acceptor<executor> acceptor(f.io, f.server_context, loopback());
  bool done = false;
  asio::co_spawn(
    f.io,
    [&]() -> asio::awaitable<void>
    {
      rdma::basic_queue_pair<executor> client(f.io, f.client_context);
      client.async_connect(acceptor.local_endpoint(), asio::detached);
      rdma::basic_queue_pair<executor> peer = co_await acceptor.async_accept();
      done = peer.is_connected();
    },
    asio::detached);
  REQUIRE(run_until(f.io, [&] { return done; }));
}

TEST_CASE("connect and accept take move-only handlers")
{
  connect_fixture f;
  result<std::monostate> connected;
  result<std::optional<rdma::queue_pair>> accepted;
  rdma::queue_pair client(f.io, f.client_context);
  f.acceptor.async_accept(move_only_handler<std::optional<rdma::queue_pair>>(accepted));
  client.async_connect(f.acceptor.local_endpoint(), move_only_handler<std::monostate>(connected));
  REQUIRE(run_until(f.io, [&] { return connected.calls == 1 && accepted.calls == 1; }));
  CHECK(!connected.ec);
  CHECK(accepted.value->is_connected());
}

TEST_CASE("handlers of connect and accept run on their associated executors")
{
  connect_fixture f;
  asio::thread_pool pool(1);
  const auto pool_thread =
    asio::post(pool, asio::use_future([] { return std::this_thread::get_id(); })).get();
  std::atomic<int> there{0};
  rdma::queue_pair client(f.io, f.client_context);
  f.acceptor.async_accept(asio::bind_executor(pool.get_executor(),
    [&](error_code, rdma::queue_pair) { there += std::this_thread::get_id() == pool_thread; }));
  client.async_connect(f.acceptor.local_endpoint(),
    asio::bind_executor(pool.get_executor(),
      [&](error_code) { there += std::this_thread::get_id() == pool_thread; }));
  CHECK(run_out(f.io));
  pool.join(); // both handlers kept it running
  CHECK(there == 2);
}

TEST_CASE("each cancellation type withdraws an accept without losing a client")
{
  connect_fixture f;
  for (const auto type : {asio::cancellation_type::terminal, asio::cancellation_type::partial,
         asio::cancellation_type::total})
  {
    connect_fixture::accepted first, second;
    asio::cancellation_signal signal;
    f.acceptor.async_accept(asio::bind_cancellation_slot(signal.slot(), first.handler()));
    f.acceptor.async_accept(second.handler());
    signal.emit(type);
    CHECK(first.calls == 0);
    REQUIRE(run_until(f.io, [&] { return first.calls == 1; }));
    CHECK(first.ec == asio::error::operation_aborted);
    CHECK(!first.peer->is_open());

    plain_record connected;
    rdma::queue_pair client(f.io, f.client_context);
    client.async_connect(f.acceptor.local_endpoint(), connected.handler());
    REQUIRE(run_until(f.io, [&] { return second.calls == 1 && connected.done(); }));
    CHECK(!second.ec);
    signal.emit(type); // has no effect
  }
}

TEST_CASE("cancel ends all accepts of an acceptor and keeps it open")
{
  connect_fixture f;
  connect_fixture::accepted first, second;
  f.acceptor.async_accept(first.handler());
  f.acceptor.async_accept(second.handler());
  f.acceptor.cancel();
  REQUIRE(run_out(f.io));
  CHECK(first.ec == asio::error::operation_aborted);
  CHECK(second.ec == asio::error::operation_aborted);
  CHECK(f.serves_a_good_client());
}

TEST_CASE("closing or destroying an acceptor ends its accepts and frees its port")
{
  connect_fixture f;
  connect_fixture::accepted first, second, late;
  auto other = std::make_unique<rdma::acceptor>(f.io, f.server_context, loopback());
  const tcp::endpoint where = other->local_endpoint();
  other->async_accept(first.handler());
  other.reset();
  rdma::acceptor again(f.io, f.server_context, where);
  again.async_accept(second.handler());
  again.close();
  CHECK(!again.is_open());
  again.async_accept(late.handler());
  REQUIRE(run_out(f.io));
  CHECK(first.ec == asio::error::operation_aborted);
  CHECK(second.ec == asio::error::operation_aborted);
  CHECK(late.ec == error::closed);
}

TEST_CASE("an acceptor reports why it cannot listen")
{
  connect_fixture f;
  error_code ec;
  rdma::acceptor second(f.io, f.server_context, f.acceptor.local_endpoint(), {}, ec);
  CHECK(ec == asio::error::address_in_use);
  CHECK(!second.is_open());
  CHECK_THROWS_AS(
    rdma::acceptor(f.io, f.server_context, f.acceptor.local_endpoint()), rdma::system_error);
  connect_fixture::accepted refused;
  second.async_accept(refused.handler());
  REQUIRE(run_out(f.io));
  CHECK(refused.ec == error::closed);
}

TEST_CASE("a queue pair connects only once")
{
  connect_fixture f;
  connect_fixture::accepted server;
  plain_record first, second, third;
  rdma::queue_pair client(f.io, f.client_context);
  f.acceptor.async_accept(server.handler());
  client.async_connect(f.acceptor.local_endpoint(), first.handler());
  client.async_connect(f.acceptor.local_endpoint(), second.handler());
  REQUIRE(run_until(f.io, [&] { return first.done() && second.done() && server.calls == 1; }));
  CHECK(!first.ec);
  CHECK(second.ec == error::already_connected);
  client.async_connect(f.acceptor.local_endpoint(), third.handler());
  REQUIRE(run_until(f.io, [&] { return third.done(); }));
  CHECK(third.ec == error::already_connected);
  CHECK(client.is_connected());
}

TEST_CASE("async_connect fails with closed when the queue pair was closed or moved from")
{
  connect_fixture f;
  plain_record closed, moved;
  rdma::queue_pair client(f.io, f.client_context);
  rdma::queue_pair other(std::move(client));
  other.close();
  other.async_connect(f.acceptor.local_endpoint(), closed.handler());
  client.async_connect(f.acceptor.local_endpoint(), moved.handler()); // NOLINT: that is the test
  REQUIRE(run_out(f.io));
  CHECK(closed.ec == error::closed);
  CHECK(moved.ec == error::closed);
}

TEST_CASE("an immediate error of async_connect is reported after the initiating call")
{
  connect_fixture f;
  connect_fixture::accepted server;
  plain_record first;
  rdma::queue_pair connected(f.io, f.client_context);
  f.acceptor.async_accept(server.handler());
  connected.async_connect(f.acceptor.local_endpoint(), first.handler());
  REQUIRE(run_until(f.io, [&] { return first.done() && server.calls == 1; }));
  rdma::queue_pair closed(f.io, f.client_context);
  closed.close();
  rdma::queue_pair moved(f.io, f.client_context);
  rdma::queue_pair taken(std::move(moved));
  rdma::queue_pair busy(f.io, f.client_context); // no accept is outstanding for it
  busy.async_connect(f.acceptor.local_endpoint(), [](error_code) {});

  bool initiating = false;
  std::vector<error_code> outcomes;
  const auto start = [&]
  {
    const auto note = [&](error_code ec)
    {
      CHECK_FALSE(initiating);
      outcomes.push_back(ec);
    };
    initiating = true;
    closed.async_connect(f.acceptor.local_endpoint(), note);
    moved.async_connect(f.acceptor.local_endpoint(), note); // NOLINT: that is the test
    connected.async_connect(f.acceptor.local_endpoint(), note);
    busy.async_connect(f.acceptor.local_endpoint(), note);
    initiating = false;
  };
  SECTION("outside of run()")
  {
    start();
  }
  SECTION("in a handler")
  {
    asio::post(f.io, start);
  }
  REQUIRE(run_until(f.io, [&] { return outcomes.size() == 4; }));
  CHECK(outcomes
    == std::vector<error_code>{
      error::closed, error::closed, error::already_connected, error::already_connected});
}

TEST_CASE("an accept that completes immediately calls its handler after the initiating call")
{
  const bool in_a_handler = GENERATE(false, true);
  CAPTURE(in_a_handler);
  connect_fixture f;
  std::optional<rdma::acceptor> refusing(std::in_place, f.io, f.server_context, loopback());
  std::optional<rdma::acceptor> taken;
  error_code expected;
  std::vector<plain_peer> clients;
  rdma::queue_pair described(f.io, f.client_context);
  rdma::queue_pair other(f.io, f.client_context);

  SECTION("its acceptor is closed")
  {
    refusing->close();
    expected = error::closed;
  }
  SECTION("its acceptor was moved from")
  {
    taken.emplace(std::move(*refusing));
    expected = error::closed;
  }
  SECTION("a client has completed the handshake")
  {
    refusing.reset();
    connect_fixture::accepted withdrawn;
    f.acceptor.async_accept(withdrawn.handler());
    std::vector<std::string> answers;
    for (rdma::queue_pair* each : {&described, &other})
    {
      clients.push_back(plain_peer::connect(f.io, f.acceptor.local_endpoint()));
      clients.back().send(good_request(each->local_endpoint()));
      answers.push_back(clients.back().read_header());
      REQUIRE(answers.back().starts_with("HTTP/1.1 101"));
    }
    f.acceptor.cancel();
    REQUIRE(run_until(f.io, [&] { return withdrawn.calls != 0; }));
    REQUIRE(withdrawn.ec == asio::error::operation_aborted);
    REQUIRE(confirm_as_client(clients[0], described, answers[0]));
    // When the acceptor has processed the end of the second client, it has processed the first as
    // well.
    REQUIRE(confirm_as_client(clients[1], other, answers[1]));
    clients[1].send(rdma::detail::frame_type::bye);
    REQUIRE(clients[1].read_end());
  }
  SECTION("a client has connected and sent its request")
  {
    refusing.reset();
    described.async_connect(f.acceptor.local_endpoint(), [](error_code) {});
  }

  rdma::acceptor& acceptor = refusing ? *refusing : f.acceptor;
  connect_fixture::accepted accepted;
  bool initiating = false;
  bool nested = false;
  const auto start = [&]
  {
    initiating = true;
    acceptor.async_accept(
      [&, handler = accepted.handler()](error_code ec, rdma::queue_pair peer)
      {
        nested = initiating;
        handler(ec, std::move(peer));
      });
    initiating = false;
  };
  if (in_a_handler)
    asio::post(f.io, start);
  else
    start();
  REQUIRE(run_until(f.io, [&] { return accepted.calls != 0; }));
  CHECK_FALSE(nested);
  CHECK(accepted.ec == expected);
  CHECK(accepted.peer->is_connected() == !expected);
  if (taken)
    taken->close();
  REQUIRE(run_out(f.io));
  CHECK(accepted.calls == 1);
}

TEST_CASE(
  "connect and local_endpoint fail with closed when the queue pair was closed or moved from")
{
  asio::io_context io;
  const rdma::context context = make_context();
  rdma::queue_pair far(io, context);
  const rdma::endpoint_description remote = far.local_endpoint();
  rdma::queue_pair near(io, context);
  static_cast<void>(near.local_endpoint());
  rdma::queue_pair other(std::move(near));
  rdma::queue_pair* refusing = nullptr;
  SECTION("closed")
  {
    other.close();
    refusing = &other;
  }
  SECTION("moved from")
  {
    refusing = &near;
  }

  error_code ec;
  refusing->connect(remote, ec);
  CHECK(ec == error::closed);
  const auto code_of = [](auto call)
  {
    try
    {
      call();
    }
    catch (const rdma::system_error& e)
    {
      return e.code();
    }
    return error_code();
  };
  CHECK(code_of([&] { refusing->connect(remote); }) == error::closed);
  CHECK(code_of([&] { static_cast<void>(refusing->local_endpoint()); }) == error::closed);
  CHECK_FALSE(refusing->is_connected());
}

TEST_CASE("two hundred connections leave no descriptors open")
{
  connect_fixture f;
  std::size_t after_first = 0;
  for (int i = 0; i < 200; ++i)
  {
    REQUIRE(f.serves_a_good_client());
    // Allows for descriptors that are opened on demand and for connections that are being closed.
    if (i == 0)
      after_first = open_descriptors() + 8;
  }
  CHECK(eventually([&] { return open_descriptors() <= after_first; }));
}

TEST_CASE("outstanding connects and accepts are destroyed without a call with their io_context")
{
  const auto handler_token = std::make_shared<int>();
  plain_server silent;
  {
    auto f = std::make_unique<connect_fixture>();
    // Each object is owned by its own handler, so only the end of the io_context breaks the cycle.
    auto acceptor = std::make_shared<rdma::acceptor>(f->io, f->server_context, loopback());
    auto client = std::make_shared<rdma::queue_pair>(f->io, f->client_context);
    acceptor->async_accept(
      [acceptor, handler_token](error_code, rdma::queue_pair) { FAIL("called"); });
    client->async_connect(
      silent.endpoint(), [client, handler_token](error_code) { FAIL("called"); });
    asio::co_spawn(
      f->io,
      [](rdma::acceptor owned, std::shared_ptr<int>) -> asio::awaitable<void> {
        co_await owned.async_accept(asio::use_awaitable);
      }(rdma::acceptor(f->io, f->server_context, loopback()), handler_token),
      asio::detached);
    f->io.poll();
    acceptor.reset();
    client.reset();
    CHECK(handler_token.use_count() == 4);
  }
  CHECK(handler_token.use_count() == 1);
}

TEST_CASE("an io_context can be shut down more than once")
{
  // ~io_context() calls shutdown() since Boost 1.82, and then ~execution_context() calls it again.
  struct shut_down_twice : asio::io_context
  {
    ~shut_down_twice()
    {
      shutdown();
      after_first();
    }
    std::function<void()> after_first;
  };
  need(feature::endpoint_descriptions);
  const auto handler_token = std::make_shared<int>();
  const rdma::context context = make_context();
  {
    shut_down_twice io;
    // The first shutdown releases all objects owned by outstanding operations, although timers are
    // shut down after connection services.
    io.after_first = [&] { CHECK(handler_token.use_count() == 1); };
    auto acceptor = std::make_shared<rdma::acceptor>(io, context, loopback());
    auto client = std::make_shared<rdma::queue_pair>(io, context);
    client->async_connect(
      acceptor->local_endpoint(), [client, handler_token](error_code ec) { CHECK(!ec); });
    std::optional<rdma::queue_pair> server;
    acceptor->async_accept(
      [&](error_code ec, rdma::queue_pair peer)
      {
        CHECK(!ec);
        server.emplace(std::move(peer));
      });
    REQUIRE(run_until(io, [&] { return server && handler_token.use_count() == 1; }));
    server->async_receive(
      asio::mutable_buffer(), [handler_token](error_code, std::size_t) { FAIL("called"); });
    server.reset();
    acceptor->async_accept(
      [acceptor, handler_token](error_code, rdma::queue_pair) { FAIL("called"); });
    const auto timer = std::make_shared<asio::steady_timer>(io, std::chrono::hours(1));
    timer->async_wait([timer, acceptor, client, handler_token](error_code) { FAIL("called"); });
    asio::post(io, [acceptor, client, handler_token] { FAIL("called"); });
    acceptor.reset();
    client.reset();
  }
}

TEST_CASE("queue pairs connect by exchanged endpoint descriptions")
{
  asio::io_context io;
  const rdma::context here = make_context();
  const rdma::context there = make_context();
  rdma::queue_pair near(io, here);
  rdma::queue_pair far(io, there);
  CHECK(near.local_endpoint() == near.local_endpoint());
  test::connect(near, far);
  CHECK(near.is_connected());
  error_code ec;
  near.connect(far.local_endpoint(), ec);
  CHECK(ec == error::already_connected);

  auto message = buffer_of(here, "direct");
  auto room = there.allocate(64);
  bytes_record sent, received;
  far.async_receive(room, received.handler());
  near.async_send(message, sent.handler());
  REQUIRE(run_until(io, [&] { return sent.done() && received.done(); }));
  CHECK(text_of(rdma::mutable_buffer(room).first(received.value())) == "direct");

  rdma::queue_pair late(io, here);
  plain_record connected;
  rdma::queue_pair direct(io, here);
  static_cast<void>(direct.local_endpoint());
  rdma::endpoint_description other = far.local_endpoint();
  other.kind =
    other.kind == rdma::device_kind::nic ? rdma::device_kind::software : rdma::device_kind::nic;
  direct.connect(other, ec);
  CHECK(ec == error::no_common_transport);
  late.connect(far.local_endpoint(), ec);
  // Its local_endpoint() was never called, so no peer can have its description.
  CHECK(ec == error::not_connected);
  near.async_connect(loopback(1), connected.handler());
  REQUIRE(run_until(io, [&] { return connected.done(); }));
  CHECK(connected.ec == error::already_connected);
  CHECK(near.is_connected());
}

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "software/connect_fixture.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/execution/blocking.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/strand.hpp>

#include <atomic>
#include <filesystem>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

// Tests connecting when both sides use this library.

namespace {

using namespace test;

std::size_t open_descriptors()
{
  return static_cast<std::size_t>(std::distance(
    std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator()));
}

/// An executor with which other threads wait until a function that they submit has been called.
/// Queue pairs use the inner one.
struct patient_executor
{
  friend asio::any_io_executor inner_executor(const patient_executor& of) { return of.inner; }

  asio::execution_context& query(asio::execution::context_t) const { return inner.context(); }
  static constexpr auto query(asio::execution::blocking_t)
  {
    return asio::execution::blocking.never;
  }

  template <class Function>
  void execute(Function function) const
  {
    if (inner.running_in_this_thread())
      return inner.execute(std::move(function));
    auto called = std::make_shared<std::promise<void>>();
    inner.execute(
      [called, function = std::move(function)]() mutable
      {
        function();
        called->set_value();
      });
    called->get_future().wait();
  }

  bool operator==(const patient_executor&) const noexcept = default;

  asio::io_context::executor_type inner;
};

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
  CHECK(until([&] { return !client.is_connected(); }));
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
  CHECK(until([&] { return connected + accepted + failed == 2 * count; }));
  CHECK(failed == 0);
  guard.reset();
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

TEST_CASE("a handler of an accept can close the acceptor before the handshake's thread goes on")
{
  connect_fixture f;
  rdma::basic_acceptor<patient_executor> acceptor(
    patient_executor{f.io.get_executor()}, f.server_context, loopback());
  std::optional<rdma::basic_queue_pair<patient_executor>> server;
  error_code failure;
  plain_record connected;
  rdma::queue_pair client(f.io, f.client_context);
  acceptor.async_accept(
    [&](error_code ec, rdma::basic_queue_pair<patient_executor> peer)
    {
      acceptor.close();
      failure = ec;
      server.emplace(std::move(peer));
    });
  client.async_connect(acceptor.local_endpoint(), connected.handler());
  REQUIRE(run_out(f.io));
  CHECK(!connected.ec);
  CHECK(!failure);
  REQUIRE(server);
  // The end of the first connection would come before the second connection.
  CHECK(f.serves_a_good_client());
  CHECK(client.is_connected());
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
  CHECK(until([&] { return open_descriptors() <= after_first; }));
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

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/rpc_fixture.hpp"
#include "software/stream_fixture.hpp"

#include "common/catch.hpp"

#include <boost_rdma/rpc/client.hpp>
#include <boost_rdma/rpc/server.hpp>
#include <boost_rdma/stream.hpp>
#include <boost_rdma/stream_acceptor.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/socket_base.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <chrono>
#include <future>
#include <string>
#include <thread>

namespace test::wake_ups {

// Operations between two threads that sleep until they are needed. A wake-up that is lost is
// repaired by the next retry or heartbeat, after a second or more: the operation succeeds, and only
// its time tells.

namespace {

using clock = std::chrono::steady_clock;

/// The far side: its own context, io_context and thread.
class far_host
{
public:
  far_host() = default;
  far_host(const far_host&) = delete;
  far_host& operator=(const far_host&) = delete;
  ~far_host() { stop(); }

  /// Ends the thread. Call it before objects that use `io` are destroyed.
  void stop()
  {
    io.stop();
    if (thread_.joinable())
      thread_.join();
  }

  rdma::context context = make_context();
  asio::io_context io;

private:
  asio::executor_work_guard<asio::io_context::executor_type> work_ = asio::make_work_guard(io);
  std::thread thread_{[this] { io.run(); }};
};

/// Repeats an operation, with and without pauses in which both sides fall asleep. Of a hundred
/// operations, 95 must be faster than any timer that repairs something. What prepare() does before
/// the pause is not measured.
template <class Once, class Prepare>
void check_latencies(asio::io_context& io, Once once, Prepare prepare)
{
  constexpr int rounds = 100;
  constexpr std::chrono::milliseconds repaired{800};
  int late = 0;
  for (int round = 0; round != rounds; ++round)
  {
    prepare();
    if (round % 2 == 0)
    {
      asio::steady_timer pause(io, std::chrono::milliseconds(round % 8 == 0 ? 30 : 2));
      plain_record over;
      pause.async_wait(over.handler());
      REQUIRE(run_until(io, [&] { return over.done(); }));
    }
    const clock::time_point start = clock::now();
    once();
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(clock::now() - start);
    CAPTURE(round, late, took.count());
    late += took > repaired ? 1 : 0;
    REQUIRE(late <= rounds / 20);
  }
}

template <class Once>
void check_latencies(asio::io_context& io, Once once)
{
  check_latencies(io, once, [] {});
}

/// A queue pair whose peer sends each message back.
class echoed_queue_pair
{
public:
  echoed_queue_pair()
  {
    connect(near, far_);
    asio::post(far_side_.io, [this] { receive(); });
  }
  ~echoed_queue_pair() { far_side_.stop(); }
  echoed_queue_pair(const echoed_queue_pair&) = delete;
  echoed_queue_pair& operator=(const echoed_queue_pair&) = delete;

  /// 8 bytes of the far side's memory.
  [[nodiscard]] rdma::remote_buffer exposed() const { return region_.remote(); }

  asio::io_context io;
  rdma::context context = make_context();
  rdma::queue_pair near{io, context};
  rdma::registered_buffer memory = context.allocate(8);

private:
  void receive()
  {
    far_.async_receive(buffer_,
      [this](const error_code& ec, std::size_t)
      {
        if (!ec)
          far_.async_send(buffer_,
            [this](const error_code& failure, std::size_t)
            {
              if (!failure)
                receive();
            });
      });
  }

  far_host far_side_;
  rdma::queue_pair far_{far_side_.io, far_side_.context};
  rdma::registered_buffer buffer_ = far_side_.context.allocate(8);
  rdma::memory_region region_{far_side_.context, 8, test::exposed};
};

asio::awaitable<void> echo(rdma::stream client)
{
  std::array<char, 8> text{};
  error_code ec;
  for (;;)
  {
    const std::size_t n = co_await client.async_read_some(
      asio::buffer(text), asio::redirect_error(asio::use_awaitable, ec));
    if (ec)
      co_return;
    co_await asio::async_write(
      client, asio::buffer(text, n), asio::redirect_error(asio::use_awaitable, ec));
  }
}

asio::awaitable<void> echo_streams(rdma::stream_acceptor& from)
{
  for (;;)
    asio::co_spawn(
      from.get_executor(), echo(co_await from.async_accept(asio::use_awaitable)), asio::detached);
}

/// Sends back what its clients send, until they end.
class echo_server
{
public:
  echo_server() { asio::co_spawn(far_side_.io, echo_streams(acceptor), asio::detached); }
  ~echo_server() { far_side_.stop(); }
  echo_server(const echo_server&) = delete;
  echo_server& operator=(const echo_server&) = delete;

private:
  far_host far_side_;

public:
  rdma::stream_acceptor acceptor{far_side_.io, far_side_.context, loopback()};
};

} // namespace

TEST_CASE("messages between sleeping programs do not wait for a timer")
{
  BOOST_RDMA_TEST_NEEDS(software_device); // a virtual machine has slower wake-ups
  echoed_queue_pair p;
  const rdma::registered_buffer answer = p.context.allocate(8);
  check_latencies(p.io,
    [&]
    {
      bytes_record sent;
      bytes_record received;
      p.near.async_receive(answer, received.handler());
      p.near.async_send(p.memory, sent.handler());
      REQUIRE(run_until(p.io, [&] { return sent.done() && received.done(); }));
      REQUIRE(received.ec == error_code());
    });
}

TEST_CASE("messages that a sleeping program does not answer do not wait for a timer")
{
  BOOST_RDMA_TEST_NEEDS(software_device); // a virtual machine has slower wake-ups
  far_host far_side;
  rdma::queue_pair far(far_side.io, far_side.context);
  asio::io_context io;
  const rdma::context context = make_context();
  rdma::queue_pair near(io, context);
  connect(near, far);
  const rdma::registered_buffer message = context.allocate(8);
  const rdma::registered_buffer received = far_side.context.allocate(8);
  check_latencies(
    io,
    [&]
    {
      bytes_record sent;
      near.async_send(message, sent.handler());
      REQUIRE(run_until(io, [&] { return sent.done(); }));
      REQUIRE(sent.ec == error_code());
    },
    [&]
    {
      std::promise<void> posted;
      asio::post(far_side.io,
        [&]
        {
          far.async_receive(received, asio::detached);
          posted.set_value();
        });
      posted.get_future().wait();
    });
  far_side.stop();
}

TEST_CASE("accesses to a sleeping program's memory do not wait for a timer")
{
  BOOST_RDMA_TEST_NEEDS(software_device); // a virtual machine has slower wake-ups
  echoed_queue_pair p;
  const auto check = [&](auto start)
  {
    check_latencies(p.io,
      [&]
      {
        bytes_record r;
        start(r);
        REQUIRE(run_until(p.io, [&] { return r.done(); }));
        REQUIRE(r.ec == error_code());
      });
  };
  SECTION("read")
  {
    check([&](bytes_record& r) { p.near.async_read(p.memory, p.exposed(), r.handler()); });
  }
  SECTION("write")
  {
    check([&](bytes_record& r) { p.near.async_write(p.memory, p.exposed(), r.handler()); });
  }
  SECTION("fetch and add")
  {
    check([&](bytes_record& r) { p.near.async_fetch_add(p.exposed(), 1, r.handler()); });
  }
}

TEST_CASE("streams of sleeping programs do not wait for a timer")
{
  BOOST_RDMA_TEST_NEEDS(software_device); // a virtual machine has slower wake-ups
  need(feature::endpoint_descriptions);
  echo_server server;
  asio::io_context io;
  const rdma::context context = make_context();
  rdma::stream near(io, context);
  plain_record connected;
  near.async_connect(server.acceptor.local_endpoint(), connected.handler());
  REQUIRE(run_until(io, [&] { return connected.done(); }));
  REQUIRE(connected.ec == error_code());
  std::array<char, 8> text{};
  SECTION("asynchronously")
  {
    check_latencies(io,
      [&]
      {
        bytes_record written;
        bytes_record read;
        asio::async_write(near, asio::buffer(text), written.handler());
        asio::async_read(near, asio::buffer(text), read.handler());
        REQUIRE(run_until(io, [&] { return written.done() && read.done(); }));
        REQUIRE(read.ec == error_code());
      });
  }
  SECTION("synchronously")
  {
    check_latencies(io,
      [&]
      {
        asio::write(near, asio::buffer(text));
        asio::read(near, asio::buffer(text));
      });
  }
}

TEST_CASE("a stream between sleeping programs ends without waiting for a timer")
{
  BOOST_RDMA_TEST_NEEDS(software_device); // a virtual machine has slower wake-ups
  need(feature::endpoint_descriptions);
  echo_server server;
  asio::io_context io;
  const rdma::context context = make_context();
  rdma::stream near(io, context);
  std::array<char, 8> text{};
  std::string answer;
  check_latencies(
    io,
    [&]
    {
      bytes_record ended;
      bytes_record written;
      asio::async_write(near, asio::buffer(text), written.handler());
      near.shutdown(asio::socket_base::shutdown_send);
      asio::async_read(near, asio::dynamic_buffer(answer), ended.handler());
      REQUIRE(run_until(io, [&] { return written.done() && ended.done(); }));
      REQUIRE(ended.ec == asio::error::eof);
      REQUIRE(answer.size() == text.size());
      answer.clear();
    },
    [&]
    {
      near = rdma::stream(io, context);
      plain_record connected;
      near.async_connect(server.acceptor.local_endpoint(), connected.handler());
      REQUIRE(run_until(io, [&] { return connected.done(); }));
      REQUIRE(connected.ec == error_code());
    });
}

TEST_CASE("calls of a sleeping server do not wait for a timer")
{
  BOOST_RDMA_TEST_NEEDS(software_device); // a virtual machine has slower wake-ups
  need(feature::endpoint_descriptions);
  far_host far_side;
  rdma::rpc::server server(far_side.io, far_side.context, {asio::ip::address_v4::loopback(), 0});
  server.handle<add>([](const numbers& n) { return n.a + n.b; });
  server.start();
  asio::io_context io;
  const rdma::context context = make_context();
  rdma::rpc::client near(io, context);
  plain_record connected;
  near.async_connect(server.local_endpoint(), connected.handler());
  REQUIRE(run_until(io, [&] { return connected.done(); }));
  REQUIRE(connected.ec == error_code());
  check_latencies(io,
    [&]
    {
      record<std::int32_t> r;
      near.async_call<add>({1, 2}, r.handler());
      REQUIRE(run_until(io, [&] { return r.done(); }));
      REQUIRE(r.value() == 3);
    });
  far_side.stop();
}

} // namespace test::wake_ups

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/in_child.hpp"
#include "rpc/message_reader.hpp"
#include "software/rpc_fixture.hpp"

#include <boost_rdma/error.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace test::rpc_ends {

// Tests the ends of clients, servers and their connections, and peers that break the protocol.

namespace {

namespace rpc = rdma::rpc;
namespace wire = rdma::detail::rpc;
using asio::ip::tcp;
using namespace std::chrono_literals;

// The handlers of a server that has this coroutine end when they are cancelled.
struct endless
{
  asio::awaitable<std::uint64_t> operator()(std::uint64_t)
  {
    ++begun;
    asio::steady_timer never(co_await asio::this_coro::executor, patience);
    try
    {
      co_await never.async_wait(asio::use_awaitable);
    }
    catch (const rdma::system_error&)
    {
      ++ended;
      throw;
    }
    co_return 0;
  }

  int& begun;
  int& ended;
};

// A call whose handler has begun, and ends only by cancellation.
struct endless_call : rpc_pair
{
  endless_call()
  {
    server.handle<wait_for_test>(endless{begun, ended});
    start();
    client.async_call<wait_for_test>(1, r.handler());
    REQUIRE(run_until(io, [&] { return begun == 1; }));
  }

  int begun = 0;
  int ended = 0;
  record<std::uint64_t> r;
};

std::int32_t sum(const numbers& n)
{
  return n.a + n.b;
}

// The bytes of a message.
std::vector<std::byte> bytes_of(const wire::message& m, std::size_t content = 0)
{
  std::vector<std::byte> bytes;
  const std::size_t at = wire::begin_message(bytes, m);
  bytes.resize(bytes.size() + content);
  wire::end_message(bytes, at);
  return bytes;
}

std::vector<std::byte> hello(std::uint16_t version = wire::message::version)
{
  wire::message m;
  m.type = wire::message_type::hello;
  m.selector = version;
  return bytes_of(m);
}

std::vector<std::byte> call(std::uint16_t method, std::uint32_t number, std::size_t content)
{
  wire::message m;
  m.type = wire::message_type::call;
  m.selector = method;
  m.number = number;
  return bytes_of(m, content);
}

std::vector<std::byte> trace(std::uint32_t number)
{
  wire::message m;
  m.type = wire::message_type::trace;
  m.number = number;
  return bytes_of(m, wire::trace_size);
}

std::vector<std::byte> operator+(std::vector<std::byte> a, const std::vector<std::byte>& b)
{
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// A client of bytes, by TCP.
struct raw_client
{
  raw_client(asio::io_context& io, const tcp::endpoint& server)
    : socket(io)
  {
    socket.connect(server);
  }

  void send(const std::vector<std::byte>& bytes) { asio::write(socket, asio::buffer(bytes)); }

  // Returns true when the server has ended the connection, after any bytes.
  [[nodiscard]] bool is_ended(asio::io_context& io)
  {
    bool ended = false;
    std::array<std::byte, 4096> some;
    std::function<void()> read = [&]
    {
      socket.async_read_some(asio::buffer(some),
        [&](const error_code& ec, std::size_t)
        {
          ended = ec.failed();
          if (!ended)
            read();
        });
    };
    read();
    return run_until(io, [&] { return ended; });
  }

  tcp::socket socket;
};

} // namespace

TEST_CASE("calls end when the server closes, and its handlers are cancelled")
{
  endless_call p;
  SECTION("by close()")
  {
    p.server.close();
    CHECK_FALSE(p.server.is_open());
  }
  SECTION("by its end")
  {
    rpc::server other(std::move(p.server));
  }
  REQUIRE(run_until(p.io, [&] { return p.r.done() && p.ended == 1; }));
  CHECK(p.r.ec == rdma::error::peer_closed);
  CHECK(p.call<wait_for_test>(2).first == rdma::error::peer_closed);
}

TEST_CASE("calls end when the client closes, and the server's handlers are cancelled")
{
  endless_call p;
  p.client.close();
  CHECK_FALSE(p.r.done());
  CHECK_FALSE(p.client.is_open());
  REQUIRE(run_until(p.io, [&] { return p.r.done() && p.ended == 1; }));
  CHECK(p.r.ec == asio::error::operation_aborted);
  CHECK(p.call<wait_for_test>(2).first == rdma::error::closed);
  CHECK(p.connect(p.client) == rdma::error::closed);
  rpc::client moved(std::move(p.client));
  CHECK(p.call<wait_for_test>(3).first == rdma::error::closed);
  CHECK(p.connect(p.client) == rdma::error::closed);
}

TEST_CASE("cancel() ends the calls of a client and not its connection")
{
  rpc_pair p;
  int begun = 0;
  int ended = 0;
  p.server.handle<wait_for_test>(endless{begun, ended});
  p.server.handle<add>(sum);
  p.start();
  std::array<record<std::uint64_t>, 3> calls;
  for (auto& each : calls)
    p.client.async_call<wait_for_test>(1, each.handler());
  p.client.cancel();
  for (const auto& each : calls)
    CHECK_FALSE(each.done());
  REQUIRE(run_until(p.io, [&] { return calls[0].done() && calls[1].done() && calls[2].done(); }));
  for (const auto& each : calls)
    CHECK(each.ec == asio::error::operation_aborted);
  REQUIRE(run_until(p.io, [&] { return begun == 3 && ended == 3; }));
  CHECK(p.call<add>({1, 2}) == std::pair(error_code(), 3));
}

TEST_CASE("a client that is not connected calls nothing, and connects once")
{
  rpc_pair p;
  p.server.handle<add>(sum);
  CHECK(p.call<add>({1, 2}).first == rdma::error::not_connected);
  tcp::acceptor unused(p.io, {asio::ip::address_v4::loopback(), 0});
  const tcp::endpoint nobody = unused.local_endpoint();
  unused.close();
  plain_record r;
  p.client.async_connect(nobody, r.handler());
  REQUIRE(run_until(p.io, [&] { return r.done(); }));
  CHECK(r.ec == asio::error::connection_refused);
  p.start();
  CHECK(p.connect(p.client) == rdma::error::already_connected);
  CHECK(p.call<add>({1, 2}) == std::pair(error_code(), 3));
}

TEST_CASE("connecting that is cancelled closes the client")
{
  asio::io_context io;
  const rdma::context context = make_context();
  rpc::client client(io, context);
  tcp::acceptor silent(io, {asio::ip::address_v4::loopback(), 0});
  asio::cancellation_signal signal;
  plain_record r;
  client.async_connect(
    silent.local_endpoint(), asio::bind_cancellation_slot(signal.slot(), r.handler()));
  SECTION("by its slot")
  {
    signal.emit(asio::cancellation_type::total);
  }
  SECTION("by cancel()")
  {
    client.cancel();
  }
  SECTION("by close()")
  {
    client.close();
  }
  CHECK_FALSE(r.done());
  REQUIRE(run_until(io, [&] { return r.done(); }));
  CHECK(r.ec == asio::error::operation_aborted);
  CHECK_FALSE(client.is_open());
  signal.emit(asio::cancellation_type::total);
  CHECK(run_out(io)); // the attempt has ended
}

TEST_CASE("a child of fork() can use neither a client nor a server of its parent")
{
  BOOST_RDMA_TEST_FORKS();
  rpc_pair p;
  p.server.handle<add>(sum);
  p.start();
  CHECK(in_child(
          [&]
          {
            p.io.notify_fork(asio::io_context::fork_child);
            plain_record connected;
            p.client.async_connect(p.server.local_endpoint(), connected.handler());
            record<std::int32_t> r;
            p.client.async_call<add>({1, 2}, r.handler());
            p.client.cancel();
            p.client.close();
            plain_record shut;
            p.server.async_shutdown(shut.handler());
            p.server.close();
            if (!run_until(p.io, [&] { return connected.done() && r.done() && shut.done(); }))
              return std::string("an operation did not complete");
            for (const error_code& ec : {connected.ec, r.ec, shut.ec})
              if (ec != rdma::error::forked)
                return ec.message();
            return std::string();
          })
    == "");
  CHECK(p.call<add>({1, 2}) == std::pair(error_code(), 3));
}

TEST_CASE("a shutdown waits for the calls that have arrived, and refuses others")
{
  rpc_pair p;
  std::vector<rpc::responder<wait_for_test>> answers;
  p.server.handle<wait_for_test>([&](std::uint64_t, rpc::responder<wait_for_test> answer)
    { answers.push_back(std::move(answer)); });
  p.start();
  rpc::client idle(p.io, p.near_context);
  REQUIRE(p.connect(idle) == error_code());
  record<std::uint64_t> r;
  p.client.async_call<wait_for_test>(1, r.handler());
  REQUIRE(run_until(p.io, [&] { return answers.size() == 1; }));
  plain_record ended;
  p.server.async_shutdown(ended.handler());
  CHECK_FALSE(ended.done());
  SECTION("which end")
  {
    const auto is_refused = [&]
    { return p.call<wait_for_test>(2, {.timeout = 1ms}).first == rdma::error::peer_closed; };
    REQUIRE(run_until(p.io, is_refused));
    CHECK(answers.size() == 1);
    CHECK_FALSE(ended.done());
    answers[0].reply(10);
    REQUIRE(run_until(p.io, [&] { return r.done() && ended.done(); }));
    CHECK(r.ec == error_code());
    CHECK(r.value() == 10);
    CHECK(ended.ec == error_code());
  }
  SECTION("or not, and the program closes")
  {
    p.server.close();
    REQUIRE(run_until(p.io, [&] { return r.done() && ended.done(); }));
    CHECK(r.ec == rdma::error::peer_closed);
    CHECK(ended.ec == asio::error::operation_aborted);
  }
  plain_record again;
  p.server.async_shutdown(again.handler());
  REQUIRE(run_until(p.io, [&] { return again.done(); }));
  CHECK(again.ec == rdma::error::closed);
}

TEST_CASE("a shutdown that is cancelled closes the server")
{
  endless_call p;
  asio::cancellation_signal signal;
  plain_record shut;
  p.server.async_shutdown(asio::bind_cancellation_slot(signal.slot(), shut.handler()));
  signal.emit(asio::cancellation_type::terminal);
  REQUIRE(run_until(p.io, [&] { return shut.done() && p.r.done() && p.ended == 1; }));
  CHECK(shut.ec == asio::error::operation_aborted);
  CHECK(p.r.ec == rdma::error::peer_closed);
}

TEST_CASE("a client gives up on a server that is not one")
{
  asio::io_context io;
  const rdma::context context = make_context();
  rpc::client_options options;
  options.stream.transports = rdma::stream_transports::tcp;
  error_code expected;
  std::vector<std::byte> answer;
  SECTION("and sends nothing")
  {
    options.queue_pair.connect_timeout = 100ms;
    expected = rdma::error::handshake_timeout;
  }
  SECTION("and sends something else")
  {
    answer.resize(100);
    expected = rdma::error::malformed_message;
  }
  SECTION("and sends a call")
  {
    answer = call(0, 0, 0);
    expected = rdma::error::malformed_message;
  }
  SECTION("or has another version")
  {
    answer = hello(wire::message::version + 1);
    expected = rdma::error::version_mismatch;
  }
  SECTION("or closes")
  {
    expected = rdma::error::peer_closed;
  }
  rpc::client client(io, context, options);
  tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
  plain_record r;
  client.async_connect(acceptor.local_endpoint(), r.handler());
  tcp::socket server = acceptor.accept();
  if (expected == rdma::error::peer_closed)
    server.close();
  if (!answer.empty())
    asio::write(server, asio::buffer(answer));
  REQUIRE(run_until(io, [&] { return r.done(); }));
  CHECK(r.ec == expected);
  CHECK_FALSE(client.is_open());
}

TEST_CASE("a client that breaks the protocol is disconnected, and others are not")
{
  rpc::server_options options;
  options.request_max = 1000;
  rpc_pair p(options);
  p.server.handle<add>(sum);
  p.start();
  wire::message reply;
  reply.type = wire::message_type::reply;
  std::vector<std::byte> sent;
  SECTION("no hello")
  {
    sent = call(0, 1, 8);
  }
  SECTION("another version")
  {
    sent = hello(wire::message::version + 1);
  }
  SECTION("bytes of another protocol")
  {
    sent.resize(16, std::byte{'G'});
  }
  SECTION("a second hello")
  {
    sent = hello() + hello();
  }
  SECTION("a reply")
  {
    sent = hello() + bytes_of(reply);
  }
  SECTION("a request that is too large")
  {
    sent = hello() + call(0, 1, 1001);
  }
  SECTION("two traces of one call")
  {
    sent = hello() + trace(1) + trace(1);
  }
  SECTION("a trace of another call")
  {
    sent = hello() + trace(1) + call(0, 2, 8);
  }
  raw_client raw(p.io, p.server.local_endpoint());
  raw.send(sent);
  CHECK(raw.is_ended(p.io));
  CHECK(p.call<add>({1, 2}) == std::pair(error_code(), 3));
}

TEST_CASE("calls that cannot be answered fail by themselves")
{
  rpc_pair p;
  std::vector<rpc::responder<wait_for_test>> answers;
  p.server.handle<add>(sum);
  p.server.handle<wait_for_test>([&](std::uint64_t, rpc::responder<wait_for_test> answer)
    { answers.push_back(std::move(answer)); });
  p.start();
  raw_client raw(p.io, p.server.local_endpoint());
  // Of another size; of no method; of a number that is in use.
  raw.send(hello() + call(0, 1, 7) + call(2, 2, 8) + call(1, 3, 8) + call(1, 3, 8));
  const std::size_t expected = 3 * wire::message::header_size;
  std::vector<std::byte> received;
  std::array<std::byte, 4096> some;
  std::vector<wire::message> failures;
  wire::message_reader reader(1000);
  std::function<void()> read = [&]
  {
    raw.socket.async_read_some(asio::buffer(some),
      [&](const error_code& ec, std::size_t size)
      {
        if (ec)
          return;
        std::span<const std::byte> bytes = std::span(some).first(size);
        CHECK(reader.read(bytes,
          [&](const wire::message& m, const auto&)
          {
            if (m.type == wire::message_type::failure)
              failures.push_back(m);
            return true;
          }));
        read();
      });
  };
  read();
  REQUIRE(
    run_until(p.io, [&] { return failures.size() == expected / wire::message::header_size; }));
  CHECK(wire::failure_of(failures[0]) == rdma::error::malformed_message);
  CHECK(failures[0].number == 1);
  CHECK(wire::failure_of(failures[1]) == rdma::error::no_such_method);
  CHECK(failures[1].number == 2);
  CHECK(wire::failure_of(failures[2]) == rdma::error::malformed_message);
  CHECK(failures[2].number == 3);
  CHECK(answers.size() == 1);
}

TEST_CASE("a server does not take calls of a client that does not read its replies")
{
  rpc::server_options options;
  options.unread_max = 100'000;
  rpc_pair p(options);
  std::uint64_t replied = 0;
  using fill = rpc::method<"fill/1", rpc::nothing, std::string_view>;
  const std::string large(50'000, 'x');
  p.server.handle<fill>(
    [&](rpc::nothing)
    {
      replied += large.size();
      return std::string_view(large);
    });
  p.server.handle<add>(sum);
  p.start();
  raw_client raw(p.io, p.server.local_endpoint());
  raw.socket.set_option(asio::socket_base::receive_buffer_size(4096));
  std::vector<std::byte> calls;
  for (std::uint32_t i = 0; i != 4000; ++i)
    calls = std::move(calls) + call(0, i, 0);
  raw.send(hello());
  raw.socket.non_blocking(true);
  // The sockets take far more calls than replies.
  std::uint64_t sent = 0;
  error_code ec;
  while (ec != asio::error::would_block)
  {
    sent += raw.socket.write_some(asio::buffer(calls), ec);
    p.io.poll();
    REQUIRE(p.call<add>({1, 2}) == std::pair(error_code(), 3));
  }
  CHECK(replied < sent / wire::message::header_size * large.size() / 4);
}

TEST_CASE("a server does not take calls of a client whose requests it still has")
{
  rpc::server_options options;
  options.bytes = 100'000;
  rpc_pair p(options);
  std::vector<rpc::responder<echo>> answers;
  p.server.handle<echo>(
    [&](std::string_view, rpc::responder<echo> answer) { answers.push_back(std::move(answer)); });
  p.start();
  std::array<record<std::string>, 20> calls;
  const std::string large(30'000, 'x');
  for (auto& each : calls)
    p.client.async_call<echo>(large, each.handler());
  REQUIRE(run_until(p.io, [&] { return answers.size() == 4; }));
  // A call of another client shows that the server has had time for more.
  rpc::client other(p.io, p.near_context);
  REQUIRE(p.connect(other) == error_code());
  CHECK(answers.size() == 4);
  std::size_t answered = 0;
  const auto all_are_done = [&]
  {
    for (; answered != answers.size(); ++answered)
      answers[answered].reply("");
    return std::ranges::all_of(calls, [](const auto& each) { return each.done(); });
  };
  REQUIRE(run_until(p.io, all_are_done));
  for (const auto& each : calls)
    CHECK_FALSE(each.ec);
}

TEST_CASE("calls wait while the server does not read, and end at their deadlines")
{
  asio::io_context io;
  const rdma::context context = make_context();
  rpc::client_options options;
  options.stream.transports = rdma::stream_transports::tcp;
  options.bytes = 100'000;
  rpc::client client(io, context, options);
  tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
  plain_record connected;
  client.async_connect(acceptor.local_endpoint(), connected.handler());
  tcp::socket server = acceptor.accept();
  std::vector<std::byte> methods;
  wire::message m;
  m.type = wire::message_type::hello;
  m.selector = wire::message::version;
  const std::size_t at = wire::begin_message(methods, m);
  wire::append_method(methods, rdma::rpc::detail::description_of<echo>);
  wire::end_message(methods, at);
  asio::write(server, asio::buffer(methods));
  REQUIRE(run_until(io, [&] { return connected.done(); }));
  REQUIRE(connected.ec == error_code());
  // Far more bytes than the sockets hold.
  const std::string large(50'000, 'x');
  int timed_out = 0;
  int others = 0;
  for (int i = 0; i != 1000; ++i)
    client.async_call<echo>(large, {.timeout = 1ms + i * 1us},
      [&](const error_code& ec, const std::string&)
      { ++(ec == asio::error::timed_out ? timed_out : others); });
  REQUIRE(run_until(io, [&] { return timed_out + others == 1000; }));
  CHECK(others == 0);
}

TEST_CASE("a handler of a call that throws does not disturb other calls")
{
  rpc_pair p;
  p.server.handle<add>(sum);
  p.start();
  int calls = 0;
  for (int i = 0; i != 4; ++i)
    p.client.async_call<add>(numbers{i, 0},
      [&, i](const error_code& ec, std::int32_t reply)
      {
        CHECK_FALSE(ec);
        CHECK(reply == i);
        ++calls;
        if (i == 1)
          throw std::runtime_error("of the test");
      });
  CHECK_THROWS_AS(run_until(p.io, [&] { return calls == 4; }), std::runtime_error);
  REQUIRE(run_until(p.io, [&] { return calls == 4; }));
  CHECK(p.call<add>({1, 2}) == std::pair(error_code(), 3));
}

TEST_CASE("a server accepts a limited number of clients")
{
  rpc::server_options options;
  options.clients = 1;
  rpc_pair p(options);
  p.server.handle<add>(sum);
  p.start();
  rpc::client second(p.io, p.near_context);
  CHECK(p.connect(second) != error_code());
  CHECK(p.call<add>({1, 2}) == std::pair(error_code(), 3));
  p.client.close();
  const auto is_accepted = [&]
  {
    rpc::client third(p.io, p.near_context);
    return p.connect(third) == error_code();
  };
  REQUIRE(run_until(p.io, is_accepted));
}

TEST_CASE("options out of range are refused")
{
  asio::io_context io;
  const rdma::context context = make_context();
  rpc::client_options client;
  SECTION("calls of a client")
  {
    client.calls = GENERATE(0u, 65'536u);
  }
  SECTION("size of replies")
  {
    client.reply_max = (std::size_t{1} << 30) + 1;
  }
  SECTION("receives")
  {
    client.stream.receives = 1;
  }
  if (client.calls != rpc::client_options().calls
    || client.reply_max != rpc::client_options().reply_max || client.stream.receives == 1)
    CHECK_THROWS_AS(rpc::client(io, context, client), rdma::system_error);
  rpc::server_options server;
  SECTION("calls of a server")
  {
    server.calls = 0;
  }
  SECTION("clients")
  {
    server.clients = 0;
  }
  SECTION("size of requests")
  {
    server.request_max = (std::size_t{1} << 30) + 1;
  }
  if (server.calls == 0 || server.clients == 0
    || server.request_max != rpc::server_options().request_max)
    CHECK_THROWS_AS(
      rpc::server(io, context, {asio::ip::address_v4::loopback(), 0}, server), rdma::system_error);
}

TEST_CASE("calls and handlers end when the other process is killed")
{
  BOOST_RDMA_TEST_FORKS();
  prepare_to_fork();
  const bool kills_server = GENERATE(false, true);
  int port_pipe[2];
  int begun_pipe[2];
  REQUIRE(::pipe(port_pipe) == 0);
  REQUIRE(::pipe(begun_pipe) == 0);
  const auto serve = [&]
  {
    asio::io_context io;
    const rdma::context context = make_context();
    int begun = 0;
    int ended = 0;
    rpc::server server(io, context, {asio::ip::address_v4::loopback(), 0});
    server.handle<wait_for_test>(endless{begun, ended});
    server.start();
    const std::uint16_t port = server.local_endpoint().port();
    bool good = ::write(port_pipe[1], &port, sizeof port) == sizeof port;
    good = run_until(io, [&] { return begun == 1; }) && good;
    good = ::write(begun_pipe[1], "b", 1) == 1 && good;
    return run_until(io, [&] { return ended == 1; }) && good;
  };
  const auto use = [&]
  {
    asio::io_context io;
    const rdma::context context = make_context();
    rpc::client client(io, context);
    std::uint16_t port = 0;
    if (::read(port_pipe[0], &port, sizeof port) != sizeof port)
      return false;
    plain_record connected;
    client.async_connect({asio::ip::address_v4::loopback(), port}, connected.handler());
    if (!run_until(io, [&] { return connected.done(); }) || connected.ec)
      return false;
    record<std::uint64_t> r;
    client.async_call<wait_for_test>(1, r.handler());
    const bool done = run_until(io, [&] { return r.done(); });
    return done
      && (r.ec == rdma::error::peer_lost || r.ec == rdma::error::peer_closed
        || r.ec == rdma::wc_status::retry_exceeded || r.ec == asio::error::connection_reset);
  };
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0)
  {
    ::alarm(100);
    kills_server ? serve() : use();
    ::_exit(0);
  }
  // A third process kills the child when the call has begun.
  const pid_t killer = ::fork();
  REQUIRE(killer >= 0);
  if (killer == 0)
  {
    char begun = 0;
    const bool good = ::read(begun_pipe[0], &begun, 1) == 1;
    ::kill(child, SIGKILL);
    ::_exit(good ? 0 : 1);
  }
  CHECK((kills_server ? use() : serve()));
  int status = 0;
  REQUIRE(::waitpid(killer, &status, 0) == killer);
  CHECK(status == 0);
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  for (const int fd : {port_pipe[0], port_pipe[1], begun_pipe[0], begun_pipe[1]})
    ::close(fd);
}

} // namespace test::rpc_ends

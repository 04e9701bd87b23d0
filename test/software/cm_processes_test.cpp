//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/sanitizers.hpp"
#include "software/cm_fixture.hpp"

#include <boost/asio/executor_work_guard.hpp>

#include <array>
#include <csignal>
#include <cstdio>
#include <exception>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace test;

// A process that listens, accepts one client and then idles until it is killed. It is forked before
// this process opens a device, so it can open one itself.
class still_server
{
public:
  explicit still_server(bool accepts)
  {
    std::array<int, 2> ends{};
    REQUIRE(::pipe(ends.data()) == 0);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0)
    {
      ::close(ends[0]);
      serve(accepts, ends[1]);
      ::_exit(1);
    }
    ::close(ends[1]);
    input_ = ends[0];
    const auto port = read_port();
    REQUIRE(port != 0);
    endpoint_ = {device_address(), port};
  }
  ~still_server()
  {
    kill();
    ::close(input_);
  }
  still_server(const still_server&) = delete;
  still_server& operator=(const still_server&) = delete;

  [[nodiscard]] const tcp::endpoint& endpoint() const { return endpoint_; }
  // Waits until the server has received a message or has the request.
  [[nodiscard]] bool wait() { return read_port() != 0; }
  void kill()
  {
    if (pid_ > 0)
    {
      ::kill(pid_, SIGKILL);
      ::waitpid(std::exchange(pid_, 0), nullptr, 0);
    }
  }

private:
  static void serve(bool accepts, int output)
  try
  {
    asio::io_context io;
    const rdma::context context = make_context();
    cm::acceptor acceptor(io, context, {device_address(), 0});
    rdma::queue_pair peer(io, context);
    const auto report = [output](std::uint16_t what)
    {
      if (::write(output, &what, sizeof what) != sizeof what)
        ::_exit(2);
    };
    auto buffer = context.allocate(64);
    std::optional<cm::connection_request> held;
    peer.async_receive(buffer, [&](error_code, std::size_t) { report(1); });
    acceptor.async_get_request(
      [&](error_code, cm::connection_request request)
      {
        held.emplace(std::move(request));
        if (accepts)
          held->async_accept(peer, cm::private_data(), [](error_code) {});
        else
          report(1);
      });
    report(acceptor.local_endpoint().port());
    const auto forever = asio::make_work_guard(io);
    io.run();
  }
  catch (const std::exception& e)
  {
    std::fprintf(stderr, "server: %s\n", e.what());
  }

  std::uint16_t read_port()
  {
    std::uint16_t value = 0;
    return ::read(input_, &value, sizeof value) == sizeof value ? value : std::uint16_t{0};
  }

  pid_t pid_ = 0;
  int input_ = -1;
  tcp::endpoint endpoint_;
};

struct receiving_bytes
{
  receiving_bytes(rdma::queue_pair& peer, const rdma::context& context)
    : buffer(context.allocate(64))
  {
    peer.async_receive(buffer, outcome.handler());
  }

  rdma::registered_buffer buffer;
  bytes_record outcome;
};

} // namespace

TEST_CASE("killing a listener of RDMA-CM ends the client's operations")
{
  still_server server(true);
  asio::io_context io;
  const rdma::context context = make_context();
  rdma::queue_pair client(io, context);
  auto buffer = context.allocate(64);
  bytes_record received;
  client.async_receive(buffer, received.handler());
  data_record connected;
  cm::async_connect(client, server.endpoint(), connected.handler());
  REQUIRE(run_until(io, [&] { return connected.done(); }));
  REQUIRE(connected.ec == error_code());
  bytes_record sent;
  client.async_send(buffer_of(context, "hello"), sent.handler());
  REQUIRE(run_until(io, [&] { return sent.done(); }));
  REQUIRE(server.wait());
  CHECK_FALSE(received.done());

  server.kill();
  REQUIRE(run_until(io, [&] { return received.done(); }));
  CHECK(received.ec == error::peer_closed);
  CHECK_FALSE(client.is_connected());
  REQUIRE(run_out(io));
}

TEST_CASE("killing a listener of RDMA-CM before it answers ends the connect")
{
  still_server server(false);
  asio::io_context io;
  const rdma::context context = make_context();
  rdma::queue_pair client(io, context);
  data_record connected;
  cm::async_connect(client, server.endpoint(), connected.handler());
  REQUIRE(server.wait()); // the connection is established without this thread
  CHECK_FALSE(connected.done());

  server.kill();
  REQUIRE(run_until(io, [&] { return connected.done(); }));
  CHECK(connected.ec);
  CHECK_FALSE(client.is_connected());
}

#if !BOOST_RDMA_TEST_THREAD_SANITIZER // it ends a child of fork() that starts a thread
TEST_CASE("connections of RDMA-CM remain owned by the parent after fork()")
{
  cm_fixture f;
  receiving_bytes at_server(f.server, f.server_context);
  f.connect();
  rdma::queue_pair another(f.io, f.client_context);
  accept_record waiting;
  f.acceptor.async_accept(waiting.handler());

  f.io.notify_fork(asio::io_context::fork_prepare);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0)
  {
    f.io.notify_fork(asio::io_context::fork_child);
    accept_record accepted;
    data_record connected;
    f.acceptor.async_accept(accepted.handler());
    cm::async_connect(another, f.acceptor.local_endpoint(), connected.handler());
    const bool ended =
      run_until(f.io, [&] { return accepted.done() && connected.done() && waiting.done(); });
    const bool good = ended && accepted.ec == error::forked && connected.ec == error::forked
      && waiting.ec == error::forked;
    f.acceptor.close();
    f.client.close();
    f.server.close();
    ::_exit(good ? 0 : 1);
  }
  f.io.notify_fork(asio::io_context::fork_parent);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);

  // No operation of the parent has ended.
  CHECK(f.client.is_connected());
  bytes_record sent;
  f.client.async_send(buffer_of(f.client_context, "still here"), sent.handler());
  REQUIRE(run_until(f.io, [&] { return sent.done() && at_server.outcome.done(); }));
  CHECK(sent.ec == error_code());
  CHECK(at_server.outcome.ec == error_code());
  CHECK_FALSE(waiting.done());
  data_record connected;
  cm::async_connect(another, f.acceptor.local_endpoint(), connected.handler());
  REQUIRE(run_until(f.io, [&] { return connected.done() && waiting.done(); }));
  CHECK(connected.ec == error_code());
  CHECK(waiting.ec == error_code());
}
#endif

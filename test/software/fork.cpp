//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/in_child.hpp"
#include "software/connect_fixture.hpp"

#include <boost_rdma/acceptor.hpp>
#include <boost_rdma/device_events.hpp>
#include <boost_rdma/protection_domain.hpp>
#include <boost_rdma/upgrade.hpp>

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <latch>
#include <map>
#include <memory>
#include <memory_resource>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

// Tests children of fork(). A child reports through a pipe and ends by _exit, because Catch's state
// belongs to the parent.

using namespace test;

namespace {

template <class Function>
error_code code_of(Function make)
{
  try
  {
    make();
  }
  catch (const rdma::system_error& e)
  {
    return e.code();
  }
  return {};
}

struct findings
{
  std::string wrong;
  void expect_forked(const char* what, const error_code& ec)
  {
    if (ec != rdma::error::forked)
      wrong += std::string(what) + ": " + ec.message() + "; ";
  }
};

/// Sends a message, which shows that both queue pairs work.
void exchange(linked_pair& l)
{
  rdma::registered_buffer near_buffer = buffer_of(l.near_context, "ping!");
  rdma::registered_buffer far_buffer = l.far_context.allocate(5);
  bytes_record received;
  bytes_record sent;
  l.far.async_receive(far_buffer, received.handler());
  l.near.async_send(near_buffer, sent.handler());
  REQUIRE(run_until(l.io, [&] { return received.done() && sent.done(); }));
  CHECK(received.ec == error_code());
  CHECK(sent.ec == error_code());
  CHECK(text_of(far_buffer) == "ping!");
}

} // namespace

TEST_CASE("descriptors of the library are closed in programs that this process starts")
{
  const auto open_now = []
  {
    std::set<int> result;
    for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd"))
      result.insert(std::stoi(each.path().filename()));
    return result;
  };
  const std::set<int> before = open_now();
  connect_fixture f;
  connect_fixture::accepted server;
  rdma::queue_pair client(f.io, f.client_context);
  plain_record connected;
  f.acceptor.async_accept(server.handler());
  client.async_connect(f.acceptor.local_endpoint(), connected.handler());
  REQUIRE(run_until(f.io, [&] { return connected.done() && server.calls != 0; }));
  REQUIRE(!connected.ec);
  for (const int each : open_now())
  {
    const int flags = ::fcntl(each, F_GETFD);
    // F_GETFD fails for the descriptor of the directory iterator, which is closed already.
    if (before.contains(each) || flags < 0)
      continue;
    std::error_code ec;
    INFO(
      each << " is " << std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(each), ec));
    CHECK((flags & FD_CLOEXEC) != 0);
  }
}

TEST_CASE(
  "objects of the parent fail with forked in a child of fork() and still work in the parent")
{
  BOOST_RDMA_TEST_FORKS();
  linked_pair l;
  rdma::registered_buffer buffer = l.near_context.allocate(64);
  rdma::memory_region region(l.near_context, 4096, exposed);
  const rdma::remote_buffer remote = region.remote();
  rdma::device_events events(l.io, l.near_context);
  std::optional<rdma::shared_receive_queue> shared;
  if (missing(feature::shared_receive_queues).empty())
    shared.emplace(l.io, l.near_context);
  rdma::acceptor acceptor(l.io, l.near_context, {asio::ip::make_address("127.0.0.1"), 0});
  rdma::queue_pair unconnected(l.io, l.near_context);
  exchange(l);

  const std::string wrong = in_child(
    [&]
    {
      findings f;
      l.io.notify_fork(asio::execution_context::fork_child);
      std::size_t outstanding = 0;
      auto expect = [&](const char* what)
      {
        ++outstanding;
        return [&f, &outstanding, what](error_code ec, auto&&...)
        {
          --outstanding;
          f.expect_forked(what, ec);
        };
      };
      l.near.async_send(buffer, expect("send"));
      l.near.async_receive(buffer, expect("receive"));
      l.near.async_write(buffer, remote.first(64), expect("write"));
      l.near.async_fetch_add(remote.first(8), 1, expect("fetch_add"));
      if (shared)
        shared->async_receive_message(buffer, expect("shared receive"));
      events.async_wait_event(expect("wait_event"));
      acceptor.async_accept(expect("accept"));
      unconnected.async_connect(acceptor.local_endpoint(), expect("connect"));
      if (outstanding < 7)
        f.wrong += "a handler was called inside its initiating call; ";
      if (!run_until(l.io, [&] { return outstanding == 0; }))
        f.wrong += std::to_string(outstanding) + " handlers were not called; ";

      error_code ec;
      unconnected.connect({}, ec);
      f.expect_forked("connect()", ec);
      f.expect_forked("local_endpoint()", code_of([&] { (void)unconnected.local_endpoint(); }));
      f.expect_forked("queue_pair", code_of([&] { rdma::queue_pair(l.io, l.near_context); }));
      f.expect_forked(
        "completion_queue", code_of([&] { rdma::completion_queue(l.io, l.near_context); }));
      f.expect_forked(
        "shared_receive_queue", code_of([&] { rdma::shared_receive_queue(l.io, l.near_context); }));
      f.expect_forked("device_events", code_of([&] { rdma::device_events(l.io, l.near_context); }));
      f.expect_forked("memory_region", code_of([&] { rdma::memory_region(l.near_context, 64); }));
      f.expect_forked("memory_window", code_of([&] { rdma::memory_window(l.near_context); }));
      f.expect_forked(
        "protection_domain", code_of([&] { (void)rdma::protection_domain::make(l.near_context); }));
      f.expect_forked("allocate", code_of([&] { (void)l.near_context.allocate(8); }));
      return f.wrong;
    });
  CHECK(wrong == "");
  exchange(l);
}

TEST_CASE("destroying objects of the parent in a child of fork() does not affect the parent")
{
  BOOST_RDMA_TEST_FORKS();
  auto l = std::make_unique<linked_pair>();
  auto buffer = std::make_unique<rdma::registered_buffer>(l->near_context.allocate(64));
  auto region = std::make_unique<rdma::memory_region>(l->near_context, 4096, exposed);
  auto acceptor = std::make_unique<rdma::acceptor>(
    l->io, l->near_context, asio::ip::tcp::endpoint(asio::ip::make_address("127.0.0.1"), 0));
  auto events = std::make_unique<rdma::device_events>(l->io, l->near_context);
  const auto listening = acceptor->local_endpoint();
  bytes_record received;
  l->near.async_receive(*buffer, received.handler());
  exchange(*l);

  const bool told = GENERATE(true, false);
  CAPTURE(told);
  const std::string wrong = in_child(
    [&]
    {
      if (told)
        l->io.notify_fork(asio::execution_context::fork_child);
      events.reset();
      acceptor.reset();
      l->near.close();
      region.reset();
      buffer.reset();
      if (told)
        l.reset(); // also with the io_context
      return std::string();
    });
  CHECK(wrong == "");

  exchange(*l);
  CHECK(received.calls == 0);
  rdma::queue_pair late(l->io, l->far_context);
  rdma::queue_pair accepted(l->io.get_executor(), nullptr);
  plain_record connected;
  plain_record accepting;
  acceptor->async_accept(
    [&](error_code ec, rdma::queue_pair peer)
    {
      accepted = std::move(peer);
      accepting.handler()(ec);
    });
  late.async_connect(listening, connected.handler());
  REQUIRE(run_until(l->io, [&] { return connected.done() && accepting.done(); }));
  CHECK(connected.ec == error_code());
  l->near.close();
  REQUIRE(run_until(l->io, [&] { return received.done(); }));
  CHECK(received.ec == asio::error::operation_aborted);
}

TEST_CASE("pools of the parent refuse allocations in a child of fork() and accept deallocations")
{
  BOOST_RDMA_TEST_FORKS();
  rdma::context context = make_context();
  auto pool = std::make_unique<rdma::memory_pool>(context);
  auto numbers = std::make_unique<std::pmr::vector<int>>(100, &context.pool());
  auto others = std::make_unique<std::pmr::vector<int>>(100'000, pool.get());
  // The allocation also fills this thread's cache.
  rdma::registered_buffer small = context.allocate(100);
  rdma::registered_buffer large = pool->make_buffer(1'000'000);
  std::latch cached{1};
  std::latch over{1};
  std::thread other( // the child has a copy of its cache
    [&]
    {
      (void)context.allocate(100);
      (void)pool->make_buffer(100);
      cached.count_down();
      over.wait();
    });
  cached.wait();
  (void)context.allocate(100);

  const std::string wrong = in_child(
    [&]
    {
      findings f;
      const auto code_of_allocation = [](std::pmr::memory_resource& from, std::size_t size)
      {
        try
        {
          (void)from.allocate(size);
        }
        catch (const rdma::pool_bad_alloc& e)
        {
          return e.code();
        }
        return error_code();
      };
      for (const std::size_t size : {100, 100'000, 10'000'000})
      {
        f.expect_forked("memory of the context's pool", code_of_allocation(context.pool(), size));
        f.expect_forked("memory of a pool", code_of_allocation(*pool, size));
        f.expect_forked("allocate", code_of([&] { (void)context.allocate(size); }));
        f.expect_forked("make_buffer", code_of([&] { (void)pool->make_buffer(size); }));
      }
      if (pool->trim() != 0 || pool->statistics().arenas != 0)
        f.wrong += "the pool still works in the child; ";
      numbers.reset();
      others.reset();
      small = rdma::registered_buffer();
      large = rdma::registered_buffer();
      pool.reset();
      std::thread(
        [&] { f.expect_forked("in a thread", code_of([&] { (void)context.allocate(100); })); })
        .join();
      context = make_context(); // releases the last handle to the parent's context
      std::pmr::vector<int> own(1000, &context.pool());
      return f.wrong;
    });
  over.count_down();
  other.join();
  CHECK(wrong == "");
  (*others)[99'999] = (*numbers)[99] = 1;
  std::memset(large.data(), 1, large.size());
  numbers.reset();
  others.reset();
  small = rdma::registered_buffer();
  large = rdma::registered_buffer();
  pool->trim();
  CHECK(pool->statistics().arenas == 0);
  CHECK(context.pool_statistics().bytes_allocated == 0);
}

TEST_CASE("writes to registered memory in a child of fork() are private to the child")
{
  linked_pair l;
  rdma::registered_buffer buffer = buffer_of(l.near_context, "mine");
  rdma::memory_region region(
    l.near_context, 8192, rdma::access::local_write | rdma::access::remote_write);
  auto* const first = reinterpret_cast<char*>(region.data());
  first[0] = 'p';
  const auto text = [](const void* data) { return std::string(static_cast<const char*>(data), 4); };

  const std::string wrong = in_child(
    [&]
    {
      std::string found;
      if (text(buffer.data()) != "mine" || first[0] != 'p')
        found += "the child does not have the parent's data; ";
      std::memcpy(buffer.data(), "hers", 4);
      first[0] = first[5000] = 'c';
      found += in_child(
        [&]
        {
          return std::string(text(buffer.data()) == "hers" && first[0] == 'c'
              ? ""
              : "the grandchild does not have the child's data; ");
        });
      if (text(buffer.data()) != "hers" || first[0] != 'c')
        found += "the child's own data changed; ";
      return found;
    });
  CHECK(wrong == "");
  CHECK(text(buffer.data()) == "mine");
  CHECK(first[0] == 'p');
  CHECK(first[5000] == 0);
  exchange(l);
}

TEST_CASE("a child of fork() has neither its parent's connections nor the memory of the peers")
{
  BOOST_RDMA_TEST_FORKS();
  linked_pair l;
  rdma::memory_region region(l.far_context, 8192, exposed);
  rdma::registered_buffer buffer = buffer_of(l.near_context, "first");
  const auto write = [&]
  {
    bytes_record written;
    l.near.async_write(buffer, region.remote().first(5), written.handler());
    REQUIRE(run_until(l.io, [&] { return written.done(); }));
    CHECK(written.ec == error_code());
  };
  for (int i = 0; i != 100; ++i) // later ones use the peer's memory directly
    write();
  const std::string wrong = in_child(
    []
    {
      std::string shared;
      std::ifstream maps("/proc/self/maps");
      for (std::string line; std::getline(maps, line);)
        if (line.find("memfd:boost_rdma") != std::string::npos
          && line.find(" rw-s ") != std::string::npos)
          shared += line + "; ";
      return shared;
    });
  CHECK(wrong == "");
  write();
  exchange(l);
}

TEST_CASE("operations that are outstanding at fork() end with forked in the child only")
{
  BOOST_RDMA_TEST_FORKS();
  linked_pair l;
  exchange(l);
  rdma::registered_buffer near_buffer = buffer_of(l.near_context, "later");
  rdma::registered_buffer far_buffer = l.far_context.allocate(5);
  bytes_record received;
  l.far.async_receive(far_buffer, received.handler());
  rdma::device_events events(l.io, l.near_context);
  plain_record heard;
  events.async_wait_event([&](error_code ec, const rdma::device_event&) { heard.handler()(ec); });
  rdma::acceptor acceptor(l.io, l.near_context, {asio::ip::make_address("127.0.0.1"), 0});
  plain_record accepted;
  acceptor.async_accept([&](error_code ec, const rdma::queue_pair&) { accepted.handler()(ec); });
  l.io.poll();
  l.io.notify_fork(asio::execution_context::fork_prepare);
  const std::string wrong = in_child(
    [&]
    {
      l.io.notify_fork(asio::execution_context::fork_child);
      if (!run_until(l.io, [&] { return received.done() && heard.done() && accepted.done(); }))
        return std::string("a handler was not called");
      findings f;
      f.expect_forked("receive", received.ec);
      f.expect_forked("wait_event", heard.ec);
      f.expect_forked("accept", accepted.ec);
      if (!run_out(l.io))
        f.wrong += "run() does not return; ";
      if (received.calls + heard.calls + accepted.calls != 3)
        f.wrong += "a handler was called again; ";
      return f.wrong;
    });
  l.io.notify_fork(asio::execution_context::fork_parent);
  CHECK(wrong == "");
  CHECK(received.calls + heard.calls + accepted.calls == 0);
  rdma::queue_pair client(l.io, l.far_context);
  client.async_connect(acceptor.local_endpoint(), [](error_code) {});
  REQUIRE(run_until(l.io, [&] { return accepted.done(); }));
  CHECK(accepted.ec == error_code());
  bytes_record sent;
  l.near.async_send(near_buffer, sent.handler());
  REQUIRE(run_until(l.io, [&] { return received.done() && sent.done(); }));
  CHECK(received.ec == error_code());
  CHECK(text_of(far_buffer) == "later");
}

TEST_CASE("a child of fork() can connect with its own context on the parent's io_context")
{
  BOOST_RDMA_TEST_FORKS();
  linked_pair parents;
  exchange(parents); // the threads are idle now
  // Creates the parent's background thread for connections, which does not exist in the child.
  rdma::acceptor parents_acceptor(
    parents.io, parents.near_context, {asio::ip::make_address("127.0.0.1"), 0});
  parents.io.notify_fork(asio::execution_context::fork_prepare);
  const std::string wrong = in_child(
    [&]
    {
      parents.io.notify_fork(asio::execution_context::fork_child);
      rdma::context own = make_context();
      rdma::acceptor acceptor(parents.io, own, {asio::ip::make_address("127.0.0.1"), 0});
      rdma::queue_pair client(parents.io, own);
      plain_record connected;
      plain_record accepted;
      acceptor.async_accept(
        [&](error_code ec, const rdma::queue_pair&) { accepted.handler()(ec); });
      client.async_connect(acceptor.local_endpoint(), connected.handler());
      if (!run_until(parents.io, [&] { return connected.done() && accepted.done(); }))
        return std::string("not connected");
      return connected.ec ? connected.ec.message()
        : accepted.ec     ? accepted.ec.message()
                          : std::string();
    });
  parents.io.notify_fork(asio::execution_context::fork_parent);
  CHECK(wrong == "");
  exchange(parents);
}

TEST_CASE("a child of fork() can create its own contexts and queue pairs")
{
  BOOST_RDMA_TEST_FORKS();
  linked_pair parents;
  exchange(parents);
  const std::string wrong = in_child(
    []
    {
      linked_pair own;
      rdma::device_events events(own.io, own.near_context);
      rdma::registered_buffer from = buffer_of(own.near_context, "child");
      rdma::registered_buffer to = own.far_context.allocate(5);
      bytes_record received;
      own.far.async_receive(to, received.handler());
      own.near.async_send(from, [](error_code, std::size_t) {});
      if (!run_until(own.io, [&] { return received.done(); }) || received.ec)
        return "no message: " + received.ec.message();
      return text_of(to) == "child" ? std::string() : "another message: " + text_of(to);
    });
  CHECK(wrong == "");
  exchange(parents);
}

TEST_CASE("upgraded streams remain owned by the parent after fork()")
{
  BOOST_RDMA_TEST_FORKS();
  need(feature::endpoint_descriptions);
  asio::io_context io;
  const rdma::context context = make_context();
  asio::ip::tcp::acceptor listener(io, {asio::ip::address_v4::loopback(), 0});
  asio::ip::tcp::socket at_client(io);
  at_client.connect(listener.local_endpoint());
  asio::ip::tcp::socket at_server = listener.accept();

  rdma::queue_pair_options options;
  // Frequent heartbeats, so that data is always available to read.
  options.heartbeat_interval = std::chrono::milliseconds(10);
  rdma::queue_pair client(io, context, options);
  std::optional<rdma::basic_queue_pair<asio::ip::tcp::socket::executor_type>> server;
  plain_record connected;
  rdma::async_upgrade(std::move(at_client), client, rdma::connect_options(), connected.handler());
  boost::beast::flat_buffer buffer;
  boost::beast::http::request<boost::beast::http::empty_body> request;
  boost::beast::http::async_read(at_server, buffer, request,
    [&](error_code ec, std::size_t)
    {
      rdma::upgrade_options answer;
      answer.queue_pair = options;
      if (!ec)
        rdma::async_upgrade(std::move(at_server), request.base(), context, answer,
          [&](error_code, auto made) { server.emplace(std::move(made)); });
    });
  REQUIRE(run_until(io, [&] { return connected.done() && server; }));
  REQUIRE(connected.ec == error_code());
  REQUIRE(server->is_connected());

  io.notify_fork(asio::execution_context::fork_prepare);
  const std::string wrong = in_child(
    [&]
    {
      io.notify_fork(asio::execution_context::fork_child);
      return run_out(io) ? std::string() : std::string("run() does not return");
    });
  io.notify_fork(asio::execution_context::fork_parent);
  CHECK(wrong == "");

  plain_record shut, ended;
  server->async_wait_close(ended.handler());
  client.async_shutdown(shut.handler());
  REQUIRE(run_until(io, [&] { return shut.done() && ended.done(); }));
  CHECK(shut.ec == error_code());
  CHECK(ended.ec == rdma::error::peer_closed);
}

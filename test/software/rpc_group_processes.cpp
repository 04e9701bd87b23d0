//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/device_traits.hpp"
#include "common/in_child.hpp"
#include "common/process.hpp"
#include "software/rpc_fixture.hpp"

#include <boost_rdma/rpc/group.hpp>

#include <boost/asio/error.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include <sys/socket.h>
#include <unistd.h>

namespace test::rpc_group_processes {

// Tests a group of processes, some of which die or stop in a call.

namespace {

namespace rpc = rdma::rpc;
using namespace std::chrono_literals;

// The request selects if the members fail that are to fail. The reply is the sum of the ranks.
using total = rpc::method<"total/1", bool, std::uint64_t>;

using ports = std::vector<std::uint16_t>;

template <class T>
bool write_all(int fd, const T* from, std::size_t count)
{
  const auto size = static_cast<ssize_t>(count * sizeof(T));
  return ::send(fd, from, static_cast<std::size_t>(size), MSG_NOSIGNAL) == size;
}

template <class T>
bool read_all(int fd, T* to, std::size_t count)
{
  const auto size = static_cast<ssize_t>(count * sizeof(T));
  return ::recv(fd, to, static_cast<std::size_t>(size), MSG_WAITALL) == size;
}

struct member
{
  member()
    : server(io, context, {asio::ip::address_v4::loopback(), 0})
  {
  }

  void join(const ports& all, std::uint32_t rank, int number_of_signal)
  {
    std::vector<rpc::group::endpoint_type> endpoints;
    for (const std::uint16_t port : all)
      endpoints.emplace_back(asio::ip::address_v4::loopback(), port);
    rpc::group_options options;
    options.fan_out = 2;
    group.emplace(server, context, endpoints, rank, options);
    group->handle<total>(
      [rank, number_of_signal](bool fails)
      {
        if (fails && number_of_signal != 0)
          ::raise(number_of_signal);
        return std::uint64_t{rank};
      },
      std::plus<>());
    server.start();
  }

  asio::io_context io;
  rdma::context context = make_context();
  rpc::server server;
  std::optional<rpc::group> group;
};

// Runs a member until it is killed.
bool serve(int line, std::uint32_t count, std::uint32_t rank, int number_of_signal)
{
  member own;
  const std::uint16_t port = own.server.local_endpoint().port();
  ports all(count);
  if (!write_all(line, &port, 1) || !read_all(line, all.data(), count))
    return false;
  own.join(all, rank, number_of_signal);
  const char ready = 1;
  if (!write_all(line, &ready, 1))
    return false;
  own.io.run();
  return true;
}

} // namespace

TEST_CASE("a broadcast names the processes that are killed and stopped in it, and no others")
{
  BOOST_RDMA_TEST_FORKS();
  prepare_to_fork();
  const std::uint32_t count = exhaustive() ? 64 : 16;
  // With and without members below them; 1 and 9 or 33 are the root's children.
  const std::uint32_t stopped = count / 2 + 1;
  const std::map<std::uint32_t, int> failing{
    {1, SIGKILL}, {stopped, SIGSTOP}, {count / 2 + 2, SIGKILL}, {count - 1, SIGKILL}};
  std::vector<int> lines;
  std::deque<process> processes;
  for (std::uint32_t rank = 1; rank != count; ++rank)
  {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    const auto found = failing.find(rank);
    const int number = found == failing.end() ? 0 : found->second;
    processes.emplace_back([&] { return serve(ends[1], count, rank, number); });
    ::close(ends[1]);
    lines.push_back(ends[0]);
  }
  member root;
  ports all{root.server.local_endpoint().port()};
  for (const int line : lines)
    REQUIRE(read_all(line, &all.emplace_back(), 1));
  for (const int line : lines)
    REQUIRE(write_all(line, all.data(), count));
  for (const int line : lines)
  {
    char ready = 0;
    REQUIRE(read_all(line, &ready, 1));
    ::close(line);
  }
  root.join(all, 0, 0);
  const auto call = [&](bool fails, std::chrono::seconds timeout)
  {
    record<rpc::group_result<std::uint64_t>> r;
    root.group->async_broadcast<total>(fails, {.timeout = timeout}, r.handler());
    REQUIRE(run_until(root.io, [&] { return r.done(); }));
    CHECK(r.ec == error_code());
    return r.value();
  };
  const std::uint64_t sum = std::uint64_t{count} * (count - 1) / 2;
  const auto first = call(false, 600s); // makes the connections
  CHECK(first.answered == count);
  CHECK(first.missing.empty());
  CHECK(first.reply == sum);
  const auto second = call(true, 60s);
  CHECK(second.answered == count - 4);
  std::uint64_t expected = sum;
  std::set<std::uint32_t> named;
  for (const auto& [rank, ec] : second.missing)
  {
    named.insert(rank);
    CHECK(ec);
    if (rank == stopped)
      CHECK(ec == asio::error::timed_out);
  }
  CHECK(second.missing.size() == 4);
  for (const auto& [rank, number] : failing)
  {
    CHECK(named.contains(rank));
    expected -= rank;
  }
  CHECK(second.reply == expected);
}

} // namespace test::rpc_group_processes

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
#include <span>
#include <utility>
#include <vector>

#include <sys/socket.h>
#include <unistd.h>

namespace test::rpc_group_processes {

// Tests a group of processes, some of which die or stop in a call, and are started again.

namespace {

namespace rpc = rdma::rpc;
using namespace std::chrono_literals;

// The request selects if the members fail that are to fail. The reply is the sum of the ranks.
using total = rpc::method<"total/1", bool, std::uint64_t>;

// The request is a list of ranks. The reply is the number of members that know just these to have
// failed.
using agreement = rpc::method<"agreement/1", std::span<const std::uint32_t>, std::uint64_t>;

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
  explicit member(std::uint16_t port)
    : server(io, context, {asio::ip::address_v4::loopback(), port})
  {
  }

  void join(
    const ports& all, std::uint32_t rank, int number_of_signal, const rpc::group_options& options)
  {
    std::vector<rpc::group::endpoint_type> endpoints;
    for (const std::uint16_t port : all)
      endpoints.emplace_back(asio::ip::address_v4::loopback(), port);
    group.emplace(server, context, endpoints, rank, options);
    group->handle<total>(
      [rank, number_of_signal](bool fails)
      {
        if (fails && number_of_signal != 0)
          ::raise(number_of_signal);
        return std::uint64_t{rank};
      },
      std::plus<>());
    group->handle<agreement>([this](std::span<const std::uint32_t> failed)
      { return std::uint64_t{std::ranges::equal(group->membership().failed, failed)}; },
      std::plus<>());
    server.start();
  }

  asio::io_context io;
  rdma::context context = make_context();
  rpc::server server;
  std::optional<rpc::group> group;
};

// A group of which this process has rank 0. Ranks with a signal raise it in a call.
class group_of_processes
{
public:
  group_of_processes(std::uint32_t count, std::map<std::uint32_t, int> signals,
    const rpc::group_options& options, std::optional<std::uint32_t> spare = {})
    : count_(count)
    , signals_(std::move(signals))
    , options_(options)
  {
    for (std::uint32_t rank = 1; rank != count; ++rank)
      fork(rank, false);
    if (spare)
      fork(*spare, true); // while this process has no device and no threads
    root.emplace(0);
    all_.push_back(root->server.local_endpoint().port());
    for (std::uint32_t rank = 1; rank != count; ++rank)
      REQUIRE(read_all(lines_[rank - 1], &all_.emplace_back(), 1));
    for (std::uint32_t rank = 1; rank != count; ++rank)
      start(rank - 1);
    root->join(all_, 0, 0, options_);
  }
  ~group_of_processes()
  {
    for (const int line : lines_)
      ::close(line);
  }
  group_of_processes(const group_of_processes&) = delete;
  group_of_processes& operator=(const group_of_processes&) = delete;

  void start_spare() { start(count_ - 1); }
  void resume(std::uint32_t rank) { processes_[rank - 1].signal(SIGCONT); }

  template <class Method>
  auto call(const typename Method::request_type& request, std::chrono::seconds timeout)
  {
    record<rpc::group_result<std::uint64_t>> r;
    root->group->async_broadcast<Method>(request, {.timeout = timeout}, r.handler());
    REQUIRE(run_until(root->io, [&] { return r.done(); }));
    CHECK(r.ec == error_code());
    return r.value();
  }

  // Waits until as many members know just these to have failed.
  void wait_for(const std::vector<std::uint32_t>& failed, std::uint32_t members)
  {
    REQUIRE(run_until(root->io, [&] { return root->group->membership().failed == failed; }));
    const auto limit = std::chrono::steady_clock::now() + patience;
    while (call<agreement>(failed, 60s).reply != members)
      REQUIRE(std::chrono::steady_clock::now() < limit);
  }

  std::optional<member> root;

private:
  void fork(std::uint32_t rank, bool is_spare)
  {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    processes_.emplace_back([&] { return serve(ends[1], rank, is_spare); });
    ::close(ends[1]);
    lines_.push_back(ends[0]);
  }

  void start(std::size_t process)
  {
    REQUIRE(write_all(lines_[process], all_.data(), count_));
    char ready = 0;
    REQUIRE(read_all(lines_[process], &ready, 1));
  }

  // Runs a member until it is killed. A spare one takes the place of one that was.
  bool serve(int line, std::uint32_t rank, bool is_spare)
  {
    ports all(count_);
    if (is_spare && !read_all(line, all.data(), count_))
      return false;
    member own(all[rank]);
    const std::uint16_t port = own.server.local_endpoint().port();
    if (!is_spare && (!write_all(line, &port, 1) || !read_all(line, all.data(), count_)))
      return false;
    own.join(all, rank, is_spare ? 0 : signals_[rank], options_);
    const char ready = 1;
    if (!write_all(line, &ready, 1))
      return false;
    own.io.run();
    return true;
  }

  const std::uint32_t count_;
  std::map<std::uint32_t, int> signals_;
  const rpc::group_options options_;
  ports all_;
  std::vector<int> lines_;
  std::deque<process> processes_;
};

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
  rpc::group_options options;
  options.fan_out = 2;
  group_of_processes group(count, failing, options);
  const std::uint64_t sum = std::uint64_t{count} * (count - 1) / 2;
  const auto first = group.call<total>(false, 600s); // makes the connections
  CHECK(first.answered == count);
  CHECK(first.missing.empty());
  CHECK(first.reply == sum);
  const auto second = group.call<total>(true, 60s);
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

TEST_CASE("members find a process that is killed and one that is stopped, and take them back")
{
  BOOST_RDMA_TEST_FORKS();
  prepare_to_fork();
  constexpr std::uint32_t count = 8;
  rpc::group_options options;
  options.fan_out = 2;
  options.probe_period = emulated() ? 2s : 250ms;
  options.suspicion_time = 12 * options.probe_period;
  group_of_processes group(count, {{1, SIGKILL}, {6, SIGSTOP}}, options, 1);
  group.wait_for({}, count);
  static_cast<void>(group.call<total>(true, 60s));
  group.wait_for({1, 6}, count - 2);
  const auto without = group.call<total>(false, 600s);
  CHECK(without.answered == count - 2);
  REQUIRE(without.missing.size() == 2);
  for (const auto& each : without.missing)
    CHECK(each.ec == rdma::error::peer_lost); // not timed_out: nobody has waited for an answer
  CHECK(without.missing[0].rank == 1);
  CHECK(without.missing[1].rank == 6);
  group.start_spare();
  group.resume(6);
  group.wait_for({}, count);
  const auto all = group.call<total>(false, 600s);
  CHECK(all.answered == count);
  CHECK(all.reply == count * (count - 1) / 2);
}

} // namespace test::rpc_group_processes

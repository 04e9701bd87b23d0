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
#include <boost_rdma/statistics.hpp>

#include <boost/asio/error.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include <sys/socket.h>
#include <unistd.h>

namespace test::rpc_group_bulk_processes {

// Tests broadcasts of memory to processes, some of which die or stop in the middle of it.

namespace {

namespace rpc = rdma::rpc;
using namespace std::chrono_literals;

constexpr std::uint32_t count = 16;

// The request is the digest of the content. The reply is the number of members that have the same.
using same = rpc::method<"same/1", std::uint64_t, std::uint64_t>;
using ports = std::array<std::uint16_t, count>;

// FNV-1a, by words.
std::uint64_t digest_of(std::span<const std::byte> bytes)
{
  std::uint64_t result = 0xcbf29ce484222325;
  for (; bytes.size() >= sizeof result; bytes = bytes.subspan(sizeof result))
  {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    result = (result ^ word) * 0x100000001b3;
  }
  return result;
}

std::uint64_t received_by(const rdma::context& context)
{
  const auto all = context.statistics();
  return all.reads.bytes + all.receives.bytes;
}

struct member
{
  member()
    : server(io, context, {asio::ip::address_v4::loopback(), 0})
  {
  }

  void join(const ports& all, std::uint32_t rank)
  {
    std::vector<rpc::group::endpoint_type> endpoints;
    for (const std::uint16_t port : all)
      endpoints.emplace_back(asio::ip::address_v4::loopback(), port);
    group.emplace(server, context, endpoints, rank);
    group->handle<same>([](std::uint64_t digest, const rpc::call_info& info)
      { return std::uint64_t{digest_of(info.content()) == digest}; },
      std::plus<>());
    server.start();
  }

  asio::io_context io;
  rdma::context context = make_context();
  rpc::server server;
  std::optional<rpc::group> group;
};

template <class T>
bool send_all(int fd, const T& what)
{
  return ::send(fd, &what, sizeof what, MSG_NOSIGNAL) == sizeof what;
}

template <class T>
bool receive_all(int fd, T& what)
{
  return ::recv(fd, &what, sizeof what, MSG_WAITALL) == sizeof what;
}

// Runs a member until it is killed, or until it has received so many bytes and gets the signal.
bool serve(int line, std::uint32_t rank, int number_of_signal, std::uint64_t received_max)
{
  member own;
  const std::uint16_t port = own.server.local_endpoint().port();
  ports all{};
  if (!send_all(line, port) || !receive_all(line, all))
    return false;
  own.join(all, rank);
  if (!send_all(line, char{1}))
    return false;
  for (;;)
  {
    own.io.run_one();
    if (number_of_signal != 0 && received_by(own.context) > received_max)
      ::raise(number_of_signal);
  }
}

// Processes that are members, with this one as rank 0.
struct processes
{
  explicit processes(const std::map<std::uint32_t, int>& failing, std::uint64_t received_max)
  {
    std::vector<int> lines;
    for (std::uint32_t rank = 1; rank != count; ++rank)
    {
      std::array<int, 2> ends{};
      REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
      const auto found = failing.find(rank);
      const int number = found == failing.end() ? 0 : found->second;
      all.emplace_back([&] { return serve(ends[1], rank, number, received_max); });
      ::close(ends[1]);
      lines.push_back(ends[0]);
    }
    root.emplace();
    ports known{root->server.local_endpoint().port()};
    for (std::uint32_t rank = 1; rank != count; ++rank)
      REQUIRE(receive_all(lines[rank - 1], known[rank]));
    for (const int line : lines)
      REQUIRE(send_all(line, known));
    for (const int line : lines)
    {
      char ready = 0;
      REQUIRE(receive_all(line, ready));
      ::close(line);
    }
    root->join(known, 0);
  }

  rpc::group_result<std::uint64_t> call(std::span<const std::byte> what,
    const rdma::const_buffer& exposed, std::chrono::seconds timeout)
  {
    record<rpc::group_result<std::uint64_t>> r;
    root->group->async_broadcast<same>(
      digest_of(what), {.timeout = timeout, .exposed = exposed}, r.handler());
    REQUIRE(run_until(root->io, [&] { return r.done(); }));
    CHECK(r.ec == error_code());
    return r.value();
  }

  std::deque<process> all;
  std::optional<member> root;
};

std::size_t size_of_content()
{
  return exhaustive() ? 64 * 1024 * 1024 : 4 * 1024 * 1024;
}

void fill(std::span<std::byte> what)
{
  for (std::size_t i = 0; i != what.size(); ++i)
    what[i] = static_cast<std::byte>(i * 7 + (i >> 8) + (i >> 18));
}

} // namespace

TEST_CASE("a broadcast brings memory to 16 processes, and its root sends it at most twice")
{
  BOOST_RDMA_TEST_FORKS();
  prepare_to_fork();
  processes p({}, 0);
  const std::size_t size = size_of_content();
  const rdma::context& context = p.root->context;
  const rdma::registered_buffer memory = context.allocate(size);
  fill(memory.bytes());
  const std::vector<std::byte> plain(memory.bytes().begin(), memory.bytes().end());
  const auto sent = [&]
  {
    const auto all = context.statistics();
    return all.sends.bytes + all.writes.bytes + all.batches.bytes;
  };
  const auto first = p.call(memory.bytes(), memory, 600s);
  CHECK(first.missing.empty());
  CHECK(first.reply == count);
  // Plain memory travels in messages, which are counted where they are sent.
  const auto before = sent();
  const auto second = p.call(plain, std::span(plain), 600s);
  CHECK(second.missing.empty());
  CHECK(second.reply == count);
  CHECK(sent() - before >= 2 * size);
  CHECK(sent() - before <= 2 * size + size / 16);
}

TEST_CASE("processes that die or stop in a broadcast of memory are named, and the others have it")
{
  // The processes fail when they have read a part. Without windows the bytes are written by the
  // peer, and not counted here.
  BOOST_RDMA_TEST_NEEDS(window_bounds);
  BOOST_RDMA_TEST_FORKS();
  prepare_to_fork();
  const std::size_t size = size_of_content();
  // With and without members below them; 1 and 9 are the root's children, and 2 is below 1.
  const std::map<std::uint32_t, int> failing{{1, SIGKILL}, {9, SIGSTOP}, {10, SIGKILL}};
  processes p(failing, size / 2);
  const rdma::registered_buffer memory = p.root->context.allocate(size);
  fill(memory.bytes());
  // Makes the connections.
  const auto first = p.call(memory.bytes(), memory.first(8), 600s);
  CHECK(first.missing.empty());
  const auto second = p.call(memory.bytes(), memory, 120s);
  CHECK(second.answered == count - failing.size());
  CHECK(second.reply == second.answered);
  REQUIRE(second.missing.size() == failing.size());
  for (const auto& [rank, ec] : second.missing)
  {
    CHECK(failing.contains(rank));
    CHECK(ec);
    if (rank == 9)
      CHECK(ec == asio::error::timed_out);
  }
}

} // namespace test::rpc_group_bulk_processes

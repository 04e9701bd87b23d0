//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/sanitizers.hpp"
#include "software/agent_fixture.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read_until.hpp>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <list>
#include <memory>
#include <string>

#include <fcntl.h>
#include <spawn.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

// Tests peers that are killed while leases exist in both directions.

namespace {

using namespace test;

#if BOOST_RDMA_TEST_ADDRESS_SANITIZER || BOOST_RDMA_TEST_THREAD_SANITIZER
constexpr int peers = 20; // in one process
constexpr int rounds_max = 10;
#else
constexpr int peers = 50;
constexpr int rounds_max = 200;
#endif

int rounds()
{
  return emulated() ? 2 : exhaustive() ? rounds_max : std::min(rounds_max, 40);
}

/// Runs a program of test/programs that leases memory, in its own process.
class leasing_process
{
public:
  leasing_process(asio::io_context& io, const tcp::endpoint& server, const std::string& name,
    int connections = peers)
    : output_(io)
  {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    std::string program = BOOST_RDMA_TEST_PROGRAMS "/" + name;
    std::string device = device_name();
    std::string port = std::to_string(server.port());
    std::string count = std::to_string(connections);
    std::array<char*, 5> arguments{
      program.data(), device.data(), port.data(), count.data(), nullptr};
    const int error =
      ::posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    output_.assign(ends[0]);
    REQUIRE(error == 0);
    asio::async_read_until(output_, asio::dynamic_buffer(line_), '\n',
      [this](const error_code& ec, std::size_t)
      {
        ready_ = !ec;
        ended_ = static_cast<bool>(ec);
      });
  }
  ~leasing_process() { kill(); }
  leasing_process(const leasing_process&) = delete;
  leasing_process& operator=(const leasing_process&) = delete;

  [[nodiscard]] bool is_ready() const { return ready_; }
  [[nodiscard]] bool has_ended() const { return ended_; }
  [[nodiscard]] pid_t pid() const { return pid_; }

  void kill()
  {
    if (pid_ <= 0)
      return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

private:
  asio::posix::stream_descriptor output_;
  std::string line_;
  bool ready_ = false;
  bool ended_ = false;
  pid_t pid_ = 0;
};

/// Returns true if a process has mapped memory of the library that contains the text.
bool maps(pid_t process, const std::string& text)
{
  std::ifstream maps("/proc/" + std::to_string(process) + "/maps");
  REQUIRE(maps.good());
  for (std::string line; std::getline(maps, line);)
  {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    if (line.find("boost_rdma memory") == std::string::npos
      || std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR, &begin, &end) != 2)
      continue;
    std::string content(end - begin, '\0');
    const iovec here{content.data(), content.size()};
    const iovec there{reinterpret_cast<void*>(begin), content.size()};
    const ssize_t n = ::process_vm_readv(process, &here, 1, &there, 1, 0);
    content.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    if (content.find(text) != std::string::npos)
      return true;
  }
  return false;
}

/// The server's state of one peer.
struct served
{
  explicit served(rdma::queue_pair accepted)
    : own(std::move(accepted))
  {
  }
  rdma::queue_pair own;
  loan_record lent;
  memory_record borrowed;
  memory_record granted; // granted by the peer's lessor
  plain_record back;
};

} // namespace

TEST_CASE("peers that are killed with leases leave no resources")
{
  BOOST_RDMA_TEST_NEEDS(endpoint_descriptions);
  asio::io_context io;
  const rdma::context context = make_context();
  const rdma::lessor lessor(context);
  rdma::acceptor acceptor(io, context, loopback(), agent_fixture::options_of(lessor));
  const rdma::registered_buffer region = context.allocate(512);
  std::list<served> all;
  const auto accept = [&](const auto& self) -> void
  {
    acceptor.async_accept(
      [&, self](const error_code& ec, rdma::queue_pair peer)
      {
        if (ec)
          return;
        served& each = all.emplace_back(std::move(peer));
        each.own.agent().async_lend(region,
          [&each](const error_code& outcome, rdma::loan lent)
          {
            each.lent.handler()(outcome, std::move(lent));
            if (!outcome)
              each.own.agent().async_wait_return(each.lent.value, each.back.handler());
          });
        each.own.agent().async_receive_remote(each.borrowed.handler());
        each.own.agent().async_allocate(64, each.granted.handler());
        self(self);
      });
  };
  accept(accept);

  const auto in_use = [&] { return context.pool().statistics().bytes_allocated; };
  const std::size_t before = in_use();
  int dead = 0;
  for (int round = 0; round != rounds(); ++round)
  {
    leasing_process process(io, acceptor.local_endpoint(), "lease_holder");
    REQUIRE(run_until(io, [&] { return process.is_ready() || process.has_ended(); }));
    REQUIRE(process.is_ready());
    REQUIRE(all.size() == peers);
    REQUIRE(run_until(io,
      [&]
      {
        return std::all_of(all.begin(), all.end(),
          [](const served& each)
          { return each.lent.done() && each.borrowed.done() && each.granted.done(); });
      }));
    REQUIRE(lessor.statistics().regions == 2 * peers);
    for (const served& each : all)
      REQUIRE((each.lent.value.is_active() && each.borrowed.value.is_valid()
        && each.granted.value.is_valid()));

    process.kill();
    REQUIRE(run_until(io,
      [&]
      {
        return lessor.statistics().regions == 0
          && std::all_of(
            all.begin(), all.end(), [](const served& each) { return each.back.done(); });
      }));
    for (const served& each : all)
    {
      REQUIRE(each.back.ec);
      REQUIRE_FALSE(each.lent.value.is_active());
      REQUIRE_FALSE(each.borrowed.value.is_valid());
      REQUIRE_FALSE(each.granted.value.is_valid());
    }
    dead += peers;
    all.clear();
    REQUIRE(lessor.statistics().bytes == 0);
    REQUIRE(lessor.pool().statistics().bytes_allocated == 0);
    REQUIRE(run_until(io, [&] { return in_use() == before; }));
  }
  CHECK(dead == rounds() * peers);
  acceptor.close();
  CHECK(run_out(io));
}

TEST_CASE("a peer does not map memory that is leased to another peer after its own lease")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  agent_fixture f;
  connect_fixture::accepted accepted;
  f.acceptor.async_accept(accepted.handler());
  leasing_process former(f.io, f.acceptor.local_endpoint(), "former_tenant");
  REQUIRE(run_until(f.io, [&] { return former.is_ready() || former.has_ended(); }));
  REQUIRE(former.is_ready());
  REQUIRE(f.all_back());
  const std::string secret = "the next tenant's own text";
  const rdma::remote_memory next = f.allocate(4096);
  REQUIRE(f.write(f.client, secret, next) == error_code());
  REQUIRE(f.read(next).starts_with(secret));
  CHECK_FALSE(maps(former.pid(), secret));
}

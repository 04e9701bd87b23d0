//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Compares a broadcast of memory to the processes of a group with reads of it by one after the
// other:
//
//   rdma_groups [--members N] [--size MIB] [--rounds N]
//
// Each member is a process on this host, with the software device or a NIC. The pools are those
// whose memory other processes of the host read without this one (peers_only_read). Every round
// takes one time of each case. Prints the medians, and how many bytes the root's children and the
// others have read in a broadcast.

#include <boost_rdma/context.hpp>
#include <boost_rdma/rpc/client.hpp>
#include <boost_rdma/rpc/group.hpp>
#include <boost_rdma/statistics.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <exception>
#include <functional>
#include <iostream>
#include <optional>
#include <vector>

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

namespace asio = boost::asio;
namespace rpc = rdma::rpc;
using asio::ip::tcp;
using clock_type = std::chrono::steady_clock;
using milliseconds = std::chrono::duration<double, std::milli>;

struct settings
{
  std::uint32_t members = 16;
  std::size_t mebibytes = 64;
  std::uint32_t rounds = 5;
};

/// The reply is the number of members that have content of this size.
using spread = rpc::method<"spread/1", std::uint64_t, std::uint64_t>;
/// The handler reads the memory that the call exposes.
using pull = rpc::method<"pull/1", rpc::nothing, std::uint64_t>;
/// Bytes that the member has read from others.
using bytes_read = rpc::method<"bytes_read/1", rpc::nothing, std::uint64_t>;

class member
{
public:
  explicit member(const settings& how)
    : size_(how.mebibytes << 20)
    , context_(options())
    , server_(io_, context_, {asio::ip::address_v4::loopback(), 0})
  {
  }

  [[nodiscard]] std::uint16_t port() const { return server_.local_endpoint().port(); }
  [[nodiscard]] asio::io_context& io() { return io_; }
  [[nodiscard]] const rdma::context& context() const { return context_; }
  [[nodiscard]] rpc::group& group() { return *group_; }

  void join(const std::vector<std::uint16_t>& ports, std::uint32_t rank)
  {
    std::vector<tcp::endpoint> endpoints;
    for (const std::uint16_t each : ports)
      endpoints.emplace_back(asio::ip::address_v4::loopback(), each);
    rpc::group_options options;
    options.content_max = 2 * size_;
    group_.emplace(server_, context_, endpoints, rank, options);
    group_->handle<spread>([](std::uint64_t size, const rpc::call_info& info)
      { return std::uint64_t{info.content().size() == size}; },
      std::plus<>());
    server_.handle<pull>(
      [this](rpc::nothing, const rpc::call_info& info, rpc::responder<pull> answer)
      {
        const rdma::registered_buffer room = context_.allocate(size_);
        info.exposed(0).async_pull(0, room,
          [answer = std::move(answer)](const rdma::error_code& ec, std::size_t size) mutable
          {
            if (ec)
              answer.fail(ec);
            else
              answer.reply(size);
          });
      });
    server_.handle<bytes_read>([this](rpc::nothing) { return context_.statistics().reads.bytes; });
    server_.start();
  }

private:
  static rdma::context_options options()
  {
    rdma::context_options made;
    made.pool.peers_only_read = true;
    return made;
  }

  const std::size_t size_;
  asio::io_context io_{1};
  rdma::context context_;
  rpc::server server_;
  std::optional<rpc::group> group_;
};

template <class T>
void send_all(int to, const T* what, std::size_t count)
{
  const auto size = static_cast<ssize_t>(count * sizeof(T));
  if (::send(to, what, count * sizeof(T), MSG_NOSIGNAL) != size)
    throw std::runtime_error("a member has ended");
}

template <class T>
void receive_all(int from, T* what, std::size_t count)
{
  const auto size = static_cast<ssize_t>(count * sizeof(T));
  if (::recv(from, what, count * sizeof(T), MSG_WAITALL) != size)
    throw std::runtime_error("a member has ended");
}

/// Runs a member in a child process until its parent ends.
void serve(const settings& how, std::uint32_t rank, int line)
{
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  member own(how);
  const std::uint16_t port = own.port();
  send_all(line, &port, 1);
  std::vector<std::uint16_t> ports(how.members);
  receive_all(line, ports.data(), ports.size());
  own.join(ports, rank);
  const char ready = 1;
  send_all(line, &ready, 1);
  own.io().run();
}

/// Runs the handlers until an operation has ended.
template <class Start>
auto result_of(member& by, Start start)
{
  std::optional<std::uint64_t> result;
  start(
    [&](const rdma::error_code& ec, std::uint64_t value)
    {
      if (ec)
        throw rdma::system_error(ec);
      result = value;
    });
  while (!result)
    by.io().run_one();
  return *result;
}

double median(std::vector<double> of)
{
  std::ranges::sort(of);
  return of[of.size() / 2];
}

void measure_all(const settings& how, member& root, std::deque<rpc::client>& clients)
{
  const rdma::registered_buffer memory = root.context().allocate(how.mebibytes << 20);
  std::ranges::fill(memory.bytes(), std::byte{1});
  const auto broadcast = [&]
  {
    const std::uint64_t reached = result_of(root,
      [&](auto ended)
      {
        root.group().async_broadcast<spread>(memory.size(),
          {.timeout = std::chrono::minutes(10), .exposed = memory},
          [ended](const rdma::error_code& ec, const rpc::group_result<std::uint64_t>& all)
          { ended(ec, all.reply); });
      });
    if (reached != how.members)
      throw std::runtime_error("a member is missing");
  };
  const auto read_by = [&](rpc::client& each)
  {
    rpc::call_options options;
    options.exposed = rpc::expose(memory);
    return result_of(root, [&](auto ended) { each.async_call<pull>({}, options, ended); });
  };
  const auto read_bytes = [&]
  {
    std::vector<std::uint64_t> all;
    for (rpc::client& each : clients)
      all.push_back(result_of(root, [&](auto ended) { each.async_call<bytes_read>({}, ended); }));
    return all;
  };
  std::vector<double> broadcasts;
  std::vector<double> reads;
  std::vector<std::uint64_t> before;
  for (std::uint32_t i = 0; i <= how.rounds; ++i) // the first round makes the connections
  {
    before = read_bytes();
    const auto begin = clock_type::now();
    broadcast();
    const auto middle = clock_type::now();
    const auto after = read_bytes();
    std::ranges::transform(after, before, before.begin(), std::minus<>());
    const auto second = clock_type::now();
    for (rpc::client& each : clients)
      read_by(each);
    if (i == 0)
      continue;
    reads.push_back(milliseconds(clock_type::now() - second).count());
    broadcasts.push_back(milliseconds(middle - begin).count());
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t each : before)
    sum += each;
  // Its children are the ranks 1 and, behind those below it, another one.
  const std::uint64_t from_root =
    before.front() + (how.members > 2 ? before[(how.members - 1) - (how.members - 1) / 2] : 0);
  std::printf("%u members, %zu MiB: broadcast %.1f ms; %u reads one after the other %.1f ms\n",
    how.members, how.mebibytes, median(broadcasts), how.members - 1, median(reads));
  std::printf("read in a broadcast: %.1f MiB from the root, %.1f MiB in all\n",
    static_cast<double>(from_root) / (1 << 20), static_cast<double>(sum) / (1 << 20));
}

void run(const settings& how)
{
  std::vector<int> lines;
  for (std::uint32_t rank = 1; rank != how.members; ++rank)
  {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      throw std::runtime_error("socketpair failed");
    if (::fork() == 0)
    {
      serve(how, rank, ends[1]);
      ::_exit(0);
    }
    ::close(ends[1]);
    lines.push_back(ends[0]);
  }
  member root(how);
  std::vector<std::uint16_t> ports{root.port()};
  for (const int line : lines)
    receive_all(line, &ports.emplace_back(), 1);
  for (const int line : lines)
    send_all(line, ports.data(), ports.size());
  for (const int line : lines)
  {
    char ready = 0;
    receive_all(line, &ready, 1);
  }
  root.join(ports, 0);
  std::deque<rpc::client> clients;
  for (std::uint32_t rank = 1; rank != how.members; ++rank)
    result_of(root,
      [&](auto ended)
      {
        clients.emplace_back(root.io(), root.context())
          .async_connect({asio::ip::address_v4::loopback(), ports[rank]},
            [ended](const rdma::error_code& ec) { ended(ec, 0); });
      });
  measure_all(how, root, clients);
}

} // namespace

int main(int argc, char** argv)
{
  settings how;
  CLI::App app("Compares a broadcast of memory to the processes of a group with reads of it.");
  app.add_option("--members", how.members, "number of processes")->check(CLI::Range(2, 256));
  app.add_option("--size", how.mebibytes, "size of the memory in MiB")->check(CLI::Range(1, 1024));
  app.add_option("--rounds", how.rounds, "number of rounds")->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);
  try
  {
    run(how);
    return 0;
  }
  catch (const std::exception& failure)
  {
    std::cerr << "error: " << failure.what() << '\n';
    return 1;
  }
}

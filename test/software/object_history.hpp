//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_SOFTWARE_OBJECT_HISTORY_HPP
#define BOOST_RDMA_TEST_SOFTWARE_OBJECT_HISTORY_HPP

#include "common/catch.hpp"
#include "common/history_recorder.hpp"
#include "common/in_child.hpp"
#include "common/linearizability.hpp"
#include "common/rdma_fixture.hpp"

#include <boost_rdma/acceptor.hpp>
#include <boost_rdma/context.hpp>
#include <boost_rdma/queue_pair.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <initializer_list>
#include <list>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

// Processes that use a remote object of another one, and stop and die at random points of their
// operations. The history of all operations must be linearizable.

namespace test {

/// The device of a history's processes.
struct history_device
{
  std::string wire;
  std::uint64_t hostile_seed;

  [[nodiscard]] rdma::context context() const
  {
    rdma::context_options options;
    options.software.wires = {wire};
    options.software.hostile_seed = hostile_seed;
    return make_context(options);
  }
};

// Processes are stopped, and on a busy machine a process that is not may look as if it were.
inline rdma::queue_pair_options without_heartbeat()
{
  rdma::queue_pair_options options;
  options.heartbeat_limit = std::chrono::milliseconds(0);
  return options;
}

/// One client process of a history.
template <class Model>
class history_client
{
public:
  using call = typename Model::Operation;
  using result = typename Model::Result;

  history_client(const history_device& device, std::uint32_t number, std::uint16_t port,
    history_recorder<Model>& records)
    : number_(number)
    , random_(number)
    , records_(records)
    , context_(device.context())
    , peer_(io, context_, without_heartbeat())
  {
    plain_record connected;
    peer_.async_connect({asio::ip::address_v4::loopback(), port}, connected.handler());
    wait(connected);
    const rdma::registered_buffer handle = context_.allocate(rdma::remote_buffer::encoded_size);
    bytes_record received;
    peer_.async_receive(handle, received.handler());
    wait(received);
    memory_ = rdma::remote_buffer::decode(handle.bytes());
  }

  [[nodiscard]] rdma::queue_pair& peer() { return peer_; }
  [[nodiscard]] const rdma::remote_buffer& memory() const { return memory_; }
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

  /// Opens the object as a handle of the type `Remote`.
  template <class Remote>
  Remote open()
  {
    record<Remote> opened;
    Remote::async_open(peer_, memory_, opened.handler());
    wait(opened);
    return opened.value();
  }

  /// A number that no other process and no other call returns.
  std::uint64_t unique() { return (std::uint64_t{number_} + 1) << 32 | ++uniques_; }

  /// Returns true `wanted` times, or until a sixth of `patience` has passed.
  bool more(unsigned wanted)
  {
    return turns_++ < wanted && std::chrono::steady_clock::now() < end_;
  }

  /// Waits for a handler that is called with success, or with one of the errors `permitted`.
  template <class Record>
  void wait(Record& r, std::initializer_list<rdma::error> permitted = {})
  {
    if (!run_until(io, [&] { return r.done(); }))
      throw std::runtime_error("an operation did not complete");
    if (r.ec && std::ranges::find(permitted, r.ec) == permitted.end())
      throw rdma::system_error(r.ec);
  }

  /// Records an operation. Stops or kills this process at a random point of some operations.
  /** @param start Initiates the operation with r.handler().
   * @param seen Returns the result for the model, or std::nullopt if the outcome is unknown.
   * @param permitted Errors that the operation may have. */
  template <class Record, class Start, class Seen>
  void record_operation(const call& what, Record& r, Start start, Seen seen,
    std::initializer_list<rdma::error> permitted = {})
  {
    const std::uint64_t fate = below(100);
    const std::size_t number = records_.called(number_, what);
    start();
    if (fate < 6)
    {
      for (std::uint64_t turns = below(40); turns != 0 && !r.done(); --turns)
        io.poll_one();
      ::raise(fate == 0 && may_die_ ? SIGKILL : SIGSTOP);
    }
    wait(r, permitted);
    if (const std::optional<result> outcome = seen())
      records_.returned(number_, number, *outcome);
  }

  void may_die(bool may) { may_die_ = may; }

  asio::io_context io{1};

private:
  std::uint32_t number_;
  std::mt19937_64 random_;
  history_recorder<Model>& records_;
  rdma::context context_;
  rdma::queue_pair peer_;
  rdma::remote_buffer memory_;
  std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::now() + patience / 6;
  unsigned turns_ = 0;
  std::uint64_t uniques_ = 0;
  bool may_die_ = false;
};

/// Runs `clients` processes, of which the odd ones may die, and returns the history.
/** @param make_owner Creates the object in this process: make_owner(io, context, records). The
 * owner's operations are those of process `clients` of the records.
 * @param body What a client does with the object. */
template <class Model, class MakeOwner>
history<Model> history_of(const history_device& device, std::uint32_t clients,
  std::size_t operations_most, MakeOwner make_owner,
  const std::function<void(history_client<Model>&)>& body)
{
  history_recorder<Model> records(clients + 1, operations_most);
  // The clients are forked before this process opens a device.
  prepare_to_fork();
  int port_pipe[2];
  REQUIRE(::pipe(port_pipe) == 0);
  std::vector<pid_t> children;
  for (std::uint32_t number = 0; number != clients; ++number)
  {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0)
    {
      bool good = false;
      try
      {
        std::uint16_t port = 0;
        if (::read(port_pipe[0], &port, sizeof port) == sizeof port)
        {
          history_client<Model> client(device, number, port, records);
          client.may_die(number % 2 == 1);
          body(client);
          good = true;
        }
      }
      catch (const std::exception& e)
      {
        std::fprintf(stderr, "client %u: %s\n", number, e.what());
      }
      ::_exit(good ? 0 : 1);
    }
    children.push_back(child);
  }

  asio::io_context io{1};
  const rdma::context context = device.context();
  auto owner = make_owner(io, context, records);
  rdma::acceptor_options options;
  options.queue_pair = without_heartbeat();
  rdma::acceptor acceptor(
    io, context, asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), 0), options);
  std::list<rdma::queue_pair> peers;
  const rdma::registered_buffer handle = context.allocate(rdma::remote_buffer::encoded_size);
  const auto encoded = owner->remote().encode();
  std::memcpy(handle.data(), encoded.data(), encoded.size());
  std::function<void()> accept = [&]
  {
    acceptor.async_accept(
      [&](rdma::error_code ec, rdma::queue_pair peer)
      {
        if (ec)
          return;
        peers.push_back(std::move(peer));
        peers.back().async_send(handle, [](rdma::error_code, std::size_t) {});
        accept();
      });
  };
  accept();
  const std::uint16_t port = acceptor.local_endpoint().port();
  for (std::uint32_t i = 0; i != clients; ++i)
    REQUIRE(::write(port_pipe[1], &port, sizeof port) == sizeof port);

  // Stopped clients continue after a random number of turns of this process.
  std::mt19937_64 random(clients);
  std::vector<std::pair<pid_t, std::uint64_t>> stopped;
  const auto limit = std::chrono::steady_clock::now() + patience;
  bool good = true;
  while (!children.empty())
  {
    io.run_one_for(std::chrono::milliseconds(1));
    std::erase_if(stopped,
      [](auto& each)
      {
        if (--each.second != 0)
          return false;
        ::kill(each.first, SIGCONT);
        return true;
      });
    std::erase_if(children,
      [&](pid_t child)
      {
        int status = 0;
        if (::waitpid(child, &status, WNOHANG | WUNTRACED) != child)
          return false;
        if (WIFSTOPPED(status))
        {
          stopped.emplace_back(child, 1 + random() % 20);
          return false;
        }
        const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        good = good && (killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
        return true;
      });
    if (std::chrono::steady_clock::now() > limit)
    {
      for (const pid_t child : children)
        ::kill(child, SIGKILL);
      FAIL("the clients have not finished");
    }
  }
  ::close(port_pipe[0]);
  ::close(port_pipe[1]);
  CHECK(good);
  return records.merged();
}

} // namespace test

#endif // BOOST_RDMA_TEST_SOFTWARE_OBJECT_HISTORY_HPP

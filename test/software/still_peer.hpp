//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_SOFTWARE_STILL_PEER_HPP
#define BOOST_RDMA_TEST_SOFTWARE_STILL_PEER_HPP

#include "common/catch.hpp"
#include "software/connect_fixture.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

// Peers in their own process, which a test kills or stops.

namespace test {

/// Runs test/programs/still_peer in its own process.
class still_peer
{
public:
  /// Starts a server.
  still_peer()
    : still_peer(std::string())
  {
  }
  /// Starts a client of this acceptor, which is about to connect.
  explicit still_peer(const tcp::endpoint& acceptor)
    : still_peer(std::to_string(acceptor.port()))
  {
  }
  ~still_peer()
  {
    if (pid_ > 0)
    {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  still_peer(const still_peer&) = delete;
  still_peer& operator=(const still_peer&) = delete;

  /// Returns the endpoint on which the server listens.
  [[nodiscard]] const tcp::endpoint& endpoint() const { return endpoint_; }

  /// Sends SIGKILL or SIGSTOP and waits until it has taken effect.
  void signal(int number)
  {
    ::kill(pid_, number);
    ::waitpid(pid_, nullptr, WUNTRACED);
    if (number == SIGKILL)
      pid_ = 0;
  }

private:
  explicit still_peer(std::string port_of_server)
  {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    std::string program = BOOST_RDMA_TEST_PROGRAMS "/still_peer";
    std::string device = device_name();
    std::array<char*, 4> arguments{program.data(), device.data(),
      port_of_server.empty() ? nullptr : port_of_server.data(), nullptr};
    const int error =
      ::posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> output(
      ::fdopen(ends[0], "r"), &std::fclose);
    REQUIRE(error == 0);
    unsigned port = 0;
    REQUIRE(std::fscanf(output.get(), "%u", &port) == 1);
    endpoint_ = loopback(static_cast<std::uint16_t>(port));
  }

  pid_t pid_ = 0;
  tcp::endpoint endpoint_;
};

/// Options with short limits. A stopped peer is detected only by missing heartbeats.
inline rdma::queue_pair_options impatient()
{
  rdma::queue_pair_options options;
  options.heartbeat_limit = std::chrono::milliseconds(1000);
  options.connect_timeout = std::chrono::milliseconds(1500);
  options.confirm_timeout = std::chrono::milliseconds(1000);
  options.timeout = 0;
  options.fall_back = false;
  return options;
}

/// Returns true if this error can result from the loss of a peer by this signal.
inline bool is_loss(const error_code& ec, int signal)
{
  // A device may detect the end of a process before the control channel does.
  return ec == error::peer_lost || (signal == SIGKILL && ec.category() == rdma::wc_category());
}

/// Waits for the end of one queue pair.
struct end_watcher
{
  explicit end_watcher(rdma::queue_pair& own)
    : buffer_(own.context().allocate(64))
  {
    own.async_wait_close(ended.handler());
    own.async_receive(buffer_, received.handler());
  }
  [[nodiscard]] bool done() const { return ended.done() && received.done(); }
  [[nodiscard]] bool once() const { return ended.calls == 1 && received.calls == 1; }

  plain_record ended;
  bytes_record received;

private:
  rdma::registered_buffer buffer_;
};

/// The clients that an acceptor has served.
class served_clients
{
public:
  struct served_client
  {
    explicit served_client(rdma::queue_pair accepted)
      : peer(std::move(accepted))
      , of_peer(peer)
    {
    }
    /// Returns true unless it is one of those that send data, as still_peer does.
    [[nodiscard]] bool good() const { return peer.peer_data().empty(); }

    rdma::queue_pair peer;
    end_watcher of_peer;
  };

  explicit served_clients(rdma::acceptor& acceptor)
    : acceptor_(acceptor)
  {
    accept();
  }

  /// Connects another client and waits until it is the `number`th good one that was accepted.
  [[nodiscard]] bool serve_another(connect_fixture& f, std::size_t number)
  {
    plain_record connected;
    rdma::queue_pair client(f.io, f.client_context);
    client.async_connect(acceptor_.local_endpoint(), connected.handler());
    const auto served = [&] {
      return static_cast<std::size_t>(std::ranges::count_if(all_, &served_client::good)) == number;
    };
    return run_until(f.io, [&] { return connected.done() && (connected.ec || served()); })
      && !connected.ec;
  }

  [[nodiscard]] bool is_last_lost() const { return !all_.empty() && !all_.back().good(); }
  [[nodiscard]] bool all_done() const
  {
    return std::ranges::all_of(all_, [](const served_client& each) { return each.of_peer.done(); });
  }
  void close()
  {
    for (served_client& each : all_)
      each.peer.close();
  }
  [[nodiscard]] const std::deque<served_client>& all() const { return all_; }
  [[nodiscard]] int failures() const { return failures_; }

private:
  void accept()
  {
    acceptor_.async_accept(
      [this](error_code ec, rdma::queue_pair accepted)
      {
        if (ec)
        {
          ++failures_;
          return;
        }
        all_.emplace_back(std::move(accepted));
        accept();
      });
  }

  rdma::acceptor& acceptor_;
  std::deque<served_client> all_;
  int failures_ = 0;
};

} // namespace test

#endif // BOOST_RDMA_TEST_SOFTWARE_STILL_PEER_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/inventory.hpp"
#include "software/connect_fixture.hpp"

#include <boost_rdma/batch.hpp>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fcntl.h>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

// Tests peers whose process is killed or stopped at any moment.

namespace {

using namespace test;
using namespace std::chrono_literals;

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

/// Much longer than heartbeat_limit below, and much shorter than any other reason that ends a
/// connection.
constexpr std::chrono::seconds soon{20};

/// Options with short limits. A stopped peer is detected only by missing heartbeats.
rdma::queue_pair_options impatient()
{
  rdma::queue_pair_options options;
  options.heartbeat_limit = 300ms;
  options.connect_timeout = 500ms;
  options.confirm_timeout = 300ms;
  options.timeout = 0;
  options.fall_back = false;
  return options;
}

/// Returns true if this error can result from the loss of a peer by this signal.
bool is_loss(const error_code& ec, int signal)
{
  // A device may detect the end of a process before the control channel does.
  return ec == error::peer_lost || (signal == SIGKILL && ec.category() == rdma::wc_category());
}

rdma::remote_buffer memory_of(const rdma::queue_pair& own)
{
  const std::string key = own.peer_data();
  return rdma::remote_buffer::decode(std::as_bytes(std::span(key)));
}

/// Every kind of operation on a queue pair whose peer is a still_peer.
class operations
{
public:
  explicit operations(rdma::queue_pair& own)
    : own_(own)
    , remote_(memory_of(own))
    , buffer_(own.context().allocate(4096))
  {
  }

  /// Loses the peer while the operations are outstanding, and waits until they have ended.
  void lose(asio::io_context& io, still_peer& peer, int signal)
  {
    own_.async_wait_close(ended_.handler());
    start_some();
    peer.signal(signal);
    const auto from = std::chrono::steady_clock::now();
    start_rest();
    REQUIRE(run_until(io, [&] { return count(1) == size(); }));
    CHECK(std::chrono::steady_clock::now() - from < soon);
    INFO("ended: " << ended_.ec.message());
    CHECK(is_loss(ended_.ec, signal));
    CHECK(shut_.ec);
    for (const std::size_t receive : {0, 1})
      CHECK(bytes_[receive].ec);
    CHECK(messages_[0].ec);
    CHECK(bytes_[stuck].ec);
    CHECK(bytes_.back().ec); // queued after a send that never completes
    CHECK_FALSE(own_.is_connected());
  }

  [[nodiscard]] std::size_t size() const
  {
    return bytes_.size() + numbers_.size() + messages_.size() + bound_.size() + plain_.size();
  }

  /// Returns the number of handlers that were called this many times.
  [[nodiscard]] std::size_t count(int calls) const
  {
    const auto among = [&](const auto& records)
    {
      return static_cast<std::size_t>(
        std::ranges::count(records, calls, [](const auto& each) { return each.calls; }));
    };
    return among(bytes_) + among(numbers_) + among(messages_) + among(bound_) + among(plain_);
  }

private:
  auto next() { return bytes_.emplace_back().handler(); }

  void start_some()
  {
    own_.async_receive(buffer_, next());
    own_.async_receive(buffer_, next());
    own_.async_receive_message(buffer_, messages_.emplace_back().handler());
    own_.async_send(buffer_, next()); // the peer posts no receive for it
    own_.async_write(buffer_, remote_, next());
  }

  void start_rest()
  {
    own_.async_read(buffer_, remote_, next());
    own_.async_write(buffer_, remote_, next());
    own_.async_send_with_immediate(buffer_.first(8), 1, next());
    own_.async_write_with_immediate(buffer_, remote_, 1, next());
    together_.write(buffer_, remote_);
    together_.send(buffer_.first(8));
    own_.async_submit(together_, next());
    if (has(feature::atomics))
    {
      own_.async_fetch_add(remote_.first(8), 1, numbers_.emplace_back().handler());
      own_.async_compare_exchange(remote_.first(8), 0, 1, numbers_.emplace_back().handler());
    }
    // If a queue pair cannot be destroyed before its windows, a bind that is repeated with the send
    // before it delays the destruction by a minute.
    if (has(feature::memory_windows) && has(feature::unbinds_on_destroy))
    {
      bindable_.emplace(own_.context(), 64, rdma::access::local_write | rdma::access::window_bind);
      window_.emplace(own_.context());
      own_.async_bind_window(
        *window_, *bindable_, rdma::access::remote_read, bound_.emplace_back().handler());
      own_.async_invalidate(window_->key(), plain_.emplace_back().handler());
      own_.async_send_with_invalidate(buffer_.first(8), remote_.key(0), next());
    }
    for (int i = 0; i < 300; ++i) // more than the send queue holds
      own_.async_write(buffer_, remote_, next());
    own_.async_shutdown(shut_.handler());
  }

  static constexpr std::size_t stuck = 2;

  rdma::queue_pair& own_;
  rdma::remote_buffer remote_;
  rdma::registered_buffer buffer_;
  rdma::batch together_;
  std::optional<rdma::memory_region> bindable_;
  std::optional<rdma::memory_window> window_;
  std::deque<bytes_record> bytes_;
  std::deque<value_record> numbers_;
  std::deque<message_record> messages_;
  std::deque<remote_record> bound_;
  std::deque<plain_record> plain_;
  plain_record& ended_ = plain_.emplace_back();
  plain_record& shut_ = plain_.emplace_back();
};

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
    /// Returns true unless it is a still_peer, which sends data.
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

/// Points in time after connecting began, from immediately to long after its end, on machines of
/// any speed.
class increasing_delays
{
public:
  std::chrono::microseconds next()
  {
    const std::chrono::microseconds now = next_;
    next_ += emulated() ? next_ / 2 + 5ms : next_ / 8 + 100us;
    return now;
  }

private:
  std::chrono::microseconds next_{0};
};

} // namespace

TEST_CASE("every operation ends once and leaves no resources when the server is killed or stopped")
{
  need(feature::endpoint_descriptions);
  const int number = GENERATE(SIGKILL, SIGSTOP);
  CAPTURE(number);
  inventory before;
  for (const bool first :
    {true, false}) // the first round includes objects that the process creates once
  {
    still_peer server;
    {
      asio::io_context io;
      rdma::context context = make_context();
      rdma::queue_pair client(io, context, impatient());
      plain_record connected;
      client.async_connect(server.endpoint(), connected.handler());
      REQUIRE(run_until(io, [&] { return connected.done(); }));
      REQUIRE(!connected.ec);
      operations all(client);
      all.lose(io, server, number);
      client.close();
      REQUIRE(run_out(io));
      CHECK(all.count(1) == all.size());
    }
    if (first)
      before = inventory();
    else
      CHECK(settled_inventory(before) == before);
  }
}

TEST_CASE("every operation ends once and leaves no resources when the client is killed or stopped")
{
  const int number = GENERATE(SIGKILL, SIGSTOP);
  CAPTURE(number);
  rdma::acceptor_options options;
  options.queue_pair = impatient();
  inventory before;
  for (const bool first : {true, false})
  {
    {
      connect_fixture f(options);
      connect_fixture::accepted server, next;
      f.acceptor.async_accept(server.handler());
      f.acceptor.async_accept(next.handler());
      still_peer client(f.acceptor.local_endpoint());
      REQUIRE(run_until(f.io, [&] { return server.calls != 0; }));
      REQUIRE(!server.ec);
      operations all(*server.peer);
      all.lose(f.io, client, number);
      CHECK(next.calls == 0);
      CHECK(f.serves_a_good_client(next));
      server.peer->close();
      next.peer->close();
      f.acceptor.close();
      REQUIRE(run_out(f.io));
      CHECK(all.count(1) == all.size());
      CHECK(server.calls == 1);
      CHECK(next.calls == 1);
    }
    if (first)
      before = inventory();
    else
      CHECK(settled_inventory(before) == before);
  }
}

TEST_CASE("a stopped peer is lost only to peers with a heartbeat limit")
{
  need(feature::endpoint_descriptions);
  still_peer server;
  asio::io_context io;
  rdma::context context = make_context();
  rdma::queue_pair_options options = impatient();
  rdma::queue_pair limited(io, context, options);
  options.heartbeat_limit = 1h;
  rdma::queue_pair patient(io, context, options);
  options.heartbeat_limit = 0ms;
  rdma::queue_pair unlimited(io, context, options);
  for (rdma::queue_pair* each : {&limited, &patient, &unlimited})
  {
    plain_record connected;
    each->async_connect(server.endpoint(), connected.handler());
    REQUIRE(run_until(io, [&] { return connected.done(); }));
    REQUIRE(!connected.ec);
  }
  end_watcher of_limited(limited), of_patient(patient), of_unlimited(unlimited);
  server.signal(SIGSTOP);
  REQUIRE(run_until(io, [&] { return of_limited.done(); }));
  CHECK(of_limited.ended.ec == error::peer_lost);
  CHECK(of_limited.received.ec == error::peer_lost);
  for (const end_watcher* each : {&of_patient, &of_unlimited})
  {
    CHECK(each->ended.calls == 0);
    CHECK(each->received.calls == 0);
  }
  CHECK(patient.is_connected());
  CHECK(unlimited.is_connected());
  server.signal(SIGKILL);
  REQUIRE(run_until(io, [&] { return of_patient.done() && of_unlimited.done(); }));
  CHECK(is_loss(of_patient.ended.ec, SIGKILL));
  CHECK(is_loss(of_unlimited.ended.ec, SIGKILL));
}

TEST_CASE(
  "async_connect or its connection ends once when the server is killed or stopped at any moment")
{
  need(feature::endpoint_descriptions);
  const int number = GENERATE(SIGKILL, SIGSTOP);
  CAPTURE(number);
  increasing_delays when;
  for (bool connects_before = false; !connects_before;)
  {
    still_peer server;
    asio::io_context io;
    rdma::context context = make_context();
    rdma::queue_pair client(io, context, impatient());
    plain_record connected;
    end_watcher of_client(client);
    client.async_connect(server.endpoint(), connected.handler());
    const auto moment = when.next();
    std::this_thread::sleep_for(moment);
    server.signal(number);
    io.poll();
    connects_before = connected.done() && !connected.ec;
    const auto from = std::chrono::steady_clock::now();
    REQUIRE(run_until(io, [&] { return connected.done() && of_client.done(); }));
    CHECK(std::chrono::steady_clock::now() - from < soon);
    INFO("after " << moment.count() << " us: " << connected.ec.message()
                  << ", then: " << of_client.ended.ec.message());
    CHECK(of_client.received.ec);
    if (connected.ec)
      CHECK(of_client.ended.ec == connected.ec);
    else
      CHECK(is_loss(of_client.ended.ec, number));
    client.close();
    REQUIRE(run_out(io));
    CHECK(connected.calls == 1);
    CHECK(of_client.once());
  }
}

TEST_CASE("no accept fails when a client is killed or stopped at any moment of connecting")
{
  const int number = GENERATE(SIGKILL, SIGSTOP);
  CAPTURE(number);
  rdma::acceptor_options options;
  options.handshake_timeout = 500ms;
  options.queue_pair = impatient();
  connect_fixture f(options);
  // Descriptors shared by all queue pairs are open before and after.
  rdma::queue_pair idle_here(f.io, f.server_context), idle_there(f.io, f.client_context);
  static_cast<void>(idle_here.local_endpoint());
  static_cast<void>(idle_there.local_endpoint());
  static_cast<void>(f.server_context.allocate(8)); // a pool's memory has a descriptor, too
  REQUIRE(f.serves_a_good_client());
  const auto descriptors = [] { return inventory::count("/proc/self/fd"); };
  const std::size_t before = descriptors();

  served_clients served(f.acceptor);
  std::deque<still_peer> lost; // stopped clients remain
  increasing_delays when;
  for (bool is_served = false; !is_served;)
  {
    still_peer& client = lost.emplace_back(f.acceptor.local_endpoint());
    std::this_thread::sleep_for(when.next());
    client.signal(number);
    f.io.poll();
    is_served = served.is_last_lost();
    REQUIRE(served.serve_another(f, lost.size()));
  }
  REQUIRE(run_until(f.io, [&] { return served.all_done(); }));
  for (const auto& each : served.all())
  {
    INFO(each.of_peer.ended.ec.message());
    CHECK(each.of_peer.received.ec);
    if (!each.good())
      CHECK(is_loss(each.of_peer.ended.ec, number));
  }
  served.close();
  // Unfinished handshakes end as well while the acceptor stays open.
  const auto from = std::chrono::steady_clock::now();
  while (descriptors() > before && std::chrono::steady_clock::now() - from < soon)
    f.io.run_one_for(1ms);
  CHECK(descriptors() <= before); // the good client's connection may have been closing at that time
  CHECK(served.failures() == 0);
  f.acceptor.close();
  REQUIRE(run_out(f.io));
  for (const auto& each : served.all())
    CHECK(each.of_peer.once());
}

TEST_CASE("no accept fails when a client disconnects or stays silent at any frame of the handshake")
{
  using rdma::detail::frame_type;
  rdma::acceptor_options options;
  options.handshake_timeout = 300ms;
  options.queue_pair = impatient();
  connect_fixture f(options);
  connect_fixture::accepted server;
  f.acceptor.async_accept(server.handler());
  std::deque<plain_peer> silent;
  for (const bool goes : {true, false})
    for (int steps = 0; steps < 2; ++steps)
    {
      rdma::queue_pair own(f.io, f.client_context);
      plain_peer peer = plain_peer::connect(f.io, f.acceptor.local_endpoint());
      peer.send(good_request(own.local_endpoint()));
      const std::string answer = peer.read_header();
      if (steps > 0)
        connect_as_client(own, endpoint_in(answer));
      if (!goes)
        silent.push_back(std::move(peer));
    }
  for (plain_peer& each : silent)
    CHECK(each.read_end());
  f.io.poll();
  CHECK(server.calls == 0);
  CHECK(f.serves_a_good_client(server));
}

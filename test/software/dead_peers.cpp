//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/inventory.hpp"
#include "software/still_peer.hpp"

#include <boost_rdma/batch.hpp>

#include <algorithm>
#include <deque>
#include <optional>
#include <span>

// Tests the operations of connections whose peer's process is killed or stopped.

namespace {

using namespace test;
using namespace std::chrono_literals;

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
    start_rest();
    REQUIRE(run_until(io, [&] { return count(1) == size(); }));
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
      CHECK(settled(before) <= before);
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
      CHECK(settled(before) <= before);
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

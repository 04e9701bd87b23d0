//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/connect_fixture.hpp"
#include "software/faults.hpp"

#include <array>
#include <deque>
#include <optional>
#include <utility>

// Connecting and accepting without memory for some step.

using namespace test;

namespace {

/// Connects a client and receives its message.
class next_client
{
public:
  explicit next_client(connect_fixture& f)
    : f_(f)
  {
  }

  [[nodiscard]] bool is_served()
  {
    accept();
    rdma::queue_pair client(f_.io, f_.client_context);
    plain_record connected;
    client.async_connect(f_.acceptor.local_endpoint(), connected.handler());
    if (!run_until(f_.io, [&] { return connected.done(); }) || connected.ec)
      return false;
    bytes_record sent;
    client.async_send(buffer_of(f_.client_context, "hello"), sent.handler());
    const bool received = run_until(f_.io, [&] { return received_; });
    f_.acceptor.cancel();
    accepted_.clear();
    client.close();
    return run_until(f_.io, [&] { return !accepts_ && receives_ == 0 && sent.done(); }) && received;
  }

private:
  // The first one may be a client that could not finish for lack of memory.
  void accept()
  {
    accepts_ = true;
    f_.acceptor.async_accept(
      [this](error_code ec, rdma::queue_pair made)
      {
        accepts_ = false;
        if (ec || received_)
          return;
        accepted_.push_back(std::move(made));
        ++receives_;
        accepted_.back().async_receive(asio::buffer(room_),
          [this](error_code failed, std::size_t size)
          {
            --receives_;
            received_ = received_ || (!failed && size != 0);
          });
        accept();
      });
  }

  connect_fixture& f_;
  std::deque<rdma::queue_pair> accepted_;
  std::array<std::byte, 64> room_{};
  bool accepts_ = false;
  std::size_t receives_ = 0;
  bool received_ = false;
};

} // namespace

TEST_CASE("queue pairs that connect while allocations fail end each operation once")
{
  connect_fixture f;
  std::optional<rdma::queue_pair> server;
  std::optional<rdma::queue_pair> client;
  const rdma::registered_buffer sent = buffer_of(f.client_context, "hello");
  const rdma::registered_buffer received = f.server_context.allocate(64);
  rdma::queue_pair_options impatient;
  impatient.connect_timeout = std::chrono::milliseconds(500);
  impatient.retry_count = 1;
  impatient.rnr_retry_count = 1;
  with_failing_allocations(
    f.io,
    [&](faulty_round& round)
    {
      if (!round.make([&] { client.emplace(f.io, f.client_context, impatient); }))
        return;
      const auto& accepted = round.start([&](auto handler) { f.acceptor.async_accept(handler); },
        [&](rdma::queue_pair made) { server.emplace(std::move(made)); });
      if (!accepted.is_started)
        return;
      const auto& connected = round.start(
        [&](auto handler) { client->async_connect(f.acceptor.local_endpoint(), handler); });
      round.await(connected);
      if (!connected.succeeded() || !server)
        return; // without memory for it, the acceptor has lost this client and waits for the next
      const auto& received_it =
        round.start([&](auto handler) { server->async_receive(received, handler); });
      const auto& send = round.start([&](auto handler) { client->async_send(sent, handler); });
      round.await(send);
      if (send.succeeded())
        round.await(received_it);
    },
    [&]
    {
      f.acceptor.cancel();
      server.reset();
      client.reset();
    },
    [&] { return next_client(f).is_served(); }, true);
}

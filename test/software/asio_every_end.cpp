//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/every_operation.hpp"
#include "software/connect_fixture.hpp"
#include "software/every_end.hpp"

#include <boost/asio/cancellation_signal.hpp>

#include <algorithm>
#include <optional>

// Tests every unsuccessful end of every operation: the handler runs once with the right error, the
// buffers are released before, and the io_context has no work left.

using namespace test;

TEST_CASE("total cancellation withdraws only the waiting operation")
{
  for_every_operation(
    []<class Operation>
    {
      outstanding<Operation> o(place::waiting);
      o.signal.emit(asio::cancellation_type::total);
      o.check_ends_with({aborted});
      CHECK(o.f->near.is_connected());
      CHECK(o.other_errors.empty());
      o.close();
      o.check_nothing_is_left();
      CHECK(o.all_others_ended_with(aborted));
    });
}

TEST_CASE("only terminal cancellation ends a posted operation")
{
  for_every_operation_of_a_queue_pair(
    []<class Operation>
    {
      outstanding<Operation> o(place::posted);
      o.signal.emit(asio::cancellation_type::partial | asio::cancellation_type::total);
      o.f->io.restart();
      o.f->io.poll();
      CHECK(o.f->near.is_connected());
      o.signal.emit(asio::cancellation_type::terminal);
      CHECK_FALSE(o.f->near.is_connected());
      CHECK(o.f->near.is_open());
      o.check_ends_with({aborted});
      o.check_nothing_is_left();
      CHECK(o.all_others_ended_with(rdma::wc_status::flushed));
    });
}

TEST_CASE("close ends every operation in every state")
{
  const auto where = GENERATE(place::posted, place::waiting, place::unserved);
  CAPTURE(static_cast<int>(where));
  for_every_operation(
    [&]<class Operation>
    {
      outstanding<Operation> o(where);
      o.close();
      o.check_ends_with({aborted});
      o.check_nothing_is_left();
      CHECK(o.all_others_ended_with(aborted));
    });
}

TEST_CASE("the destructor of a queue pair ends every operation in every state")
{
  const auto where = GENERATE(place::posted, place::waiting, place::unserved);
  CAPTURE(static_cast<int>(where));
  for_every_operation(
    [&]<class Operation>
    {
      outstanding<Operation> o(where);
      o.destroy();
      o.check_ends_with({aborted});
      // The queue pair and its pool memory are released.
      REQUIRE(run_out(o.f->io));
      CHECK(o.near_context.pool_statistics().buffers == 0);
      o.check_nothing_is_left();
      CHECK(o.all_others_ended_with(aborted));
    });
}

TEST_CASE("every operation is flushed when a send detects that the peer was destroyed")
{
  const auto where = GENERATE(place::posted, place::waiting);
  CAPTURE(static_cast<int>(where));
  for_every_operation_of_a_queue_pair(
    [&]<class Operation>
    {
      outstanding<Operation> o(where, false, attentive());
      {
        rdma::queue_pair gone = std::move(o.f->far);
      }
      o.check_ends_with({rdma::wc_status::flushed});
      CHECK_FALSE(o.f->near.is_connected());
      CHECK(o.f->near.diagnose().code == rdma::wc_status::retry_exceeded);
      o.check_nothing_is_left();
      const error_code lost = rdma::wc_status::retry_exceeded;
      CHECK(std::count(o.other_errors.begin(), o.other_errors.end(), lost) == 1);
    });
}

TEST_CASE("every operation ends when a peer with a control channel is destroyed")
{
  const auto where = GENERATE(place::posted, place::waiting);
  CAPTURE(static_cast<int>(where));
  for_every_operation_of_a_queue_pair(
    [&]<class Operation>
    {
      outstanding<Operation> o(where, true);
      {
        rdma::queue_pair gone = std::move(o.f->far);
      }
      // Both the device and the bye frame report the end; either may be first.
      o.check_ends_with({rdma::wc_status::flushed, rdma::error::peer_closed});
      CHECK_FALSE(o.f->near.is_connected());
      o.check_nothing_is_left();
    });
}

TEST_CASE("posted and waiting receives end with peer_closed when nothing is being sent")
{
  connect_fixture f;
  connect_fixture::accepted server;
  plain_record connected;
  rdma::queue_pair client(f.io, f.client_context, shallow());
  f.acceptor.async_accept(server.handler());
  client.async_connect(f.acceptor.local_endpoint(), connected.handler());
  REQUIRE(run_until(f.io, [&] { return connected.done() && server.calls == 1; }));
  bytes_record posted;
  message_record waiting;
  {
    rdma::registered_buffer buffer = f.client_context.allocate(64);
    client.async_receive(buffer.first(32), posted.handler());
    client.async_receive_message(buffer.slice(32), waiting.handler());
  }
  server.peer.reset();
  REQUIRE(run_out(f.io));
  CHECK(posted.calls == 1);
  CHECK(waiting.calls == 1);
  CHECK(posted.ec == rdma::error::peer_closed);
  CHECK(waiting.ec == rdma::error::peer_closed);
  CHECK(f.client_context.pool_statistics().buffers == 0);
}

TEST_CASE("handlers are destroyed without a call when the io_context is destroyed without running")
{
  enum class before
  {
    nothing,
    closed,
    destroyed,
    owned, // the handler owns the queue pair, so only the end of the io_context destroys it
  };
  const auto where = GENERATE(place::posted, place::waiting, place::unserved);
  const auto what = GENERATE(before::nothing, before::closed, before::destroyed, before::owned);
  CAPTURE(static_cast<int>(where), static_cast<int>(what));
  for_every_operation(
    [&]<class Operation>
    {
      outstanding<Operation> o(where);
      switch (what)
      {
      case before::nothing:
        break;
      case before::closed:
        o.close();
        break;
      case before::destroyed:
        o.destroy();
        break;
      case before::owned:
        o.hand_over(*o.owned.lock());
        break;
      }
      CHECK(o.handler_token.use_count() == 2);
      o.check_all_is_gone();
      CHECK(o.r.calls == 0);
      CHECK(o.other_errors.empty());
    });
}

TEST_CASE("every operation fails with closed when its object was closed or moved from")
{
  const bool moved = GENERATE(false, true);
  CAPTURE(moved);
  for_every_operation(
    [&]<class Operation>
    {
      operation_fixture<rdma::queue_pair> f;
      Operation::arrange(f);
      std::optional<rdma::queue_pair> new_near;
      std::optional<rdma::shared_receive_queue> new_shared;
      if (moved)
      {
        new_near.emplace(std::move(f.near));
        if (f.shared)
          new_shared.emplace(std::move(*f.shared));
      }
      else
      {
        f.near.close();
        if (f.shared)
          f.shared->close();
      }
      result<typename Operation::result> r;
      Operation::start(f, [&r](auto... a) { r.set(std::move(a)...); });
      CHECK(r.calls == 0);
      REQUIRE(run_out(f.io));
      CHECK(r.calls == 1);
      CHECK(r.ec == rdma::error::closed);
      CHECK((!new_near || new_near->is_connected()));
    });
}

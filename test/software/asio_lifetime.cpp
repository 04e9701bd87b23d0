//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"
#include "software/outcomes.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <optional>

// Tests that every handler is called exactly once, or destroyed, when objects are closed, destroyed
// or abandoned.

using namespace test;

namespace {

// Counts its living copies; a handler that holds one shows when it is destroyed.
struct live_counter
{
  explicit live_counter(int& alive)
    : alive_(&alive)
  {
    ++*alive_;
  }
  live_counter(const live_counter& other) noexcept
    : alive_(other.alive_)
  {
    ++*alive_;
  }
  live_counter& operator=(const live_counter&) = delete;
  ~live_counter() { --*alive_; }

private:
  int* alive_;
};

} // namespace

TEST_CASE("closing a queue pair ends all posted and waiting operations once")
{
  linked_pair l(of_depth(2));
  rdma::registered_buffer buffer = l.near_context.allocate(8);
  outcomes o;
  for (int i = 0; i < 6; ++i)
    l.near.async_receive(buffer, o.handler(i));
  for (int i = 6; i < 12; ++i) // the peer posts no receive, so two are posted and not acknowledged
    l.near.async_send(buffer, o.handler(i));

  SECTION("by close()")
  {
    l.near.close();
    CHECK(o.list.empty());
  }
  SECTION("by close() in a handler")
  {
    asio::post(l.io, [&] { l.near.close(); });
  }
  SECTION("by the destructor")
  {
    rdma::queue_pair gone = std::move(l.near);
  }
  SECTION("by the destructor in a handler")
  {
    asio::post(l.io, [gone = std::move(l.near)] {});
  }
  SECTION("by an assignment")
  {
    l.near = rdma::queue_pair(l.io, l.near_context);
  }
  REQUIRE(run_until(l.io, [&] { return o.list.size() == 12; }));
  CHECK(o.each_once(12));
  for (int i = 0; i < 12; ++i)
    CHECK(o.of(i) == asio::error::operation_aborted);
  l.far.close();
  REQUIRE(run_out(l.io));
}

TEST_CASE("a queue pair can be destroyed by its own handler")
{
  linked_pair l;
  std::optional<rdma::queue_pair> mortal(std::move(l.near));
  rdma::registered_buffer buffer = l.near_context.allocate(8);
  outcomes o;
  mortal->async_receive(buffer,
    [&](error_code ec, std::size_t)
    {
      CHECK(ec == error_code());
      mortal.reset();
      o.list.push_back({0, ec});
    });
  mortal->async_receive(buffer, o.handler(1));
  mortal->async_receive(buffer, o.handler(2));
  l.far.async_send(rdma::no_data, [](error_code, std::size_t) {});
  REQUIRE(run_until(l.io, [&] { return o.list.size() == 3; }));
  CHECK(o.each_once(3));
  CHECK(o.of(1) == asio::error::operation_aborted);
}

TEST_CASE(
  "operations of a closed queue pair fail with closed even when it is destroyed directly after")
{
  linked_pair l;
  rdma::registered_buffer buffer = l.near_context.allocate(8);
  outcomes o;
  {
    rdma::queue_pair closed = std::move(l.near);
    closed.close();
    CHECK_FALSE(closed.is_open());
    CHECK_FALSE(closed.is_connected());
    closed.close();         // a second time
    REQUIRE(run_out(l.io)); // it has been removed from its completion queue
    closed.async_send(buffer, o.handler(0));
    closed.async_receive(buffer, o.handler(1));
  }
  REQUIRE(run_out(l.io));
  CHECK(o.each_once(2));
  CHECK(o.of(0) == rdma::error::closed);
  CHECK(o.of(1) == rdma::error::closed);
}

TEST_CASE("a handler of a closed queue pair is destroyed with an io_context that never runs")
{
  int alive = 0;
  {
    asio::io_context io;
    rdma::context context = make_context();
    rdma::queue_pair closed(io, context);
    closed.close();
    closed.async_send(
      rdma::no_data, [w = live_counter(alive)](error_code, std::size_t) { FAIL("called"); });
    CHECK(alive == 1);
  }
  CHECK(alive == 0);
}

TEST_CASE("a moved-from queue pair reports closed and the new one works")
{
  linked_pair l;
  rdma::queue_pair moved = std::move(l.near);
  CHECK_FALSE(l.near.is_open());
  CHECK_FALSE(l.near.is_connected());
  CHECK(l.near.native_handle() == nullptr);
  l.near.close();
  bytes_record r;
  l.near.async_send(rdma::no_data, r.handler());
  REQUIRE(run_until(l.io, [&] { return r.done(); }));
  CHECK(r.ec == rdma::error::closed);

  bytes_record sent;
  bytes_record received;
  l.far.async_receive(rdma::no_data, received.handler());
  moved.async_send(rdma::no_data, sent.handler());
  REQUIRE(run_until(l.io, [&] { return sent.done() && received.done(); }));
  CHECK(sent.ec == error_code());
  l.near = std::move(moved);
  CHECK(l.near.is_connected());
}

TEST_CASE("destroying an io_context destroys the handlers of outstanding operations without a call")
{
  int alive = 0;
  rdma::context context = make_context();
  rdma::registered_buffer buffer = context.allocate(64);
  {
    asio::io_context io;
    rdma::queue_pair a(io, context, of_depth(2));
    rdma::queue_pair b(io, context, of_depth(2));
    connect(a, b);
    auto handler = [&]
    { return [w = live_counter(alive)](error_code, std::size_t) { FAIL("called"); }; };
    for (int i = 0; i < 5; ++i)
    {
      a.async_receive(buffer, handler());
      a.async_send(buffer, handler());
      b.async_send(buffer.first(0), handler()); // has failed already
    }
    CHECK(alive == 15);
    SECTION("never run") {}
    SECTION("closed before")
    {
      a.close();
      b.close();
    }
    SECTION("destroyed before")
    {
      rdma::queue_pair gone_a = std::move(a);
      rdma::queue_pair gone_b = std::move(b);
    }
  }
  CHECK(alive == 0);
}

TEST_CASE("coroutines that own their queue pairs are destroyed with their io_context")
{
  int alive = 0;
  rdma::context context = make_context();
  {
    asio::io_context io;
    rdma::queue_pair a(io, context);
    rdma::queue_pair b(io, context);
    connect(a, b);
    int rounds = 0;
    auto serve = [&](rdma::queue_pair peer, live_counter) -> asio::awaitable<void>
    {
      rdma::registered_buffer buffer = context.allocate(64);
      for (;;)
      {
        const std::size_t n = co_await peer.async_receive(buffer, asio::use_awaitable);
        ++rounds;
        co_await peer.async_send(buffer.first(n), asio::use_awaitable);
      }
    };
    auto ask = [&](rdma::queue_pair peer, live_counter) -> asio::awaitable<void>
    {
      rdma::registered_buffer buffer = buffer_of(context, "hello");
      for (int i = 0; i < 3; ++i)
      {
        co_await peer.async_send(buffer, asio::use_awaitable);
        co_await peer.async_receive(buffer, asio::use_awaitable);
      }
      co_await peer.async_receive(buffer, asio::use_awaitable); // never completes
    };
    asio::co_spawn(io, serve(std::move(a), live_counter(alive)), asio::detached);
    asio::co_spawn(io, ask(std::move(b), live_counter(alive)), asio::detached);
    REQUIRE(run_until(io, [&] { return rounds == 3; }));
    CHECK(alive >= 2);
  }
  CHECK(alive == 0);
  CHECK(context.pool_statistics().buffers == 0);
}

TEST_CASE("outstanding operations fail when the peer is destroyed")
{
  rdma::queue_pair_options impatient;
  impatient.timeout = 10;
  impatient.retry_count = 1;
  impatient.rnr_retry_count = 1;
  linked_pair l(impatient);
  rdma::registered_buffer buffer = buffer_of(l.near_context, "anybody?");
  {
    rdma::queue_pair gone = std::move(l.far);
  }
  outcomes o;
  l.near.async_receive(buffer, o.handler(0));
  l.near.async_send(buffer, o.handler(1));
  l.near.async_send(buffer, o.handler(2));
  REQUIRE(run_until(l.io, [&] { return o.list.size() == 3; }));
  CHECK(o.each_once(3));
  CHECK(o.of(1) == rdma::wc_status::retry_exceeded);
  CHECK(o.of(0) == rdma::wc_status::flushed);
  CHECK(o.of(2) == rdma::wc_status::flushed);
  CHECK_FALSE(l.near.is_connected());
  CHECK(l.near.diagnose().code == rdma::wc_status::retry_exceeded);
  CHECK(l.near.diagnose().operation == "send");
  CHECK(l.near.diagnose().text().find(device_name()) != std::string::npos);
}

TEST_CASE("shared receives end when their queue and its queue pairs are destroyed")
{
  BOOST_RDMA_TEST_NEEDS(shared_receive_queues);
  asio::io_context io;
  rdma::context context = make_context();
  rdma::shared_receive_queue_options few;
  few.depth = 2;
  std::optional<rdma::shared_receive_queue> queue(std::in_place, io, context, few);
  rdma::queue_pair_options options;
  options.receive_from(*queue);
  std::optional<rdma::queue_pair> user(std::in_place, io, context, options);
  rdma::queue_pair peer(io, context);
  connect(*user, peer);
  rdma::registered_buffer buffer = context.allocate(8);
  outcomes o;
  for (int i = 0; i < 4; ++i) // two are posted to the device
    queue->async_receive_message(buffer, o.handler(i));
  queue.reset();
  REQUIRE(run_until(io, [&] { return o.list.size() == 2; }));
  CHECK(o.of(2) == asio::error::operation_aborted);
  CHECK(o.of(3) == asio::error::operation_aborted);
  bytes_record sent; // the device still receives
  peer.async_send(rdma::no_data, sent.handler());
  REQUIRE(run_until(io, [&] { return sent.done() && o.list.size() == 3; }));
  CHECK(sent.ec == error_code());
  CHECK(o.of(0) == error_code());
  user.reset();
  REQUIRE(run_until(io, [&] { return o.list.size() == 4; }));
  CHECK(o.of(1) == asio::error::operation_aborted);
  CHECK(o.each_once(4));
  peer.close();
  REQUIRE(run_out(io));
}

TEST_CASE("a closed shared receive queue reports closed and does not affect later queue pairs")
{
  BOOST_RDMA_TEST_NEEDS(shared_receive_queues);
  linked_pair l; // keeps the completion queue alive
  rdma::shared_receive_queue queue(l.io, l.near_context);
  queue.close();
  REQUIRE(run_out(l.io));
  rdma::queue_pair later(l.io, l.near_context); // reuses its slot in the completion queue
  message_record closed;
  for (int i = 0; i < 2; ++i)
    queue.async_receive_message(rdma::no_data, closed.handler());
  REQUIRE(run_until(l.io, [&] { return closed.calls == 2; }));
  CHECK(closed.ec == rdma::error::closed);

  rdma::queue_pair peer(l.io, l.far_context);
  connect(later, peer);
  bytes_record received;
  later.async_receive(rdma::no_data, received.handler());
  peer.async_send(rdma::no_data, [](error_code, std::size_t) {});
  REQUIRE(run_until(l.io, [&] { return received.done(); }));
  CHECK(received.ec == error_code());
}

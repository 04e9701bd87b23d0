//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"
#include "software/outcomes.hpp"
#include "software/refusal.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

// Tests per-operation cancellation of waiting and posted operations.

using namespace test;

TEST_CASE("every cancellation type withdraws a waiting receive and the others keep their order")
{
  const auto type = GENERATE(asio::cancellation_type::partial, asio::cancellation_type::total,
    asio::cancellation_type::terminal);
  linked_pair l(of_depth(2));
  rdma::registered_buffer buffer = l.near_context.allocate(64);
  outcomes o;
  asio::cancellation_signal signals[8];
  for (int i = 0; i < 8; ++i) // two are posted, six wait
    l.near.async_receive(buffer.slice(static_cast<std::size_t>(i), 1),
      asio::bind_cancellation_slot(signals[i].slot(), o.handler(i)));
  signals[4].emit(type); // in the middle
  signals[7].emit(type); // the last
  signals[2].emit(type); // the first that waits
  CHECK(o.list.empty());
  REQUIRE(run_until(l.io, [&] { return o.list.size() == 3; }));
  for (int i : {2, 4, 7})
    CHECK(o.of(i) == asio::error::operation_aborted);
  CHECK(l.near.is_connected());

  rdma::registered_buffer text = buffer_of(l.far_context, "abcde");
  for (std::size_t i = 0; i < 5; ++i)
    l.far.async_send(text.slice(i, 1), [](error_code, std::size_t) {});
  REQUIRE(run_until(l.io, [&] { return o.list.size() == 8; }));
  CHECK(o.each_once(8));
  const int order[] = {0, 1, 3, 5, 6};
  for (std::size_t i = 0; i < 5; ++i)
  {
    CHECK(o.list[3 + i].id == order[i]);
    CHECK(o.list[3 + i].ec == error_code());
    CHECK(
      text_of(buffer.slice(static_cast<std::size_t>(order[i]), 1)) == text_of(text.slice(i, 1)));
  }
}

TEST_CASE("cancellation withdraws a waiting send and the others arrive")
{
  linked_pair l(of_depth(2));
  rdma::registered_buffer text = buffer_of(l.near_context, "abcdef");
  rdma::registered_buffer into = l.far_context.allocate(6);
  outcomes o;
  asio::cancellation_signal signals[6];
  for (std::size_t i = 0; i < 6; ++i)
    l.near.async_send(text.slice(i, 1),
      asio::bind_cancellation_slot(signals[i].slot(), o.handler(static_cast<int>(i))));
  signals[3].emit(asio::cancellation_type::total);
  int received = 0;
  for (std::size_t i = 0; i < 5; ++i)
    l.far.async_receive(into.slice(i, 1), [&](error_code ec, std::size_t) { received += !ec; });
  REQUIRE(run_until(l.io, [&] { return received == 5 && o.list.size() == 6; }));
  CHECK(o.each_once(6));
  CHECK(o.of(3) == asio::error::operation_aborted);
  CHECK(text_of(into.first(5)) == "abcef");
}

TEST_CASE("partial and total cancellation do not affect a posted operation")
{
  linked_pair l;
  rdma::registered_buffer buffer = l.near_context.allocate(8);
  asio::cancellation_signal signal;
  bytes_record r;
  l.near.async_receive(buffer, asio::bind_cancellation_slot(signal.slot(), r.handler()));
  signal.emit(asio::cancellation_type::partial | asio::cancellation_type::total);
  check_alive(l.io, l.near, l.far);
  CHECK_FALSE(r.done());
  CHECK(l.near.is_connected());
  l.far.async_send(rdma::no_data, [](error_code, std::size_t) {});
  REQUIRE(run_until(l.io, [&] { return r.done(); }));
  CHECK(r.ec == error_code());
}

TEST_CASE("terminal cancellation of a posted operation ends it and disconnects the queue pair")
{
  linked_pair l;
  rdma::registered_buffer buffer = l.near_context.allocate(8);
  asio::cancellation_signal signal;
  outcomes o;
  l.near.async_receive(buffer, o.handler(0));
  l.near.async_receive(buffer, asio::bind_cancellation_slot(signal.slot(), o.handler(1)));
  l.near.async_receive(buffer, o.handler(2));
  signal.emit(asio::cancellation_type::terminal);
  CHECK(o.list.empty()); // the device has not released it yet
  CHECK_FALSE(l.near.is_connected());
  REQUIRE(run_until(l.io, [&] { return o.list.size() == 3; }));
  CHECK(o.each_once(3));
  CHECK(o.of(1) == asio::error::operation_aborted);
  for (int i : {0, 2})
    CHECK(o.of(i) == rdma::wc_status::flushed);
  CHECK(l.near.is_open());
  CHECK(o.list[0].id == 0);
  CHECK(o.list[1].id == 1);
  REQUIRE(run_out(l.io)); // no timer is left
}

TEST_CASE("cancellation of a completed operation has no effect on its reused slot")
{
  linked_pair l;
  rdma::registered_buffer buffer = l.near_context.allocate(8);
  asio::cancellation_signal old_signal;
  bytes_record first;
  l.near.async_receive(buffer, asio::bind_cancellation_slot(old_signal.slot(), first.handler()));
  l.far.async_send(rdma::no_data, [](error_code, std::size_t) {});
  REQUIRE(run_until(l.io, [&] { return first.done(); }));
  bytes_record second; // reuses the slot of the first operation
  l.near.async_receive(buffer, second.handler());
  old_signal.emit(asio::cancellation_type::all);
  check_alive(l.io, l.near, l.far);
  CHECK_FALSE(second.done());
  CHECK(l.near.is_connected());

  SECTION("after the queue pair is destroyed")
  {
    {
      rdma::queue_pair gone = std::move(l.near);
    }
    REQUIRE(run_until(l.io, [&] { return second.done(); }));
    CHECK(second.ec == asio::error::operation_aborted);
    old_signal.emit(asio::cancellation_type::all);
  }
}

TEST_CASE("cancellation of a failed operation before its handler runs has no effect")
{
  linked_pair l;
  rdma::registered_buffer buffer = l.near_context.allocate(8);
  asio::cancellation_signal signal;
  bytes_record r;
  l.near.async_send(buffer.first(0), asio::bind_cancellation_slot(signal.slot(), r.handler()));
  signal.emit(asio::cancellation_type::all);
  REQUIRE(run_out(l.io));
  CHECK(r.calls == 1);
  CHECK(r.ec == rdma::error::empty_buffer);
  CHECK(l.near.is_connected());
}

TEST_CASE("cancellation inside a handler works for waiting and posted operations")
{
  linked_pair l(of_depth(2));
  rdma::registered_buffer buffer = l.near_context.allocate(8);
  asio::cancellation_signal posted;
  asio::cancellation_signal waiting;
  outcomes o;
  l.near.async_receive(buffer, asio::bind_cancellation_slot(posted.slot(), o.handler(0)));
  l.near.async_receive(buffer, o.handler(1));
  l.near.async_receive(buffer, asio::bind_cancellation_slot(waiting.slot(), o.handler(2)));
  asio::post(l.io,
    [&]
    {
      waiting.emit(asio::cancellation_type::partial);
      posted.emit(asio::cancellation_type::terminal);
    });
  REQUIRE(run_until(l.io, [&] { return o.list.size() == 3; }));
  CHECK(o.each_once(3));
  CHECK(o.of(0) == asio::error::operation_aborted);
  CHECK(o.of(2) == asio::error::operation_aborted);
}

TEST_CASE("operator|| of a waiting receive and a timer cancels the receive when the timer expires")
{
  using namespace asio::experimental::awaitable_operators;
  linked_pair l(of_depth(2));
  rdma::registered_buffer buffer = l.near_context.allocate(8);
  // The receive queue is full, so the third receive waits and can be cancelled alone.
  outcomes o;
  l.near.async_receive(buffer, o.handler(0));
  l.near.async_receive(buffer, o.handler(1));
  bool timed_out = false;
  asio::co_spawn(
    l.io,
    [&]() -> asio::awaitable<void>
    {
      asio::steady_timer timer(l.io, std::chrono::milliseconds(1));
      auto result = co_await (
        l.near.async_receive(buffer, asio::use_awaitable) || timer.async_wait(asio::use_awaitable));
      timed_out = result.index() == 1;
    },
    asio::detached);
  REQUIRE(run_until(l.io, [&] { return timed_out; }));
  CHECK(o.list.empty());
  CHECK(l.near.is_connected());
}

TEST_CASE("cancellation withdraws a waiting shared receive but not a posted one")
{
  BOOST_RDMA_TEST_NEEDS(shared_receive_queues);
  asio::io_context io;
  rdma::context context = make_context();
  rdma::shared_receive_queue_options one;
  one.depth = 1;
  rdma::shared_receive_queue queue(io, context, one);
  outcomes o;
  asio::cancellation_signal signals[2];
  for (int i = 0; i < 2; ++i)
    queue.async_receive_message(
      rdma::no_data, asio::bind_cancellation_slot(signals[i].slot(), o.handler(i)));
  signals[0].emit(asio::cancellation_type::all);
  signals[1].emit(asio::cancellation_type::all);
  REQUIRE(run_until(io, [&] { return o.list.size() == 1; }));
  CHECK(o.of(1) == asio::error::operation_aborted);
  CHECK(o.calls(0) == 0);
  queue.close();
  REQUIRE(run_out(io));
  CHECK(o.each_once(2));
}

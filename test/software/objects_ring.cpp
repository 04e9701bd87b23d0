//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/allocations.hpp"
#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"

#include <boost_rdma/objects/remote_ring.hpp>
#include <boost_rdma/objects/ring.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace test::objects_ring {

// Tests rings through one connection. objects_ring_processes.cpp tests two processes.

namespace {

template <std::size_t Size>
struct ring_record
{
  static ring_record of(std::uint32_t number)
  {
    ring_record result;
    for (std::size_t i = 0; i != Size; ++i)
      result.bytes[i] = static_cast<std::uint8_t>((number >> (8 * (i % 4))) + i / 4);
    return result;
  }
  friend bool operator==(const ring_record&, const ring_record&) = default;

  std::array<std::uint8_t, Size> bytes;
};

template <class Object>
struct opened
{
  error_code ec;
  std::optional<Object> object;

  [[nodiscard]] auto handler()
  {
    return [this](error_code result, Object made)
    {
      ec = result;
      object.emplace(std::move(made));
    };
  }
  [[nodiscard]] bool done() const { return object.has_value(); }
};

// Two connected queue pairs, of which all handlers run on one strand.
struct strand_pair
{
  using executor = asio::strand<asio::io_context::executor_type>;

  strand_pair() { connect(near, far); }

  asio::io_context io;
  executor strand = asio::make_strand(io);
  rdma::context near_context = make_context();
  rdma::context far_context = make_context();
  rdma::basic_queue_pair<executor> near{strand, near_context};
  rdma::basic_queue_pair<executor> far{strand, far_context};
};

template <class T>
rdma::remote_ring<T> open_ring(linked_pair& l, const rdma::remote_buffer& memory)
{
  opened<rdma::remote_ring<T>> r;
  rdma::remote_ring<T>::async_open(l.near, memory, r.handler());
  CHECK_FALSE(r.done());
  REQUIRE(run_until(l.io, [&] { return r.done(); }));
  REQUIRE_FALSE(r.ec);
  return std::move(*r.object);
}

using number = std::uint64_t;

struct shared_ring : linked_pair
{
  explicit shared_ring(std::size_t capacity)
    : consumer(io, far_context, capacity)
    , producer(open_ring<number>(*this, consumer.remote()))
  {
  }

  // Pushes numbers until there is no room.
  void fill()
  {
    while (producer.try_push(next))
      ++next;
  }

  // Lets the ring be full: no write is in flight, and all of its entries are used.
  void fill_both()
  {
    const std::size_t all = 2 * consumer.capacity();
    REQUIRE(run_until(io,
      [&]
      {
        fill();
        return next == all;
      }));
  }

  // Pops numbers in order until `count` have come.
  void pop(std::size_t count)
  {
    REQUIRE(run_until(io,
      [&]
      {
        for (number found = 0; popped != count && consumer.try_pop(found); ++popped)
          REQUIRE(found == popped);
        return popped == count;
      }));
  }

  rdma::ring<number> consumer;
  rdma::remote_ring<number> producer;
  number next = 0;
  std::size_t popped = 0;
};

} // namespace

TEMPLATE_TEST_CASE("records of a ring arrive in order, whatever their size and the ring's",
  "[objects_ring]", ring_record<1>, ring_record<4>, ring_record<16>, ring_record<1024>)
{
  const std::size_t capacity = GENERATE(1, 2, 5, 64);
  linked_pair l;
  rdma::ring<TestType> consumer(l.io, l.far_context, capacity);
  CHECK(consumer.capacity() == (capacity == 5 ? 8 : capacity));
  auto producer = open_ring<TestType>(l, consumer.remote());
  constexpr std::uint32_t count = 1000;
  std::uint32_t pushed = 0;
  std::uint32_t popped = 0;
  bool right = true;
  REQUIRE(run_until(l.io,
    [&]
    {
      while (pushed != count && producer.try_push(TestType::of(pushed)))
        ++pushed;
      std::array<TestType, 3> found;
      while (const std::size_t n = consumer.pop_some(found))
        for (std::size_t i = 0; i != n; ++i)
          right = right && found[i] == TestType::of(popped++);
      return popped == count || !right;
    }));
  CHECK(right);
  CHECK(popped == count);
}

TEST_CASE("async_flush of a ring completes when the records are in the consumer's memory")
{
  shared_ring r(64);
  plain_record empty;
  r.producer.async_flush(empty.handler());
  CHECK_FALSE(empty.done());
  REQUIRE(run_until(r.io, [&] { return empty.done(); }));
  CHECK_FALSE(empty.ec);
  r.fill();
  const number pushed = r.next;
  CHECK(pushed == 64);
  std::array<plain_record, 2> flushed;
  for (auto& each : flushed)
    r.producer.async_flush(each.handler());
  CHECK_FALSE(flushed[0].done());
  REQUIRE(run_until(r.io, [&] { return flushed[0].done() && flushed[1].done(); }));
  CHECK_FALSE(flushed[0].ec);
  number found = 0;
  for (number i = 0; i != pushed; ++i)
  {
    REQUIRE(r.consumer.try_pop(found));
    CHECK(found == i);
  }
  CHECK_FALSE(r.consumer.try_pop(found));
}

TEST_CASE("pushes that wait for room push in the order of their start")
{
  shared_ring r(4);
  r.fill_both();
  std::array<plain_record, 6> waiting;
  std::vector<int> order;
  for (int i = 0; i != 6; ++i)
    r.producer.async_push(r.next++,
      [&, i, handler = waiting[static_cast<std::size_t>(i)].handler()](error_code ec)
      {
        order.push_back(i);
        handler(ec);
      });
  for (int i = 0; i != 100; ++i)
    r.io.poll_one();
  CHECK(order.empty());
  CHECK_FALSE(r.producer.try_push(0)); // it would overtake them
  r.pop(r.next);
  REQUIRE(run_until(r.io, [&] { return order.size() == 6; }));
  CHECK(order == std::vector<int>{0, 1, 2, 3, 4, 5});
  for (const auto& each : waiting)
    CHECK_FALSE(each.ec);
  REQUIRE(run_until(r.io, [&] { return r.producer.try_push(r.next); }));
  r.pop(++r.next);
}

TEST_CASE("async_push completes later even if there is room")
{
  shared_ring r(4);
  plain_record pushed;
  r.producer.async_push(r.next++, pushed.handler());
  CHECK_FALSE(pushed.done());
  REQUIRE(run_until(r.io, [&] { return pushed.done(); }));
  CHECK_FALSE(pushed.ec);
  r.pop(1);
}

TEST_CASE("a cancelled push of a ring does not push, and those behind it do")
{
  shared_ring r(2);
  r.fill_both();
  asio::cancellation_signal signal;
  plain_record before;
  plain_record cancelled;
  plain_record behind;
  r.producer.async_push(r.next, before.handler());
  r.producer.async_push(
    number{1'000'000}, asio::bind_cancellation_slot(signal.slot(), cancelled.handler()));
  r.producer.async_push(r.next + 1, behind.handler());
  r.next += 2;
  signal.emit(asio::cancellation_type::total);
  CHECK_FALSE(cancelled.done());
  REQUIRE(run_until(r.io, [&] { return cancelled.done(); }));
  CHECK(cancelled.ec == asio::error::operation_aborted);
  CHECK_FALSE(before.done());
  r.pop(r.next);
  REQUIRE(run_until(r.io, [&] { return before.done() && behind.done(); }));
  CHECK_FALSE(before.ec);
  CHECK_FALSE(behind.ec);
}

TEST_CASE("a ring accepts records again when its only waiting push is cancelled")
{
  shared_ring r(2);
  r.fill_both();
  asio::cancellation_signal signal;
  plain_record cancelled;
  r.producer.async_push(
    number{0}, asio::bind_cancellation_slot(signal.slot(), cancelled.handler()));
  signal.emit(asio::cancellation_type::terminal);
  REQUIRE(run_until(r.io, [&] { return cancelled.done(); }));
  r.pop(4);
  REQUIRE(run_until(r.io, [&] { return r.producer.try_push(r.next); }));
  ++r.next;
  r.pop(5);
}

TEST_CASE("a flush of a ring is cancelled while the consumer is full")
{
  shared_ring r(2);
  r.fill_both();
  asio::cancellation_signal signal;
  plain_record flushed;
  r.producer.async_flush(asio::bind_cancellation_slot(signal.slot(), flushed.handler()));
  for (int i = 0; i != 100; ++i)
    r.io.poll_one();
  CHECK_FALSE(flushed.done());
  signal.emit(asio::cancellation_type::partial);
  REQUIRE(run_until(r.io, [&] { return flushed.done(); }));
  CHECK(flushed.ec == asio::error::operation_aborted);
  r.pop(4);
}

TEST_CASE("async_pop waits for a record, also for long, and one call at a time")
{
  shared_ring r(4);
  for (int round = 0; round != 3; ++round)
  {
    record<number> popped;
    record<number> second;
    r.consumer.async_pop(popped.handler());
    r.consumer.async_pop(second.handler());
    CHECK_FALSE(second.done());
    REQUIRE(run_until(r.io, [&] { return second.done(); }));
    CHECK(second.ec == asio::error::already_started);
    int turns = 0; // the first are without pauses
    REQUIRE(run_until(r.io, [&] { return ++turns == (round == 0 ? 1 : 100); }));
    CHECK_FALSE(popped.done());
    REQUIRE(r.producer.try_push(r.next));
    REQUIRE(run_until(r.io, [&] { return popped.done(); }));
    CHECK_FALSE(popped.ec);
    CHECK(popped.value() == r.next++);
  }
  record<number> there;
  REQUIRE(r.producer.try_push(r.next));
  plain_record flushed;
  r.producer.async_flush(flushed.handler());
  REQUIRE(run_until(r.io, [&] { return flushed.done(); }));
  r.consumer.async_pop(there.handler());
  CHECK_FALSE(there.done());
  REQUIRE(run_until(r.io, [&] { return there.done(); }));
  CHECK(there.value() == r.next);
}

TEST_CASE("async_pop is cancelled in each of its stages, and loses no record")
{
  shared_ring r(4);
  for (int turns = 0; turns != 80; turns += 5)
  {
    asio::cancellation_signal signal;
    record<number> popped;
    r.consumer.async_pop(asio::bind_cancellation_slot(signal.slot(), popped.handler()));
    for (int i = 0; i != turns; ++i)
      r.io.run_one();
    REQUIRE(run_until(r.io, [&] { return r.producer.try_push(r.next); }));
    signal.emit(asio::cancellation_type::total);
    if (!popped.done())
      REQUIRE(run_until(r.io, [&] { return popped.done(); }));
    if (popped.ec)
    {
      CHECK(popped.ec == asio::error::operation_aborted);
      r.consumer.async_pop(popped.handler());
      REQUIRE(run_until(r.io, [&] { return popped.calls == 2; }));
      REQUIRE_FALSE(popped.ec);
    }
    CHECK(popped.value() == r.next);
    r.popped = ++r.next;
  }
  r.fill();
  r.pop(r.next);
}

TEST_CASE("operations of a ring end when an end of it is destroyed")
{
  shared_ring r(2);
  record<number> popped;
  {
    rdma::ring<number> another(r.io, r.far_context, 2);
    another.async_pop(popped.handler());
    rdma::ring<number> moved(std::move(another));
    r.io.poll();
    CHECK_FALSE(popped.done());
  }
  CHECK_FALSE(popped.done());
  REQUIRE(run_until(r.io, [&] { return popped.done(); }));
  CHECK(popped.ec == asio::error::operation_aborted);

  r.fill_both();
  plain_record pushed;
  plain_record flushed;
  r.producer.async_push(number{0}, pushed.handler());
  r.producer.async_flush(flushed.handler());
  rdma::remote_ring<number> moved(std::move(r.producer));
  r.io.poll();
  CHECK_FALSE(pushed.done());
  {
    const rdma::remote_ring<number> destroyed(std::move(moved));
  }
  CHECK_FALSE(pushed.done());
  REQUIRE(run_until(r.io, [&] { return pushed.done() && flushed.done(); }));
  CHECK(pushed.ec == asio::error::operation_aborted);
  CHECK(flushed.ec == asio::error::operation_aborted);
  CHECK_FALSE(moved.try_push(0));
  plain_record nothing;
  moved.async_push(number{0}, nothing.handler());
  CHECK_FALSE(nothing.done());
  REQUIRE(run_until(r.io, [&] { return nothing.done(); }));
  CHECK(nothing.ec == rdma::error::closed);
  CHECK(run_out(r.io)); // no timer and no request is left
}

TEST_CASE("a ring ends with the queue pair, and all later calls report it")
{
  shared_ring r(4);
  r.fill_both();
  plain_record waiting;
  plain_record flushed;
  r.producer.async_push(number{0}, waiting.handler());
  r.producer.async_flush(flushed.handler());
  r.near.close();
  REQUIRE(run_until(r.io, [&] { return waiting.done() && flushed.done(); }));
  CHECK(waiting.ec);
  CHECK(flushed.ec == waiting.ec);
  CHECK_FALSE(r.producer.try_push(0));
  plain_record later;
  plain_record later_flush;
  r.producer.async_push(number{0}, later.handler());
  r.producer.async_flush(later_flush.handler());
  REQUIRE(run_until(r.io, [&] { return later.done() && later_flush.done(); }));
  CHECK(later.ec == waiting.ec);
  CHECK(later_flush.ec == waiting.ec);
  r.pop(4); // arrived before
}

TEST_CASE("a ring ends if the consumer's memory has an impossible number of consumed records")
{
  shared_ring r(4);
  std::atomic_ref(
    r.consumer.region()
      .as_span<std::uint64_t>()[rdma::detail::objects::ring_layout::consumed_offset / 8])
    .store(1'000'000);
  error_code ec;
  while (!ec)
  {
    plain_record pushed;
    r.producer.async_push(number{0}, pushed.handler());
    REQUIRE(run_until(r.io, [&] { return pushed.done(); }));
    ec = pushed.ec;
  }
  CHECK(ec == rdma::error::object_mismatch);
  CHECK_FALSE(r.producer.try_push(0));
}

TEST_CASE("async_open of a ring fails for other memory")
{
  linked_pair l;
  rdma::ring<number> ring(l.io, l.far_context, 16);
  const auto fails = [&]<class T>(std::type_identity<T>, const rdma::remote_buffer& memory)
  {
    opened<rdma::remote_ring<T>> r;
    rdma::remote_ring<T>::async_open(l.near, memory, r.handler());
    CHECK_FALSE(r.done());
    REQUIRE(run_until(l.io, [&] { return r.done(); }));
    CHECK_FALSE(r.object->try_push(T()));
    return r.ec;
  };
  struct other
  {
    std::uint64_t value; // the same size
  };
  using right = std::type_identity<number>;
  CHECK(fails(std::type_identity<other>(), ring.remote()) == rdma::error::object_mismatch);
  rdma::memory_region zeros(l.far_context, 4096, exposed);
  CHECK(fails(right(), zeros.remote()) == rdma::error::object_mismatch);
  CHECK(
    fails(right(), ring.remote().first(ring.region().size() - 8)) == rdma::error::object_mismatch);
  CHECK(fails(right(), ring.remote().first(64)) == rdma::error::remote_range_too_small);
  CHECK(fails(right(), zeros.remote().slice(4)) == rdma::error::misaligned);
  {
    auto first = open_ring<number>(l, ring.remote());
    REQUIRE(first.try_push(1));
    plain_record flushed;
    first.async_flush(flushed.handler());
    REQUIRE(run_until(l.io, [&] { return flushed.done(); }));
  }
  CHECK(fails(right(), ring.remote()) == rdma::error::object_mismatch);

  opened<rdma::remote_ring<number>> r;
  rdma::remote_ring<number>::async_open(
    rdma::queue_pair(l.io.get_executor(), nullptr), ring.remote(), r.handler());
  REQUIRE(run_until(l.io, [&] { return r.done(); }));
  CHECK(r.ec == rdma::error::closed);
}

TEST_CASE("a ring cannot have no room or room for too many records")
{
  asio::io_context io;
  const rdma::context context = make_context();
  CHECK_THROWS_AS(rdma::ring<number>(io, context, 0), boost::system::system_error);
  CHECK_THROWS_AS(rdma::ring<number>(io, context, SIZE_MAX), boost::system::system_error);
}

TEST_CASE("a push's handler that throws does not end the pushes behind it")
{
  // An io_context catches the exception before it reaches the ring, a strand does not.
  strand_pair s;
  rdma::ring<number, strand_pair::executor> consumer(s.strand, s.far_context, 4);
  using remote_ring = rdma::remote_ring<number, strand_pair::executor>;
  opened<remote_ring> producer;
  remote_ring::async_open(s.near, consumer.remote(), producer.handler());
  REQUIRE(run_until(s.io, [&] { return producer.done(); }));
  REQUIRE_FALSE(producer.ec);
  int pushed = 0;
  REQUIRE(run_until(s.io, [&] { return (pushed += producer.object->try_push(0)) == 8; }));
  int calls = 0;
  for (int i = 0; i != 3; ++i)
    producer.object->async_push(number{0},
      [&, i](const error_code& ec)
      {
        CHECK_FALSE(ec);
        ++calls;
        if (i == 0)
          throw std::runtime_error("");
      });
  const auto all = [&]
  {
    for (number found = 0; consumer.try_pop(found);)
      ;
    return calls == 3;
  };
  CHECK_THROWS_AS(run_until(s.io, all), std::runtime_error);
  REQUIRE(run_until(s.io, all));
}

TEST_CASE("a ring works with coroutines, strands and other types of executor")
{
  strand_pair s;
  using executor = strand_pair::executor;
  rdma::ring<number, executor> consumer(s.strand, s.far_context, 8);
  constexpr number count = 500;
  number popped = 0;
  asio::co_spawn(
    s.strand,
    [&]() -> asio::awaitable<void, executor>
    {
      const asio::use_awaitable_t<executor> token;
      auto producer =
        co_await rdma::remote_ring<number, executor>::async_open(s.near, consumer.remote(), token);
      for (number i = 0; i != count; ++i)
        co_await producer.async_push(i, token);
      co_await producer.async_flush(asio::deferred);
    },
    asio::detached);
  asio::co_spawn(
    s.strand,
    [&]() -> asio::awaitable<void, executor>
    {
      const asio::use_awaitable_t<executor> token;
      while (popped != count && co_await consumer.async_pop(token) == popped)
        ++popped;
    },
    asio::detached);
  REQUIRE(run_until(s.io, [&] { return popped == count; }));
}

TEST_CASE("pushing and taking records of a ring allocates no memory in steady state")
{
  shared_ring r(64);
  const auto many_records = [&]
  {
    for (int i = 0; i != 20; ++i)
    {
      r.fill();
      for (number found = 0; r.popped != r.next;)
      {
        r.io.restart();
        r.io.poll();
        while (r.consumer.try_pop(found))
          ++r.popped;
      }
    }
  };
  many_records();
  CHECK(allocations_of_each(many_records) == 0);
}

} // namespace test::objects_ring

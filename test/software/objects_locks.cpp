//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//
#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"
#include "software/object_fixture.hpp"

#include <boost_rdma/objects/owned.hpp>
#include <boost_rdma/objects/remote_mutex.hpp>
#include <boost_rdma/objects/remote_semaphore.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

namespace test::objects_locks {

// Tests mutexes and semaphores through one connection.

using namespace std::chrono_literals;

namespace {

using steady = std::chrono::steady_clock;

// No lease ends in a test with this one, however busy the machine is.
constexpr auto long_lease = std::chrono::milliseconds(1h);

// A lease whose end a test waits for.
constexpr auto short_lease = 20ms;

struct shared_mutex : linked_pair
{
  explicit shared_mutex(std::chrono::milliseconds lease)
    : owner(io, far_context, lease)
    , remote(open<rdma::remote_mutex<>>(*this, owner.remote()))
  {
  }

  template <class... Values, class Start>
  record<Values...> run(Start start)
  {
    record<Values...> r;
    start(r.handler());
    CHECK_FALSE(r.done());
    REQUIRE(run_until(io, [&] { return r.done(); }));
    return r;
  }
  rdma::mutex_lock lock(rdma::remote_mutex<>& which)
  {
    const auto r = run<rdma::mutex_lock>([&](auto h) { which.async_lock(h); });
    REQUIRE_FALSE(r.ec);
    return r.value();
  }
  std::optional<rdma::mutex_lock> try_lock(rdma::remote_mutex<>& which)
  {
    const auto r = run<std::optional<rdma::mutex_lock>>([&](auto h) { which.async_try_lock(h); });
    REQUIRE_FALSE(r.ec);
    return r.value();
  }
  error_code unlock(rdma::remote_mutex<>& which, const rdma::mutex_lock& held)
  {
    return run<>([&](auto h) { which.async_unlock(held, h); }).ec;
  }

  rdma::owned<rdma::remote_mutex<>> owner;
  rdma::remote_mutex<> remote;
};

struct shared_semaphore : linked_pair
{
  shared_semaphore(std::size_t permits, std::chrono::milliseconds lease)
    : owner(io, far_context, permits, lease)
    , remote(open<rdma::remote_semaphore<>>(*this, owner.remote()))
  {
  }

  template <class... Values, class Start>
  record<Values...> run(Start start)
  {
    record<Values...> r;
    start(r.handler());
    CHECK_FALSE(r.done());
    REQUIRE(run_until(io, [&] { return r.done(); }));
    return r;
  }
  rdma::semaphore_permit acquire(rdma::remote_semaphore<>& which)
  {
    const auto r = run<rdma::semaphore_permit>([&](auto h) { which.async_acquire(h); });
    REQUIRE_FALSE(r.ec);
    return r.value();
  }
  std::optional<rdma::semaphore_permit> try_acquire(rdma::remote_semaphore<>& which)
  {
    const auto r =
      run<std::optional<rdma::semaphore_permit>>([&](auto h) { which.async_try_acquire(h); });
    REQUIRE_FALSE(r.ec);
    return r.value();
  }
  error_code release(rdma::remote_semaphore<>& which, const rdma::semaphore_permit& held)
  {
    return run<>([&](auto h) { which.async_release(held, h); }).ec;
  }

  rdma::owned<rdma::remote_semaphore<>> owner;
  rdma::remote_semaphore<> remote;
};

} // namespace

TEST_CASE("both sides lock a mutex in turns, with growing tokens")
{
  shared_mutex s(long_lease);
  std::uint64_t last = 0;
  for (int i = 0; i != 10; ++i)
  {
    rdma::remote_mutex<>& side = i % 2 == 0 ? s.remote : s.owner;
    rdma::remote_mutex<>& other = i % 2 == 0 ? s.owner : s.remote;
    const auto held = i % 3 == 0 ? s.try_lock(side).value() : s.lock(side);
    CHECK(held.fencing_token() > last);
    last = held.fencing_token();
    CHECK(held.expires_at() > steady::now());
    CHECK_FALSE(s.try_lock(other));
    CHECK_FALSE(s.unlock(side, held));
    CHECK(s.unlock(side, held) == rdma::error::lease_ended);
  }
}

TEST_CASE("processes lock a mutex in the order in which they asked for it")
{
  shared_mutex s(long_lease);
  const auto first = s.lock(s.owner);
  std::array<record<rdma::mutex_lock>, 8> locks;
  std::array<record<>, 8> unlocks;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i != locks.size(); ++i)
    s.remote.async_lock(
      [&, i](error_code ec, const rdma::mutex_lock& held)
      {
        locks[i].handler()(ec, held);
        order.push_back(i);
        s.remote.async_unlock(held, unlocks[i].handler());
      });
  CHECK_FALSE(s.try_lock(s.owner));
  CHECK(order.empty());
  CHECK_FALSE(s.unlock(s.owner, first));
  const auto done = [](const auto& each) { return each.done(); };
  REQUIRE(run_until(s.io, [&] { return std::ranges::all_of(unlocks, done); }));
  CHECK(order == std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6, 7});
  for (std::size_t i = 0; i != locks.size(); ++i)
  {
    CHECK_FALSE(locks[i].ec);
    CHECK_FALSE(unlocks[i].ec);
    CHECK(locks[i].value().fencing_token() == first.fencing_token() + 1 + i);
  }
}

TEST_CASE("a mutex whose holder does not renew its lease is locked by another process")
{
  shared_mutex s(short_lease);
  const auto lost = s.lock(s.remote);
  const auto held = s.lock(s.owner);
  CHECK(steady::now() >= lost.expires_at());
  CHECK(held.fencing_token() > lost.fencing_token());
  const auto renewed = s.run<rdma::mutex_lock>([&](auto h) { s.remote.async_renew(lost, h); });
  CHECK(renewed.ec == rdma::error::lease_ended);
  CHECK(renewed.value().fencing_token() == lost.fencing_token());
  CHECK(s.unlock(s.remote, lost) == rdma::error::lease_ended);
  CHECK_FALSE(s.try_lock(s.remote));
  CHECK_FALSE(s.unlock(s.owner, held)); // its lease may be over, but nobody ended it
  CHECK(s.try_lock(s.remote));
}

TEST_CASE("a lock is renewed, and unlocked through another handle than it was locked with")
{
  shared_mutex s(long_lease);
  const auto held = s.lock(s.remote);
  const auto renewed = s.run<rdma::mutex_lock>([&](auto h) { s.owner.async_renew(held, h); });
  CHECK_FALSE(renewed.ec);
  CHECK(renewed.value().expires_at() > held.expires_at());
  CHECK(renewed.value().fencing_token() == held.fencing_token());
  s.near.close();
  CHECK(s.unlock(s.remote, renewed.value()));
  CHECK_FALSE(s.try_lock(s.owner));
  CHECK_FALSE(s.unlock(s.owner, held)); // also with the handle before the renewal
  CHECK(s.try_lock(s.owner));
}

TEST_CASE("a wait for a mutex ends when it is cancelled, and does not delay others")
{
  shared_mutex s(long_lease); // another process would have to wait for an hour
  for (int i = 0; i != 40; ++i)
  {
    const auto held = s.lock(s.owner);
    asio::cancellation_signal signal;
    record<rdma::mutex_lock> cancelled;
    record<rdma::mutex_lock> next;
    s.remote.async_lock(asio::bind_cancellation_slot(signal.slot(), cancelled.handler()));
    s.remote.async_lock(next.handler());
    for (int turns = 0; turns != i; ++turns)
      s.io.poll_one();
    signal.emit(asio::cancellation_type::terminal);
    REQUIRE(run_until(s.io, [&] { return cancelled.done(); }));
    CHECK(cancelled.ec == asio::error::operation_aborted);
    CHECK_FALSE(next.done());
    CHECK_FALSE(s.unlock(s.owner, held));
    REQUIRE(run_until(s.io, [&] { return next.done(); }));
    REQUIRE_FALSE(next.ec);
    CHECK_FALSE(s.unlock(s.remote, next.value()));
  }
}

TEST_CASE("operations on a mutex fail when the queue pair is closed")
{
  shared_mutex s(long_lease);
  const auto held = s.lock(s.owner);
  record<rdma::mutex_lock> waiting;
  s.remote.async_lock(waiting.handler());
  CHECK_FALSE(s.try_lock(s.remote));
  s.near.close();
  REQUIRE(run_until(s.io, [&] { return waiting.done(); }));
  CHECK(waiting.ec);
  CHECK(s.run<std::optional<rdma::mutex_lock>>([&](auto h) { s.remote.async_try_lock(h); }).ec);
  CHECK(s.unlock(s.remote, held));
  CHECK_FALSE(s.unlock(s.owner, held));
}

TEST_CASE("coroutines exclude each other with a mutex")
{
  shared_mutex s(long_lease);
  int inside = 0;
  int rounds = 0;
  const auto work = [&](rdma::remote_mutex<> mutex) -> asio::awaitable<void>
  {
    for (int i = 0; i != 10; ++i)
    {
      auto held = co_await mutex.async_lock(asio::use_awaitable);
      CHECK(++inside == 1);
      held = co_await mutex.async_renew(held, asio::use_awaitable);
      CHECK(--inside == 0);
      co_await mutex.async_unlock(held, asio::use_awaitable);
      ++rounds;
    }
  };
  for (int i = 0; i != 4; ++i)
    asio::co_spawn(s.io, work(i % 2 == 0 ? s.remote : s.owner),
      [](const std::exception_ptr& failure) { CHECK_FALSE(failure); });
  REQUIRE(run_until(s.io, [&] { return rounds == 40; }));
}

TEST_CASE("async_open of a mutex or a semaphore fails for other memory")
{
  shared_mutex m(long_lease);
  shared_semaphore s(3, long_lease);
  const auto fails = [](auto& l, auto object, const rdma::remote_buffer& memory)
  {
    using type = decltype(object);
    return l.template run<type>([&](auto h) { type::async_open(l.near, memory, h); }).ec;
  };
  using mutex = rdma::remote_mutex<>;
  using semaphore = rdma::remote_semaphore<>;
  CHECK(fails(m, semaphore(), m.owner.remote()) == rdma::error::remote_range_too_small);
  CHECK(fails(s, mutex(), s.owner.remote()) == rdma::error::object_mismatch);
  CHECK(fails(m, mutex(), m.owner.remote().first(mutex::memory_size - 1))
    == rdma::error::remote_range_too_small);
  CHECK(fails(m, mutex(), m.owner.remote().slice(4)) == rdma::error::remote_range_too_small);
  CHECK_FALSE(fails(m, mutex(), m.owner.remote()));

  // Headers with values that no program writes.
  rdma::memory_region memory(m.far_context, 4096, exposed);
  CHECK(fails(m, mutex(), memory.remote()) == rdma::error::object_mismatch);
  CHECK(fails(m, semaphore(), memory.remote().slice(4)) == rdma::error::misaligned);
  const auto created = m.run<semaphore>(
    [&](auto h) { semaphore::async_create(m.near, memory.remote(), 64, long_lease, h); });
  REQUIRE_FALSE(created.ec);
  CHECK_FALSE(fails(m, semaphore(), memory.remote()));
  auto& header = *memory.as<rdma::detail::objects::header>();
  for (const std::uint64_t permits : {std::uint64_t{0}, std::uint64_t{65}, UINT64_MAX})
  {
    header.capacity = permits;
    CHECK(fails(m, semaphore(), memory.remote()) == rdma::error::object_mismatch);
  }
  header.capacity = 1;
  CHECK_FALSE(fails(m, semaphore(), memory.remote()));
  for (const std::uint64_t lease : {std::uint64_t{0}, std::uint64_t{3'600'001}, UINT64_MAX})
  {
    header.lease_ms = lease;
    CHECK(fails(m, semaphore(), memory.remote()) == rdma::error::object_mismatch);
  }
}

TEST_CASE("a mutex is created in memory of the peer")
{
  shared_mutex s(long_lease);
  rdma::memory_region memory(s.far_context, 4096, exposed);
  const auto created = s.run<rdma::remote_mutex<>>(
    [&](auto h) { rdma::remote_mutex<>::async_create(s.near, memory.remote(), short_lease, h); });
  REQUIRE_FALSE(created.ec);
  auto mutex = created.value();
  const auto lost = s.lock(mutex);
  auto opened = open<rdma::remote_mutex<>>(s, memory.remote());
  const auto held = s.lock(opened);
  CHECK(held.fencing_token() > lost.fencing_token());
}

TEST_CASE("both sides acquire the permits of a semaphore")
{
  shared_semaphore s(4, long_lease);
  std::vector<rdma::semaphore_permit> held;
  std::set<std::size_t> indices;
  for (int i = 0; i != 4; ++i)
  {
    rdma::remote_semaphore<>& side = i % 2 == 0 ? s.remote : s.owner;
    held.push_back(i < 2 ? s.acquire(side) : s.try_acquire(side).value());
    CHECK(held.back().index() < 4);
    CHECK(indices.insert(held.back().index()).second);
    CHECK(held.back().expires_at() > steady::now());
  }
  CHECK_FALSE(s.try_acquire(s.remote));
  CHECK_FALSE(s.try_acquire(s.owner));
  record<rdma::semaphore_permit> waiting;
  s.owner.async_acquire(waiting.handler());
  CHECK_FALSE(s.try_acquire(s.owner));
  CHECK_FALSE(waiting.done());
  CHECK_FALSE(s.release(s.remote, held[3])); // acquired through another handle
  REQUIRE(run_until(s.io, [&] { return waiting.done(); }));
  CHECK_FALSE(waiting.ec);
  CHECK(waiting.value().index() == held[3].index());
  CHECK(waiting.value().fencing_token() > held[3].fencing_token());
  CHECK(s.release(s.owner, held[3]) == rdma::error::lease_ended);
  const auto renewed =
    s.run<rdma::semaphore_permit>([&](auto h) { s.remote.async_renew(held[0], h); });
  CHECK_FALSE(renewed.ec);
  CHECK(renewed.value().index() == held[0].index());
  CHECK(renewed.value().expires_at() > held[0].expires_at());
}

TEST_CASE("a permit whose holder does not renew its lease is acquired by another process")
{
  shared_semaphore s(1, short_lease);
  const auto lost = s.acquire(s.remote);
  const auto held = s.acquire(s.owner);
  CHECK(steady::now() >= lost.expires_at());
  CHECK(held.fencing_token() > lost.fencing_token());
  const auto renewed =
    s.run<rdma::semaphore_permit>([&](auto h) { s.remote.async_renew(lost, h); });
  CHECK(renewed.ec == rdma::error::lease_ended);
  CHECK(s.release(s.remote, lost) == rdma::error::lease_ended);
  CHECK_FALSE(s.release(s.owner, held));
}

TEST_CASE("a wait for a permit ends when it is cancelled")
{
  shared_semaphore s(1, long_lease);
  const auto held = s.acquire(s.owner);
  for (int i = 0; i != 20; ++i)
  {
    asio::cancellation_signal signal;
    record<rdma::semaphore_permit> r;
    s.remote.async_acquire(asio::bind_cancellation_slot(signal.slot(), r.handler()));
    for (int turns = 0; turns != i; ++turns)
      s.io.poll_one();
    signal.emit(asio::cancellation_type::partial);
    REQUIRE(run_until(s.io, [&] { return r.done(); }));
    CHECK(r.ec == asio::error::operation_aborted);
  }
  CHECK_FALSE(s.release(s.owner, held));
  CHECK(s.try_acquire(s.remote));
}

} // namespace test::objects_locks

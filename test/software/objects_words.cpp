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
#include <boost_rdma/objects/remote_counter.hpp>
#include <boost_rdma/objects/remote_flag.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <type_traits>

namespace test::objects_words {

// Tests counters and flags through one connection.

namespace {

// Starts an operation, whose handler must not be called at once, and returns its result.
template <class... Values, class Start>
record<Values...> ran(asio::io_context& io, Start start)
{
  record<Values...> r;
  start(r.handler());
  CHECK_FALSE(r.done());
  REQUIRE(run_until(io, [&] { return r.done(); }));
  return r;
}

struct shared_counter : linked_pair
{
  shared_counter() { remote = open<rdma::remote_counter<>>(*this, owner.remote()); }

  std::uint64_t add(rdma::remote_counter<>& to, std::uint64_t n)
  {
    const auto r = ran<std::uint64_t>(io, [&](auto h) { to.async_add(n, h); });
    REQUIRE_FALSE(r.ec);
    return r.value();
  }
  std::uint64_t load(const rdma::remote_counter<>& from)
  {
    const auto r = ran<std::uint64_t>(io, [&](auto h) { from.async_load(h); });
    REQUIRE_FALSE(r.ec);
    return r.value();
  }

  rdma::owned<rdma::remote_counter<>> owner{io, far_context, std::uint64_t{5}};
  rdma::remote_counter<> remote;
};

struct shared_flag : linked_pair
{
  shared_flag() { remote = open<rdma::remote_flag<>>(*this, owner.remote()); }

  bool set(rdma::remote_flag<>& which)
  {
    const auto r = ran<bool>(io, [&](auto h) { which.async_test_and_set(h); });
    REQUIRE_FALSE(r.ec);
    return r.value();
  }
  bool clear(rdma::remote_flag<>& which)
  {
    const auto r = ran<bool>(io, [&](auto h) { which.async_clear(h); });
    REQUIRE_FALSE(r.ec);
    return r.value();
  }
  bool test(const rdma::remote_flag<>& which)
  {
    const auto r = ran<bool>(io, [&](auto h) { which.async_test(h); });
    REQUIRE_FALSE(r.ec);
    return r.value();
  }

  rdma::owned<rdma::remote_flag<>> owner{io, far_context};
  rdma::remote_flag<> remote;
};

} // namespace

TEST_CASE("additions to a counter by both sides return the value before them")
{
  shared_counter s;
  CHECK(s.load(s.remote) == 5);
  CHECK(s.add(s.remote, 10) == 5);
  CHECK(s.add(s.owner, 7) == 15);
  CHECK(s.add(s.remote, std::uint64_t{0} - 20) == 22);
  CHECK(s.load(s.remote) == 2);
  CHECK(s.load(s.owner) == 2);
}

TEST_CASE("concurrent additions to a counter return different values")
{
  shared_counter s;
  rdma::remote_counter<> owner = s.owner;
  std::array<record<std::uint64_t>, 40> adds;
  for (std::size_t i = 0; i != adds.size(); ++i)
    (i % 2 == 0 ? s.remote : owner).async_add(1, adds[i].handler());
  REQUIRE(run_until(
    s.io, [&] { return std::ranges::all_of(adds, [](const auto& each) { return each.done(); }); }));
  std::set<std::uint64_t> values;
  for (const auto& each : adds)
    values.insert(each.value());
  CHECK(values.size() == adds.size());
  CHECK(*values.begin() == 5);
  CHECK(s.load(s.remote) == 5 + adds.size());
}

TEST_CASE("counters and flags are created in memory of the peer")
{
  linked_pair l;
  rdma::memory_region memory(l.far_context, 4096, exposed);
  auto counter = ran<rdma::remote_counter<>>(
    l.io, [&](auto h) { rdma::remote_counter<>::async_create(l.near, memory.remote(), 3, h); });
  REQUIRE_FALSE(counter.ec);
  auto flag = ran<rdma::remote_flag<>>(l.io,
    [&](auto h)
    { rdma::remote_flag<>::async_create(l.near, memory.remote().slice(1024), true, h); });
  REQUIRE_FALSE(flag.ec);
  auto opened = open<rdma::remote_counter<>>(l, memory.remote());
  CHECK(ran<std::uint64_t>(l.io, [&](auto h) { opened.async_load(h); }).value() == 3);
  auto opened_flag = open<rdma::remote_flag<>>(l, memory.remote().slice(1024));
  CHECK(ran<bool>(l.io, [&](auto h) { opened_flag.async_test(h); }).value());
  CHECK(ran<rdma::remote_flag<>>(
          l.io, [&](auto h) { rdma::remote_flag<>::async_open(l.near, memory.remote(), h); })
          .ec
    == rdma::error::object_mismatch);
  const auto small = memory.remote().first(rdma::remote_counter<>::memory_size - 1);
  CHECK(ran<rdma::remote_counter<>>(
          l.io, [&](auto h) { rdma::remote_counter<>::async_open(l.near, small, h); })
          .ec
    == rdma::error::remote_range_too_small);
  CHECK(ran<rdma::remote_counter<>>(
          l.io, [&](auto h) { rdma::remote_counter<>::async_create(l.near, small, 1, h); })
          .ec
    == rdma::error::remote_range_too_small);
  CHECK(
    ran<rdma::remote_counter<>>(l.io,
      [&](auto h) { rdma::remote_counter<>::async_create(l.near, memory.remote().slice(4), 1, h); })
      .ec
    == rdma::error::misaligned);
}

TEST_CASE("counters and flags without a queue pair complete with closed")
{
  asio::io_context io;
  const rdma::queue_pair none(io.get_executor(), nullptr);
  rdma::context context = make_context();
  rdma::memory_region memory(context, 4096, exposed);
  CHECK(ran<rdma::remote_counter<>>(
          io, [&](auto h) { rdma::remote_counter<>::async_open(none, memory.remote(), h); })
          .ec
    == rdma::error::closed);
  CHECK(ran<rdma::remote_flag<>>(
          io, [&](auto h) { rdma::remote_flag<>::async_open(none, memory.remote(), h); })
          .ec
    == rdma::error::closed);
}

TEST_CASE("additions to a counter without the right to do atomics fail")
{
  shared_counter s;
  const auto memory = s.owner.remote();
  auto reader = open<rdma::remote_counter<>>(s,
    rdma::remote_buffer(memory.address(), memory.size(), memory.keys(), rdma::access::remote_read));
  CHECK(ran<std::uint64_t>(s.io, [&](auto h) { reader.async_add(1, h); }).ec
    == rdma::error::remote_right_missing);
  CHECK(s.load(reader) == 5);
}

TEST_CASE("a flag is set once until it is cleared")
{
  shared_flag s;
  CHECK_FALSE(s.test(s.remote));
  CHECK_FALSE(s.set(s.remote));
  CHECK(s.set(s.owner));
  CHECK(s.set(s.remote));
  CHECK(s.test(s.remote));
  CHECK(s.test(s.owner));
  CHECK(s.clear(s.owner));
  CHECK_FALSE(s.clear(s.remote));
  CHECK_FALSE(s.test(s.owner));
  CHECK_FALSE(s.set(s.owner));
}

TEST_CASE("async_wait of a flag completes when the flag has the value")
{
  shared_flag s;
  CHECK_FALSE(ran<>(s.io, [&](auto h) { s.remote.async_wait(false, h); }).ec);
  record<> set;
  s.remote.async_wait(true, set.handler());
  CHECK_FALSE(s.test(s.remote)); // after the first read of the wait
  CHECK_FALSE(set.done());
  s.set(s.owner);
  REQUIRE(run_until(s.io, [&] { return set.done(); }));
  CHECK_FALSE(set.ec);
  record<> cleared;
  s.owner.async_wait(false, cleared.handler());
  CHECK(s.test(s.owner));
  CHECK_FALSE(cleared.done());
  s.clear(s.remote);
  REQUIRE(run_until(s.io, [&] { return cleared.done(); }));
  CHECK_FALSE(cleared.ec);
}

TEST_CASE("async_wait of a flag ends when it is cancelled, at any moment")
{
  shared_flag s;
  for (int i = 0; i != 20; ++i)
  {
    asio::cancellation_signal signal;
    record<> r;
    s.remote.async_wait(true, asio::bind_cancellation_slot(signal.slot(), r.handler()));
    for (int turns = 0; turns != i; ++turns)
      s.io.poll_one();
    CHECK_FALSE(r.done());
    signal.emit(asio::cancellation_type::total);
    REQUIRE(run_until(s.io, [&] { return r.done(); }));
    CHECK(r.ec == asio::error::operation_aborted);
  }
}

TEST_CASE("async_wait of a flag fails when the queue pair is closed")
{
  shared_flag s;
  record<> r;
  s.remote.async_wait(true, r.handler());
  s.test(s.remote);
  s.near.close();
  REQUIRE(run_until(s.io, [&] { return r.done(); }));
  CHECK(r.ec);
}

} // namespace test::objects_words

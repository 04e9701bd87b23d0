//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/allocations.hpp"
#include "software/stream_fixture.hpp"

#include <boost_rdma/objects/ring.hpp>

#include <boost/asio/post.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <new>

// Waits that begin or continue without memory.

namespace test::faults_waits {

namespace {

/// Asio takes memory by aligned_alloc(), so these tests need it to fail.
[[nodiscard]] bool can_fail()
{
  if (allocation_count::sees_malloc())
    return true;
  WARN("skipped: a sanitizer replaces malloc");
  return false;
}

} // namespace

TEST_CASE("rdma::ring takes the next wait after one that could not begin without memory")
{
  if (!can_fail())
    return;
  asio::io_context io;
  const rdma::context context = make_context();
  rdma::ring<std::uint64_t> ring(io, context, 4);
  record<std::uint64_t> next;
  bool is_refused = false;
  {
    const failing_allocations failures(0, true);
    try
    {
      ring.async_pop(next.handler());
    }
    catch (const std::bad_alloc&)
    {
      is_refused = true;
    }
  }
  CHECK(is_refused);
  ring.async_pop(next.handler());
  io.poll();
  CHECK_FALSE(next.done()); // it waits
}

TEST_CASE("a stream ends if its time limit has no memory to continue")
{
  if (!can_fail())
    return;
  using std::chrono::hours;
  connected_pair pair(true);
  std::array<char, 8> bytes{};
  bytes_record ended;
  pair.b.expires_after(hours(1));
  pair.b.async_read_some(asio::buffer(bytes), ended.handler());
  pair.io.poll(); // what connecting has left
  // Asio keeps the memory of two functions for the next ones. That of small functions leaves no
  // place for that of the timer's handler.
  for (int i = 0; i != 2; ++i)
    asio::post(pair.io, [] {});
  pair.b.expires_after(hours(2)); // the timer is cancelled, and waits again
  bool escapes = false;
  bool has_failed = false;
  {
    const failing_allocations failures(0, true);
    try
    {
      pair.io.restart();
      pair.io.poll();
    }
    catch (const std::bad_alloc&)
    {
      escapes = true;
    }
    has_failed = failures.failed() != 0;
  }
  CHECK_FALSE(escapes);
  if (!has_failed)
  {
    WARN("skipped: this version of Asio has kept memory for the wait");
    return;
  }
  REQUIRE(run_until(pair.io, [&] { return ended.done(); }));
  CHECK(ended.ec == asio::error::no_memory);
}

} // namespace test::faults_waits

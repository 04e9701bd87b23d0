//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/allocations.hpp"
#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"
#include "software/memory_pool_fixture.hpp"

#include <boost_rdma/memory_pool.hpp>
#include <boost_rdma/protection_domain.hpp>

#include "verbs/software/memory/late_writers.hpp"

#include <array>
#include <atomic>
#include <list>
#include <map>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unistd.h>

// Tests the pool as a memory_resource. See memory_pool_growth.cpp for its limits,
// memory_pool_threads.cpp for threads and memory_pool_failures.cpp for refused registrations.

using namespace test;

namespace {

template <class Range>
concept can_be_viewed = requires(rdma::memory_pool& pool, Range&& range, error_code& ec) {
  pool.buffer(std::forward<Range>(range));
  pool.buffer(std::forward<Range>(range), ec);
};

static_assert(can_be_viewed<std::pmr::vector<int>&>);
static_assert(can_be_viewed<const std::pmr::vector<std::byte>&>);
static_assert(can_be_viewed<std::pmr::string&>);
static_assert(can_be_viewed<std::array<int, 4>&>);
static_assert(can_be_viewed<int (&)[4]>);
static_assert(can_be_viewed<std::span<int>>); // owns no memory, so a temporary is safe
static_assert(can_be_viewed<std::span<const std::byte>>);
static_assert(can_be_viewed<std::string_view>);
static_assert(!can_be_viewed<std::pmr::vector<int>>); // destroyed before the view is used
static_assert(!can_be_viewed<const std::pmr::vector<int>>);
// A temporary vector would convert to a span<const std::byte>.
static_assert(!can_be_viewed<std::pmr::vector<std::byte>>);
static_assert(!can_be_viewed<const std::array<std::byte, 4>>);
static_assert(!can_be_viewed<std::pmr::vector<std::pmr::string>&>);

} // namespace

TEST_CASE("a container in the pool is sent and received into without a copy or a registration")
{
  linked_pair l;
  std::pmr::vector<std::uint32_t> from(3000, &l.near_context.pool());
  for (std::uint32_t i = 0; i < from.size(); ++i)
    from[i] = i * i;
  std::pmr::vector<std::uint32_t> to(3000, &l.far_context.pool());
  const auto before = l.near_context.pool_statistics();
  bytes_record received;
  bytes_record sent;
  l.far.async_receive(l.far_context.pool().buffer(to), received.handler());
  const auto& unchanged = from;
  const rdma::const_buffer view = l.near_context.pool().buffer(unchanged);
  CHECK(view.data() == from.data());
  CHECK(view.size() == 12'000);
  l.near.async_send(view, sent.handler());
  REQUIRE(run_until(l.io, [&] { return received.done() && sent.done(); }));
  CHECK(sent.ec == error_code());
  CHECK(received.value() == 12'000);
  CHECK((from == to)); // the extra parentheses keep Catch from printing the vectors
  const auto after = l.near_context.pool_statistics();
  CHECK(after.arenas_added == before.arenas_added);
  CHECK(after.bytes_allocated == before.bytes_allocated);
}

TEST_CASE("all kinds of containers work in the pool and free all memory")
{
  rdma::context context = make_context();
  rdma::memory_pool& pool = context.pool();
  {
    std::pmr::map<int, std::pmr::string> names(&pool);
    std::pmr::list<int> numbers(&pool);
    for (int i = 0; i < 1000; ++i)
    {
      names[i] = std::string(static_cast<std::size_t>(i), 'x');
      numbers.push_back(i);
    }
    for (int i = 0; i < 1000; i += 3)
      names.erase(i);
    CHECK(pool.owns(names[500].data(), names[500].size()));
    CHECK(std::string_view(names[998]) == std::string(998, 'x'));
    CHECK(pool.statistics().bytes_allocated > 300'000);
    CHECK(pool.statistics().buffers == 0);
  }
  CHECK(pool.statistics().bytes_allocated == 0);
  pool.trim();
  CHECK(pool.statistics().arenas == 0);
  CHECK(pool.statistics().bytes_cached == 0);
}

TEST_CASE("pool memory supports alignments up to 4 KiB and refuses larger ones")
{
  rdma::context context = make_context();
  rdma::memory_pool& pool = context.pool();
  struct taken
  {
    void* data;
    std::size_t size, alignment;
  };
  std::vector<taken> all;
  for (std::size_t alignment = 1; alignment <= 4096; alignment *= 2)
    for (std::size_t size :
      {0, 1, 17, 100, 1000, 4095, 5000, 10'000, 14'000, 65'536, 65'537, 1'000'000})
    {
      void* const data = pool.allocate(size, alignment);
      CHECK(reinterpret_cast<std::uintptr_t>(data) % alignment == 0);
      std::memset(data, static_cast<int>(all.size() % 251), size);
      all.push_back({data, size, alignment});
    }
  for (std::size_t i = 0; i < all.size(); ++i)
  {
    const auto* const bytes = static_cast<const unsigned char*>(all[i].data);
    CHECK(std::all_of(bytes, bytes + all[i].size, [i](unsigned char b) { return b == i % 251; }));
    pool.deallocate(all[i].data, all[i].size, all[i].alignment);
  }
  CHECK(pool.statistics().bytes_allocated == 0);

  std::string text;
  CHECK(code_of_allocation(pool, 1, 8192, &text) == rdma::error::bad_alignment);
  CHECK(text.find("4096") != std::string::npos);
  error_code ec;
  CHECK(pool.make_buffer(100, 4096, ec).size() == 100);
  CHECK(reinterpret_cast<std::uintptr_t>(pool.make_buffer(100, 4096).data()) % 4096 == 0);
  CHECK(reinterpret_cast<std::uintptr_t>(pool.make_buffer(100, 1).data()) % 64 == 0);
  (void)pool.make_buffer(100, 8192, ec);
  CHECK(ec == rdma::error::bad_alignment);
  (void)pool.make_buffer(100, 48, ec);
  CHECK(ec == rdma::error::bad_alignment);
  CHECK_THROWS_AS(pool.make_buffer(100, 8192), rdma::system_error);
}

TEST_CASE("a memory pool is equal only to itself")
{
  rdma::context context = make_context();
  rdma::memory_pool other(context);
  CHECK(context.pool().is_equal(context.pool()));
  CHECK(&context.pool() == &rdma::context(context).pool());
  CHECK_FALSE(context.pool().is_equal(other));
  rdma::context beside = rdma::protection_domain::make(context).context();
  CHECK(&beside.pool() != &context.pool());
}

TEST_CASE("memory_pool::buffer fails with not_pool_memory outside the pool's own memory")
{
  rdma::context context = make_context();
  rdma::memory_pool& pool = context.pool();
  rdma::memory_pool other(context);
  std::pmr::vector<char> mine(100, &pool);
  std::pmr::vector<char> others(100, &other);
  std::vector<char> heap(100);
  error_code ec;
  CHECK(pool.buffer(mine, ec).size() == 100);
  CHECK(ec == error_code());
  CHECK(pool.buffer(std::span(mine).subspan(10, 20), ec).data() == mine.data() + 10);
  CHECK(ec == error_code());
  CHECK(pool.buffer(heap, ec).data() == nullptr);
  CHECK(ec == rdma::error::not_pool_memory);
  CHECK_THROWS_AS(pool.buffer(heap), rdma::system_error);
  (void)pool.buffer(others, ec);
  CHECK(ec == rdma::error::not_pool_memory);
  CHECK(pool.buffer(std::span<std::byte>(), ec).size() == 0);
  CHECK(ec == error_code());

  // A range that starts in the pool's memory and passes the end of its arena.
  auto* const begin = reinterpret_cast<std::byte*>(mine.data());
  CHECK(pool.owns(begin, 100));
  CHECK_FALSE(pool.owns(begin, pool.statistics().bytes_registered + 1));
  CHECK_FALSE(pool.owns(begin, SIZE_MAX));
  CHECK_FALSE(pool.owns(nullptr, 1));
}

TEST_CASE("a pool with contradictory options allocates and frees memory")
{
  rdma::context context = make_context();
  rdma::memory_pool_options options;
  options.arena_size = 0;
  options.arena_size_max = 0;
  options.idle_bytes_high = 0;
  options.idle_bytes_low = 1u << 20;
  options.thread_cache_bytes_max = 0;
  rdma::memory_pool pool(context, options);
  {
    std::vector<rdma::registered_buffer> all;
    for (const std::size_t size : {1, 100, 5000, 100'000})
      all.push_back(pool.make_buffer(size));
    CHECK(pool.statistics().bytes_cached == 0);
  }
  CHECK(pool.statistics().arenas == 0);
}

TEST_CASE("memory_pool::options returns the options in effect")
{
  rdma::context context = make_context();
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  rdma::memory_pool_options options;
  options.arena_size = 3 * page - 1;
  options.arena_size_max = page;
  options.size_max = 9 * page - 1;
  options.idle_bytes_high = 5;
  options.idle_bytes_low = 6;
  options.thread_cache_bytes_max = 7;
  options.huge = rdma::huge_pages::off;
  rdma::memory_pool pool(context, options);
  const rdma::memory_pool_options& o = pool.options();
  CHECK(o.arena_size == 3 * page);
  CHECK(o.arena_size_max == 3 * page);
  CHECK(o.size_max == 8 * page);
  CHECK(o.idle_bytes_high == 5);
  CHECK(o.idle_bytes_low == 5);
  CHECK(o.thread_cache_bytes_max == 7);
  CHECK(o.huge == rdma::huge_pages::off);
  CHECK(pool.make_buffer(8 * page).size() == 8 * page);
  error_code ec;
  (void)pool.make_buffer(8 * page + 1, 64, ec);
  CHECK(ec == rdma::error::pool_exhausted);

  const rdma::memory_pool usual(context);
  CHECK(usual.options().arena_size == rdma::memory_pool_options().arena_size);
  CHECK(usual.options().size_max == rdma::memory_pool_options().size_max);
  options.arena_size = options.arena_size_max = options.size_max = SIZE_MAX;
  const rdma::memory_pool boundless(context, options);
  CHECK(boundless.options().size_max == SIZE_MAX / page * page);
}

TEST_CASE("allocated memory outlives the handles of its context and its pool")
{
  rdma::registered_buffer of_context;
  rdma::registered_buffer of_pool;
  std::optional<std::pmr::vector<int>> numbers;
  {
    rdma::context context = make_context();
    rdma::memory_pool pool(context);
    of_context = context.allocate(64);
    of_pool = pool.make_buffer(100'000);
    // The documentation does not allow this, but the mechanism for buffers supports it for all
    // memory.
    numbers.emplace(100, &context.pool());
  }
  std::memset(of_context.data(), 1, of_context.size());
  std::memset(of_pool.data(), 1, of_pool.size());
  numbers->assign(1000, 7);
  CHECK(numbers->back() == 7);
}

TEST_CASE("an operation keeps the arena of memory that is freed too early until its end")
{
  linked_pair l;
  rdma::memory_pool pool(l.near_context, small_arenas());
  bytes_record received;
  {
    std::pmr::vector<char> room(100, &pool);
    l.near.async_receive(pool.buffer(room), received.handler());
  }
  pool.trim();
  CHECK(pool.statistics().bytes_allocated == 0);
  CHECK(pool.statistics().arenas == 1);
  bytes_record sent;
  rdma::registered_buffer text = buffer_of(l.far_context, "late");
  l.far.async_send(text, sent.handler());
  REQUIRE(run_until(l.io, [&] { return received.done() && sent.done(); }));
  CHECK(received.ec == error_code());
  CHECK(received.value() == 4);
  pool.trim();
  CHECK(pool.statistics().arenas == 0);
}

TEST_CASE("a user's pool may be destroyed before an operation that uses its memory")
{
  linked_pair l;
  std::optional<rdma::memory_pool> pool(std::in_place, l.near_context);
  std::optional<rdma::registered_buffer> buffer = pool->make_buffer(64);
  bytes_record received;
  l.near.async_receive(*buffer, received.handler());
  buffer.reset();
  pool.reset();
  bytes_record sent;
  rdma::registered_buffer text = buffer_of(l.far_context, "late");
  l.far.async_send(text, sent.handler());
  REQUIRE(run_until(l.io, [&] { return received.done() && sent.done(); }));
  CHECK(received.ec == error_code());
}

TEST_CASE("pool allocations take nothing from the heap in steady state")
{
  rdma::context context = make_context();
  rdma::memory_pool& pool = context.pool();
  struct live
  {
    void* data = nullptr;
    std::size_t size = 0;
    rdma::registered_buffer buffer;
  };
  std::array<live, 100> all;
  const auto round = [&]
  {
    for (std::size_t i = 0; i < 2000; ++i)
    {
      live& each = all[i * 37 % all.size()];
      if (each.data != nullptr)
        pool.deallocate(each.data, each.size);
      each.size = 1 + i * 7919 % 70'000;
      each.data = pool.allocate(each.size);
      each.buffer = context.allocate(1 + i * 104'729 % 70'000);
      const rdma::mutable_buffer view =
        pool.buffer(std::span(static_cast<std::byte*>(each.data), each.size));
      if (view.data() != each.data)
        FAIL("the view has another address");
    }
  };
  for (int i = 0; i < 3; ++i)
    round();
  const std::size_t taken = allocations_of_each(round);
  INFO(first_stack());
  CHECK(taken == 0);
  for (live& each : all)
    if (each.data != nullptr)
      pool.deallocate(each.data, each.size);
}

TEST_CASE("a block that a peer may still write to is not reused")
{
  const auto context = make_context();
  rdma::memory_pool pool(context, small_arenas());
  std::atomic<std::uint32_t> mark{1};
  const auto peer = std::make_shared<rdma::software::memory_peer>();
  peer->mark = &mark;
  const std::size_t bytes = GENERATE(100, 8192, 40'000);
  CAPTURE(bytes);
  const auto late = [&](const void* at)
  { rdma::software::late_writers::add(at, bytes, peer, 1, -1); };
  auto buffer = std::make_optional(pool.make_buffer(bytes));
  const void* const of_buffer = buffer->data();
  void* const plain = pool.allocate(bytes);
  late(of_buffer);
  late(plain);
  buffer.reset();
  pool.deallocate(plain, bytes);
  const std::size_t held = pool.statistics().bytes_allocated;
  CHECK(held >= 2 * bytes);
  {
    std::vector<rdma::registered_buffer> others;
    for (unsigned i = 0; i != 8; ++i)
    {
      others.push_back(pool.make_buffer(bytes));
      CHECK(others.back().data() != of_buffer);
      CHECK(others.back().data() != plain);
    }
  }
  mark = 0; // the peer has finished its copy
  buffer = pool.make_buffer(bytes);
  CHECK(pool.statistics().bytes_allocated < held);
  buffer.reset();
  CHECK(pool.statistics().bytes_allocated == 0);
}

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"
#include "software/memory_pool_fixture.hpp"

#include <boost_rdma/memory_pool.hpp>

#include <optional>
#include <string>
#include <vector>

// Tests how a pool grows up to its limit and frees idle arenas.

using namespace test;

TEST_CASE("allocation beyond the limit of a pool fails and names the figures and the remedy")
{
  rdma::context context = make_context();
  rdma::memory_pool_options options;
  options.size_max = 1u << 20;
  rdma::memory_pool pool(context, options);
  std::string text;
  CHECK(code_of_allocation(pool, 2u << 20, 16, &text) == rdma::error::pool_exhausted);
  CAPTURE(text);
  for (const char* part :
    {"2097152 bytes", "1048576", "memory_pool_options::size_max", "registered bytes are in use"})
    CHECK(text.find(part) != std::string::npos);
  for (volatile std::size_t size :
    {std::size_t{1} << 62, SIZE_MAX}) // volatile: GCC warns about known sizes
    CHECK_THROWS_AS(pool.allocate(size), std::bad_alloc);
  CHECK(pool.statistics().bytes_registered == 0);
  CHECK(pool.statistics().failures == 3);
}

TEST_CASE("blocks of any size can use nearly all of a pool's limit")
{
  rdma::context context = make_context();
  for (const std::size_t size : {16, 1000, 4096, 10'240, 14'336, 16'384, 65'536})
  {
    CAPTURE(size);
    rdma::memory_pool_options options;
    options.size_max = 1u << 20;
    rdma::memory_pool pool(context, options);
    std::vector<void*> blocks;
    try
    {
      for (;;)
        blocks.push_back(pool.allocate(size));
    }
    catch (const rdma::pool_bad_alloc& e)
    {
      CHECK(e.code() == rdma::error::pool_exhausted);
    }
    CHECK(blocks.size() * size > options.size_max * 7 / 8);
    CHECK(pool.statistics().bytes_registered <= options.size_max);
    CHECK(pool.statistics().failures == 1);
    for (void* each : blocks)
      pool.deallocate(each, size);
    CHECK(pool.statistics().bytes_allocated == 0);
  }
}

TEST_CASE("a pool at its limit frees idle arenas for a block that needs its own arena")
{
  rdma::context context = make_context();
  rdma::memory_pool_options options;
  options.arena_size = options.arena_size_max = 1u << 18;
  options.size_max = 1u << 20;
  rdma::memory_pool pool(context, options);
  {
    std::vector<rdma::registered_buffer> all;
    for (int i = 0; i < 16; ++i)
      all.push_back(pool.make_buffer(65536));
    CHECK(pool.statistics().arenas == 4);
  }
  CHECK(pool.make_buffer(1u << 20).size() == 1u << 20);
  CHECK(pool.statistics().failures == 0);
}

TEST_CASE("a pool grows by arenas of increasing size up to a maximum")
{
  rdma::context context = make_context();
  rdma::memory_pool_options options;
  options.arena_size = 1u << 16;
  options.arena_size_max = 1u << 20;
  rdma::memory_pool pool(context, options);
  std::vector<rdma::registered_buffer> all;
  std::size_t largest = 0;
  for (std::size_t before = 0; before < (16u << 20); before = pool.statistics().bytes_registered)
  {
    while (pool.statistics().bytes_registered == before)
      all.push_back(pool.make_buffer(16'384));
    const std::size_t growth = pool.statistics().bytes_registered - before;
    CHECK(growth >= std::size_t{1} << 16);
    CHECK(growth <= std::max<std::size_t>(1u << 16, std::min<std::size_t>(before / 4, 1u << 20)));
    largest = std::max(largest, growth);
  }
  CHECK(largest == 1u << 20);
  CHECK(pool.statistics().arenas_added < 60);
  CHECK(pool.statistics().arenas_released == 0);
}

TEST_CASE("idle arenas are freed above the high watermark down to the low watermark")
{
  rdma::context context = make_context();
  rdma::memory_pool_options options = small_arenas();
  options.idle_bytes_high = 8 * 65536;
  options.idle_bytes_low = 3 * 65536;
  rdma::memory_pool pool(context, options);
  std::vector<rdma::registered_buffer> all;
  for (int i = 0; i < 20; ++i)
    all.push_back(pool.make_buffer(65536));
  CHECK(pool.statistics().arenas == 20);
  while (all.size() > 12)
    all.pop_back();
  CHECK(pool.statistics().arenas == 20); // eight are idle
  all.pop_back();
  CHECK(pool.statistics().arenas == 11 + 3);
  CHECK(pool.statistics().arenas_released == 6);
  all.push_back(pool.make_buffer(65536)); // reuses an idle arena
  CHECK(pool.statistics().arenas_added == 20);
  all.clear();
  const auto idle = pool.statistics();
  CHECK(idle.bytes_registered <= options.idle_bytes_high);
  CHECK(pool.trim() == idle.bytes_registered);
  CHECK(pool.statistics().arenas == 0);
  CHECK(pool.statistics().arenas_released == 20);
}

TEST_CASE("the statistics of a pool are consistent")
{
  rdma::context context = make_context();
  rdma::memory_pool pool(context);
  CHECK(pool.statistics().arenas == 0);
  void* const a = pool.allocate(100);
  rdma::registered_buffer b = pool.make_buffer(100);
  auto s = pool.statistics();
  CHECK(s.bytes_allocated == 112 + 128);
  CHECK(s.buffers == 1);
  CHECK(s.arenas == 1);
  CHECK(s.arenas_added == 1);
  CHECK(s.bytes_registered == pool.options().arena_size);
  CHECK(s.huge_bytes_requested <= s.bytes_registered);
  b = rdma::registered_buffer();
  pool.deallocate(a, 100);
  s = pool.statistics();
  CHECK(s.bytes_allocated == 0);
  CHECK(s.buffers == 0);
  CHECK(s.bytes_cached >= 112 + 128);
  CHECK(s.failures == 0);
}

TEST_CASE("huge pages are requested according to the options and never required")
{
  rdma::context context = make_context();
  for (const rdma::huge_pages huge :
    {rdma::huge_pages::off, rdma::huge_pages::transparent, rdma::huge_pages::reserved})
  {
    rdma::memory_pool_options options;
    options.huge = huge;
    rdma::memory_pool pool(context, options);
    rdma::registered_buffer buffer = pool.make_buffer(5'000'000);
    std::memset(buffer.data(), 1, buffer.size());
    const auto s = pool.statistics();
    CHECK(s.huge_bytes_requested % (2u << 20) == 0);
    CHECK(s.huge_bytes_requested <= s.bytes_registered);
    if (huge == rdma::huge_pages::off)
      CHECK(s.huge_bytes_requested == 0);
    CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % (2u << 20) == 0);
  }
}

TEST_CASE("an allocation that cannot fit keeps caches and idle arenas")
{
  rdma::context context = make_context();
  rdma::memory_pool_options options;
  options.arena_size = options.arena_size_max = 1u << 18;
  options.size_max = (1u << 20) + 100;
  error_code ec;
  SECTION("above the limit")
  {
    rdma::memory_pool pool(context, options);
    (void)pool.make_buffer(1000);
    const auto before = pool.statistics();
    REQUIRE(before.bytes_cached > 0);
    (void)pool.make_buffer((1u << 20) + 50, 64, ec); // uses the last page of the limit
    CHECK(ec == rdma::error::pool_exhausted);
    (void)pool.make_buffer((1u << 20) + 101, 64, ec);
    CHECK(ec == rdma::error::pool_exhausted);
    CHECK(code_of_allocation(pool, (1u << 20) + 50, 4096) == rdma::error::pool_exhausted);
    const auto after = pool.statistics();
    CHECK(after.bytes_cached == before.bytes_cached);
    CHECK(after.bytes_registered == before.bytes_registered);
    CHECK(after.failures == 3);
    // This buffer needs the memory of the caches and of the idle arena.
    CHECK(pool.make_buffer(1u << 20).size() == 1u << 20);
    CHECK(pool.statistics().bytes_cached == 0);
  }
  SECTION("above the limit after rounding up to its size class")
  {
    options.arena_size = options.size_max = 36'864;
    rdma::memory_pool pool(context, options);
    (void)pool.make_buffer(1000);
    const auto before = pool.statistics();
    REQUIRE(before.bytes_cached > 0);
    (void)pool.make_buffer(33'000, 64, ec); // rounded up to 40,960
    CHECK(ec == rdma::error::pool_exhausted);
    CHECK(pool.statistics().bytes_cached == before.bytes_cached);
    CHECK(pool.statistics().bytes_registered == before.bytes_registered);
  }
  SECTION("above the free part of the limit")
  {
    rdma::memory_pool pool(context, options);
    std::optional<rdma::registered_buffer> in_use = pool.make_buffer(300'000);
    (void)pool.make_buffer(1000);
    (void)pool.make_buffer(250'000); // leaves an idle arena
    const auto before = pool.statistics();
    REQUIRE(before.bytes_cached > 0);
    REQUIRE(before.arenas == 3);
    (void)pool.make_buffer(800'000, 64, ec);
    CHECK(ec == rdma::error::pool_exhausted);
    const auto after = pool.statistics();
    CHECK(after.bytes_cached == before.bytes_cached);
    CHECK(after.bytes_registered == before.bytes_registered);
    in_use.reset();
    CHECK(pool.make_buffer(800'000, 64, ec).size() == 800'000);
  }
}

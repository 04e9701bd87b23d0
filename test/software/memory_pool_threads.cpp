//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/in_child.hpp"
#include "common/rdma_fixture.hpp"

#include "resource/domain_impl.hpp"
#include "resource/pool_impl.hpp"
#include "resource/process_fence.hpp"

#include <boost_rdma/memory_pool.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <sys/syscall.h>

// Tests threads that share a pool and end before or after it.

using namespace test;

namespace {

/// A thread that executes one function and then waits until end() is called.
class lasting_thread
{
public:
  template <class First>
  explicit lasting_thread(First first)
    : thread_(
      [this, first]
      {
        first();
        ready_.count_down();
        end_.wait();
        if (last_)
          last_();
      })
  {
    ready_.wait();
  }
  ~lasting_thread() { end(); }

  void end(std::function<void()> last = {})
  {
    if (!thread_.joinable())
      return;
    last_ = std::move(last);
    end_.count_down();
    thread_.join();
  }

private:
  std::latch ready_{1};
  std::latch end_{1};
  std::function<void()> last_;
  std::thread thread_;
};

/// Selects for new caches whether threads may omit fences because the kernel executes them
/// (membarrier).
class fence_of_kernel
{
public:
  explicit fence_of_kernel(bool wanted)
    : before_(
      std::exchange(rdma::detail::has_process_fence, wanted && rdma::detail::has_process_fence))
  {
  }
  ~fence_of_kernel() { rdma::detail::has_process_fence = before_; }
  fence_of_kernel(const fence_of_kernel&) = delete;
  fence_of_kernel& operator=(const fence_of_kernel&) = delete;

private:
  bool before_;
};

} // namespace

TEST_CASE("threads can allocate, pass on and free blocks of other threads without corruption")
{
  const fence_of_kernel fence(GENERATE(true, false));
  rdma::context context = make_context();
  rdma::memory_pool& pool = context.pool();
  struct block
  {
    std::byte* data = nullptr;
    std::size_t size = 0;
    std::byte mark{};
    rdma::registered_buffer buffer; // set if the block is a buffer
  };
  constexpr std::size_t places = 64;
  std::vector<block> shared(places);
  std::vector<std::mutex> mutexes(places);
  std::atomic<int> spoiled{0};
  const auto free = [&](block& b)
  {
    for (std::size_t i = 0; i < b.size; i += std::max<std::size_t>(b.size - 1, 1))
      spoiled += b.data[i] != b.mark;
    if (b.buffer.size() == 0 && b.data != nullptr)
      pool.deallocate(b.data, b.size);
    b = block();
  };
  const auto work = [&](unsigned seed)
  {
    std::mt19937 random(seed);
    for (int i = 0; i < (emulated() ? 500 : 5000); ++i)
    {
      block made;
      made.size = 1 + random() % (random() % 10 == 0 ? 100'000 : 2000);
      made.mark = static_cast<std::byte>(random());
      if (random() % 2 == 0)
      {
        made.buffer = context.allocate(made.size);
        made.data = made.buffer.data();
      }
      else
        made.data = static_cast<std::byte*>(pool.allocate(made.size));
      made.data[0] = made.data[made.size - 1] = made.mark;
      const std::size_t place = random() % places;
      {
        const std::lock_guard lock(mutexes[place]);
        std::swap(shared[place], made);
      }
      free(made);
      if (i % 500 == 0)
        pool.trim();
      if (i % 100 == 0)
        (void)pool.statistics();
      int elsewhere = 0;
      spoiled += pool.owns(&elsewhere, sizeof elsewhere);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned seed = 1; seed <= 4; ++seed)
    threads.emplace_back(work, seed);
  for (std::thread& each : threads)
    each.join();
  CHECK(pool.statistics().bytes_cached == 0); // the caches of the ended threads
  for (block& each : shared)
    free(each);
  CHECK(spoiled == 0);
  pool.trim();
  const auto s = pool.statistics();
  CHECK(s.bytes_allocated == 0);
  CHECK(s.buffers == 0);
  CHECK(s.arenas == 0);
}

TEST_CASE("the cache of a thread returns its memory when the thread ends")
{
  rdma::context context = make_context();
  rdma::memory_pool pool(context);
  lasting_thread other([&] { (void)pool.make_buffer(1000); });
  CHECK(pool.statistics().bytes_cached >= 1024);
  CHECK(pool.statistics().bytes_allocated == 0);
  other.end();
  CHECK(pool.statistics().bytes_cached == 0);
}

TEST_CASE("the cache of a thread respects thread_cache_bytes_max")
{
  rdma::context context = make_context();
  rdma::memory_pool_options options;
  options.thread_cache_bytes_max = 100'000;
  rdma::memory_pool pool(context, options);
  for (const std::size_t size : {64, 1000, 10'000, 60'000, 64})
  {
    std::vector<rdma::registered_buffer> all;
    for (int i = 0; i < 100; ++i)
      all.push_back(pool.make_buffer(size));
    all.clear();
    CHECK(pool.statistics().bytes_cached > 0);
    CHECK(pool.statistics().bytes_cached <= 100'000);
  }
}

TEST_CASE("a pool at its limit takes memory back from the caches of other threads")
{
  const fence_of_kernel fence(GENERATE(true, false));
  rdma::context context = make_context();
  rdma::memory_pool_options options;
  options.arena_size = options.size_max = 1u << 20;
  rdma::memory_pool pool(context, options);
  lasting_thread other(
    [&]
    {
      std::vector<rdma::registered_buffer> all;
      for (int i = 0; i < 64; ++i)
        all.push_back(pool.make_buffer(16'000));
    });
  const std::size_t cached = pool.statistics().bytes_cached;
  CHECK(cached > 0);
  rdma::registered_buffer all_of_it = pool.make_buffer(1u << 20);
  CHECK(all_of_it.size() == 1u << 20);
  CHECK(pool.statistics().bytes_cached == 0);
  CHECK(pool.statistics().failures == 0);
  error_code of_the_other;
  other.end([&] { (void)pool.make_buffer(64, 64, of_the_other); }); // its cache still works
  CHECK(of_the_other == rdma::error::pool_exhausted);
}

TEST_CASE("a thread's cache still works after it was emptied by another thread")
{
  const fence_of_kernel fence(GENERATE(true, false));
  rdma::context context = make_context();
  rdma::memory_pool pool(context);
  std::atomic<bool> over{false};
  std::thread other(
    [&]
    {
      while (!over)
      {
        rdma::registered_buffer a = pool.make_buffer(100);
        void* const b = pool.allocate(5000);
        a.data()[0] = std::byte{1};
        pool.deallocate(b, 5000);
      }
    });
  for (int i = 0; i < (emulated() ? 20 : 300); ++i)
    pool.trim();
  over = true;
  other.join();
  pool.trim();
  CHECK(pool.statistics().arenas == 0);
}

TEST_CASE("caches keep their memory until their threads end when the kernel refuses the fence")
{
  BOOST_RDMA_TEST_FORKS();
  if (!rdma::detail::has_process_fence)
  {
    WARN("skipped here: no cache relies on a fence of the process");
    return;
  }
  CHECK(in_child(
          []() -> std::string
          {
            if (const std::string refused = refuse_system_call(SYS_membarrier); !refused.empty())
              return refused;
            std::string wrong;
            std::optional<rdma::context> context = make_context();
            const std::weak_ptr<rdma::detail::domain_impl> domain = context->impl();
            rdma::memory_pool_options options;
            options.arena_size = options.size_max = 1u << 20;
            std::optional<rdma::memory_pool> pool(std::in_place, *context, options);
            lasting_thread other([&] { (void)pool->make_buffer(16'000); });
            const auto before = pool->statistics();
            error_code ec;
            (void)pool->make_buffer(1u << 20, 64, ec);
            if (before.bytes_cached == 0 || ec != rdma::error::pool_exhausted)
              wrong += "allocated; ";
            if (pool->trim() != 0 || pool->statistics().bytes_cached != before.bytes_cached)
              wrong += "trimmed; ";
            pool.reset();
            context.reset();
            if (domain.expired())
              wrong += "the domain is destroyed although a cache has memory; ";
            other.end();
            if (!domain.expired())
              wrong += "the domain is not destroyed";
            return wrong;
          })
    == "");
}

TEST_CASE("address lookups work while arenas are created and freed")
{
  rdma::context context = make_context();
  rdma::memory_pool_options options;
  options.arena_size = options.arena_size_max = 65536;
  options.idle_bytes_high = options.idle_bytes_low = 0;
  options.thread_cache_bytes_max = GENERATE(0, 100'000);
  rdma::memory_pool pool(context, options);
  // The last block of each allocating thread, which may be freed already.
  std::array<std::atomic<std::byte*>, 2> last{};
  std::atomic<int> not_found{0};
  std::atomic<int> running{2};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < last.size(); ++t)
    threads.emplace_back(
      [&, t]
      {
        for (int i = 0; i < (emulated() ? 100 : 2000); ++i)
        {
          // Blocks of a size class alternate with blocks of whole pages.
          const std::size_t size = i % 2 == 0 ? 60'000 : 100'000;
          auto* const block = static_cast<std::byte*>(pool.allocate(size));
          last[t] = block;
          error_code ec;
          if (!pool.owns(block, size) || pool.buffer(std::span(block, size), ec).data() != block
            || ec)
            ++not_found;
          pool.deallocate(block, size);
        }
        --running;
      });
  for (int t = 0; t < 2; ++t)
    threads.emplace_back(
      [&, t]
      {
        while (running > 0)
        {
          if (t == 0)
            pool.trim();
          for (const auto& each : last) // both results are correct
            if (std::byte* const block = each)
              (void)pool.owns(block + 50'000, 100);
        }
      });
  for (std::thread& each : threads)
    each.join();
  CHECK(not_found == 0);
  pool.trim();
  CHECK(pool.statistics().arenas == 0);
  for (const auto& each : last)
    if (std::byte* const block = each)
      CHECK_FALSE(pool.owns(block, 1));
}

TEST_CASE("a pool may be destroyed before the threads that used it")
{
  rdma::context context = make_context();
  std::optional<rdma::memory_pool> pool(std::in_place, context);
  rdma::memory_pool second(context);
  rdma::registered_buffer kept;
  lasting_thread a([&] { (void)pool->make_buffer(1000); });
  lasting_thread b([&] { kept = pool->make_buffer(1000); });
  pool.reset();
  a.end([&] { (void)second.make_buffer(1000); });
  b.end(
    [&]
    {
      std::memset(kept.data(), 1, kept.size());
      kept = rdma::registered_buffer();
    });
  CHECK(second.statistics().bytes_cached == 0);
}

TEST_CASE("a buffer and its pool may be destroyed in different threads concurrently")
{
  std::optional<rdma::context> context = make_context();
  for (int i = 0; i < (emulated() ? 20 : 300); ++i)
  {
    std::optional<rdma::memory_pool> pool(std::in_place, *context);
    std::vector<rdma::registered_buffer> buffers;
    std::latch both{2};
    std::thread other(
      [&]
      {
        for (int k = 0; k < 8; ++k)
          buffers.push_back(pool->make_buffer(1000));
        both.arrive_and_wait();
        buffers.clear();
      });
    both.arrive_and_wait();
    pool.reset();
    other.join();
  }
  // Every pool is destroyed, because each one would keep its domain alive.
  const std::weak_ptr<rdma::detail::domain_impl> domain = context->impl();
  context.reset();
  CHECK(domain.expired());
}

TEST_CASE("thread-local objects may free pool memory after the thread's cache is destroyed")
{
  rdma::context context = make_context();
  rdma::memory_pool pool(context);
  std::thread(
    [&]
    {
      // Created before the cache, so it is destroyed after it.
      thread_local std::vector<rdma::registered_buffer> late;
      late.push_back(pool.make_buffer(100));
      late.push_back(pool.make_buffer(100'000));
    })
    .join();
  const auto s = pool.statistics();
  CHECK(s.buffers == 0);
  CHECK(s.bytes_allocated == 0);
  CHECK(s.bytes_cached == 0);
}

TEST_CASE("a thread can use more pools than it has cache slots")
{
  rdma::context context = make_context();
  std::vector<std::unique_ptr<rdma::memory_pool>> pools;
  for (int i = 0; i < 40; ++i)
    pools.push_back(std::make_unique<rdma::memory_pool>(context));
  for (int round = 0; round < 3; ++round)
    for (auto& each : pools)
      (void)each->make_buffer(100);
  for (auto& each : pools)
  {
    CHECK(each->statistics().arenas_added == 1);
    CHECK(each->statistics().buffers == 0);
    CHECK(each->statistics().bytes_allocated == 0);
  }
}

TEST_CASE("pools keep their cache slot when other pools are created and destroyed")
{
  rdma::context context = make_context();
  rdma::memory_pool first(context);
  for (std::size_t i = 0; i < 2 * rdma::detail::thread_slot_count; ++i)
  {
    const rdma::memory_pool between(context);
    rdma::memory_pool second(context);
    (void)second.make_buffer(100);
    (void)first.make_buffer(100);
    for (int round = 0; round < 3; ++round)
      for (rdma::memory_pool* each : {&first, &second})
        if (each->impl().allocate_cached(100).size() != 100)
          FAIL("no cached allocation after pool number " << 2 * i);
  }
  SUCCEED("every allocation used the cache");
}

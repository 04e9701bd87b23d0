//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "resource/thread_cache.hpp"

#include "resource/pool_impl.hpp"

#include <new>
#include <thread>

#include <pthread.h>

namespace rdma::detail {

[[gnu::tls_model(
  "initial-exec")]] constinit thread_local std::array<thread_cache*, thread_slot_count>
  thread_slots{};

namespace {

// Number of living pools per slot. Relaxed: the counters order nothing else.
constinit std::array<std::atomic<std::size_t>, thread_slot_count> pools_at{};

// Set when the caches of the thread are destroyed. Blocks that the thread releases later go to the
// pools directly.
constinit thread_local bool thread_ended = false;

// A child of fork() must not use the parent's caches. Clearing the slots makes its first access
// take the slow path, which detects the fork, so the fast path needs no check. The parent's pools
// never end in the child, so their slots become free here. Runs before main(), like process_mark.
[[maybe_unused]] const int slots_end_with_fork = ::pthread_atfork(nullptr, nullptr,
  []
  {
    thread_slots.fill(nullptr);
    for (auto& each : pools_at)
      each.store(0, std::memory_order_relaxed);
  });

std::size_t take_place() noexcept
{
  for (;;)
  {
    auto* const best = std::min_element(pools_at.begin(), pools_at.end(),
      [](const auto& a, const auto& b)
      { return a.load(std::memory_order_relaxed) < b.load(std::memory_order_relaxed); });
    std::size_t pools = best->load(std::memory_order_relaxed);
    // Fails if another thread has taken the slot in the meantime.
    if (best->compare_exchange_strong(pools, pools + 1, std::memory_order_relaxed))
      return static_cast<std::size_t>(best - pools_at.begin());
  }
}

} // namespace

pool_id::pool_id() noexcept
{
  static constinit std::atomic<std::uint64_t> last{0};
  value_ = (last.fetch_add(1, std::memory_order_relaxed) + 1) * thread_slot_count + take_place();
}

pool_id::~pool_id()
{
  pools_at[value_ % thread_slot_count].fetch_sub(1, std::memory_order_relaxed);
}

// All caches of a thread.
class thread_caches
{
public:
  ~thread_caches()
  {
    thread_ended = true;
    thread_slots.fill(nullptr);
    for (const auto& each : all_)
    {
      pool_shell& shell = *each->shell;
      if (shell.process.foreign())
        continue; // its mutex may be locked by a thread of the parent
      std::unique_lock lock(shell.mutex);
      if (shell.pool != nullptr)
        shell.pool->detach(*each, std::move(lock));
    }
  }

  thread_cache* find(std::uint64_t pool_id) const noexcept
  {
    for (const auto& each : all_)
      if (each->id == pool_id)
        return each.get();
    return nullptr;
  }

  thread_cache* add(const std::shared_ptr<pool_shell>& pool, std::uint64_t pool_id)
  {
    // Remove caches of pools that are gone, so that there are never more caches than pools.
    std::erase_if(all_,
      [](const auto& each)
      {
        // acquire: sees the pool's last changes to the cache
        const bool gone =
          each->retired_.load(std::memory_order_acquire) || each->shell->process.foreign();
        if (thread_cache*& slot = thread_slots[each->id % thread_slot_count];
            gone && slot == each.get())
          slot = nullptr;
        return gone;
      });
    all_.reserve(all_.size() + 1);
    pool->caches.reserve(pool->caches.size() + 1);
    all_.push_back(std::make_unique<thread_cache>(pool, pool_id));
    pool->caches.push_back(all_.back().get());
    return all_.back().get();
  }

private:
  std::vector<std::unique_ptr<thread_cache>> all_;
};

thread_cache* thread_cache::attach(
  const std::shared_ptr<pool_shell>& pool, std::uint64_t pool_id) noexcept
{
  if (thread_ended)
    return nullptr;
  thread_local thread_caches mine;
  thread_cache* found = mine.find(pool_id);
  if (found == nullptr)
    try
    {
      found = mine.add(pool, pool_id);
    }
    catch (const std::bad_alloc&)
    {
      return nullptr; // the thread works without a cache and retries next time
    }
  thread_slots[pool_id % thread_slot_count] = found;
  return found;
}

thread_cache::thread_cache(std::shared_ptr<pool_shell> pool, std::uint64_t pool_id)
  : shell(std::move(pool))
  , id(pool_id)
  , bytes_max(shell->pool->options().thread_cache_bytes_max)
{
  std::size_t places = 0;
  for (std::size_t i = 0; i < class_count; ++i)
    places += capacity_max(i);
  memory_room_ = std::make_unique_for_overwrite<std::byte*[]>(places);
  blocks_room_ = std::make_unique_for_overwrite<pool_block*[]>(places);
  batches_[0].fill(1);
  batches_[1].fill(1);
  std::size_t next = 0;
  for (std::size_t i = 0; i < class_count; ++i)
  {
    memory_[i].items = memory_room_.get() + next;
    blocks_[i].items = blocks_room_.get() + next;
    next += capacity_max(i);
  }
}

bool thread_cache::claim(const std::vector<thread_cache*>& all) noexcept
{
  for (thread_cache* each : all)
    each->claimed_.store(true, std::memory_order_seq_cst);
  if (has_process_fence && !process_fence())
  {
    for (thread_cache* each : all)
      each->let_go();
    return false;
  }
  // A thread is busy for about ten instructions only.
  for (thread_cache* each : all)
    while (each->busy_.load(std::memory_order_seq_cst)) // acquire: sees its changes
      std::this_thread::yield();
  return true;
}

} // namespace rdma::detail

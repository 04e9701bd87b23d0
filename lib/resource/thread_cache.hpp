//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RESOURCE_THREAD_CACHE_HPP
#define BOOST_RDMA_LIB_RESOURCE_THREAD_CACHE_HPP

#include "boost_rdma/detail/process_mark.hpp"
#include "resource/pool_block.hpp"
#include "resource/process_fence.hpp"
#include "resource/size_classes.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <type_traits>
#include <vector>

namespace rdma::detail {

class pool_impl;
class thread_cache;

// State shared by a pool and its threads' caches. The last of them destroys it, so that a thread
// can end before or after the pool.
struct pool_shell
{
  std::mutex mutex;          // protects the pool
  pool_impl* pool = nullptr; // null after the pool is gone
  std::vector<thread_cache*> caches;
  const process_mark process;
};

// Each thread has a slot for the cache of each recently used pool, indexed by pool id, so that no
// search is needed. 16 pointers use the 128 bytes that the C library reserves for initial-exec
// variables of shared libraries that are loaded late.
inline constexpr std::size_t thread_slot_count = 16;

// A pool's id, unique in the process. Modulo thread_slot_count it is the pool's slot in every
// thread. The constructor chooses the slot with the fewest living pools, so that no two pools share
// a slot while there are at most as many pools as slots.
class pool_id
{
public:
  pool_id() noexcept;
  ~pool_id();
  pool_id(const pool_id&) = delete;
  pool_id& operator=(const pool_id&) = delete;

  [[nodiscard]] std::uint64_t value() const noexcept { return value_; }

private:
  std::uint64_t value_;
};

// A thread's cache of a pool. For each size class it has two magazines (stacks of pointers;
// Bonwick's term): one of free memory, and one of free memory that already has its registration,
// for registered_buffers. The pointers are stored here and not in the memory because a peer may
// have written to the memory.
//
// The owning thread accesses it between enter() and leave(), without a lock. Under the pool's
// mutex, another thread can claim() it. Then enter() fails, and the claimant may take the contents.
// A claim writes claimed_ and then reads busy_; an entry writes busy_ and then reads claimed_.
// process_fence() stands between the two accesses of the claim, so that one of the two threads sees
// the other (Dekker) although the entry has no fence. Without membarrier(2), each entry executes a
// fence.
class thread_cache
{
public:
  // The maximum number of blocks in a magazine: 64 KiB in all, within [8, 128] blocks. The current
  // capacity is a share of the thread's limit. Shares grow with use, and their sum is bounded, so
  // the fast path does not count bytes.
  [[nodiscard]] static constexpr std::size_t capacity_max(std::size_t class_index) noexcept
  {
    return std::clamp<std::size_t>(65536 / class_bytes[class_index], 8, 128);
  }

  // Throws std::bad_alloc.
  thread_cache(std::shared_ptr<pool_shell> pool, std::uint64_t pool_id);

  // Returns this thread's cache of that pool, or null.
  [[nodiscard]] static thread_cache* of(std::uint64_t pool_id) noexcept;
  // As of(), with a full search, and creates the cache if necessary. Returns null if there is no
  // memory or the thread is ending. Precondition: the pool's mutex is held.
  [[nodiscard]] static thread_cache* attach(
    const std::shared_ptr<pool_shell>& pool, std::uint64_t pool_id) noexcept;

  [[nodiscard]] bool enter() noexcept
  {
    if (light_) [[likely]]
    {
      busy_.store(true, std::memory_order_relaxed);
      std::atomic_signal_fence(
        std::memory_order_seq_cst); // process_fence() provides the processor's fence
    }
    else
      busy_.exchange(true, std::memory_order_seq_cst); // before the read of claimed_
    if (!claimed_.load(std::memory_order_seq_cst)) [[likely]]
      return true;
    leave();
    return false;
  }
  // release: a claimant sees the changes to the magazines
  void leave() noexcept { busy_.store(false, std::memory_order_release); }

  template <class T>
  struct magazine
  {
    T** items = nullptr;
    std::atomic<std::uint32_t> count{0}; // one writer: no read-modify-write needed
    std::uint32_t capacity = 0;
  };
  // T is std::byte or pool_block.
  template <class T>
  [[nodiscard]] magazine<T>& of_class(std::size_t index) noexcept
  {
    if constexpr (std::is_same_v<T, std::byte>)
      return memory_[index];
    else
      return blocks_[index];
  }

  // Size of the next batch for a magazine: doubles each time, up to half of capacity_max.
  template <class T>
  [[nodiscard]] std::uint32_t& batch_of(std::size_t class_index) noexcept
  {
    return batches_[std::is_same_v<T, std::byte>][class_index];
  }

  // pop() returns null if the magazine is empty. push() returns false if it is full.
  template <class T>
  [[nodiscard]] T* pop(std::size_t class_index) noexcept
  {
    magazine<T>& from = of_class<T>(class_index);
    const std::uint32_t n = from.count.load(std::memory_order_relaxed);
    if (n == 0)
      return nullptr;
    from.count.store(n - 1, std::memory_order_relaxed);
    return from.items[n - 1];
  }
  template <class T>
  [[nodiscard]] bool push(std::size_t class_index, T* item) noexcept
  {
    magazine<T>& to = of_class<T>(class_index);
    const std::uint32_t n = to.count.load(std::memory_order_relaxed);
    if (n >= to.capacity)
      return false;
    to.items[n] = item;
    to.count.store(n + 1, std::memory_order_relaxed);
    return true;
  }

  // Raises a magazine's capacity by `more` blocks, or as far as the other shares allow. Returns
  // false if it cannot grow at all. Called by the pool on this cache's thread, with its mutex held.
  template <class T>
  bool widen(std::size_t class_index, std::size_t more) noexcept
  {
    magazine<T>& which = of_class<T>(class_index);
    more = std::min({more, capacity_max(class_index) - which.capacity,
      (bytes_max - shares_) / class_bytes[class_index]});
    which.capacity += static_cast<std::uint32_t>(more);
    shares_ += more * class_bytes[class_index];
    return more != 0;
  }
  // Halves the capacity. The caller flushes the excess.
  template <class T>
  void narrow(std::size_t class_index) noexcept
  {
    magazine<T>& which = of_class<T>(class_index);
    const std::uint32_t less = which.capacity - which.capacity / 2;
    which.capacity -= less;
    shares_ -= std::size_t{less} * class_bytes[class_index];
  }

  // Returns the cached bytes, for statistics. Any thread may call it.
  [[nodiscard]] std::size_t bytes() const noexcept
  {
    std::size_t result = 0;
    for (std::size_t i = 0; i < class_count; ++i)
      result += (std::size_t{memory_[i].count.load(std::memory_order_relaxed)}
                  + blocks_[i].count.load(std::memory_order_relaxed))
        * class_bytes[i];
    return result;
  }
  [[nodiscard]] std::size_t blocks() const noexcept
  {
    std::size_t result = 0;
    for (const auto& each : blocks_)
      result += each.count.load(std::memory_order_relaxed);
    return result;
  }

  // Claims all caches, or none and returns false. Precondition: the pool's mutex is held, until all
  // claims are released.
  [[nodiscard]] static bool claim(const std::vector<thread_cache*>& all) noexcept;
  void let_go() noexcept { claimed_.store(false, std::memory_order_seq_cst); }

  // Marks the pool as gone, permanently. The claim before it is not released.
  void retire() noexcept { retired_ = true; }

  const std::shared_ptr<pool_shell> shell;
  const std::uint64_t id; // of the pool
  const std::size_t bytes_max;

private:
  std::atomic<bool> busy_{false};
  std::atomic<bool> claimed_{false};
  const bool light_ = has_process_fence; // the claimant reads it again
  std::size_t shares_ = 0;               // bytes: the sum of all magazines' capacities
  std::array<magazine<std::byte>, class_count> memory_;
  std::array<magazine<pool_block>, class_count> blocks_;
  std::array<std::array<std::uint32_t, class_count>, 2> batches_;
  std::unique_ptr<std::byte*[]> memory_room_; // storage of all magazines
  std::unique_ptr<pool_block*[]> blocks_room_;
  std::atomic<bool> retired_{false};

  friend class thread_caches;
};

// Initial-exec model: no function call for the access, in shared libraries as well.
[[gnu::tls_model(
  "initial-exec")]] extern constinit thread_local std::array<thread_cache*, thread_slot_count>
  thread_slots;

inline thread_cache* thread_cache::of(std::uint64_t pool_id) noexcept
{
  thread_cache* const found = thread_slots[pool_id % thread_slot_count];
  return found != nullptr && found->id == pool_id ? found : nullptr;
}

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_RESOURCE_THREAD_CACHE_HPP

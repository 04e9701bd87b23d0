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
#include <vector>

namespace rdma::detail {

class pool_impl;
class thread_cache;

// What a pool and the threads that use it share; the last of them to go takes it along, so that a thread can end before
// or after a pool.
struct pool_shell
{
  std::mutex mutex; // the pool's
  pool_impl* pool = nullptr; // null when it is gone
  std::vector<thread_cache*> caches;
  const process_mark process;
};

// What a thread keeps of a pool: magazines of free blocks, a stack of pointers for each size class. The pointers lie here
// and not in the blocks, which a peer may have written.
//
// Its thread takes from it and puts into it between enter() and leave(), without a lock. Under the pool's mutex others may
// claim() it, after which enter() fails, and take what it holds. A claim writes claimed_ and then reads busy_, an
// entry writes busy_ and then reads claimed_; process_fence() stands between the claim's two, so that one of both sees the
// other (Dekker) although the entry has no fence. Without that call each entry pays for one.
class thread_cache
{
public:
  static constexpr std::size_t descriptors_max = 64;

  // How many blocks a magazine takes, 64 KiB in all where that is not too few or too many.
  [[nodiscard]] static constexpr std::size_t capacity(std::size_t class_index) noexcept
  {
    return std::clamp<std::size_t>(65536 / class_bytes[class_index], 8, 128);
  }

  // Throws std::bad_alloc.
  thread_cache(std::shared_ptr<pool_shell> pool, std::uint64_t pool_id);

  // This thread's of that pool; null when it has none.
  [[nodiscard]] static thread_cache* of(std::uint64_t pool_id) noexcept;
  // The same with a longer look, and made if need be. Null when there is no memory, or the thread is ending. Under
  // the pool's mutex.
  [[nodiscard]] static thread_cache* attach(const std::shared_ptr<pool_shell>& pool, std::uint64_t pool_id) noexcept;

  [[nodiscard]] bool enter() noexcept
  {
    if (has_process_fence)
    {
      busy_.store(true, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst); // the processor's part is process_fence()'s
    }
    else
      busy_.exchange(true, std::memory_order_seq_cst); // before the look at claimed_
    if (!claimed_.load(std::memory_order_seq_cst)) [[likely]]
      return true;
    leave();
    return false;
  }
  // release: what was done to the magazines is seen by who claims them
  void leave() noexcept { busy_.store(false, std::memory_order_release); }

  // In each pair of the following the first does nothing and says so when the cache is empty, or full.
  [[nodiscard]] std::byte* pop(std::size_t class_index) noexcept
  {
    magazine& from = magazines_[class_index];
    if (from.count == 0)
      return nullptr;
    add_bytes(0 - std::size_t{class_bytes[class_index]});
    return from.blocks[--from.count];
  }
  [[nodiscard]] bool push(std::size_t class_index, std::byte* block) noexcept
  {
    magazine& to = magazines_[class_index];
    if (to.count == to.capacity || bytes() + class_bytes[class_index] > bytes_max)
      return false;
    add_bytes(class_bytes[class_index]);
    to.blocks[to.count++] = block;
    return true;
  }
  [[nodiscard]] pool_block* pop_descriptor() noexcept
  {
    const std::size_t n = descriptors();
    if (n == 0)
      return nullptr;
    descriptor_count_.store(n - 1, std::memory_order_relaxed); // this thread's alone to write
    return descriptors_[n - 1];
  }
  [[nodiscard]] bool push(pool_block* descriptor) noexcept
  {
    const std::size_t n = descriptors();
    if (n == descriptors_max)
      return false;
    descriptors_[n] = descriptor;
    descriptor_count_.store(n + 1, std::memory_order_relaxed);
    return true;
  }

  // For the pool, under its mutex, by this cache's thread or after a claim.
  struct magazine
  {
    std::byte** blocks = nullptr;
    std::uint32_t count = 0;
    std::uint32_t capacity = 0;
    std::uint32_t batch = 1; // what is taken next time: twice as much, up to half a magazine
  };
  [[nodiscard]] magazine& blocks_of(std::size_t class_index) noexcept { return magazines_[class_index]; }
  void add_bytes(std::size_t more) noexcept
  {
    // relaxed, load and store: one writes, and who reads wants a figure
    bytes_.store(bytes_.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }

  // For anybody: figures.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t descriptors() const noexcept
  {
    return descriptor_count_.load(std::memory_order_relaxed);
  }

  // Claims all of them; false when that cannot be done, and then none is. Under the pool's mutex, held until all are let go.
  [[nodiscard]] static bool claim(const std::vector<thread_cache*>& all) noexcept;
  void let_go() noexcept { claimed_.store(false, std::memory_order_seq_cst); }

  // The pool is gone: for good, and after a claim that is not let go.
  void retire() noexcept { retired_ = true; }

  const std::shared_ptr<pool_shell> shell;
  const std::uint64_t id; // of the pool
  const std::size_t bytes_max;

private:
  std::atomic<bool> busy_{false};
  std::atomic<bool> claimed_{false};
  std::atomic<std::size_t> bytes_{0};
  std::atomic<std::size_t> descriptor_count_{0};
  std::array<magazine, class_count> magazines_;
  std::array<pool_block*, descriptors_max> descriptors_;
  std::unique_ptr<std::byte*[]> room_; // of all magazines
  std::atomic<bool> retired_{false};

  friend class thread_caches;
};

// The caches that this thread used lately, by the pool's id.
inline constexpr std::size_t thread_slot_count = 16;
extern constinit thread_local std::array<thread_cache*, thread_slot_count> thread_slots;

inline thread_cache* thread_cache::of(std::uint64_t pool_id) noexcept
{
  thread_cache* const found = thread_slots[pool_id % thread_slot_count];
  return found != nullptr && found->id == pool_id ? found : nullptr;
}

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_RESOURCE_THREAD_CACHE_HPP

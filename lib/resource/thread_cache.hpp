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

// What a pool and the threads that use it share; the last of them to go takes it along, so that a
// thread can end before or after a pool.
struct pool_shell
{
  std::mutex mutex;          // the pool's
  pool_impl* pool = nullptr; // null when it is gone
  std::vector<thread_cache*> caches;
  const process_mark process;
};

// The caches that a thread used lately have places by their pools' ids: found without a search, and
// as many as fit into the 128 bytes that the C library has left for initial-exec variables of
// shared libraries that are loaded late.
inline constexpr std::size_t thread_slot_count = 16;

// A pool's id: unlike that of any other pool there ever was. Modulo thread_slot_count it is the
// pool's place in every thread: the one that the fewest living pools have, so that no two share one
// before there are more pools than places.
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

// What a thread keeps of a pool: magazines, that is stacks of pointers, for each size class. One of
// free memory, one of free memory that has its registration already, for registered_buffers. The
// pointers lie here and not in the memory, which a peer may have written.
//
// Its thread takes from it and puts into it between enter() and leave(), without a lock. Under the
// pool's mutex others may claim() it, after which enter() fails, and take what it holds. A claim
// writes claimed_ and then reads busy_, an entry writes busy_ and then reads claimed_;
// process_fence() stands between the claim's two, so that one of both sees the other (Dekker)
// although the entry has no fence. Without that call each entry pays for one.
class thread_cache
{
public:
  // How many blocks a magazine takes at most, 64 KiB in all where that is not too few or too many.
  // How many it may take now is its share of what the thread may keep: the shares grow as they are
  // used, so that their sum is the bound and the short way need not count bytes.
  [[nodiscard]] static constexpr std::size_t capacity_max(std::size_t class_index) noexcept
  {
    return std::clamp<std::size_t>(65536 / class_bytes[class_index], 8, 128);
  }

  // Throws std::bad_alloc.
  thread_cache(std::shared_ptr<pool_shell> pool, std::uint64_t pool_id);

  // This thread's of that pool; null when it has none.
  [[nodiscard]] static thread_cache* of(std::uint64_t pool_id) noexcept;
  // The same with a longer look, and made if need be. Null when there is no memory, or the thread
  // is ending. Under the pool's mutex.
  [[nodiscard]] static thread_cache* attach(
    const std::shared_ptr<pool_shell>& pool, std::uint64_t pool_id) noexcept;

  [[nodiscard]] bool enter() noexcept
  {
    if (light_) [[likely]]
    {
      busy_.store(true, std::memory_order_relaxed);
      std::atomic_signal_fence(
        std::memory_order_seq_cst); // the processor's part is process_fence()'s
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

  template <class T>
  struct magazine
  {
    T** items = nullptr;
    std::atomic<std::uint32_t> count{0}; // one writes: load and store; others want a figure
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

  // What is taken for a magazine next time: twice as much, up to half of the most.
  template <class T>
  [[nodiscard]] std::uint32_t& batch_of(std::size_t class_index) noexcept
  {
    return batches_[std::is_same_v<T, std::byte>][class_index];
  }

  // Null when there is none; false when there is no room.
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

  // For the pool, under its mutex, by this cache's thread: raises a magazine's share by so many
  // blocks, or as far as the shares of the others leave something. False when that is not at all.
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
  // Halves it; what it holds beyond is to go.
  template <class T>
  void narrow(std::size_t class_index) noexcept
  {
    magazine<T>& which = of_class<T>(class_index);
    const std::uint32_t less = which.capacity - which.capacity / 2;
    which.capacity -= less;
    shares_ -= std::size_t{less} * class_bytes[class_index];
  }

  // For anybody: figures.
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

  // Claims all of them; false when that cannot be done, and then none is. Under the pool's mutex,
  // held until all are let go.
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
  const bool light_ =
    has_process_fence;     // once true it stays so; who claims asks anew, which is right for both
  std::size_t shares_ = 0; // bytes, of all magazines' capacities
  std::array<magazine<std::byte>, class_count> memory_;
  std::array<magazine<pool_block>, class_count> blocks_;
  std::array<std::array<std::uint32_t, class_count>, 2> batches_;
  std::unique_ptr<std::byte*[]> memory_room_; // of all magazines
  std::unique_ptr<pool_block*[]> blocks_room_;
  std::atomic<bool> retired_{false};

  friend class thread_caches;
};

// Initial-exec: without a call, also in a shared library.
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

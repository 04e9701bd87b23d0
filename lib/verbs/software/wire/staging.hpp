//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_STAGING_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_STAGING_HPP

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

namespace rdma::software::wire {

/// A buffer for the bytes between a socket and their destinations. A link has one while it reads,
/// and while a header is incomplete: an idle link has none.
using staging = std::unique_ptr<std::byte[]>;

/// Large enough to receive many small messages at once.
inline constexpr std::size_t staging_size = 64 * 1024;

/// The free staging buffers of the process. Each thread caches one in addition. Thread-safe.
/**
 * There is one pool for the process, because a thread serves the links of several devices and would
 * carry buffers from one device's pool to another.
 */
class staging_pool
{
public:
  static staging_pool& of_process() noexcept
  {
    // Not destroyed, because threads that outlive main() use it.
    alignas(staging_pool) static std::byte place[sizeof(staging_pool)];
    static staging_pool& one = *new (place) staging_pool;
    return one;
  }

  staging_pool(const staging_pool&) = delete;
  staging_pool& operator=(const staging_pool&) = delete;

  /// Adds the buffers that one more device usually needs, for its thread and incomplete headers.
  /// Returns false if memory is short.
  bool fill() noexcept
  {
    constexpr int usual = 4;
    for (int i = 0; i < usual; ++i)
    {
      staging fresh(new (std::nothrow) std::byte[staging_size]);
      if (!fresh)
        return false;
      keep(std::move(fresh));
    }
    return true;
  }

  /// Returns null if memory is short.
  staging take() noexcept
  {
    if (!has_ended() && mine().one)
      return std::move(mine().one);
    for (auto& spare : spares_)
    {
      // acquire, and release below: the previous user's accesses come before
      if (spare.load(std::memory_order_relaxed) == nullptr)
        continue;
      if (std::byte* const found = spare.exchange(nullptr, std::memory_order_acquire);
          found != nullptr)
        return staging(found);
    }
    return staging(new (std::nothrow) std::byte[staging_size]);
  }

  void give_back(staging used) noexcept
  {
    if (!has_ended() && !mine().one)
    {
      mine().one = std::move(used);
      return;
    }
    keep(std::move(used));
  }

private:
  staging_pool() = default;

  // A polling thread takes and gives back a buffer in each call.
  struct cache
  {
    staging one;
    ~cache() { has_ended() = true; }
  };
  static cache& mine() noexcept
  {
    thread_local cache of_thread;
    return of_thread;
  }

  // Set when the cache is destroyed. Other destructors of the thread, and functions of atexit(3),
  // may use devices after that.
  static bool& has_ended() noexcept
  {
    constinit thread_local bool ended = false;
    return ended;
  }

  void keep(staging used) noexcept
  {
    for (auto& spare : spares_)
    {
      std::byte* none = nullptr;
      if (spare.load(std::memory_order_relaxed) == nullptr
        && spare.compare_exchange_strong(
          none, used.get(), std::memory_order_release, std::memory_order_relaxed))
      {
        static_cast<void>(used.release());
        return;
      }
    }
  }

  std::array<std::atomic<std::byte*>, 16>
    spares_{}; // incomplete headers move buffers between threads
};

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_STAGING_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_MEMORY_LATE_WRITERS_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_MEMORY_LATE_WRITERS_HPP

#include "verbs/descriptor.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace rdma::software {

/// The other end of a link, which may access this process's memory directly.
struct memory_peer
{
  std::shared_ptr<const void> keep_mapped;          ///< the memory that contains `mark`
  const std::atomic<std::uint32_t>* mark = nullptr; ///< the grant that it uses, plus one; or zero
  rdma::detail::descriptor process;                 ///< pidfd; guarded by the mutex of late_writers
  /// It is not waited for until it has finished; guarded by the same mutex.
  bool overdue = false;
};

/// Limits how long a process waits for its peers: a peer that is ready to run may have to wait for
/// a processor, but peers may also be late on purpose, again and again. Not thread-safe.
class waiting_budget
{
public:
  using clock = std::chrono::steady_clock;

  static constexpr std::chrono::milliseconds largest{100}; ///< also the longest wait
  static constexpr int share = 20; ///< waits take one part in so many of the time in the long run

  /// Takes the time that a thread has waited until `now`. Returns false if nothing is left.
  bool take(clock::time_point now, clock::duration waited) noexcept
  {
    left_ = std::min<clock::duration>(left_ + (now - since_) / share, largest) - waited;
    since_ = now;
    return left_ > clock::duration::zero();
  }

private:
  clock::duration left_ = largest;
  clock::time_point since_;
};

/// The peers that may still write to memory of this process although their grant has ended, because
/// they were in the middle of a copy. Thread-safe.
/**
 * Such a peer may be stopped, and continues when it is resumed. The pool does not reuse the memory
 * until the peer has moved its mark, or its process is gone.
 */
class late_writers
{
public:
  /// The time that a running peer needs to finish its copy: it is waited for so long even if there
  /// is no waiting_budget left.
  static constexpr std::chrono::milliseconds copy_time{1};

  /// Adds a peer whose mark names an ended grant of [at, at + size). `socket`: a connection to the
  /// peer.
  static void add(const void* at, std::size_t size, std::shared_ptr<memory_peer> by,
    std::uint32_t mark, int socket) noexcept;

  /// Returns true if there may be late writers of any memory.
  static bool any() noexcept { return count_.load(std::memory_order_relaxed) != 0; }

  /// Returns true if there may be a late writer of [at, at + size).
  static bool may_write(const void* at, std::size_t size) noexcept
  {
    return any() && find(at, size);
  }

  /// Waits until no peer writes to [at, at + size), or until those that still do are overdue.
  /// Precondition: the caller holds no lock that others need.
  static void wait(const void* at, std::size_t size) noexcept
  {
    if (any())
      wait_for_those(at, size);
  }

private:
  static bool find(const void* at, std::size_t size) noexcept;
  static void wait_for_those(const void* at, std::size_t size) noexcept;

  // relaxed: only read for memory whose grants this thread has ended, or has seen end
  static inline std::atomic<std::size_t> count_{0};

  friend struct late_writer_list;
};

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_MEMORY_LATE_WRITERS_HPP

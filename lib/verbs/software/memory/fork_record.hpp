//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_MEMORY_FORK_RECORD_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_MEMORY_FORK_RECORD_HPP

#include <atomic>
#include <cstddef>

namespace rdma::software {

/// The calls of fork() that led to this process. What an object notes differs in a child.
inline std::atomic<unsigned> forks{0};

/// A shared mapping that fork() replaces in the child by private memory at the same address.
/**
 * The child may still access it, e.g. to destroy an object of its parent, but without an effect on
 * the parent and its peers. Records form a list that only grows and that needs no lock: a child
 * reads it while another thread of the parent may have been changing it. Thread-safe.
 */
class fork_record
{
public:
  /// Returns a free record. Throws std::bad_alloc.
  static fork_record& take();

  /// Records that the mapping exists. The child's memory has the contents of `fd`, or zeros if it
  /// is -1.
  void begin(void* base, std::size_t size, int fd) noexcept;

  /// Records that the mapping is about to be removed, or is private already.
  void end() noexcept { in_use_.store(false, std::memory_order_release); }

  /// Ends and frees the record.
  void give_back() noexcept;

  fork_record() = default;
  fork_record(const fork_record&) = delete;
  fork_record& operator=(const fork_record&) = delete;

  /// Replaces all mappings that exist; for the child.
  static void replace_all() noexcept;

private:
  std::atomic<bool> taken_{true};
  std::atomic<bool> in_use_{false}; // and the members below are valid
  void* base_ = nullptr;
  std::size_t size_ = 0;
  int fd_ = -1;
  fork_record* next_ = nullptr;
};

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_MEMORY_FORK_RECORD_HPP

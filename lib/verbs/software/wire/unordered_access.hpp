//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_UNORDERED_ACCESS_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_UNORDERED_ACCESS_HPP

#include <cstddef>

#if defined(__SANITIZE_THREAD__)
#define BOOST_RDMA_THREAD_SANITIZER
#elif defined(__has_feature) // Clang's test
#if __has_feature(thread_sanitizer)
#define BOOST_RDMA_THREAD_SANITIZER
#endif
#endif

#if defined(BOOST_RDMA_THREAD_SANITIZER)
// From the sanitizer's runtime, which has no header for them.
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
void __tsan_read_range(void* at, unsigned long size);
void __tsan_write_range(void* at, unsigned long size);
}
#endif

namespace rdma::software::wire {

/// Makes ThreadSanitizer ignore the reads and writes of this thread during its lifetime.
/**
 * Used for the target memory of one-sided operations. These arrive at any time: two peers may write
 * to the same address, and the program may read it meanwhile. A NIC does not order them either, and
 * the sanitizer does not observe a NIC. Not used for buffers that the program has lent to its own
 * requests: the sanitizer checks that the device accesses them only between posting and completion.
 */
class unordered_access
{
public:
#if defined(BOOST_RDMA_THREAD_SANITIZER)
  explicit unordered_access(bool on = true) noexcept
    : on_(on)
  {
    if (!on_)
      return;
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~unordered_access()
  {
    if (!on_)
      return;
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }

  /// Reports the accesses to the local end of a copy to the sanitizer.
  static void local_end(void* at, std::size_t size, bool written) noexcept
  {
    written ? __tsan_write_range(at, size) : __tsan_read_range(at, size);
  }

private:
  bool on_;

public:
#else
  explicit unordered_access(bool = true) noexcept {}
  ~unordered_access() {} // not trivial, so that an object is not reported as unused
  static void local_end(void*, std::size_t, bool) noexcept {}
#endif
  unordered_access(const unordered_access&) = delete;
  unordered_access& operator=(const unordered_access&) = delete;
};

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_UNORDERED_ACCESS_HPP

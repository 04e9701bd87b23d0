//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_COMMON_MAPPING_THREAD_HPP
#define BOOST_RDMA_TEST_COMMON_MAPPING_THREAD_HPP

#include <atomic>
#include <cstddef>
#include <thread>

#include <sys/mman.h>
#include <unistd.h>

namespace test {

/// A thread that maps and unmaps memory of its own, while the test maps memory, and checks that
/// nobody else unmaps or replaces it.
class mapping_thread
{
public:
  /// `bytes`: the kernel prefers a place where as much has just been unmapped.
  explicit mapping_thread(std::size_t bytes)
    : thread_([this, bytes] { run(bytes); })
  {
    while (!runs_) // otherwise the test could be over before the thread has mapped anything
      std::this_thread::yield();
  }
  ~mapping_thread() { stop(); }
  mapping_thread(const mapping_thread&) = delete;
  mapping_thread& operator=(const mapping_thread&) = delete;

  /// Ends the thread. Returns the number of its mappings that were gone or had other contents.
  unsigned lost()
  {
    stop();
    return lost_;
  }

private:
  void stop()
  {
    stop_ = true;
    if (thread_.joinable())
      thread_.join();
  }

  void run(std::size_t bytes)
  {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    for (char value = 1; !stop_; value = value == 1 ? 2 : 1)
    {
      void* const at =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (at == MAP_FAILED)
        continue;
      auto* const first = static_cast<volatile char*>(at);
      *first = value;
      for (unsigned i = 0; i != 3; ++i)
        std::this_thread::yield();
      // ENOMEM: not mapped (msync(2))
      if (::msync(at, page, MS_ASYNC) != 0 || *first != value)
        ++lost_;
      else
        ::munmap(at, bytes);
      runs_ = true;
    }
  }

  std::atomic<bool> runs_{false};
  std::atomic<bool> stop_{false};
  unsigned lost_ = 0; // written by the thread
  std::thread thread_;
};

} // namespace test

#endif // BOOST_RDMA_TEST_COMMON_MAPPING_THREAD_HPP

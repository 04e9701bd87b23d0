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
#include <sys/uio.h>
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
  static constexpr unsigned looks_max = 4;
  static constexpr unsigned pauses_max = 128;

  void stop()
  {
    stop_ = true;
    if (thread_.joinable())
      thread_.join();
  }

  void run(std::size_t bytes)
  {
    for (unsigned round = 0; !stop_; ++round)
    {
      // Meanwhile the test maps memory where this thread has had its own.
      for (unsigned i = 0; i != round % pauses_max; ++i)
        std::this_thread::yield();
      runs_ = true;
      void* const at = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (at == MAP_FAILED)
        continue;
      unsigned looks = 0;
      while (looks != looks_max && !is_lost(at))
        ++looks;
      if (looks == looks_max)
        ::munmap(at, bytes);
      else
        ++lost_; // the range may be another one's by now
    }
  }

  static bool is_lost(void* at)
  {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    char byte = 0;
    const iovec to{&byte, 1};
    const iovec from{at, 1};
    return ::msync(at, page, MS_ASYNC) != 0                        // ENOMEM: nothing is mapped
      || ::process_vm_readv(::getpid(), &to, 1, &from, 1, 0) == 1; // other memory
  }

  std::atomic<bool> runs_{false};
  std::atomic<bool> stop_{false};
  unsigned lost_ = 0; // written by the thread
  std::thread thread_;
};

} // namespace test

#endif // BOOST_RDMA_TEST_COMMON_MAPPING_THREAD_HPP

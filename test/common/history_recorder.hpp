//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_COMMON_HISTORY_RECORDER_HPP
#define BOOST_RDMA_TEST_COMMON_HISTORY_RECORDER_HPP

// Records the operations of children of fork() for why_not_linearizable(), also of those that are
// killed.

#include "common/linearizability.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <new>
#include <stdexcept>
#include <system_error>
#include <type_traits>
#include <utility>

#include <sys/mman.h>

namespace test {

/// Memory that this process and its later children share, with an area for each process.
/** shared_bytes is not used: its memory is private after fork(). Threads of a process can use its
 * area concurrently. */
template <sequential_model Model>
class history_recorder
{
public:
  using operation = typename Model::Operation;
  using result = typename Model::Result;
  static_assert(std::is_trivially_copyable_v<operation> && std::is_trivially_copyable_v<result>);

  /// Memory is used only for operations that are recorded.
  history_recorder(std::uint32_t processes, std::size_t operations_most)
    : processes_(processes)
    , most_(operations_most)
  {
    at_ = ::mmap(
      nullptr, size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at_ == MAP_FAILED)
      throw std::system_error(errno, std::generic_category(), "history_recorder: mmap");
  }
  ~history_recorder() { ::munmap(at_, size()); }
  history_recorder(const history_recorder&) = delete;
  history_recorder& operator=(const history_recorder&) = delete;

  /// Records a call. Returns its number for `returned`, without which its outcome is unknown.
  [[nodiscard]] std::size_t called(std::uint32_t process, const operation& what)
  {
    const std::uint64_t time = now();
    // Relaxed: `progress` publishes a record.
    const std::size_t number = area(process).count.fetch_add(1, std::memory_order_relaxed);
    if (number >= most_)
      throw std::length_error("history_recorder: raise operations_most");
    record& one = records(process)[number];
    one.what = what;
    one.called = time;
    one.progress.store(stage::called, std::memory_order_release); // after the fields
    return number;
  }

  void returned(std::uint32_t process, std::size_t number, const result& seen)
  {
    record& one = records(process)[number];
    one.returned = now();
    one.seen = seen;
    one.progress.store(stage::returned, std::memory_order_release); // after the fields
  }

  /// Records `body`, which performs the operation and returns its result. If it throws, the outcome
  /// is unknown.
  template <class Body>
  result record_call(std::uint32_t process, const operation& what, Body&& body)
  {
    const std::size_t number = called(process, what);
    const result seen = std::forward<Body>(body)();
    returned(process, number, seen);
    return seen;
  }

  /// The operations of all processes. No process records any more.
  [[nodiscard]] history<Model> merged() const
  {
    history<Model> all;
    for (std::uint32_t process = 0; process != processes_; ++process)
    {
      const std::size_t count = area(process).count.load(std::memory_order_relaxed); // see called()
      for (std::size_t i = 0; i != std::min(count, most_); ++i)
      {
        const record& one = records(process)[i];
        const stage progress = one.progress.load(std::memory_order_acquire); // before the fields
        if (progress == stage::returned)
          all.add(process, one.called, one.returned, one.what, one.seen);
        else if (progress == stage::called)
          all.add_unknown(process, one.called, one.what);
      }
    }
    return all;
  }

private:
  enum class stage : std::uint32_t
  {
    empty, // as mapped: its process was killed before the operation
    called,
    returned
  };
  struct record
  {
    operation what;
    result seen;
    std::uint64_t called, returned;
    std::atomic<stage> progress;
  };
  struct alignas(64) header // no two processes write to one cache line
  {
    std::atomic<std::size_t> count;
  };
  static_assert(alignof(record) <= alignof(header) && std::atomic<stage>::is_always_lock_free);

  // The same clock in all processes of a host.
  static std::uint64_t now()
  {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000u
      + static_cast<std::uint64_t>(time.tv_nsec);
  }

  std::size_t area_size() const noexcept
  {
    const std::size_t bytes = sizeof(header) + most_ * sizeof(record);
    return (bytes + alignof(header) - 1) / alignof(header) * alignof(header);
  }
  std::size_t size() const noexcept { return processes_ * area_size(); }
  std::byte* start(std::uint32_t process) const
  {
    if (process >= processes_)
      throw std::out_of_range("history_recorder: no such process");
    return static_cast<std::byte*>(at_) + process * area_size();
  }
  header& area(std::uint32_t process) const
  {
    return *std::launder(reinterpret_cast<header*>(start(process)));
  }
  record* records(std::uint32_t process) const
  {
    return std::launder(reinterpret_cast<record*>(start(process) + sizeof(header)));
  }

  const std::uint32_t processes_;
  const std::size_t most_;
  void* at_ = nullptr;
};

} // namespace test

#endif // BOOST_RDMA_TEST_COMMON_HISTORY_RECORDER_HPP

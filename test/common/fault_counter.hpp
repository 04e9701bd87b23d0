//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_COMMON_FAULT_COUNTER_HPP
#define BOOST_RDMA_TEST_COMMON_FAULT_COUNTER_HPP

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <execinfo.h>
#include <limits>
#include <string>

// Common to the functions of the C library that tests replace to make the n-th call fail.

namespace test {

/// While it exists, no allocation and no system call of this thread fails: those of a test itself.
class spared_faults
{
public:
  spared_faults() noexcept { ++depth_; }
  ~spared_faults() { --depth_; }
  spared_faults(const spared_faults&) = delete;
  spared_faults& operator=(const spared_faults&) = delete;

  [[nodiscard]] static bool are_here() noexcept { return depth_ != 0; }

private:
  static inline constinit thread_local unsigned depth_ = 0;
};

/// The call stack of an event. Any thread may record one: that of an event before prepare() can be
/// recorded after it.
class call_stack
{
public:
  /// Forgets the last one. Call it first: the first call of backtrace() allocates.
  void prepare() noexcept
  {
    void* frame = nullptr;
    ::backtrace(&frame, 1);
    count_.store(0, std::memory_order_relaxed);
  }

  void record() noexcept
  {
    void* frames[most];
    const int n = ::backtrace(frames, most);
    for (int i = 0; i < n; ++i)
      frames_[i].store(frames[i], std::memory_order_relaxed);
    count_.store(n, std::memory_order_release);
  }

  [[nodiscard]] std::string text() const
  {
    void* frames[most];
    const int n = count_.load(std::memory_order_acquire);
    for (int i = 0; i < n; ++i)
      frames[i] = frames_[i].load(std::memory_order_relaxed);
    std::string result;
    char** names = ::backtrace_symbols(frames, n);
    for (int i = 0; names != nullptr && i < n; ++i)
      result += std::string(names[i]) + "\n";
    std::free(names);
    return result;
  }

private:
  static constexpr int most = 24;
  std::atomic<void*> frames_[most] = {};
  std::atomic<int> count_{0}; // publishes frames_
};

/// Counts events of one kind in the whole process, and chooses those that fail.
class fault_counter
{
public:
  static constexpr std::size_t never = std::numeric_limits<std::int64_t>::max() / 2;

  /// The n-th event from now on fails (0 is the next one), and all later ones if `lasting`.
  void start(std::size_t n, bool lasting) noexcept
  {
    failures_.store(0, std::memory_order_relaxed);
    is_lasting_.store(lasting, std::memory_order_relaxed);
    first_ = static_cast<std::int64_t>(n);
    left_.store(first_, std::memory_order_seq_cst);
  }

  /// No more events fail. Stores the number of events since the start.
  void stop() noexcept
  {
    const std::int64_t left = left_.exchange(off, std::memory_order_seq_cst);
    if (left <= first_) // unless it is called again
      events_ = static_cast<std::size_t>(first_ - left);
  }

  /// Returns true if events are counted that this thread causes.
  [[nodiscard]] bool is_active() const noexcept
  {
    return left_.load(std::memory_order_relaxed) != off && !spared_faults::are_here();
  }

  [[nodiscard]] bool is_lasting() const noexcept
  {
    return is_lasting_.load(std::memory_order_relaxed);
  }

  /// Counts an event. Returns true if it is to fail; `is_first` is set for the first of them.
  [[nodiscard]] bool fails(bool& is_first) noexcept
  {
    if (!is_active())
      return false;
    const std::int64_t left = left_.fetch_sub(1, std::memory_order_relaxed);
    if (left > 0 || (left < 0 && !is_lasting()))
      return false;
    is_first = failures_.fetch_add(1, std::memory_order_relaxed) == 0;
    return true;
  }

  [[nodiscard]] std::size_t failed() const noexcept
  {
    return failures_.load(std::memory_order_relaxed);
  }

  /// Returns the number of events between start() and stop().
  [[nodiscard]] std::size_t events() const noexcept { return events_; }

private:
  static constexpr std::int64_t off = std::numeric_limits<std::int64_t>::max();
  std::atomic<std::int64_t> left_{off};
  std::atomic<bool> is_lasting_{false};
  std::atomic<std::size_t> failures_{0};
  std::int64_t first_ = 0;
  std::size_t events_ = 0;
};

/// Makes events of all threads fail while it exists. At most one object of a kind at a time.
class injected_faults
{
public:
  injected_faults(const injected_faults&) = delete;
  injected_faults& operator=(const injected_faults&) = delete;

  /// No more events fail.
  void stop() noexcept { counter_.stop(); }

  /// Returns the number of events that have failed.
  [[nodiscard]] std::size_t failed() const noexcept { return counter_.failed(); }

  /// Returns the number of events until stop().
  [[nodiscard]] std::size_t events() const noexcept { return counter_.events(); }

protected:
  injected_faults(fault_counter& counter, std::size_t n, bool lasting) noexcept
    : counter_(counter)
  {
    counter_.start(n, lasting);
  }
  ~injected_faults() { stop(); }

private:
  fault_counter& counter_;
};

} // namespace test

#endif // BOOST_RDMA_TEST_COMMON_FAULT_COUNTER_HPP

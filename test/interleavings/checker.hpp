//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_INTERLEAVINGS_CHECKER_HPP
#define BOOST_RDMA_TEST_INTERLEAVINGS_CHECKER_HPP

// Runs the library's protocols in Relacy. It chooses which thread continues at each atomic
// operation and which of the permitted values a load returns. It finds data races of plain memory,
// deadlocks and failed checks.
//
// Its memory model differs from that of C++:
// - A load returns the newest value or one of the two before it.
// - A load never returns a value that is stored later (no load buffering).
// - Sequentially consistent fences synchronise with each other, as on today's processors.
// - Sequentially consistent stores precede such fences only with order_before_fences().

#include "common/catch.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>
#include <source_location>
#include <streambuf>
#include <string>

// Relacy replaces these by inline functions: all of them or none must be in the program.
[[gnu::used]] void* operator new(std::size_t size);
[[gnu::used]] void* operator new[](std::size_t size);
[[gnu::used]] void operator delete(void* at) noexcept;
[[gnu::used]] void operator delete[](void* at) noexcept;

#include <relacy/relacy.hpp>

// Its macros would change the code of the library and of Catch2.
#undef VAR
#undef VAR_T
#undef TLS_T
#undef assert
#undef calloc
#undef delete
#undef errno
#undef free
#undef malloc
#undef memory_order_acq_rel
#undef memory_order_acquire
#undef memory_order_consume
#undef memory_order_relaxed
#undef memory_order_release
#undef memory_order_seq_cst
#undef new
#undef realloc

namespace checker {

using place = std::source_location;

inline rl::debug_info info(const place& at) noexcept
{
  return {at.function_name(), at.file_name(), at.line()};
}

inline rl::memory_order order(std::memory_order what) noexcept
{
  switch (what)
  {
  case std::memory_order_relaxed:
    return rl::mo_relaxed;
  case std::memory_order_consume:
    return rl::mo_consume;
  case std::memory_order_acquire:
    return rl::mo_acquire;
  case std::memory_order_release:
    return rl::mo_release;
  case std::memory_order_acq_rel:
    return rl::mo_acq_rel;
  case std::memory_order_seq_cst:
    break;
  }
  return rl::mo_seq_cst;
}

/// Lets later sequentially consistent fences of other threads see a sequentially consistent store,
/// as C++ does (atomics.order, paragraph 4). In Relacy only fences precede fences.

inline void order_before_fences(std::memory_order how)
{
  if (how != std::memory_order_seq_cst)
    return;
  rl::context& now = rl::ctx();
  for (rl::thread_id_t i = 0; i != now.get_thread_count(); ++i)
    now.seq_cst_fence_order_[i] =
      std::max(now.seq_cst_fence_order_[i], now.threadx_->acq_rel_order_[i]);
}

/// The part of std::atomic that the protocols use.
template <class T>
class atomic
{
public:
  atomic(T value = T()) // NOLINT(google-explicit-constructor): as std::atomic
    : impl_(value)
  {
  }

  T load(std::memory_order how, place at = place::current()) const
  {
    return impl_.load(order(how), info(at));
  }
  void store(T value, std::memory_order how, place at = place::current())
  {
    impl_.store(value, order(how), info(at));
    order_before_fences(how);
  }
  T exchange(T value, std::memory_order how, place at = place::current())
  {
    const T before = impl_.exchange(value, order(how), info(at));
    order_before_fences(how);
    return before;
  }
  T fetch_add(T value, std::memory_order how, place at = place::current())
  {
    const T before = impl_.fetch_add(value, order(how), info(at));
    order_before_fences(how);
    return before;
  }
  T fetch_or(T value, std::memory_order how, place at = place::current())
  {
    const T before = impl_.fetch_or(value, order(how), info(at));
    order_before_fences(how);
    return before;
  }

private:
  rl::atomic<T> impl_;
};

/// In the place of rdma::software::atomics.
struct atomics
{
  template <class T>
  using atomic = checker::atomic<T>;

  static void fence(std::memory_order how, place at = place::current())
  {
    rl::atomic_thread_fence(order(how), info(at));
  }
};

/// Memory that is no atomic: an access that races with a write is found.
template <class T>
class plain
{
public:
  explicit plain(T value = T())
    : impl_(value)
  {
  }
  T load(place at = place::current()) const { return impl_(info(at)).load(); }
  void store(T value, place at = place::current()) { impl_(info(at)).store(value); }

private:
  rl::var<T> impl_;
};

/// The bytes of a socket that wake a thread which sleeps in it.
class wake_up_socket
{
public:
  wake_up_socket() { bytes_.init(false, 0, 1000, {}); }
  ~wake_up_socket() { bytes_.deinit({}); }
  wake_up_socket(const wake_up_socket&) = delete;
  wake_up_socket& operator=(const wake_up_socket&) = delete;

  bool send(place at = place::current())
  {
    unsigned before = 0;
    return bytes_.post(1, before, info(at));
  }

  /// Waits for a byte, then reads all.
  void read(place at = place::current())
  {
    bytes_.wait(false, false, info(at));
    read_the_rest(at);
  }

  /// Does the same, or gives up.
  void read_or_time_out(place at = place::current())
  {
    if (bytes_.wait(false, true, info(at)) == rl::sema_wakeup_reason_success)
      read_the_rest(at);
  }

private:
  void read_the_rest(const place& at)
  {
    while (bytes_.wait(true, false, info(at)) == rl::sema_wakeup_reason_success)
    {
    }
  }

  rl::semaphore<wake_up_socket> bytes_;
};

/// One of `count` values, each of which the checker tries.
inline unsigned any_of(unsigned count)
{
  return rl::rand(count);
}

/// Another thread continues.
inline void yield(place at = place::current())
{
  rl::yield(1, info(at));
}

/// The iteration fails unless `what` is true.
inline void require(bool what, const char* text, place at = place::current())
{
  if (!what)
    rl::ctx().fail_test(text, rl::test_result_user_assert_failed, info(at));
}

/// What Relacy reports. It must not allocate, as the checker's operator new is another one then.
class report : public std::streambuf
{
public:
  report() { setp(text_.data(), text_.data() + text_.size()); }
  std::string text() const { return {pbase(), pptr()}; }

private:
  std::array<char, 500'000> text_{};
};

inline constexpr unsigned unlimited = ~0u;

/// Runs a suite with random choices, and then with all choices that interrupt threads at most
/// `interruptions` times.
template <class Suite>
void check_interleavings(rl::iteration_t random, unsigned interruptions)
{
  for (const auto how :
    {rl::sched_random, interruptions == unlimited ? rl::sched_full : rl::sched_bound})
  {
    if (how != rl::sched_random && interruptions == 0)
      continue;
    const auto what = std::make_unique<report>();
    std::ostream output(what.get());
    rl::test_params with;
    with.search_type = how;
    with.iteration_count = how == rl::sched_random ? random : ~rl::iteration_t{0};
    with.context_bound = interruptions;
    with.output_stream = with.progress_stream = &output;
    const bool good = rl::simulate<Suite>(with);
    INFO(rl::format(how) << ", iteration " << with.stop_iteration << "\n" << what->text());
    CHECK(good);
  }
}

} // namespace checker

#endif // BOOST_RDMA_TEST_INTERLEAVINGS_CHECKER_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/watchdog.hpp"

#include "common/device_traits.hpp"
#include "common/sanitizers.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <execinfo.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <malloc.h>
#include <mutex>
#include <pthread.h>
#include <unistd.h>
#include <utility>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid // timer_create(2), before glibc 2.38
#endif

namespace test::watchdog {
namespace {

enum class owner
{
  unknown,
  test,    ///< the test's own thread
  library, ///< blocks all signals
  other,
};

struct thread_state
{
  std::int64_t begin = 0; ///< of the turn; 0: none
  int set = -1;           ///< the epoll set that it began with
  unsigned loops = 0;     ///< event_loop objects
  owner by = owner::unknown;
  timer_t timer{};
};
constinit thread_local thread_state here;

struct turn_records
{
  std::mutex mutex;
  unsigned count = 0;
  std::int64_t excess = 0;
  std::int64_t longest = 0;
  std::array<char, 16> thread{};
  owner by = owner::unknown;
};
constinit turn_records records;

const char* strict_limit() noexcept
{
  static const char* const value = std::getenv("BOOST_RDMA_TEST_TURN_MS");
  return value;
}

std::int64_t processor_time() noexcept
{
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

void write_stack(int) noexcept
{
  const int kept = errno;
  std::array<void*, 48> frames;
  constexpr char title[] = "a turn is longer than the limit:\n";
  static_cast<void>(::write(STDERR_FILENO, title, sizeof title - 1));
  ::backtrace_symbols_fd(
    frames.data(), ::backtrace(frames.data(), static_cast<int>(frames.size())), STDERR_FILENO);
  errno = kept;
}

/// Lets SIGPROF arrive when a turn of this thread passes the limit.
void make_timer() noexcept
{
  std::array<void*, 1> first;
  ::backtrace(first.data(), 1); // the first call allocates
  struct sigaction action
  {
  };
  action.sa_handler = write_stack;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGPROF, &action, nullptr);
  sigset_t wanted;
  ::sigemptyset(&wanted);
  ::sigaddset(&wanted, SIGPROF);
  ::pthread_sigmask(SIG_UNBLOCK, &wanted, nullptr);
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGPROF;
  event.sigev_notify_thread_id = ::gettid();
  ::timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &here.timer);
}

void set_timer(nanoseconds time) noexcept
{
  itimerspec value{};
  value.it_value.tv_sec = time.count() / 1'000'000'000;
  value.it_value.tv_nsec = time.count() % 1'000'000'000;
  ::timer_settime(here.timer, 0, &value, nullptr);
}

void identify() noexcept
{
  if (here.by != owner::unknown)
    return;
  sigset_t blocked;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  if (::gettid() == ::getpid())
    here.by = owner::test;
  else
    here.by = ::sigismember(&blocked, SIGTERM) == 1 ? owner::library : owner::other;
  if (strict_limit() != nullptr)
    make_timer();
}

void begin_turn() noexcept
{
  here.begin = processor_time();
  if (strict_limit() != nullptr)
    set_timer(turn_limit());
}

void end_turn() noexcept
{
  if (here.begin == 0)
    return;
  const std::int64_t time = processor_time() - std::exchange(here.begin, 0);
  if (strict_limit() != nullptr)
    set_timer(nanoseconds{0});
  // Handlers of tests compare and fill memory, without optimisation.
  constexpr std::int64_t of_tests = 1'000'000'000;
  const bool is_of_test = here.by != owner::library && strict_limit() == nullptr;
  if (time <= (is_of_test ? of_tests : turn_limit().count()))
    return;
  const std::lock_guard lock(records.mutex);
  ++records.count;
  records.excess += time - turn_limit().count();
  if (time < records.longest)
    return;
  records.longest = time;
  records.by = here.by;
  ::pthread_getname_np(::pthread_self(), records.thread.data(), records.thread.size());
}

std::string milliseconds(nanoseconds time)
{
  return std::to_string(time.count() / 1'000'000) + " ms";
}

} // namespace

nanoseconds turn_limit() noexcept
{
  static const nanoseconds value = std::chrono::milliseconds(
    strict_limit() != nullptr ? std::max(1, std::atoi(strict_limit())) : 10);
  return value;
}

wait::wait(int set, bool looks_only) noexcept
{
  identify();
  if (here.by != owner::library && here.loops == 0)
    return;
  // A reactor looks at its own set between handlers. A handler, or a turn of the engine, also looks
  // at others.
  if (looks_only && here.begin != 0 && set != here.set)
    return;
  counts_ = true;
  end_turn();
  here.set = set;
}

wait::~wait()
{
  if (counts_)
    begin_turn();
}

event_loop::event_loop() noexcept
{
  ++here.loops;
}

event_loop::~event_loop()
{
  if (--here.loops == 0)
    end_turn(); // of the last handler
}

long_turns take_turns()
{
  const std::lock_guard lock(records.mutex);
  long_turns result;
  result.count = std::exchange(records.count, 0);
  result.excess = nanoseconds(std::exchange(records.excess, 0));
  result.longest = nanoseconds(std::exchange(records.longest, 0));
  const char* const by = records.by == owner::library ? "the library's thread "
    : records.by == owner::test                       ? "the test's own thread "
                                                      : "a thread of the test ";
  result.thread = by + std::string(records.thread.data());
  return result;
}

std::string turns_failure(const long_turns& of, nanoseconds stolen)
{
  // Factors of run time, not of noise: instrumented code, and a machine without an accelerator.
  const int slowness = emulated() ? 20 : BOOST_RDMA_TEST_ADDRESS_SANITIZER != 0 ? 10 : 1;
  const nanoseconds most =
    strict_limit() != nullptr ? nanoseconds{0} : 25 * turn_limit() * slowness;
  if (of.excess <= most + stolen)
    return {};
  return std::to_string(of.count) + " turns were longer than " + milliseconds(turn_limit())
    + ", together by " + milliseconds(of.excess) + ", of which the hypervisor took at most "
    + milliseconds(stolen) + ". The longest: " + milliseconds(of.longest) + " in " + of.thread
    + ". BOOST_RDMA_TEST_TURN_MS=10 shows the stacks";
}

nanoseconds stolen_time()
{
  std::ifstream file("/proc/stat");
  std::string skipped;
  file >> skipped;
  for (int i = 0; i != 7; ++i) // user nice system idle iowait irq softirq steal
    file >> skipped;
  std::int64_t ticks = 0;
  file >> ticks;
  return ticks * nanoseconds(1'000'000'000 / ::sysconf(_SC_CLK_TCK));
}

holding holding::now()
{
  holding result;
  result.descriptors = std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  std::ifstream maps("/proc/self/maps");
  result.mappings = std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
  const auto heap = ::mallinfo2();
  result.heap_bytes = static_cast<std::ptrdiff_t>(heap.uordblks + heap.hblkhd);
#endif
  return result;
}

std::string growth_failure(const holding& before, const holding& after)
{
  constexpr std::ptrdiff_t descriptors_most = 32;
  constexpr std::ptrdiff_t mappings_most = 128;
  constexpr std::ptrdiff_t heap_bytes_most = 16 << 20;
  const auto exceeds =
    [](std::ptrdiff_t from, std::ptrdiff_t to, std::ptrdiff_t most, const char* of)
  {
    return to - from > most ? std::string("the test case has left ") + std::to_string(to - from)
        + " " + of + " more than there were, which is more than " + std::to_string(most) + ". "
                            : std::string();
  };
  return exceeds(before.descriptors, after.descriptors, descriptors_most, "descriptors")
    + (BOOST_RDMA_TEST_THREAD_SANITIZER != 0 // its own grow
        ? std::string()
        : exceeds(before.mappings, after.mappings, mappings_most, "mappings"))
    + exceeds(before.heap_bytes, after.heap_bytes, heap_bytes_most, "bytes of the heap");
}

} // namespace test::watchdog

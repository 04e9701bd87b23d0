//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/pauses.hpp"

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <sys/syscall.h>
#include <unistd.h>

namespace test {
namespace {

constinit std::atomic<int> left{0};
constinit std::atomic<unsigned> state{0};

unsigned one_of() noexcept
{
  static const unsigned value = []
  {
    const char* const given = std::getenv("BOOST_RDMA_TEST_PAUSES");
    return given == nullptr ? 0U : static_cast<unsigned>(std::atoi(given));
  }();
  return value;
}

// Without a lock: threads may also get the same number.
unsigned random() noexcept
{
  const unsigned next = state.load(std::memory_order_relaxed) * 1664525 + 1013904223;
  state.store(next, std::memory_order_relaxed);
  return next >> 8;
}

} // namespace

void allow_pauses() noexcept
{
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  state = static_cast<unsigned>(now.tv_nsec);
  left = 40;
}

void pause_at_random(unsigned rarity) noexcept
{
  if (one_of() == 0 || left <= 0 || random() % (one_of() * rarity) != 0)
    return;
  --left;
  const int kept = errno;
  const long milliseconds = random() % 16 == 0 ? 300 : random() % 30;
  const timespec time{0, milliseconds * 1'000'000};
  ::syscall(SYS_nanosleep, &time, nullptr); // not the function, whose calls tests count
  errno = kept;
}

} // namespace test

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests the allocation counter that the tests of zero heap allocations rely on.

#include "common/allocations.hpp"
#include "common/catch.hpp"

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <malloc.h>
#include <memory>
#include <new>
#include <string>
#include <thread>

using test::allocation_count;

namespace {

// Compilers may remove an allocation whose result is unused; this variable uses it.
void* volatile seen = nullptr;

/// Returns the number of allocations that were counted while `take` ran.
template <class Take>
std::size_t counted(Take take)
{
  allocation_count count;
  take();
  count.stop();
  return count.value();
}

struct alignas(256) wide
{
  char bytes[256];
};

} // namespace

TEST_CASE("allocation_count counts every form of new")
{
  CHECK(counted([] { seen = new int; }) == 1);
  delete static_cast<int*>(seen);
  CHECK(counted([] { seen = new int[100]; }) == 1);
  delete[] static_cast<int*>(seen);
  CHECK(counted([] { seen = new (std::nothrow) int; }) == 1);
  delete static_cast<int*>(seen);
  CHECK(counted([] { seen = new wide; }) == 1);
  delete static_cast<wide*>(seen);
  CHECK(counted([] { seen = new wide[2]; }) == 1);
  delete[] static_cast<wide*>(seen);
  CHECK(counted([] { seen = new (std::nothrow) wide; }) == 1);
  delete static_cast<wide*>(seen);
  CHECK(counted([] { seen = new (std::nothrow) wide[2]; }) == 1);
  delete[] static_cast<wide*>(seen);
  CHECK(counted([] { seen = new (std::nothrow) int[2]; }) == 1);
  delete[] static_cast<int*>(seen);
  CHECK(counted([] { seen = new std::string(1000, 'x'); }) == 2);
  delete static_cast<std::string*>(seen);
}

TEST_CASE("allocation_count counts malloc and every related function")
{
  if (!allocation_count::sees_malloc())
  {
    WARN("skipped: a sanitizer replaces malloc");
    return;
  }
  const auto once = [](std::function<void*()> take)
  {
    seen = nullptr;
    CHECK(counted([&] { seen = take(); }) == 1);
    CHECK(seen != nullptr);
    std::free(seen);
  };
  once([] { return std::malloc(10); });
  once([] { return std::calloc(10, 10); });
  once([] { return std::realloc(nullptr, 10); });
  once([] { return std::aligned_alloc(64, 128); });
  once([] { return ::memalign(64, 100); });
  once([] { return ::valloc(100); });
  once([] { return ::pvalloc(100); });
  once([] { return ::reallocarray(nullptr, 10, 10); });
  once([] { return ::strdup("from inside the library"); });
  once(
    []
    {
      void* p = nullptr;
      const bool good = ::posix_memalign(&p, 64, 100) == 0;
      return good && reinterpret_cast<std::uintptr_t>(p) % 64 == 0 ? p : nullptr;
    });
  void* p = std::malloc(10);
  CHECK(counted([&] { seen = p = std::realloc(p, 100'000); }) == 1);
  std::free(p);
  CHECK(::posix_memalign(&p, 3, 100) == EINVAL);
  CHECK(::posix_memalign(&p, 24, 100) == EINVAL);
  const volatile std::size_t too_many = SIZE_MAX;
  CHECK(::reallocarray(nullptr, too_many, 2) == nullptr);
}

TEST_CASE("allocation_count counts allocations of other threads")
{
  std::atomic<int> turn{0};
  std::unique_ptr<int[]> taken[3];
  std::thread other(
    [&]
    {
      turn.wait(0);
      for (auto& each : taken)
        each = std::make_unique<int[]>(10);
      turn = 2;
      turn.notify_all();
    });
  allocation_count count;
  turn = 1;
  turn.notify_all();
  turn.wait(1);
  count.stop();
  CHECK(count.value() == 3);
  other.join();
}

TEST_CASE("allocation_count counts no allocation outside its lifetime")
{
  auto before = std::make_unique<int>(1);
  seen = before.get();
  allocation_count count;
  int on_stack[100] = {};
  seen = on_stack;
  count.stop();
  auto after = std::make_unique<int>(2);
  seen = after.get();
  CHECK(count.value() == 0);
  // Each counter starts at zero and reports where the first allocation came from.
  allocation_count second;
  auto one = std::make_unique<int>(3);
  seen = one.get();
  second.stop();
  CHECK(second.value() == 1);
  CHECK_FALSE(test::first_stack().empty());
}

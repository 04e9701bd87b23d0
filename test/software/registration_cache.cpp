//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/inventory.hpp"
#include "common/rdma_fixture.hpp"
#include "resource/domain_impl.hpp"
#include "software/limited_device.hpp"
#include "software/registration_cache_fixture.hpp"

#include <atomic>
#include <cstring>
#include <string>
#include <thread>

// Tests the reuse and the eviction of registrations of plain memory.

using namespace test;

TEST_CASE("memory is registered once and found for every range inside")
{
  cache_user user;
  NEEDS_WATCHED_MEMORY(user);
  const mapping memory(8);
  const rdma::detail::registration* first = nullptr;
  {
    const held made = user.acquire(memory.at(1) + 100, 2 * page);
    first = made.get();
    CHECK(made->base == reinterpret_cast<std::byte*>(memory.at(1)));
    CHECK(made->size == 3 * page); // whole pages
    CHECK(user.statistics().in_use == 1);
  }
  auto s = user.statistics();
  CHECK(s.misses == 1);
  CHECK(s.entries == 1);
  CHECK(s.bytes == 3 * page);
  CHECK(s.in_use == 0);
  CHECK(user.acquire(memory.at(1), 3 * page).get() == first);
  CHECK(user.acquire(memory.at(3) + 7, 1).get() == first);
  CHECK(user.acquire(memory.at(2), page, false).get() == first); // writable memory is readable, too
  CHECK_FALSE(user.finds(memory.at(0), 1));
  CHECK_FALSE(user.finds(memory.at(3), page + 1));
  s = user.statistics();
  CHECK(s.hits == 3);
  CHECK(s.misses == 3);
  CHECK(s.entries == 3);
  CHECK(s.uncached == 0);
}

TEST_CASE("a read-only registration is not used for writable access")
{
  cache_user user;
  NEEDS_WATCHED_MEMORY(user);
  const mapping memory(4);
  CHECK(user.acquire(memory.at(0), 2 * page, false)->rights == rdma::access::local_read);
  CHECK(user.finds(memory.at(1), page, false));
  CHECK_FALSE(user.finds(memory.at(0), page, true));
  CHECK(user.finds(memory.at(0), page, true));
  CHECK(user.statistics().entries == 2);
  // a larger writable registration replaces it
  CHECK_FALSE(user.finds(memory.at(0), 3 * page, true));
  CHECK(user.statistics().entries == 1);
}

TEST_CASE("a larger range replaces contained ones and overlapping ranges coexist")
{
  cache_user user;
  NEEDS_WATCHED_MEMORY(user);
  const mapping memory(16);
  static_cast<void>(user.acquire(memory.at(1), page));
  static_cast<void>(user.acquire(memory.at(3), 2 * page));
  const held in_use = user.acquire(memory.at(1), page);
  static_cast<void>(user.acquire(memory.at(0), 8 * page));
  auto s = user.statistics();
  CHECK(s.entries == 1);
  CHECK(s.bytes == 8 * page);
  CHECK(s.evicted == 2);
  // The operation keeps its registration.
  CHECK(in_use->base == reinterpret_cast<std::byte*>(memory.at(1)));
  static_cast<void>(user.acquire(memory.at(4), 8 * page));
  static_cast<void>(user.acquire(memory.at(8), 8 * page));
  CHECK(user.statistics().entries == 3);
  CHECK(user.finds(memory.at(0), 8 * page));
  CHECK(user.finds(memory.at(4), 8 * page));
  CHECK(user.finds(memory.at(8), 8 * page));
  CHECK(user.finds(memory.at(7), 4 * page));
  CHECK_FALSE(user.finds(memory.at(3), 9 * page));
}

TEST_CASE("the cache evicts the least recently used entry that is not in use at its limits")
{
  cache_user user({.bytes_max = 4 * page, .entries_max = 3});
  NEEDS_WATCHED_MEMORY(user);
  const mapping memory(16);
  static_cast<void>(user.acquire(memory.at(0), page));
  static_cast<void>(user.acquire(memory.at(2), page));
  static_cast<void>(user.acquire(memory.at(4), page));
  CHECK(user.finds(memory.at(0), page));
  static_cast<void>(user.acquire(memory.at(6), page)); // a fourth entry
  CHECK(user.statistics().entries == 3);
  CHECK(user.finds(memory.at(0), page));
  CHECK(user.finds(memory.at(4), page));
  CHECK(user.finds(memory.at(6), page));
  // 0 is the least recently used, but in use
  const held kept = user.acquire(memory.at(0), page);
  CHECK(user.finds(memory.at(4), page));
  CHECK(user.finds(memory.at(6), page));
  static_cast<void>(user.acquire(memory.at(8), 3 * page)); // the maximum number of bytes
  auto s = user.statistics();
  CHECK(s.entries == 2);
  CHECK(s.bytes == 4 * page);
  CHECK(user.finds(memory.at(0), page));
  CHECK(user.finds(memory.at(8), 3 * page));
  // A range that does not fit in addition to those in use, or at all, is registered for one
  // operation.
  const held large = user.acquire(memory.at(8), 3 * page);
  const auto before = user.statistics().uncached;
  CHECK_FALSE(user.finds(memory.at(12), page));
  CHECK_FALSE(user.finds(memory.at(12), page));
  CHECK_FALSE(user.finds(memory.at(0), 5 * page));
  s = user.statistics();
  CHECK(s.uncached == before + 3);
  CHECK(s.bytes == 4 * page);
}

TEST_CASE("every operation registers its memory when the limits of the cache are zero")
{
  using bounds = rdma::registration_cache_options;
  const cache_user user(GENERATE(
    bounds{.bytes_max = 0}, bounds{.entries_max = 0}, bounds{.bytes_max = 0, .entries_max = 0}));
  const std::size_t threads = inventory::count_threads();
  CHECK_FALSE(user.statistics().enabled);
  CHECK(user.statistics().disabled_reason.find("registration_cache_options") != std::string::npos);
  mapping memory(1);
  {
    const held first = user.acquire(memory.at(0), page);
    const held second = user.acquire(memory.at(0), page, false);
    CHECK(first.get() != second.get());
  }
  CHECK_FALSE(user.finds(memory.at(0), page));
  memory.unmap(0, 1); // the unmap does not block
  CHECK(inventory::count_threads() == threads);
  const auto s = user.statistics();
  CHECK(s.uncached == 3);
  CHECK(s.misses == 3);
  CHECK(s.entries == 0);
  CHECK(s.bytes == 0);
}

TEST_CASE("unused entries of every domain are evicted when the limit of locked memory is reached")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  registrations limit;
  registrations::bytes_max = 4 * page;
  const cache_user first(counted_context());
  const cache_user second(counted_context());
  NEEDS_WATCHED_MEMORY(first);
  const mapping memory(8);
  {
    const held in_use = first.acquire(memory.at(0), page);
    static_cast<void>(first.acquire(memory.at(2), 3 * page));
    static_cast<void>(second.acquire(memory.at(4), 2 * page));
    CHECK(first.statistics().entries == 1);
    CHECK(first.statistics().evicted == 1);
    CHECK(first.finds(memory.at(0), page));
    error_code ec;
    CHECK(second.context.impl()->cache().acquire(memory.at(4), 4 * page, true, ec) == nullptr);
    CHECK(ec == error_code(ENOMEM, boost::system::system_category()));
    // Its own entry was evicted before the allocation failed.
    CHECK(second.statistics().evicted == 1);
    CHECK(first.statistics().entries == 1);
  }
  CHECK_FALSE(second.finds(memory.at(4), 4 * page));
  CHECK(second.finds(memory.at(4), 4 * page));
  CHECK(first.statistics().entries == 0);
  CHECK(registrations::standing == 1);
}

TEST_CASE("domains can be destroyed while other domains reclaim their entries")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  registrations limit;
  registrations::bytes_max = 16 * page;
  {
    const cache_user lasting(counted_context());
    NEEDS_WATCHED_MEMORY(lasting);
    const mapping memory(64);
    std::atomic<bool> over{false};
    std::atomic<int> wrong{0};
    // Each user holds at most four pages, so the limit suffices when all unused entries are
    // evicted.
    const auto use = [&](const cache_user& user, std::size_t from)
    {
      for (std::size_t i = 0; i < 16; i += 4)
      {
        error_code ec;
        const held made(
          user.context.impl()->cache().acquire(memory.at(from + i), 4 * page, true, ec));
        if (!made && ec != error_code(ENOMEM, boost::system::system_category()))
          ++wrong;
      }
    };
    std::thread other(
      [&]
      {
        while (!over)
          use(lasting, 0);
      });
    for (int i = 0; i < (emulated() ? 20 : 300); ++i)
    {
      const cache_user passing(counted_context());
      use(passing, 16);
    }
    over = true;
    other.join();
    CHECK(wrong == 0);
  }
  CHECK(registrations::standing == 0);
  CHECK(registrations::bytes == 0);
}

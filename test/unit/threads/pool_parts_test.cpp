//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/mapping_thread.hpp"

#include "resource/address_map.hpp"
#include "resource/arena.hpp"
#include "resource/page_runs.hpp"
#include "resource/process_fence.hpp"
#include "resource/size_classes.hpp"
#include "resource/slab.hpp"
#include "resource/thread_cache.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <vector>

// Tests the parts of the memory pool without registered memory.

using namespace rdma::detail;

TEST_CASE("class_of returns the smallest size class that fits and wastes at most a fifth")
{
  for (std::size_t bytes = 1; bytes <= largest_class_bytes; ++bytes)
  {
    const std::size_t index = class_of(bytes);
    const bool right = index < class_count && class_bytes[index] >= bytes
      && (index == 0 || class_bytes[index - 1] < bytes);
    const std::size_t lost = class_bytes[index] - bytes;
    if (!right || (bytes > 128 && lost * 5 > class_bytes[index])
      || (bytes <= 128 && lost >= quantum_bytes))
    {
      CAPTURE(bytes, index, class_bytes[index]);
      FAIL("wrong class");
    }
  }
  CHECK(std::is_sorted(class_bytes.begin(), class_bytes.end()));
}

TEST_CASE("a size rounded up to an alignment has a size class with that alignment")
{
  for (std::size_t alignment = 1; alignment <= alignment_max; alignment *= 2)
    for (std::size_t bytes = 1; bytes <= largest_class_bytes; ++bytes)
    {
      const std::size_t size = class_bytes[class_of(round_up(bytes, alignment))];
      if (size % std::max(alignment, quantum_bytes) != 0)
      {
        CAPTURE(alignment, bytes, size);
        FAIL("not aligned");
      }
    }
}

TEST_CASE("a slab wastes at most a sixteenth of its pages")
{
  for (std::size_t i = 0; i < class_count; ++i)
  {
    CAPTURE(class_bytes[i], slab_pages[i]);
    if (!is_slab_class(i))
    {
      CHECK(class_bytes[i] % page_bytes == 0);
      continue;
    }
    const std::size_t whole = slab_pages[i] * page_bytes;
    CHECK(whole % class_bytes[i] * 16 <= whole);
    CHECK(slab_pages[i] <= slab_pages_max);
    CHECK(whole / class_bytes[i] >= 4);
  }
}

TEST_CASE("a slab allocates each of its blocks once and accepts them back in any order")
{
  std::mt19937 random(Catch::rngSeed());
  auto made = std::make_unique<slab>();
  // Never dereferenced.
  std::byte* const base = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 30);
  for (std::size_t i = 0; i < class_count; ++i)
  {
    if (!is_slab_class(i))
      continue;
    CAPTURE(class_bytes[i]);
    made->open(base, slab_pages[i], i);
    const std::size_t count = slab_pages[i] * page_bytes / class_bytes[i];
    std::vector<std::byte*> blocks(count + 1);
    std::size_t taken = made->take(blocks.data(), count / 3);
    taken += made->take(blocks.data() + taken, count);
    CHECK(taken == count);
    CHECK(made->full());
    blocks.resize(count);
    const std::set<std::byte*> unlike(blocks.begin(), blocks.end());
    CHECK(unlike.size() == count);
    CHECK(*unlike.begin() == base);
    CHECK(static_cast<std::size_t>(*unlike.rbegin() - base) == (count - 1) * class_bytes[i]);

    std::shuffle(blocks.begin(), blocks.end(), random);
    for (std::byte* each : blocks)
    {
      CHECK_FALSE(made->unused());
      made->give_back(each);
    }
    CHECK(made->unused());
    std::byte* again = nullptr;
    CHECK(made->take(&again, 1) == 1);
    CHECK(again == base); // the lowest address
  }
}

TEST_CASE("page_runs allocates disjoint runs, merges freed ones and finds a run when one exists")
{
  std::mt19937 random(Catch::rngSeed());
  constexpr std::size_t pages = 1000;
  page_runs runs(pages);
  std::vector<bool> used(pages);
  std::map<std::size_t, std::size_t> out;
  const auto longest_free = [&]
  {
    std::size_t longest = 0;
    std::size_t now = 0;
    for (const bool each : used)
      longest = std::max(longest, now = each ? 0 : now + 1);
    return longest;
  };
  for (int i = 0; i < 20'000; ++i)
  {
    if (random() % 2 == 0)
    {
      const std::size_t count = 1 + random() % (random() % 8 == 0 ? 200 : 20);
      const std::size_t first = runs.take(count);
      if ((first == page_runs::none) != (longest_free() < count))
        FAIL("take() contradicts the list of free pages for a run of " << count << " pages");
      if (first == page_runs::none)
        continue;
      for (std::size_t p = first; p < first + count; ++p)
      {
        REQUIRE(p < pages);
        REQUIRE_FALSE(used[p]);
        used[p] = true;
      }
      out.emplace(first, count);
    }
    else if (!out.empty())
    {
      const auto gone = std::next(out.begin(), static_cast<std::ptrdiff_t>(random() % out.size()));
      runs.give_back(gone->first, gone->second);
      std::fill_n(used.begin() + static_cast<std::ptrdiff_t>(gone->first), gone->second, false);
      out.erase(gone);
    }
    REQUIRE(runs.free() == static_cast<std::size_t>(std::count(used.begin(), used.end(), false)));
  }
  for (const auto& [first, count] : out)
    runs.give_back(first, count);
  CHECK(runs.untouched());
  CHECK(runs.take(pages) == 0);
  CHECK(runs.take(1) == page_runs::none);
}

TEST_CASE("address_map finds the owner of an address and nothing for other addresses")
{
  auto map = std::make_unique<address_map<int>>();
  constexpr std::size_t granule = address_map<int>::granule_bytes;
  const auto at = [](std::uintptr_t address) { return reinterpret_cast<std::byte*>(address); };
  int one = 1;
  int two = 2;
  CHECK(map->find(nullptr) == nullptr);
  CHECK(map->find(at(~std::uintptr_t{0})) == nullptr);
  CHECK(map->find(&one) == nullptr);
  const std::uintptr_t far = (std::uintptr_t{1} << 48) - 3 * granule;
  map->set(at(granule), 100, &one);
  map->set(at(far), 2 * granule + 1, &two);
  CHECK(map->find(at(granule - 1)) == nullptr);
  CHECK(map->find(at(granule)) == &one);
  CHECK(map->find(at(2 * granule - 1)) == &one);
  CHECK(map->find(at(2 * granule)) == nullptr);
  CHECK(map->find(at(far - 1)) == nullptr);
  CHECK(map->find(at(far)) == &two);
  CHECK(map->find(at(far + 3 * granule - 1)) == &two);
  CHECK(map->find(at(far + 3 * granule)) == nullptr); // addresses have 48 bits
  map->set(at(far), 2 * granule + 1, nullptr);
  CHECK(map->find(at(far + granule)) == nullptr);
  CHECK(map->find(at(granule)) == &one);
}

TEST_CASE("memory for which there are no huge pages replaces no memory of other threads")
{
  rdma::memory_pool_options options;
  options.huge = rdma::huge_pages::reserved;
  constexpr std::size_t granule = address_map<int>::granule_bytes;
  const bool shared = GENERATE(true, false);
  test::mapping_thread other(2 * granule);
  for (unsigned i = 0; i != 4000; ++i)
  {
    rdma::error_code ec;
    const mapped_memory memory(granule, options, shared, ec);
    REQUIRE_FALSE(ec);
    REQUIRE(reinterpret_cast<std::uintptr_t>(memory.data()) % granule == 0);
    memory.data()[granule - 1] = std::byte{1};
  }
  CHECK(other.lost() == 0);
}

TEST_CASE("process_fence succeeds when it is announced")
{
  CHECK(process_fence() == has_process_fence);
}

TEST_CASE("pool_id values are unique and share a thread slot only when all slots are in use")
{
  const auto place = [](const std::optional<pool_id>& id)
  { return id->value() % thread_slot_count; };
  std::array<std::optional<pool_id>, thread_slot_count> alive;
  std::set<std::uint64_t> ids;
  for (std::size_t i = 0; i < 100; ++i)
  {
    auto& each = alive[i * 7 % alive.size()];
    each.emplace(); // the previous id is destroyed first
    ids.insert(each->value());
  }
  CHECK(ids.size() == 100);
  std::set<std::size_t> places;
  for (const auto& each : alive)
    places.insert(place(each));
  CHECK(places.size() == thread_slot_count);

  // As many again: each shares its slot with one of the first.
  std::array<std::optional<pool_id>, thread_slot_count> more;
  std::set<std::size_t> shared;
  for (auto& each : more)
  {
    each.emplace();
    shared.insert(place(each));
  }
  CHECK(shared.size() == thread_slot_count);

  const std::size_t left = place(alive[5]);
  alive[5].reset();
  alive[5].emplace();
  CHECK(place(alive[5]) == left);
}

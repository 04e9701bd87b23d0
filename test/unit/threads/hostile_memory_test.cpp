//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests the copies and atomics of the software device's hostile mode.

#include "common/catch.hpp"

#include "verbs/software/memory/hostile_memory.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

using rdma::software::hostile_memory;
using rdma::software::random_sequence;

namespace {

using visits = std::vector<std::pair<std::size_t, std::size_t>>;

// Returns the offset and the size of each access, in order, and the number of pauses.
std::pair<visits, unsigned> visit(std::uint64_t seed, std::uintptr_t begin, std::size_t size)
{
  visits seen;
  unsigned pauses = 0;
  random_sequence random(seed);
  rdma::software::visit_words(
    random, begin, size,
    [&](std::size_t offset, std::size_t part) { seen.emplace_back(offset, part); },
    [&] { ++pauses; });
  return {seen, pauses};
}

} // namespace

TEST_CASE("a hostile copy accesses each word once, and words at the ends in part")
{
  for (std::uintptr_t begin = 64; begin != 72; ++begin)
    for (const std::size_t size : {1, 7, 8, 9, 100, 2048, 2049, 5000, 70'000})
    {
      CAPTURE(begin, size);
      auto [seen, pauses] = visit(begin * size, begin, size);
      CHECK(pauses <= 4);
      std::sort(seen.begin(), seen.end());
      std::size_t end = 0;
      for (const auto& [offset, part] : seen)
      {
        REQUIRE(offset == end);
        REQUIRE((begin + offset) / 8 == (begin + offset + part - 1) / 8);
        REQUIRE(((begin + offset) % 8 == 0 || offset == 0));
        end = offset + part;
        REQUIRE((end == size || (begin + end) % 8 == 0));
      }
      REQUIRE(end == size);
    }
}

TEST_CASE("a hostile copy's order depends on the seed only")
{
  constexpr std::size_t size = 64 * 1024;
  const visits one = visit(1, 64, size).first;
  const visits two = visit(2, 64, size).first;
  CHECK(visit(1, 64, size).first == one);
  CHECK(one != two);
  CHECK_FALSE(std::is_sorted(one.begin(), one.end()));
  // Also the blocks are not always in ascending order: for some seed the last bytes are not last.
  unsigned last_is_late = 0;
  constexpr unsigned seeds = 64;
  for (unsigned seed = 0; seed != seeds; ++seed)
  {
    const visits seen = visit(seed, 64, size).first;
    const auto last = std::find(seen.begin(), seen.end(), visits::value_type(size - 8, 8));
    REQUIRE(last != seen.end());
    last_is_late += last - seen.begin() > std::ptrdiff_t{size} / 8 / 2;
  }
  CHECK(last_is_late > 0);
  CHECK(last_is_late < seeds);
}

TEST_CASE("hostile writes and reads copy exact bytes at every alignment")
{
  constexpr std::size_t size_max = 100;
  constexpr std::size_t margin = 16;
  constexpr std::byte untouched{0xee};
  alignas(8) std::array<std::byte, size_max + 2 * margin + 8> there;
  std::array<std::byte, size_max + 8> source;
  std::array<std::byte, size_max> result;
  for (std::size_t i = 0; i != source.size(); ++i)
    source[i] = static_cast<std::byte>(i + 1);
  hostile_memory memory(3, 4);
  for (std::size_t at = margin; at != margin + 8; ++at)
    for (std::size_t skew = 0; skew < 8; skew += 3)
      for (std::size_t size = 0; size <= size_max; ++size)
      {
        CAPTURE(at, skew, size);
        there.fill(untouched);
        memory.write(there.data() + at, source.data() + skew, size);
        REQUIRE(std::equal(source.data() + skew, source.data() + skew + size, there.data() + at));
        const auto is_untouched = [](std::byte b) { return b == untouched; };
        REQUIRE(std::all_of(there.data(), there.data() + at, is_untouched));
        REQUIRE(std::all_of(there.data() + at + size, there.data() + there.size(), is_untouched));
        result.fill(untouched);
        memory.read(result.data(), there.data() + at, size);
        REQUIRE(std::equal(result.data(), result.data() + size, source.data() + skew));
        REQUIRE(std::all_of(result.data() + size, result.data() + size_max, is_untouched));
      }
}

TEST_CASE("hostile atomics of several queue pairs lose no update")
{
  constexpr unsigned rounds = 2000;
  alignas(8) std::uint64_t word = 0;
  const auto add = [&word](std::uint32_t queue_pair)
  {
    hostile_memory memory(5, queue_pair);
    for (unsigned i = 0; i != rounds; ++i)
      memory.change(&word, [](std::uint64_t before) { return before + 1; });
  };
  std::thread other([&] { add(1); });
  add(2);
  other.join();
  CHECK(word == 2 * rounds);
}

TEST_CASE("a hostile frame buffer keeps its bytes when it grows")
{
  hostile_memory memory(1, 1);
  std::byte* at = memory.arriving(3);
  REQUIRE(at != nullptr);
  std::memcpy(at, "abc", 3);
  std::memset(memory.leaving(8), 0, 8);
  at = memory.arriving(100'000);
  REQUIRE(at != nullptr);
  CHECK(std::memcmp(at, "abc", 3) == 0);
}

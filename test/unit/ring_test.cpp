//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/wire/ring.hpp"

#include "common/catch.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <random>

// Tests a ring within one process: both ends are here, as are forged words that no writer writes.

using namespace rdma::software::wire;

namespace {

struct rings
{
  static constexpr std::size_t size = 1024;
  alignas(ring::line) std::array<std::byte, size> memory{};
  ring::progress taken{0};
  ring::writer out{memory.data(), size, taken, 0};
  ring::reader in{memory.data(), size, taken};

  bool put(std::size_t bytes, std::uint8_t what)
  {
    std::byte* const at = out.begin(bytes, false);
    if (at == nullptr)
      return false;
    std::memset(at, what, bytes);
    out.end(bytes);
    return true;
  }

  void forge(std::size_t offset, std::uint32_t word)
  {
    ring::word_at(memory.data() + offset).store(word);
  }
};

} // namespace

TEST_CASE("a ring delivers records in order over many laps and ignores old bytes")
{
  rings r;
  std::minstd_rand random(1);
  std::uint8_t put = 0;
  std::uint8_t got = 0;
  std::array<std::size_t, 256> sizes{};
  for (int i = 0; i != 20'000; ++i)
  {
    const auto bytes = std::uniform_int_distribution<std::size_t>(1, 300)(random);
    if (r.put(bytes, put))
      sizes[put++] = bytes;
    if (random() % 3 == 0)
      continue;
    const auto body = r.in.front();
    REQUIRE(body.empty() == (put == got));
    if (body.empty())
      continue;
    REQUIRE(r.in.ready());
    REQUIRE(body.size() >= sizes[got]);
    REQUIRE(std::all_of(body.begin(), body.begin() + static_cast<std::ptrdiff_t>(sizes[got]),
      [got](std::byte b) { return b == std::byte{got}; }));
    r.in.pop();
    ++got;
  }
  CHECK_FALSE(r.in.broken());
  CHECK_FALSE(r.out.broken());
}

TEST_CASE("a full ring accepts a record only after its reader has consumed one")
{
  rings r;
  unsigned put = 0;
  while (r.put(100, 1))
    ++put;
  CHECK(put == (rings::size - ring::line) / ring::record_size(100));
  CHECK_FALSE(r.put(100, 1));
  REQUIRE_FALSE(r.in.front().empty());
  r.in.pop();
  CHECK(r.put(100, 1));
}

TEST_CASE("a ring reserves space for urgent records")
{
  rings r;
  r.out = ring::writer(r.memory.data(), rings::size, r.taken, 2 * ring::line);
  while (r.put(8, 1))
  {
  }
  CHECK(r.out.begin(8, true) != nullptr);
}

TEST_CASE("a reader marks a ring as broken when a length word is invalid")
{
  rings r;
  const std::uint32_t word = GENERATE(as<std::uint32_t>(), 1, 63, 65, 100, 2048, 1024 + 64,
    0xffffffc0, 1024 | ring::skip_bit, 64 | ring::skip_bit, 2048 | ring::skip_bit);
  CAPTURE(word);
  r.forge(0, word);
  CHECK(r.in.front().empty());
  CHECK(r.in.broken());
}

TEST_CASE("a reader marks a ring as broken when a skip does not end at the ring's end")
{
  rings r;
  REQUIRE(r.put(8, 1));
  REQUIRE_FALSE(r.in.front().empty());
  r.in.pop();
  r.forge(ring::line, ring::line | ring::skip_bit);
  CHECK(r.in.front().empty());
  CHECK(r.in.broken());
}

TEST_CASE("a writer marks a ring as broken when the progress of the reader is impossible")
{
  rings r;
  while (r.put(100, 1))
  {
  }
  r.taken.store(GENERATE(as<std::uint64_t>(), 1u << 20, ~std::uint64_t{0}));
  CHECK_FALSE(r.put(100, 1));
  CHECK(r.out.broken());
}

TEST_CASE("a writer marks a ring as broken when the progress of the reader goes back")
{
  rings r;
  const auto fill = [&r]
  {
    while (r.put(100, 1))
    {
    }
  };
  fill();
  const std::uint64_t later = 3 * ring::record_size(100);
  r.taken.store(later);
  fill();
  CHECK_FALSE(r.out.broken());
  r.taken.store(later - ring::line);
  CHECK_FALSE(r.put(100, 1));
  CHECK(r.out.broken());
}

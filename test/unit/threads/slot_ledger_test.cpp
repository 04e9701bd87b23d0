//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/detail/slot_ledger.hpp"
#include "completion/chunk_position.hpp"

#include "common/catch.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

using rdma::detail::chunk_position;
using rdma::detail::slot_ledger;

namespace {

// A source's slots, without operations in them.
class slots
{
public:
  static constexpr std::uint16_t count = 16;

  slots()
  {
    for (std::uint16_t i = count; i != 0; --i)
    {
      slot_ledger::entry now = ledger.read();
      next_[i].store(now.top());
      while (!ledger.replace(now, now.with_more(i)))
      {
      }
    }
  }

  // Returns 0 if no slot is free.
  std::uint16_t claim()
  {
    slot_ledger::entry now = ledger.read();
    while (now.top() != 0)
    {
      const std::uint16_t top = now.top();
      if (ledger.replace(now, now.with_claimed(next_[top].load(std::memory_order_relaxed))))
        return top;
    }
    return 0;
  }

  // Returns true if it was the last claimed slot.
  bool release(std::uint16_t slot)
  {
    slot_ledger::entry now = ledger.read();
    do
      next_[slot].store(now.top(), std::memory_order_relaxed);
    while (!ledger.replace(now, now.with_released(slot)));
    return now.claimed() == 1;
  }

  slot_ledger ledger;

private:
  std::array<std::atomic<std::uint16_t>, count + 1> next_{};
};

} // namespace

TEST_CASE("slot_ledger gives out every slot once and no more")
{
  slots all;
  std::array<bool, slots::count + 1> seen{};
  for (int i = 0; i != slots::count; ++i)
  {
    const std::uint16_t slot = all.claim();
    REQUIRE(slot != 0);
    REQUIRE_FALSE(seen[slot]);
    seen[slot] = true;
    REQUIRE(all.ledger.read().claimed() == static_cast<std::uint32_t>(i + 1));
  }
  REQUIRE(all.claim() == 0);
  for (std::uint16_t slot = 1; slot <= slots::count; ++slot)
    REQUIRE(all.release(slot) == (slot == slots::count));
  REQUIRE(all.ledger.read().claimed() == 0);
}

TEST_CASE(
  "the guarded and counts marks of a slot_ledger are independent of each other and of its slots")
{
  slots all;
  const std::uint16_t slot = all.claim();
  for (const bool guarded : {false, true})
    for (const bool counts : {true, false})
    {
      slot_ledger::entry now = all.ledger.read();
      while (!all.ledger.replace(now, now.with_guarded(guarded).with_counts(counts)))
      {
      }
      now = all.ledger.read();
      REQUIRE(now.guarded() == guarded);
      REQUIRE(now.counts() == counts);
      REQUIRE(now.is_work() == counts);
      REQUIRE(now.claimed() == 1);
    }
  REQUIRE(all.release(slot));
  REQUIRE_FALSE(all.ledger.read().is_work());
}

TEST_CASE("threads that claim and release slots concurrently never hold the same slot")
{
  constexpr int threads_count = 4;
  constexpr int rounds = 20'000;
  slots all;
  // Written only by the thread that holds the slot: TSan finds violations.
  std::array<int, slots::count + 1> writes{};
  std::atomic<int> claimed{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t != threads_count; ++t)
    threads.emplace_back(
      [&]
      {
        std::array<std::uint16_t, 5> held{};
        for (int i = 0; i != rounds; ++i)
        {
          for (std::uint16_t& slot : held)
            if ((slot = all.claim()) != 0)
            {
              ++writes[slot];
              claimed.fetch_add(1, std::memory_order_relaxed);
            }
          for (const std::uint16_t slot : held)
            if (slot != 0)
            {
              ++writes[slot];
              all.release(slot);
            }
        }
      });
  threads.clear();
  int total = 0;
  for (const int each : writes)
    total += each;
  REQUIRE(total == 2 * claimed.load());
  REQUIRE(all.ledger.read().claimed() == 0);
  int vacant = 0;
  while (all.claim() != 0)
    ++vacant;
  REQUIRE(vacant == slots::count);
}

TEST_CASE("chunk_position maps every index to its own position in doubling chunks")
{
  using place = chunk_position<16>;
  std::uint32_t chunk = 0;
  std::uint32_t offset = 0;
  for (std::uint32_t index = 0; index != 1u << 16; ++index)
  {
    const place at(index);
    if (offset == place::size_of(chunk))
    {
      ++chunk;
      offset = 0;
    }
    REQUIRE(at.chunk == chunk);
    REQUIRE(at.offset == offset);
    ++offset;
  }
  REQUIRE(offset == place::size_of(chunk));
  REQUIRE(place::chunks_for(1u << 16) == chunk + 1);
}

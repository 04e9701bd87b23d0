//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "checker.hpp"

#include "verbs/software/memory/grant_word.hpp"

#include <cstdint>

namespace software = rdma::software;

namespace {

constexpr std::uint32_t generation = 1;
constexpr std::uint32_t value = 1; // of the mark

/// A peer that writes twice, and an owner that ends the grant and uses the memory. A write that
/// comes later is a data race.
struct writes : rl::test_suite<writes, 2>
{
  checker::atomic<std::uint32_t> word{generation};
  checker::atomic<std::uint32_t> mark{0};
  checker::plain<std::uint32_t> memory;

  void thread(unsigned index)
  {
    if (index == 1)
    {
      if (software::withdraw_grant<checker::atomics>(word, mark, value))
        while (software::grant_is_marked(mark, value)) // late_writers waits for it
          checker::yield();
      memory.store(0);
      return;
    }
    software::grant_mark mine;
    for (std::uint32_t i = 1; i != 4; ++i)
    {
      const bool holds = mine.enter(mark, value, word, generation);
      if (holds)
        memory.store(i);
      if (!holds || checker::any_of(2) == 0)
        mine.leave(mark);
    }
    mine.leave(mark);
  }
};

/// A peer that reads, and an owner that ends the grant and uses the memory.
struct reads : rl::test_suite<reads, 2>
{
  static constexpr std::uint32_t granted = 1;

  checker::atomic<std::uint32_t> word{generation};
  checker::atomic<std::uint32_t> mark{0};
  checker::atomic<std::uint32_t> memory{granted}; // the peer may read while the owner writes

  void thread(unsigned index)
  {
    if (index == 1)
    {
      software::withdraw_grant<checker::atomics>(word, mark, value);
      memory.store(0, std::memory_order_relaxed);
      return;
    }
    if (!software::grant_holds(word, generation, std::memory_order_acquire))
      return;
    const std::uint32_t copy = memory.load(std::memory_order_relaxed);
    software::end_granted_read<checker::atomics>();
    if (software::grant_holds(word, generation, std::memory_order_relaxed))
      checker::require(copy == granted, "what was read was granted");
  }
};

} // namespace

TEST_CASE("no write follows a revocation that found no mark")
{
  checker::check_interleavings<writes>(200'000, checker::unlimited);
}

TEST_CASE("a read across a revocation is discarded")
{
  checker::check_interleavings<reads>(200'000, checker::unlimited);
}

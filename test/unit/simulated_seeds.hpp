//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_UNIT_SIMULATED_SEEDS_HPP
#define BOOST_RDMA_TEST_UNIT_SIMULATED_SEEDS_HPP

#include "common/device_traits.hpp"
#include "common/figures.hpp"
#include "common/sanitizers.hpp"

#include <cstdint>
#include <cstdlib>

namespace test {

constexpr bool sanitized = BOOST_RDMA_TEST_ADDRESS_SANITIZER || BOOST_RDMA_TEST_THREAD_SANITIZER;

/// Number of seeds of a simulation in a run that is not exhaustive: `ordinary`, but a tenth with a
/// sanitizer, which without threads and pointers finds nothing new in more of them.
inline std::uint64_t share(std::uint64_t ordinary)
{
  return sanitized && !exhaustive() ? (ordinary + 9) / 10 : ordinary;
}

/// Calls run(seed) for `count` seeds from `first` on, of which a sanitizer gets its share, or only
/// for the one that BOOST_RDMA_TEST_SEED names. Returns true if all seeds have run, so that what
/// they have in common can be checked.
template <class Run>
bool run_seeds(unsigned first, unsigned count, Run run)
{
  if (const char* const one = std::getenv("BOOST_RDMA_TEST_SEED"))
  {
    run(static_cast<unsigned>(std::strtoul(one, nullptr, 10)));
    return false;
  }
  const auto seeds = static_cast<unsigned>(share(count));
  for (unsigned i = 0; i != seeds; ++i)
    run(first + i);
  add_figure("seeds", seeds);
  return seeds == count;
}

} // namespace test

#endif // BOOST_RDMA_TEST_UNIT_SIMULATED_SEEDS_HPP

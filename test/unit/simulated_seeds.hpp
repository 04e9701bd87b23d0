//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_UNIT_SIMULATED_SEEDS_HPP
#define BOOST_RDMA_TEST_UNIT_SIMULATED_SEEDS_HPP

#include "common/figures.hpp"

#include <cstdlib>

namespace test {

/// Calls run(seed) for `count` seeds from `first` on, or only for the one that BOOST_RDMA_TEST_SEED
/// names. Returns true if all seeds have run, so that what they have in common can be checked.
template <class Run>
bool run_seeds(unsigned first, unsigned count, Run run)
{
  if (const char* const one = std::getenv("BOOST_RDMA_TEST_SEED"))
  {
    run(static_cast<unsigned>(std::strtoul(one, nullptr, 10)));
    return false;
  }
  for (unsigned i = 0; i != count; ++i)
    run(first + i);
  add_figure("seeds", count);
  return true;
}

} // namespace test

#endif // BOOST_RDMA_TEST_UNIT_SIMULATED_SEEDS_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_COMMON_FIGURES_HPP
#define BOOST_RDMA_TEST_COMMON_FIGURES_HPP

#include <cstdint>
#include <cstdlib>
#include <fstream>

namespace test {

/// Adds a line to the file that BOOST_RDMA_TEST_FIGURES names. test/figures adds the numbers up.
inline void add_figure(const char* name, std::uint64_t number)
{
  if (const char* const path = std::getenv("BOOST_RDMA_TEST_FIGURES"))
    std::ofstream(path, std::ios::app) << name << '\t' << number << '\n';
}

} // namespace test

#endif // BOOST_RDMA_TEST_COMMON_FIGURES_HPP

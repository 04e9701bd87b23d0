//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_FUZZING_COMMON_REQUIRE_HPP
#define BOOST_RDMA_TEST_FUZZING_COMMON_REQUIRE_HPP

#include <cstdio>
#include <cstdlib>

namespace test {

// Checks a property of every input. libFuzzer, the sanitizers and ctest all treat abort() as a
// failure.
inline void require(bool holds, const char* property)
{
  if (holds)
    return;
  std::fprintf(stderr, "does not hold: %s\n", property);
  std::abort();
}

} // namespace test

#endif // BOOST_RDMA_TEST_FUZZING_COMMON_REQUIRE_HPP

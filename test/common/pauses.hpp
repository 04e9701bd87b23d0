//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_COMMON_PAUSES_HPP
#define BOOST_RDMA_TEST_COMMON_PAUSES_HPP

// Pauses as those of a busy machine, if BOOST_RDMA_TEST_PAUSES is set: of the test's thread after
// an assertion (main.cpp), and of every thread after a wait for descriptors (system_calls.cpp).

namespace test {

/// Starts the count of a test case: 40 pauses.
void allow_pauses() noexcept;

/// Sleeps in one of BOOST_RDMA_TEST_PAUSES times `rarity` calls, mostly up to 30 ms, sometimes for
/// 300 ms.
void pause_at_random(unsigned rarity) noexcept;

} // namespace test

#endif // BOOST_RDMA_TEST_COMMON_PAUSES_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_FUZZING_COMMON_FIXTURE_HPP
#define BOOST_RDMA_TEST_FUZZING_COMMON_FIXTURE_HPP

#include "fuzzing/common/require.hpp"

// Included before fixtures of test/unit: instead of Catch2, whose checks work only inside its
// tests.

#define BOOST_RDMA_TEST_COMMON_CATCH_HPP
#define REQUIRE(...) ::test::require(static_cast<bool>(__VA_ARGS__), #__VA_ARGS__)

#endif // BOOST_RDMA_TEST_FUZZING_COMMON_FIXTURE_HPP

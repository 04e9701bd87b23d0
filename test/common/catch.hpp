//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_COMMON_CATCH_HPP
#define BOOST_RDMA_TEST_COMMON_CATCH_HPP

// Includes Catch2 2.13 (Debian 12) or 3 (Debian 13).

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif

#endif // BOOST_RDMA_TEST_COMMON_CATCH_HPP

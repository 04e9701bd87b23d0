//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_COMMON_SANITIZERS_HPP
#define BOOST_RDMA_TEST_COMMON_SANITIZERS_HPP

// Defines the active sanitizers as 1 or 0, for GCC and Clang.
#if defined(__has_feature)
#define BOOST_RDMA_TEST_ADDRESS_SANITIZER __has_feature(address_sanitizer)
#define BOOST_RDMA_TEST_THREAD_SANITIZER __has_feature(thread_sanitizer)
#else
#if defined(__SANITIZE_ADDRESS__)
#define BOOST_RDMA_TEST_ADDRESS_SANITIZER 1
#else
#define BOOST_RDMA_TEST_ADDRESS_SANITIZER 0
#endif
#if defined(__SANITIZE_THREAD__)
#define BOOST_RDMA_TEST_THREAD_SANITIZER 1
#else
#define BOOST_RDMA_TEST_THREAD_SANITIZER 0
#endif
#endif

#endif // BOOST_RDMA_TEST_COMMON_SANITIZERS_HPP

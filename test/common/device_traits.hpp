//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_COMMON_DEVICE_TRAITS_HPP
#define BOOST_RDMA_TEST_COMMON_DEVICE_TRAITS_HPP

#include <string>

namespace test {

/// What a test may need of the device that it runs on.
enum class feature
{
  atomics,
  memory_windows,
  write_with_immediate,
  shared_receive_queues,
  exact_flush,           ///< flushes in order, and soon
  exact_statuses,        ///< the statuses of IBA 9.9 on both sides, rather than some error
  endpoint_descriptions, ///< connects without a connection manager
  connection_manager,    ///< connects by RDMA-CM
};

/// The device under test: what BOOST_RDMA_TEST_DEVICE names, or the software device.
const std::string& device_name();

/// Why the device under test lacks this; empty when it does not.
std::string missing(feature wanted);

} // namespace test

/// Ends a test case that needs what the device under test lacks. The only way to skip a test.
#define BOOST_RDMA_TEST_NEEDS(wanted)                                                              \
  do                                                                                               \
  {                                                                                                \
    if (const std::string why = ::test::missing(::test::feature::wanted); !why.empty())            \
    {                                                                                              \
      WARN("skipped on " << ::test::device_name() << ": " << why);                                 \
      return;                                                                                      \
    }                                                                                              \
  } while (false)

#endif // BOOST_RDMA_TEST_COMMON_DEVICE_TRAITS_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_INFO_SELF_TEST_HPP
#define BOOST_RDMA_TOOLS_INFO_SELF_TEST_HPP

#include <string>

namespace info {

enum class test_outcome
{
  passed,
  failed,
  not_made, ///< the device supports only RDMA-CM
};

struct test_report
{
  std::string device;
  test_outcome outcome = test_outcome::not_made;
  std::string text; ///< the message and its time, or the error
};

/// Opens the device twice, connects both and passes a message each way.
/** Uses the public interface, like a program. Gives up after some seconds. */
test_report test_device(const std::string& name);

} // namespace info

#endif // BOOST_RDMA_TOOLS_INFO_SELF_TEST_HPP

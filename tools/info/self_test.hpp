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
  not_made, ///< the device connects in another way
};

struct test_report
{
  std::string device;
  test_outcome outcome = test_outcome::not_made;
  std::string text; ///< what was passed and how quickly, or what went wrong
};

/// Opens the device twice, connects the two and passes a message from one to the other and back.
/** By the public interface, as a program does it. Gives up after some seconds. */
test_report test_device(const std::string& name);

} // namespace info

#endif // BOOST_RDMA_TOOLS_INFO_SELF_TEST_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_INFO_DEVICES_HPP
#define BOOST_RDMA_TOOLS_INFO_DEVICES_HPP

#include "info/device_report.hpp"
#include "info/file_tree.hpp"

#include <vector>

namespace info {

/// Returns the RDMA devices of the kernel, from /sys/class/infiniband.
std::vector<device_report> devices_of_kernel(const file_tree& files);

/// Returns the devices that the library finds, NICs first, with the properties of the opened device
/// and those in the kernel's files. Then follow the kernel's devices that the library does not
/// find.
std::vector<device_report> devices_of_library(const file_tree& files);

} // namespace info

#endif // BOOST_RDMA_TOOLS_INFO_DEVICES_HPP

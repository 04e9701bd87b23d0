//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_SOFT_SETTINGS_HPP
#define BOOST_RDMA_TOOLS_SOFT_SETTINGS_HPP

#include "boost_rdma/software/device.hpp"

#include <string>

namespace rdma::soft {

/// The settings for the opened device from the environment.
struct environment
{
  software::device_settings settings;
  std::uint32_t devices = 1; ///< listed by ibv_get_device_list(), up to devices_max
  bool share_memory = false; ///< see share_registered_memory()
  std::string wrong; ///< names an invalid variable and its valid range; empty if all are valid
};

/// Reads BOOST_RDMA_SOFT_*, which tools/rdma_soft sets: a comma-separated list of addresses, and
/// numbers; and BOOST_RDMA_SHARE_MEMORY: 0 or 1.
/** An address that this host does not have is reported when the device is opened. */
environment read_environment();

} // namespace rdma::soft

#endif // BOOST_RDMA_TOOLS_SOFT_SETTINGS_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_PERF_TRANSPORTS_HPP
#define BOOST_RDMA_TOOLS_PERF_TRANSPORTS_HPP

#include <boost_rdma/context.hpp>

#include <string>
#include <vector>

namespace perf {

/// A transport of the measured device.
struct transport
{
  std::string name;     ///< "local", "tcp"; for a NIC the device's name
  bool software = true; ///< the software device of this library
};

/// Chooses the measured transports. Both processes create the same list before they open a device.
/**
 * @param wanted Names of the software device's wires; empty: all, or those in BOOST_RDMA_WIRES. If
 * BOOST_RDMA_DEVICE names a NIC, or a context would choose one, the NIC replaces all of them.
 * Throws std::runtime_error if a wire does not exist.
 */
void choose_transports(const std::vector<std::string>& wanted);
const std::vector<transport>& transports();

/// Returns this process's context for the transport, opened by the first call.
const rdma::context& context_of(std::size_t transport);

} // namespace perf

#endif // BOOST_RDMA_TOOLS_PERF_TRANSPORTS_HPP

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

/// A way of the measured device to carry messages.
struct transport
{
  std::string name;     ///< "local", "tcp"; of a NIC the device's name
  bool software = true; ///< this library's device
};

/// Those that are measured. Both processes make the same list, before they open any device.
/**
 * @param wanted Names of the software device's wires; empty: all, or what BOOST_RDMA_WIRES lists. A
 * NIC that BOOST_RDMA_DEVICE names, or that a context would choose, takes the place of them all.
 * Throws std::runtime_error for a wire that there is not.
 */
void choose_transports(const std::vector<std::string>& wanted);
const std::vector<transport>& transports();

/// This process's context for the transport, opened at the first call.
const rdma::context& context_of(std::size_t transport);

} // namespace perf

#endif // BOOST_RDMA_TOOLS_PERF_TRANSPORTS_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_PERF_WIRE_PROBE_HPP
#define BOOST_RDMA_TOOLS_PERF_WIRE_PROBE_HPP

#include <array>
#include <cstdint>
#include <string_view>

namespace perf {

/// Raw verbs calls of both ends of a connection, in turn in one thread, so that the number of
/// instructions depends on nothing else. For callgrind.
inline constexpr std::array<std::string_view, 2> wire_probes{"wire_send", "wire_write"};

/// Carries out operations of 64 bytes on the first transport: "wire_send" one at a time with a
/// receive each, "wire_write" with 64 in flight.
void probe_wire(std::string_view name, std::uint64_t count);

} // namespace perf

#endif // BOOST_RDMA_TOOLS_PERF_WIRE_PROBE_HPP

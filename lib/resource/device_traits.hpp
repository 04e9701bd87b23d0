//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RESOURCE_DEVICE_TRAITS_HPP
#define BOOST_RDMA_LIB_RESOURCE_DEVICE_TRAITS_HPP

#include "boost_rdma/device.hpp"

#include <infiniband/verbs.h>

#include <cstdint>

namespace rdma::detail {

enum class device_family : std::uint8_t
{
  other,     // InfiniBand and RoCE hardware
  soft_roce, // rxe of the kernel
  iwarp,     // also siw of the kernel
  software,  // this library's own device
};

// The deviations of a family of devices from an InfiniBand or RoCE device that conforms to IBA.
// Each default is the conforming value. Capabilities that a device reports itself are in
// ibv_device_attr. device_traits.cpp has the table, with a source for each deviation.
struct device_traits
{
  // The wire of all connections. wire::unknown: the type of the GID determines the wire.
  wire only_wire = wire::unknown;
  // The device sends by the host's routes, whatever the GID is. A GID of any network and of either
  // address family reaches the peer.
  bool routes_any_gid = false;
  // GIDs contain hardware addresses instead of IP addresses.
  bool gids_without_addresses = false;
  // The largest retry count that ends (ibv_qp_attr::retry_cnt).
  std::uint8_t retry_count_max = 7;

  bool connection_manager_only = false;   // only RDMA-CM connects the device
  bool connection_manager_moves = false;  // the device itself moves a queue pair to RTR and RTS
  bool connection_manager_blocks = false; // rdma_destroy_id() waits for the answer to a request
  bool private_data_of_any_size = false;  // up to 255 bytes, instead of what a MAD has left
  bool flushes_before_disconnect = false; // RDMA_CM_EVENT_DISCONNECTED comes after the flush

  bool no_immediate_data = false;
  // Each work request must be signalled: a completion does not end the use of the memory of earlier
  // ones without.
  bool signals_each = false;
  bool windows_unprotected = false; // a window does not restrict the peer to its bounds
  bool windows_delay_close = false; // destroying a queue pair blocks until its windows are unbound

  bool copies_shared_memory = false; // peers on this host map memory that is shared
  bool polls_in_kernel = false;      // polling can be a system call and needs the peer's processor
};

// Returns the row of a family.
[[nodiscard]] const device_traits& traits_of(device_family family) noexcept;

// Returns the family of an opened device. Families of InfiniBand's transport differ by the vendor
// id (ibv_device_attr).
[[nodiscard]] device_family family_of(
  device_kind kind, ibv_transport_type transport, std::uint32_t vendor_id) noexcept;

// Returns the row for a device of RDMA-CM. The vendor id is not needed, because it changes nothing
// in the columns for RDMA-CM.
[[nodiscard]] const device_traits& connection_manager_traits(const ibv_device& device) noexcept;

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_RESOURCE_DEVICE_TRAITS_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_CM_DEVICE_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_CM_DEVICE_HPP

#include "verbs/software/cm/message.hpp"

#include <infiniband/verbs.h>

#include <cstddef>

// The context of the connection manager's ids (rdma_cm_id::verbs). As in librdmacm, all ids of a
// process have the same one, which is never closed, because programs keep objects in it.

namespace rdma::software::cm {

struct identifier;
struct endpoint;

/// Opens the device. Returns null with errno set on failure.
/** At the first call; a child of fork() opens its own. */
ibv_context* device();

/// Returns the protection domain that ids have by default. device() must have succeeded.
ibv_pd* default_domain();

/// Returns the XRC domain that ids have by default, or null with errno set. device() must have
/// succeeded.
ibv_xrcd* default_xrc_domain();

/// Opens the device by another function than open_device() with the default settings. Called before
/// device().
void set_opener(ibv_context* (*open)()) noexcept;

/// Finds the GID of an address. Returns false if the device has none, or is not open.
bool find_gid(const address_bytes& ip, std::size_t& index) noexcept;

/// Sets the members of an id that belong to its device.
void attach_device(identifier& which) noexcept;

/// Sets the addresses, GIDs and path of an id, whose local endpoint and GID are known.
void write_route(identifier& which, const endpoint& destination) noexcept;

/// Returns the address vector of an id's peer.
ibv_ah_attr address_of(const identifier& which) noexcept;

} // namespace rdma::software::cm

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_CM_DEVICE_HPP

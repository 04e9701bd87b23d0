//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_SOFTWARE_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_SOFTWARE_HPP

#include "boost_rdma/software/device.hpp"
#include "verbs/api.hpp"

#include <array>
#include <cstddef>

namespace rdma::software {

/// The software device's table. Its open_device uses the default device_settings.
const verbs::api& api();

/// Opens the software device with settings of one's own. Null with errno set on failure.
/** EINVAL: an address is not one; EADDRNOTAVAIL: this host has no such address; EMFILE, ENOMEM. */
ibv_context* open_device(const device_settings& settings);

/// 128 bits that both ends know and nobody else does.
using connection_secret = std::array<std::byte, 16>;

/// Demands `secret` from the peer of this queue pair (and shows it to it).
/**
 * To be called before the queue pair goes to RTR; without it the secret is all zeros, for programs
 * that connect out of band by plain verbs. 0, or EINVAL when the queue pair is past INIT.
 */
int set_connection_secret(ibv_qp* qp, const connection_secret& secret);

/// Which end of two queue pairs connects on the wire.
enum class wire_end
{
  by_name, ///< that with the smaller name, as programs which connect out of band cannot tell
  connects,
  waits,
};

/// For who knows more: the end that is ready last connects best. Both ends must say so, and the
/// opposite.
/** To be called before the queue pair goes to RTR. 0, or EINVAL when it is past INIT. */
int set_wire_end(ibv_qp* qp, wire_end which);

/// Has the device behave as a NIC that is pulled, or fails for good.
/**
 * IBV_EVENT_DEVICE_FATAL is raised. From here on nothing completes and nothing is flushed; what
 * would make or change an object says EIO. Objects can still be destroyed, and let go of memory
 * thereby.
 */
void remove_device(ibv_context* context);

/// For programs that close a device and leave objects in it, which close_device() refuses (EBUSY).
/**
 * As when a driver's file is closed under them: queue pairs are reset, so that their peers lose
 * them and nobody reaches memory through them, and nothing completes. Objects may still be
 * destroyed, but the context stays in memory. 0, or ENOMEM.
 */
int abandon_device(ibv_context* context);

/// The wire that the queue pair's peer is reached by ("local", "tcp"); "" while the two have not
/// met.
const char* wire_name(const ibv_qp* qp);

/// Why that is not "local", for people; empty when it is.
const char* why_not_local(const ibv_qp* qp);

/// Returns true if the peer had no receive posted for the oldest send (RNR, IBA 9.7.5.2.8) and has
/// taken nothing since.
bool receiver_not_ready(const ibv_qp* qp);

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_SOFTWARE_HPP

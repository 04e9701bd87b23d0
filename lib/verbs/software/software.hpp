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

inline constexpr unsigned devices_max = 16; ///< soft0 to soft15

/// Opens a software device with these settings: soft0 or another one. Returns null with errno set
/// on failure.
/** EINVAL: malformed address; EADDRNOTAVAIL: this host has no such address; ENOSPC: each port is
 * taken by another context or program; EMFILE, ENOMEM. */
ibv_context* open_device(const device_settings& settings, unsigned index = 0);

/// 128 bits that only the two ends have.
using connection_secret = std::array<std::byte, 16>;

/// Sets the secret that the peer of this queue pair must prove, and that the queue pair proves to
/// the peer.
/**
 * Called before the queue pair goes to RTR. Without it the secret is all zeros, for programs that
 * connect out of band by plain verbs. Returns 0, or EINVAL if the queue pair is past INIT.
 */
int set_connection_secret(ibv_qp* qp, const connection_secret& secret);

/// The end of two queue pairs that connects on the wire.
enum class wire_end
{
  by_name, ///< the one with the smaller name: programs that connect out of band cannot choose
  connects,
  waits,
};

/// Chooses the end that connects: best the one that is ready last. Both ends must call it, with
/// opposite values.
/** Called before the queue pair goes to RTR. Returns 0, or EINVAL if it is past INIT. */
int set_wire_end(ibv_qp* qp, wire_end which);

/// Makes the device behave as a NIC that was removed.
/**
 * Raises IBV_EVENT_DEVICE_FATAL. No request completes afterwards, not even with a flush error, and
 * calls that create or change an object fail with EIO. Objects can still be destroyed, which frees
 * their memory.
 */
void remove_device(ibv_context* context);

/// Closes a device with objects left in it, which close_device() refuses (EBUSY).
/**
 * The effect is that of closing a driver's file: queue pairs are reset, so that their peers lose
 * the connection and the access to memory, and no request completes. Objects may still be
 * destroyed, but the context stays in memory. Returns 0 or ENOMEM.
 */
int abandon_device(ibv_context* context);

/// Returns a descriptor to wait for instead of the channel's.
/**
 * It is readable when there is an event, and also when the device has work that may lead to one:
 * get_cq_event() then does this work, so no other thread has to be woken. It belongs to the
 * channel.
 */
int wait_descriptor(ibv_comp_channel* channel);

/// Registrations of this device move whole pages of the program's memory into shared memory from
/// now on, see moved_pages.
/**
 * Peers on this host then access the memory directly. For programs that cannot allocate shared
 * memory; those of this library have pools and regions, which need no copy and have no conditions.
 */
void share_registered_memory(ibv_context* context);

/// Returns true if the last get_cq_event() without an event found messages for other queues, or
/// requests of peers.
bool found_work(const ibv_comp_channel* channel);

/// Disarms the queue: no thread waits for its channel until it is armed or polled again.
/**
 * The device then serves peers itself at once. Without this call it detects only after some
 * milliseconds that no thread polls any more.
 */
void rest(ibv_cq* cq);

/// Returns the wire to the queue pair's peer ("local", "tcp"); "" while there is no connection.
const char* wire_name(const ibv_qp* qp);

/// Returns the wire by which the device of the queue pair's peer was linked with this one before
/// RTR: then messages reach it. "" if it was not.
const char* linked_by(const ibv_qp* qp);

/// Returns the reason, as text, why the wire is not "local"; empty if it is, or will be by an
/// existing link.
const char* why_not_local(const ibv_qp* qp);

/// Returns true if the peer had no receive posted for the oldest send (RNR, IBA 9.7.5.2.8) and has
/// taken nothing since.
bool receiver_not_ready(const ibv_qp* qp);

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_SOFTWARE_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_ERROR_HPP
#define BOOST_RDMA_ERROR_HPP

#include <boost/system/error_code.hpp>
#include <boost/system/system_error.hpp>

#include <string>
#include <type_traits>

namespace rdma {

using error_code = boost::system::error_code;
using system_error = boost::system::system_error;

/// Conditions of this library. What verbs calls return as errno stays in the system category.
enum class error
{
  /// No RDMA device fits what was asked for.
  no_device = 1,
  /// The queue pair has no peer yet.
  not_connected,
  /// The queue pair has, or had, a peer already; a queue pair connects once.
  already_connected,
  /// The I/O object was closed, or moved from.
  closed,
  /// A buffer was registered in another context or protection domain than the queue pair's.
  wrong_context,
  /// A buffer holds no bytes where the operation needs some.
  empty_buffer,
  /// More pieces in a buffer sequence than the queue pair was made for.
  too_many_buffers,
  /// More bytes than the device's largest message.
  message_too_large,
  /// The remote range is smaller than what the operation would touch.
  remote_range_too_small,
  /// Remote memory has no key for the device that the queue pair uses.
  no_remote_key,
  /// A remote address that an atomic operation cannot use: 8 bytes, aligned to 8.
  misaligned_atomic,
  /// More outstanding work than the device's queues can hold.
  queue_too_deep,
  /// A batch of no operations, or of more than the send queue can hold at once.
  bad_batch,
  /// The region was registered without the right to be reached from remote.
  not_exposed,
  /// Rights that contradict each other or lack what they build on.
  bad_access,
  /// The pool reached its limit.
  pool_exhausted,
  /// An endpoint description or a remote buffer handle that cannot be read.
  malformed_description,
  /// The peer's endpoint and ours share no transport.
  no_common_transport,
  /// The peer went away without closing.
  peer_lost,
  /// The peer closed the connection.
  peer_closed,
  /// The peer answered, but not as a boost_rdma acceptor does.
  not_an_acceptor,
  /// The peer speaks another version of the bootstrap protocol.
  version_mismatch,
  /// The peer refused the connection.
  refused,
  /// The peer did not finish the handshake in time.
  handshake_timeout,
  /// librdmacm, which connects by RDMA-CM, cannot be used here.
  no_connection_manager,
  /// No RDMA device, or no route from one, leads to the address.
  unreachable,
  /// The address leads through another RDMA device than the one that the context opened.
  other_device,
  /// The device failed, or was removed.
  device_lost,
  /// The object was made before fork(), in the parent process, and is of no use in this one.
  forked,
  /// The device has no GID for the local address: RDMA would take another network than the address does.
  no_local_gid,
  /// This side is reached by IPv4 and the peer by IPv6, or the other way round.
  other_address_family,
  /// The device reported the queue pair as failed.
  queue_pair_failed,
  /// The device reported the completion queue as failed; it tells of no more completions.
  completion_queue_failed,
  /// The device reported the shared receive queue as failed.
  shared_receive_queue_failed,
  /// Both sides agreed on a transport, and no message got through on it.
  path_not_confirmed,
  /// An alignment that is no power of two, or beyond what the pool has.
  bad_alignment,
  /// Memory that was not allocated from this pool.
  not_pool_memory,
  /// The memory does not hold that object, or no whole number of them.
  wrong_size,
  /// The address of the memory does not suit objects of that type.
  misaligned,
  /// The memory was registered as const.
  read_only,
  /// Elements that do not lie inside the memory.
  out_of_range,
  /// The remote buffer's owner did not give the right to do this.
  remote_right_missing,
  /// The operation takes only buffers that are registered.
  not_registered,
  /// The peer's program grants no memory.
  no_lessor,
  /// More bytes, regions or lifetime than the peer grants.
  quota_exceeded,
  /// The lease was released, was taken back, or its time is over.
  lease_ended,
  /// The peer's program does not take what it is lent.
  inbox_full,
  /// The peer could not expose the memory.
  lease_failed,
  /// The agents of the two sides talk to each other no more.
  agent_ended,
};

/// The outcome of a work request: ibv_wc_status, value for value.
enum class wc_status
{
  success = 0,
  local_length_error = 1,
  local_qp_operation_error = 2,
  local_eec_operation_error = 3,
  local_protection_error = 4,
  flushed = 5,
  memory_window_bind_error = 6,
  bad_response_error = 7,
  local_access_error = 8,
  remote_invalid_request_error = 9,
  remote_access_error = 10,
  remote_operation_error = 11,
  retry_exceeded = 12,
  rnr_retry_exceeded = 13,
  local_rdd_violation_error = 14,
  remote_invalid_read_request_error = 15,
  remote_aborted_error = 16,
  invalid_eec_number = 17,
  invalid_eec_state = 18,
  fatal_error = 19,
  response_timeout_error = 20,
  general_error = 21,
};

/// The category of rdma::error.
const boost::system::error_category& error_category() noexcept;

/// The category of rdma::wc_status. A flushed work request equals asio::error::operation_aborted
/// as a condition (std::errc::operation_canceled), because that is what became of it.
const boost::system::error_category& wc_category() noexcept;

error_code make_error_code(error value) noexcept;
error_code make_error_code(wc_status value) noexcept;

/// What most often causes this error, and what to do about it, in one or two sentences.
/** Empty where nothing more can be said than the error's own message. */
std::string likely_cause(const error_code& ec);

} // namespace rdma

template <>
struct boost::system::is_error_code_enum<rdma::error> : std::true_type
{
};

template <>
struct boost::system::is_error_code_enum<rdma::wc_status> : std::true_type
{
};

#endif // BOOST_RDMA_ERROR_HPP

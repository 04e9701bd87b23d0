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

/// What every operation completes with, and functions that do not throw set.
using error_code = boost::system::error_code;

/// What functions throw that have no error_code& parameter.
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
  /// The device has no GID for the local address: RDMA would take another network than the address
  /// does.
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

/// The outcome of a work request: ibv_wc_status, value for value (ibv_poll_cq(3)).
/** likely_cause() says what most often leads to each. All but success take the queue pair to the
 * error state. */
enum class wc_status
{
  success = 0, ///< it was carried out
  local_length_error =
    1, ///< IBV_WC_LOC_LEN_ERR: a message longer than the receive, or than the port carries
  local_qp_operation_error = 2,  ///< IBV_WC_LOC_QP_OP_ERR: the queue pair cannot do what was asked
  local_eec_operation_error = 3, ///< IBV_WC_LOC_EEC_OP_ERR: of reliable datagrams only
  local_protection_error = 4,    ///< IBV_WC_LOC_PROT_ERR: a local buffer is not registered for this
  flushed = 5, ///< IBV_WC_WR_FLUSH_ERR: the queue pair was in the error state before
  memory_window_bind_error = 6, ///< IBV_WC_MW_BIND_ERR: the region or the window does not permit it
  bad_response_error = 7,       ///< IBV_WC_BAD_RESP_ERR: the peer answered out of turn
  local_access_error = 8, ///< IBV_WC_LOC_ACCESS_ERR: of a write with immediate data that came in
  remote_invalid_request_error =
    9, ///< IBV_WC_REM_INV_REQ_ERR: the peer's receive is too small, or it does not do this
  remote_access_error = 10, ///< IBV_WC_REM_ACCESS_ERR: the peer did not expose the memory for this
  remote_operation_error = 11,    ///< IBV_WC_REM_OP_ERR: the peer could not finish it
  retry_exceeded = 12,            ///< IBV_WC_RETRY_EXC_ERR: the peer does not answer
  rnr_retry_exceeded = 13,        ///< IBV_WC_RNR_RETRY_EXC_ERR: the peer has no receive posted
  local_rdd_violation_error = 14, ///< IBV_WC_LOC_RDD_VIOL_ERR: of reliable datagrams only
  remote_invalid_read_request_error = 15, ///< IBV_WC_REM_INV_RD_REQ_ERR: of reliable datagrams only
  remote_aborted_error = 16,              ///< IBV_WC_REM_ABORT_ERR: of reliable datagrams only
  invalid_eec_number = 17,                ///< IBV_WC_INV_EECN_ERR: of reliable datagrams only
  invalid_eec_state = 18,                 ///< IBV_WC_INV_EEC_STATE_ERR: of reliable datagrams only
  fatal_error = 19,                       ///< IBV_WC_FATAL_ERR: the device failed
  response_timeout_error = 20, ///< IBV_WC_RESP_TIMEOUT_ERR: there was no response in time
  general_error = 21,          ///< IBV_WC_GENERAL_ERR: the device says no more
};

/// The category of rdma::error.
const boost::system::error_category& error_category() noexcept;

/// The category of rdma::wc_status. A flushed work request equals asio::error::operation_aborted
/// as a condition (std::errc::operation_canceled), because that is what became of it.
const boost::system::error_category& wc_category() noexcept;

/// By which an rdma::error turns into an error_code.
error_code make_error_code(error value) noexcept;

/// By which an rdma::wc_status turns into an error_code.
error_code make_error_code(wc_status value) noexcept;

/// What most often causes this error, and what to do about it, in one or two sentences.
/** Empty where nothing more can be said than the error's own message. Safe to call from any thread.
 */
std::string likely_cause(const error_code& ec);

} // namespace rdma

/// @cond

template <>
struct boost::system::is_error_code_enum<rdma::error> : std::true_type
{
};

template <>
struct boost::system::is_error_code_enum<rdma::wc_status> : std::true_type
{
};

/// @endcond

#endif // BOOST_RDMA_ERROR_HPP

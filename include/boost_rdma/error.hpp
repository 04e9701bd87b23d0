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

/// Result of all operations, and of functions that do not throw.
using error_code = boost::system::error_code;

/// Exception of functions without an error_code& parameter.
using system_error = boost::system::system_error;

/// Errors of this library. Errno values of verbs calls are reported in the system category.
// The values travel in replies of methods: a new one comes last.
enum class error
{
  /// No RDMA device matches the request.
  no_device = 1,
  /// The queue pair is not connected yet.
  not_connected,
  /// The queue pair is connected, or was; a queue pair connects once.
  already_connected,
  /// The I/O object was closed or moved from.
  closed,
  /// A buffer is registered in another context or protection domain than the queue pair's.
  wrong_context,
  /// A buffer has no bytes, but the operation requires some.
  empty_buffer,
  /// A buffer sequence has more buffers than the queue pair's options allow.
  too_many_buffers,
  /// The message is larger than the device's limit.
  message_too_large,
  /// The remote range is smaller than the operation.
  remote_range_too_small,
  /// The remote memory has no key for the queue pair's device.
  no_remote_key,
  /// The remote address of an atomic operation is not a multiple of 8, or the range is smaller than
  /// 8 bytes.
  misaligned_atomic,
  /// A queue depth is beyond the device's limit, or there are too many outstanding operations.
  queue_too_deep,
  /// A batch without operations.
  bad_batch,
  /// The region was registered without rights for peers.
  not_exposed,
  /// Access rights contradict each other, or a required right is missing.
  bad_access,
  /// The memory pool reached its limit.
  pool_exhausted,
  /// An endpoint description or a remote buffer handle cannot be read.
  malformed_description,
  /// The two sides have no transport in common.
  no_common_transport,
  /// The peer is gone without having closed the connection.
  peer_lost,
  /// The peer closed the connection.
  peer_closed,
  /// The peer did not answer as a boost_rdma acceptor does.
  not_an_acceptor,
  /// The peer uses another version of the upgrade protocol.
  version_mismatch,
  /// The peer refused the connection.
  refused,
  /// The peer did not finish the handshake in time.
  handshake_timeout,
  /// RDMA-CM (librdmacm) cannot be used on this host.
  no_connection_manager,
  /// No RDMA device, or no route from one, leads to the address.
  unreachable,
  /// The address leads through another RDMA device than the context's.
  other_device,
  /// The device failed or was removed.
  device_lost,
  /// The object was made in the parent process before fork(), and cannot be used in this process.
  forked,
  /// The device has no GID for the local address: RDMA would use another network than the address.
  no_local_gid,
  /// One side is reached by IPv4 and the other by IPv6.
  other_address_family,
  /// The device reported the queue pair as failed.
  queue_pair_failed,
  /// The device reported the completion queue as failed; it reports no more completions.
  completion_queue_failed,
  /// The device reported the shared receive queue as failed.
  shared_receive_queue_failed,
  /// Both sides agreed on a transport, but no message arrived on it.
  path_not_confirmed,
  /// The alignment is not a power of two, or is beyond the pool's limit.
  bad_alignment,
  /// The memory was not allocated from this pool.
  not_pool_memory,
  /// The size of the memory does not fit the objects.
  wrong_size,
  /// The address of the memory is not aligned for objects of that type.
  misaligned,
  /// The memory was registered as const.
  read_only,
  /// The elements are not all inside the memory.
  out_of_range,
  /// The owner of the remote buffer did not grant the right.
  remote_right_missing,
  /// The operation accepts registered buffers only.
  not_registered,
  /// The peer's program grants no memory.
  no_lessor,
  /// The request exceeds the peer's quota of bytes or regions.
  quota_exceeded,
  /// The lease was released, handed over or taken back, or its lifetime has ended.
  lease_ended,
  /// The peer's program does not receive the memory that it is lent.
  inbox_full,
  /// The peer could not expose the memory.
  lease_failed,
  /// The agents of the two sides no longer communicate.
  agent_ended,
  /// The memory contains no object of this kind, or one of another layout.
  object_mismatch,
  /// Other processes changed the object during each of many attempts.
  contended,
  /// The object has no room for more.
  object_full,
  /// There are too many calls: options of the client, or of the server.
  overloaded,
  /// The server has no method of that name.
  no_such_method,
  /// The server's method has other types of request or reply.
  method_mismatch,
  /// The peer's message, or a value in it, cannot be read.
  malformed_message,
  /// The method's handler has failed.
  call_failed,
};

/// Result of a work request: ibv_wc_status, value for value (ibv_poll_cq(3)).
/** likely_cause() returns the most frequent cause of each. All except success move the queue pair
 * to the error state. */
enum class wc_status
{
  /// The work request was carried out.
  success = 0,
  /// IBV_WC_LOC_LEN_ERR: the message is larger than the receive, or than the port's limit.
  local_length_error = 1,
  /// IBV_WC_LOC_QP_OP_ERR: the queue pair cannot carry out the request.
  local_qp_operation_error = 2,
  /// IBV_WC_LOC_EEC_OP_ERR: for reliable datagrams only.
  local_eec_operation_error = 3,
  /// IBV_WC_LOC_PROT_ERR: a local buffer is not registered for this operation.
  local_protection_error = 4,
  /// IBV_WC_WR_FLUSH_ERR: the queue pair was already in the error state.
  flushed = 5,
  /// IBV_WC_MW_BIND_ERR: the region or the window does not permit the bind.
  memory_window_bind_error = 6,
  /// IBV_WC_BAD_RESP_ERR: the peer sent an unexpected response.
  bad_response_error = 7,
  /// IBV_WC_LOC_ACCESS_ERR: a protection error of an incoming write with immediate data.
  local_access_error = 8,
  /// IBV_WC_REM_INV_REQ_ERR: the peer's receive is too small, or the peer does not support the
  /// request.
  remote_invalid_request_error = 9,
  /// IBV_WC_REM_ACCESS_ERR: the peer did not expose the memory for this operation.
  remote_access_error = 10,
  /// IBV_WC_REM_OP_ERR: the peer could not complete the operation.
  remote_operation_error = 11,
  /// IBV_WC_RETRY_EXC_ERR: the peer does not answer.
  retry_exceeded = 12,
  /// IBV_WC_RNR_RETRY_EXC_ERR: the peer has no posted receive.
  rnr_retry_exceeded = 13,
  /// IBV_WC_LOC_RDD_VIOL_ERR: for reliable datagrams only.
  local_rdd_violation_error = 14,
  /// IBV_WC_REM_INV_RD_REQ_ERR: for reliable datagrams only.
  remote_invalid_read_request_error = 15,
  /// IBV_WC_REM_ABORT_ERR: for reliable datagrams only.
  remote_aborted_error = 16,
  /// IBV_WC_INV_EECN_ERR: for reliable datagrams only.
  invalid_eec_number = 17,
  /// IBV_WC_INV_EEC_STATE_ERR: for reliable datagrams only.
  invalid_eec_state = 18,
  /// IBV_WC_FATAL_ERR: the device failed.
  fatal_error = 19,
  /// IBV_WC_RESP_TIMEOUT_ERR: no response arrived in time.
  response_timeout_error = 20,
  /// IBV_WC_GENERAL_ERR: the device reports no details.
  general_error = 21,
};

/// Returns the category of rdma::error.
const boost::system::error_category& error_category() noexcept;

/// Returns the category of rdma::wc_status.
/** A flushed work request compares equal to asio::error::operation_aborted (the condition
 * std::errc::operation_canceled), because it was cancelled. */
const boost::system::error_category& wc_category() noexcept;

/// Converts an rdma::error to an error_code.
error_code make_error_code(error value) noexcept;

/// Converts an rdma::wc_status to an error_code.
error_code make_error_code(wc_status value) noexcept;

/// Returns the most frequent cause of an error and its remedy, in one or two sentences.
/** Empty if there is nothing to add to the error's message. Safe to call from any thread. */
std::string likely_cause(const error_code& ec);

namespace detail {

inline void throw_if(const error_code& ec, const char* what)
{
  if (ec)
    throw system_error(ec, what);
}

// Returns function(ec). Throws system_error with the text `what` if it fails.
template <class Function>
auto or_throw(const char* what, Function function)
{
  error_code ec;
  auto result = function(ec);
  throw_if(ec, what);
  return result;
}

} // namespace detail

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

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DEVICE_EVENT_HPP
#define BOOST_RDMA_DEVICE_EVENT_HPP

#include <cstdint>
#include <string>

namespace rdma {

/// Type of an asynchronous event: ibv_event_type, value for value (ibv_get_async_event(3)).
enum class device_event_type
{
  /// IBV_EVENT_CQ_ERR: a completion queue overran.
  completion_queue_error = 0,
  /// IBV_EVENT_QP_FATAL: a queue pair failed.
  queue_pair_fatal = 1,
  /// IBV_EVENT_QP_REQ_ERR: the peer sent an invalid request.
  queue_pair_request_error = 2,
  /// IBV_EVENT_QP_ACCESS_ERR: the peer violated access rights.
  queue_pair_access_error = 3,
  /// IBV_EVENT_COMM_EST: the first message arrived before RTS.
  communication_established = 4,
  /// IBV_EVENT_SQ_DRAINED: the send queue has no work in progress.
  send_queue_drained = 5,
  /// IBV_EVENT_PATH_MIG: the connection uses its alternate path.
  path_migrated = 6,
  /// IBV_EVENT_PATH_MIG_ERR: the connection could not use its alternate path.
  path_migration_error = 7,
  /// IBV_EVENT_DEVICE_FATAL: the device failed or was removed.
  device_fatal = 8,
  /// IBV_EVENT_PORT_ACTIVE: the link is up.
  port_active = 9,
  /// IBV_EVENT_PORT_ERR: the link is down.
  port_error = 10,
  /// IBV_EVENT_LID_CHANGE: the LID of a port changed.
  lid_change = 11,
  /// IBV_EVENT_PKEY_CHANGE: the partition keys of a port changed.
  partition_key_change = 12,
  /// IBV_EVENT_SM_CHANGE: the subnet manager of a port changed.
  subnet_manager_change = 13,
  /// IBV_EVENT_SRQ_ERR: a shared receive queue failed.
  shared_receive_queue_error = 14,
  /// IBV_EVENT_SRQ_LIMIT_REACHED: fewer receives are left than the limit.
  shared_receive_queue_limit_reached = 15,
  /// IBV_EVENT_QP_LAST_WQE_REACHED: a failed queue pair takes no more receives.
  last_work_request_reached = 16,
  /// IBV_EVENT_CLIENT_REREGISTER: the subnet manager requests that a port registers again.
  client_reregister = 17,
  /// IBV_EVENT_GID_CHANGE: an address was added or removed.
  gid_change = 18,
  /// IBV_EVENT_WQ_FATAL: a work queue failed.
  work_queue_fatal = 19,
};

/// Returns a short description of the event type.
[[nodiscard]] const char* describe(device_event_type type) noexcept;

/// An asynchronous event of a device.
struct device_event
{
  device_event_type type = device_event_type::device_fatal; ///< event type
  std::string device;                                       ///< name of the device
  std::uint8_t port = 0; ///< port of the event; 0 if the event is not about a port

  /// Queue pair of the event; 0 if the event is not about a queue pair.
  std::uint32_t queue_pair_number = 0;

  /// Number of events dropped before this one because device_events_options::capacity was reached.
  std::uint64_t lost = 0;

  /// Returns a line for display: "rxe0 port 1: the port went down".
  [[nodiscard]] std::string text() const;
};

} // namespace rdma

#endif // BOOST_RDMA_DEVICE_EVENT_HPP

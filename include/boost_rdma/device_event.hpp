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

/// What a device reports by itself: ibv_event_type, value for value (ibv_get_async_event(3)).
enum class device_event_type
{
  completion_queue_error = 0,    ///< IBV_EVENT_CQ_ERR: a completion queue overran
  queue_pair_fatal = 1,          ///< IBV_EVENT_QP_FATAL: a queue pair failed
  queue_pair_request_error = 2,  ///< IBV_EVENT_QP_REQ_ERR: the peer sent what it may not
  queue_pair_access_error = 3,   ///< IBV_EVENT_QP_ACCESS_ERR: the peer reached for what it may not
  communication_established = 4, ///< IBV_EVENT_COMM_EST: the first message came before RTS
  send_queue_drained = 5,        ///< IBV_EVENT_SQ_DRAINED: the send queue has no more in hand
  path_migrated = 6,             ///< IBV_EVENT_PATH_MIG: the connection goes by its alternate path
  path_migration_error = 7,      ///< IBV_EVENT_PATH_MIG_ERR: it could not go by that path
  device_fatal = 8,              ///< IBV_EVENT_DEVICE_FATAL: the device failed or was removed
  port_active = 9,               ///< IBV_EVENT_PORT_ACTIVE: the link came up
  port_error = 10,               ///< IBV_EVENT_PORT_ERR: the link went down
  lid_change = 11,               ///< IBV_EVENT_LID_CHANGE: a port has another LID
  partition_key_change = 12,     ///< IBV_EVENT_PKEY_CHANGE: a port has other partition keys
  subnet_manager_change = 13,    ///< IBV_EVENT_SM_CHANGE: a port has another subnet manager
  shared_receive_queue_error = 14, ///< IBV_EVENT_SRQ_ERR: a shared receive queue failed
  shared_receive_queue_limit_reached =
    15, ///< IBV_EVENT_SRQ_LIMIT_REACHED: fewer receives are left than the limit
  last_work_request_reached =
    16, ///< IBV_EVENT_QP_LAST_WQE_REACHED: a failed queue pair takes no more receives
  client_reregister =
    17, ///< IBV_EVENT_CLIENT_REREGISTER: the subnet manager wants a port to register anew
  gid_change = 18,       ///< IBV_EVENT_GID_CHANGE: an address came or went
  work_queue_fatal = 19, ///< IBV_EVENT_WQ_FATAL: a work queue failed
};

/// What it means, in a few words.
[[nodiscard]] const char* describe(device_event_type type) noexcept;

/// Something that a device reported by itself.
struct device_event
{
  device_event_type type = device_event_type::device_fatal; ///< what happened
  std::string device;                                       ///< the device's name
  std::uint8_t port = 0; ///< the port that it is about; 0 when it is not about one
  std::uint32_t queue_pair_number =
    0; ///< the queue pair that it is about; 0 when it is not about one

  /// How many events before this one were dropped, because more waited than
  /// device_events_options::capacity.
  std::uint64_t lost = 0;

  /// A line for a person: "rxe0 port 1: the port went down".
  [[nodiscard]] std::string text() const;
};

} // namespace rdma

#endif // BOOST_RDMA_DEVICE_EVENT_HPP

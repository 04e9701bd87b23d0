//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/device_event.hpp"

#include "verbs/api.hpp"

namespace rdma {

static_assert(static_cast<int>(device_event_type::completion_queue_error) == IBV_EVENT_CQ_ERR);
static_assert(static_cast<int>(device_event_type::queue_pair_fatal) == IBV_EVENT_QP_FATAL);
static_assert(
  static_cast<int>(device_event_type::queue_pair_request_error) == IBV_EVENT_QP_REQ_ERR);
static_assert(
  static_cast<int>(device_event_type::queue_pair_access_error) == IBV_EVENT_QP_ACCESS_ERR);
static_assert(static_cast<int>(device_event_type::communication_established) == IBV_EVENT_COMM_EST);
static_assert(static_cast<int>(device_event_type::send_queue_drained) == IBV_EVENT_SQ_DRAINED);
static_assert(static_cast<int>(device_event_type::path_migrated) == IBV_EVENT_PATH_MIG);
static_assert(static_cast<int>(device_event_type::path_migration_error) == IBV_EVENT_PATH_MIG_ERR);
static_assert(static_cast<int>(device_event_type::device_fatal) == IBV_EVENT_DEVICE_FATAL);
static_assert(static_cast<int>(device_event_type::port_active) == IBV_EVENT_PORT_ACTIVE);
static_assert(static_cast<int>(device_event_type::port_error) == IBV_EVENT_PORT_ERR);
static_assert(static_cast<int>(device_event_type::lid_change) == IBV_EVENT_LID_CHANGE);
static_assert(static_cast<int>(device_event_type::partition_key_change) == IBV_EVENT_PKEY_CHANGE);
static_assert(static_cast<int>(device_event_type::subnet_manager_change) == IBV_EVENT_SM_CHANGE);
static_assert(static_cast<int>(device_event_type::shared_receive_queue_error) == IBV_EVENT_SRQ_ERR);
static_assert(static_cast<int>(device_event_type::shared_receive_queue_limit_reached)
  == IBV_EVENT_SRQ_LIMIT_REACHED);
static_assert(
  static_cast<int>(device_event_type::last_work_request_reached) == IBV_EVENT_QP_LAST_WQE_REACHED);
static_assert(
  static_cast<int>(device_event_type::client_reregister) == IBV_EVENT_CLIENT_REREGISTER);
static_assert(static_cast<int>(device_event_type::gid_change) == IBV_EVENT_GID_CHANGE);
static_assert(static_cast<int>(device_event_type::work_queue_fatal) == IBV_EVENT_WQ_FATAL);

const char* describe(device_event_type type) noexcept
{
  switch (type)
  {
  case device_event_type::completion_queue_error:
    return "a completion queue overran";
  case device_event_type::queue_pair_fatal:
    return "a queue pair failed";
  case device_event_type::queue_pair_request_error:
    return "the peer of a queue pair sent an invalid request";
  case device_event_type::queue_pair_access_error:
    return "the peer of a queue pair accessed memory without permission";
  case device_event_type::communication_established:
    return "the first message arrived";
  case device_event_type::send_queue_drained:
    return "a send queue was drained";
  case device_event_type::path_migrated:
    return "a queue pair migrated to its alternate path";
  case device_event_type::path_migration_error:
    return "a queue pair failed to migrate to its alternate path";
  case device_event_type::device_fatal:
    return "the device failed or was removed";
  case device_event_type::port_active:
    return "the port came up";
  case device_event_type::port_error:
    return "the port went down";
  case device_event_type::lid_change:
    return "the port's LID changed";
  case device_event_type::partition_key_change:
    return "the port's partition keys changed";
  case device_event_type::subnet_manager_change:
    return "the subnet manager changed";
  case device_event_type::shared_receive_queue_error:
    return "a shared receive queue failed";
  case device_event_type::shared_receive_queue_limit_reached:
    return "a shared receive queue holds fewer receives than its limit";
  case device_event_type::last_work_request_reached:
    return "a queue pair has stopped taking receives from its shared receive queue";
  case device_event_type::client_reregister:
    return "the subnet manager requests that clients register again";
  case device_event_type::gid_change:
    return "the port's GID table changed";
  case device_event_type::work_queue_fatal:
    return "a work queue failed";
  }
  return "an unknown event";
}

std::string device_event::text() const
{
  std::string result = device;
  if (port != 0)
    result += " port " + std::to_string(port);
  if (queue_pair_number != 0)
    result += " queue pair " + std::to_string(queue_pair_number);
  return result + ": " + describe(type);
}

} // namespace rdma

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/device_event.hpp"

#include "verbs/api.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace rdma {

const char* describe(device_event_type type) noexcept
{
  using enum device_event_type;
  struct row
  {
    device_event_type type;
    ibv_event_type native;
    const char* text;
  };
  static constexpr row rows[] = {
    {completion_queue_error, IBV_EVENT_CQ_ERR, "a completion queue overran"},
    {queue_pair_fatal, IBV_EVENT_QP_FATAL, "a queue pair failed"},
    {queue_pair_request_error, IBV_EVENT_QP_REQ_ERR,
      "the peer of a queue pair sent an invalid request"},
    {queue_pair_access_error, IBV_EVENT_QP_ACCESS_ERR,
      "the peer of a queue pair accessed memory without permission"},
    {communication_established, IBV_EVENT_COMM_EST, "the first message arrived"},
    {send_queue_drained, IBV_EVENT_SQ_DRAINED, "a send queue was drained"},
    {path_migrated, IBV_EVENT_PATH_MIG, "a queue pair migrated to its alternate path"},
    {path_migration_error, IBV_EVENT_PATH_MIG_ERR,
      "a queue pair failed to migrate to its alternate path"},
    {device_fatal, IBV_EVENT_DEVICE_FATAL, "the device failed or was removed"},
    {port_active, IBV_EVENT_PORT_ACTIVE, "the port came up"},
    {port_error, IBV_EVENT_PORT_ERR, "the port went down"},
    {lid_change, IBV_EVENT_LID_CHANGE, "the port's LID changed"},
    {partition_key_change, IBV_EVENT_PKEY_CHANGE, "the port's partition keys changed"},
    {subnet_manager_change, IBV_EVENT_SM_CHANGE, "the subnet manager changed"},
    {shared_receive_queue_error, IBV_EVENT_SRQ_ERR, "a shared receive queue failed"},
    {shared_receive_queue_limit_reached, IBV_EVENT_SRQ_LIMIT_REACHED,
      "a shared receive queue holds fewer receives than its limit"},
    {last_work_request_reached, IBV_EVENT_QP_LAST_WQE_REACHED,
      "a queue pair has stopped taking receives from its shared receive queue"},
    {client_reregister, IBV_EVENT_CLIENT_REREGISTER,
      "the subnet manager requests that clients register again"},
    {gid_change, IBV_EVENT_GID_CHANGE, "the port's GID table changed"},
    {work_queue_fatal, IBV_EVENT_WQ_FATAL, "a work queue failed"},
  };
  static_assert(std::all_of(std::begin(rows), std::end(rows),
    [](const row& each)
    {
      return static_cast<int>(each.type) == static_cast<int>(each.native)
        && &each == rows + static_cast<int>(each.type);
    }));
  const auto index = static_cast<std::size_t>(type);
  return index < std::size(rows) ? rows[index].text : "an unknown event";
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

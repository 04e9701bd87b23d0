//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/objects/completion_queue.hpp"
#include "verbs/software/objects/context.hpp"
#include "verbs/software/objects/host_guid.hpp"
#include "verbs/software/objects/memory.hpp"
#include "verbs/software/objects/queue_pair.hpp"
#include "verbs/software/objects/shared_receive_queue.hpp"
#include "verbs/software/software.hpp"

#include <array>
#include <cerrno>
#include <new>

// The software device's table of verbs.

namespace rdma::software {
namespace {

ibv_device** get_device_list(int* count)
{
  auto** list = new (std::nothrow) ibv_device* [2] { the_device(), nullptr };
  if (list == nullptr)
    errno = ENOMEM;
  if (count != nullptr)
    *count = list != nullptr ? 1 : 0;
  return list;
}

void free_device_list(ibv_device** list)
{
  delete[] list;
}

const char* get_device_name(ibv_device* device)
{
  return device->name;
}

__be64 get_device_guid(ibv_device* device)
{
  return guid_of(*device);
}

ibv_context* open_device(ibv_device*)
{
  return open_device(device_settings{});
}

const char* wc_status_str(ibv_wc_status status)
{
  static constexpr std::array texts{"success", "local length error", "local QP operation error",
    "local EE context operation error", "local protection error", "Work Request Flushed Error",
    "memory management operation error", "bad response error", "local access error",
    "remote invalid request error", "remote access error", "remote operation error",
    "transport retry counter exceeded", "RNR retry counter exceeded", "local RDD violation error",
    "remote invalid RD request", "aborted error", "invalid EE context number",
    "invalid EE context state", "fatal error", "response timeout error", "general error"};
  const auto index = static_cast<std::size_t>(status);
  return index < texts.size() ? texts[index] : "unknown";
}

const char* event_type_str(ibv_event_type type)
{
  switch (type)
  {
  case IBV_EVENT_CQ_ERR:
    return "CQ error";
  case IBV_EVENT_QP_FATAL:
    return "local work queue catastrophic error";
  case IBV_EVENT_QP_REQ_ERR:
    return "invalid request local work queue error";
  case IBV_EVENT_QP_ACCESS_ERR:
    return "local access violation work queue error";
  case IBV_EVENT_COMM_EST:
    return "communication established";
  case IBV_EVENT_SQ_DRAINED:
    return "send queue drained";
  case IBV_EVENT_DEVICE_FATAL:
    return "local catastrophic error";
  case IBV_EVENT_SRQ_LIMIT_REACHED:
    return "SRQ limit reached";
  case IBV_EVENT_QP_LAST_WQE_REACHED:
    return "last WQE reached";
  default:
    return "unknown"; // this device has no others
  }
}

// libibverbs' system calls leave in errno the error that a verb returns.
template <auto Function>
struct entry
{
  static constexpr auto call = Function;
};
template <class... Arguments, int (*Function)(Arguments...)>
struct entry<Function>
{
  static int call(Arguments... arguments)
  {
    const int error = Function(arguments...);
    if (error > 0)
      errno = error;
    return error;
  }
};

verbs::api make_table()
{
  verbs::api t;
#define BOOST_RDMA_SOFTWARE_FUNCTION(member, function)                                             \
  t.member = entry<static_cast<decltype(verbs::api::member)>(&member)>::call;
  BOOST_RDMA_VERBS_FUNCTIONS(BOOST_RDMA_SOFTWARE_FUNCTION)
#undef BOOST_RDMA_SOFTWARE_FUNCTION
  return t;
}

} // namespace

const verbs::api& api()
{
  static const verbs::api table = make_table();
  return table;
}

} // namespace rdma::software

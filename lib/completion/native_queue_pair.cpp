//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//
#include "completion/native_queue_pair.hpp"

#include "boost_rdma/detail/operation.hpp"
#include "resource/device_impl.hpp"

#include <algorithm>
#include <cerrno>
#include <limits>

namespace rdma::detail {

bool fits_device(const device_impl& device, const queue_pair_options& options)
{
  const ibv_device_attr& limits = device.attributes();
  const auto requests_max = static_cast<std::uint32_t>(limits.max_qp_wr);
  const auto sge_count_max =
    std::min<std::size_t>(static_cast<std::uint32_t>(limits.max_sge), sge_max);
  return options.send_depth <= requests_max && options.max_send_sge <= sge_count_max
    && options.send_depth <= std::numeric_limits<std::uint16_t>::max() // operation::atomic_result
    && (options.receives
      || (options.receive_depth <= requests_max && options.max_receive_sge <= sge_count_max));
}

ibv_qp* create_native(const device_impl& device, ibv_pd* domain, ibv_cq* completions,
  ibv_srq* receives, const queue_pair_options& options, std::uint32_t& inline_max)
{
  // verbs has no query for the largest inline size.
  for (std::uint32_t inline_size = options.max_inline_data;; inline_size /= 2)
  {
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = completions;
    attributes.qp_type = IBV_QPT_RC;
    attributes.sq_sig_all = 0;
    attributes.srq = receives;
    attributes.cap.max_send_wr = options.send_depth;
    attributes.cap.max_recv_wr = receives != nullptr ? 0 : options.receive_depth;
    attributes.cap.max_send_sge = std::max(options.max_send_sge, 1u);
    attributes.cap.max_recv_sge = receives != nullptr ? 0 : std::max(options.max_receive_sge, 1u);
    attributes.cap.max_inline_data = inline_size;
    errno = 0;
    ibv_qp* const made = device.api().create_qp(domain, &attributes);
    // The device may grant more. Inline data is copied, which is faster for small data only.
    inline_max = std::min(attributes.cap.max_inline_data, options.max_inline_data);
    if (made != nullptr)
      return made;
    if (inline_size == 0 || (errno != EINVAL && errno != ENOMEM))
      throw system_error(device.why(last_verbs_error()), "cannot create a queue pair");
  }
}

int to_init(const device_impl& device, ibv_qp* native, std::uint8_t port)
{
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.pkey_index = 0;
  attributes.port_num = port;
  attributes.qp_access_flags = remote_rights(device);
  return to_state(device, native, attributes,
    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

int to_state(const device_impl& device, ibv_qp* native, ibv_qp_attr attributes, int mask)
{
  return device.api().modify_qp(native, &attributes, mask);
}

int to_error(const device_impl& device, ibv_qp* native)
{
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  return to_state(device, native, attributes, IBV_QP_STATE);
}

unsigned remote_rights(const device_impl& device) noexcept
{
  return IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ
    | (device.attributes().atomic_cap != IBV_ATOMIC_NONE ? IBV_ACCESS_REMOTE_ATOMIC : 0);
}

} // namespace rdma::detail

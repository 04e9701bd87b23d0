//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/foreign/extended_verbs.hpp"

#include "verbs/software/objects/context.hpp"
#include "verbs/software/objects/shared_receive_queue.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace rdma::software {

void add_extended_verbs(verbs_context& to) noexcept
{
  // The inline functions of verbs.h answer EOPNOTSUPP for those that stay null.
  to.query_device_ex = &query_device_ex;
  to.query_rt_values = &query_rt_values;
  to.create_cq_ex = &create_cq_ex;
  to.create_qp_ex = &create_qp_ex;
  to.create_srq_ex = &create_srq_ex;
}

int query_device_ex(
  ibv_context* context, const ibv_query_device_ex_input*, ibv_device_attr_ex* to, std::size_t size)
{
  // All else is zero: this device has no paging on demand, segmentation, hashing, tags or device
  // memory.
  ibv_device_attr_ex attributes{};
  if (size < sizeof attributes.orig_attr)
    return EINVAL;
  if (const int error = query_device(context, &attributes.orig_attr); error != 0)
    return error;
  attributes.completion_timestamp_mask = UINT64_MAX;
  attributes.hca_core_clock = 1'000'000; // kHz: the stamps are nanoseconds
  attributes.device_cap_flags_ex = attributes.orig_attr.device_cap_flags;
  attributes.phys_port_cnt_ex = attributes.orig_attr.phys_port_cnt;
  std::memset(static_cast<void*>(to), 0, size);
  std::memcpy(static_cast<void*>(to), &attributes, std::min(size, sizeof attributes));
  return 0;
}

int query_rt_values(ibv_context* context, ibv_values_ex* values)
{
  if (device_context::of(context).removed)
    return EIO;
  const std::uint32_t asked = std::exchange(values->comp_mask, 0);
  if ((asked & ~std::uint32_t{IBV_VALUES_MASK_RAW_CLOCK}) != 0)
    return EOPNOTSUPP;
  if ((asked & IBV_VALUES_MASK_RAW_CLOCK) == 0)
    return 0;
  // As rdma-core's providers: the full count of the clock that stamps completions.
  values->raw_clock = {0, wire::now()};
  values->comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  return 0;
}

// Only the basic type: no XRC, no tag matching.
ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* with)
{
  const bool basic =
    (with->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) == 0 || with->srq_type == IBV_SRQT_BASIC;
  if (!basic
    || (with->comp_mask & ~std::uint32_t{IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD}) != 0)
  {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  if ((with->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0 || with->pd == nullptr
    || with->pd->context != context)
  {
    errno = EINVAL;
    return nullptr;
  }
  ibv_srq_init_attr plain{with->srq_context, with->attr};
  ibv_srq* const made = create_srq(with->pd, &plain);
  if (made != nullptr)
    with->attr = plain.attr;
  return made;
}

} // namespace rdma::software

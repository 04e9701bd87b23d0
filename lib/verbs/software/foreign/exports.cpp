//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/foreign/exports.hpp"

#include "verbs/software/foreign/work_request_builder.hpp"
#include "verbs/software/objects/context.hpp"
#include "verbs/software/objects/queue_pair_base.hpp"
#include "verbs/software/objects/shared_receive_queue.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
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
  to.get_srq_num = &get_srq_num;
  to.open_xrcd = &open_xrcd;
  to.close_xrcd = &close_xrcd;
  to.open_qp = &open_qp;
  to.alloc_td = &alloc_td;
  to.dealloc_td = &dealloc_td;
  to.alloc_parent_domain = &alloc_parent_domain;
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

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* with)
{
  device_context& owner = device_context::of(context);
  if (owner.removed || with->comp_mask != 0)
    return fail(owner.removed ? EIO : EINVAL);
  auto* const made = new (std::nothrow) thread_domain{};
  if (made == nullptr)
    return fail(ENOMEM);
  made->context = context;
  owner.children.fetch_add(1, std::memory_order_relaxed);
  return made;
}

int dealloc_td(ibv_td* td)
{
  auto* const gone = static_cast<thread_domain*>(td);
  if (gone->users.load(std::memory_order_acquire) != 0)
    return EBUSY;
  device_context::of(td->context).children.fetch_sub(1, std::memory_order_release);
  delete gone;
  return 0;
}

ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* with)
{
  constexpr std::uint32_t known =
    IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
  const bool allocates = (with->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) != 0;
  if ((with->comp_mask & ~known) != 0 || with->pd == nullptr || with->pd->context != context
    || (with->td != nullptr && with->td->context != context)
    || (allocates && (with->alloc == nullptr || with->free == nullptr)))
    return fail(EINVAL);
  auto* const made = static_cast<protection_domain*>(alloc_pd(context));
  if (made == nullptr)
    return nullptr;
  made->parent_of = static_cast<protection_domain*>(with->pd);
  made->parent_of->users.fetch_add(1, std::memory_order_relaxed);
  made->thread = static_cast<thread_domain*>(with->td);
  if (made->thread != nullptr)
    made->thread->users.fetch_add(1, std::memory_order_relaxed);
  if (allocates)
    made->memory = {with->alloc, with->free, made,
      (with->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT) != 0 ? with->pd_context : nullptr};
  return made;
}

// The basic type and XRC: no tag matching.
ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* with)
{
  constexpr std::uint32_t of_xrc = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  const auto given = [&](std::uint32_t flags) { return (with->comp_mask & flags) == flags; };
  const ibv_srq_type type = given(IBV_SRQ_INIT_ATTR_TYPE) ? with->srq_type : IBV_SRQT_BASIC;
  const bool xrc = type == IBV_SRQT_XRC;
  const std::uint32_t known =
    IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | (xrc ? of_xrc : std::uint32_t{0});
  if ((type != IBV_SRQT_BASIC && !xrc) || (with->comp_mask & ~known) != 0)
    return fail(EOPNOTSUPP);
  const auto ours = [&](const auto* object)
  { return object != nullptr && object->context == context; };
  if (!given(IBV_SRQ_INIT_ATTR_PD) || !ours(with->pd)
    || (xrc && (!given(of_xrc) || !ours(with->xrcd) || !ours(with->cq))))
    return fail(EINVAL);
  ibv_srq_init_attr plain{with->srq_context, with->attr};
  ibv_srq* const made = create_srq(with->pd, &plain);
  if (made == nullptr)
    return nullptr;
  if (const int error = xrc ? join_domain(*made, *with->xrcd, *with->cq) : 0; error != 0)
  {
    destroy_srq(made);
    return fail(error);
  }
  with->attr = plain.attr;
  return made;
}

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* with)
{
  const bool target = with->qp_type == IBV_QPT_XRC_RECV;
  const std::uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS
    | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | (target ? std::uint32_t{IBV_QP_INIT_ATTR_XRCD} : 0);
  const auto given = [&](std::uint32_t flag) { return (with->comp_mask & flag) != 0; };
  const std::uint64_t operations =
    given(IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) ? with->send_ops_flags : 0;
  int error = 0;
  // No shared receive domains, segmentation, hashing or raw packets.
  if ((with->comp_mask & ~known) != 0
    || (given(IBV_QP_INIT_ATTR_CREATE_FLAGS) && with->create_flags != 0))
    error = EOPNOTSUPP;
  else if (target)
    error = given(IBV_QP_INIT_ATTR_XRCD) && with->xrcd != nullptr && with->xrcd->context == context
      ? 0
      : EINVAL;
  else if (!given(IBV_QP_INIT_ATTR_PD) || with->pd == nullptr || with->pd->context != context)
    error = EINVAL;
  if (error == 0 && (operations & ~operations_of(with->qp_type)) != 0)
    error = EOPNOTSUPP;
  if (error != 0)
    return fail(error);
  protection_domain& domain = target ? static_cast<xrc_domain*>(with->xrcd)->targets
                                     : *static_cast<protection_domain*>(with->pd);
  std::unique_ptr<work_request_builder> builder;
  if (operations != 0)
  {
    builder.reset(
      new (std::nothrow) work_request_builder(with->qp_type, operations, domain.thread != nullptr));
    if (builder == nullptr)
      return fail(ENOMEM);
  }
  ibv_qp_init_attr plain{with->qp_context, with->send_cq, with->recv_cq, with->srq, with->cap,
    with->qp_type, with->sq_sig_all};
  ibv_qp* const made = create_queue_pair(domain, plain);
  if (made == nullptr)
    return nullptr;
  with->cap = plain.cap;
  if (builder != nullptr)
  {
    auto* const base = static_cast<queue_pair_base*>(made);
    base->extended = std::move(builder);
    set_builder_functions(base->extension());
  }
  return made;
}

ibv_qp_ex* qp_to_qp_ex(ibv_qp* qp)
{
  auto* const base = static_cast<queue_pair_base*>(qp);
  return base->extended != nullptr ? &base->extension() : nullptr;
}

int get_pkey_index(ibv_context*, std::uint8_t port, __be16 pkey)
{
  return port == port_number && pkey == 0xffff ? 0 : -1; // the default partition is all there is
}

ssize_t query_gid_table(ibv_context* context, ibv_gid_entry* to, std::size_t most,
  std::uint32_t flags, std::size_t entry_size)
{
  if (flags != 0 || entry_size < sizeof(ibv_gid_entry))
    return flags != 0 ? -EOPNOTSUPP : -EINVAL;
  const std::size_t count = device_context::of(context).gids.size();
  if (count > most)
    return -EINVAL; // as the kernel: not a part of the table
  for (std::size_t i = 0; i < count; ++i)
  {
    // The caller's entries may be larger than ibv_gid_entry here.
    auto* const at = reinterpret_cast<std::byte*>(to) + i * entry_size;
    ibv_gid_entry entry;
    if (const int error = query_gid_ex(
          context, port_number, static_cast<std::uint32_t>(i), &entry, 0, sizeof entry);
        error != 0)
      return -error;
    std::memset(at, 0, entry_size);
    std::memcpy(at, &entry, sizeof entry);
  }
  return static_cast<ssize_t>(count);
}

int query_gid_type(ibv_context* context, std::uint8_t port, unsigned index, int* type)
{
  ibv_gid_entry entry;
  if (query_gid_ex(context, port, index, &entry, 0, sizeof entry) != 0)
    return fail_call(EINVAL);
  *type = 1;
  return 0;
}

const char* node_type_str(ibv_node_type type)
{
  static constexpr std::array texts{"unknown", "InfiniBand channel adapter", "InfiniBand switch",
    "InfiniBand router", "iWARP NIC", "usNIC", "usNIC UDP", "unspecified"};
  const auto index = static_cast<std::size_t>(type);
  return index < texts.size() ? texts[index] : texts[0];
}

const char* port_state_str(ibv_port_state state)
{
  static constexpr std::array texts{"no state change (NOP)", "PORT_DOWN", "PORT_INIT", "PORT_ARMED",
    "PORT_ACTIVE", "PORT_ACTIVE_DEFER"};
  const auto index = static_cast<std::size_t>(state);
  return index < texts.size() ? texts[index] : "unknown";
}

} // namespace rdma::software

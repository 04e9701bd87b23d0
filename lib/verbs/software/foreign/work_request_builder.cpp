//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/foreign/work_request_builder.hpp"

#include "verbs/software/objects/queue_pair_base.hpp"

#include <cerrno>
#include <cstdint>
#include <new>

// The ibv_wr_*() calls. They build a list of work requests, which is posted as by ibv_post_send().

namespace rdma::software {
namespace {

queue_pair_base& of(ibv_qp_ex* qp) noexcept
{
  return *static_cast<queue_pair_base*>(&qp->qp_base);
}

work_request_builder& builder_of(ibv_qp_ex* qp) noexcept
{
  return static_cast<work_request_builder&>(*of(qp).extended);
}

ibv_send_wr& add(ibv_qp_ex* qp, ibv_wr_opcode opcode) noexcept
{
  return builder_of(qp).add(opcode, qp->wr_id, qp->wr_flags);
}

void add_rdma(ibv_qp_ex* qp, ibv_wr_opcode opcode, std::uint32_t key, std::uint64_t address,
  __be32 immediate = 0) noexcept
{
  ibv_send_wr& wr = add(qp, opcode);
  wr.wr.rdma = {address, key};
  wr.imm_data = immediate;
}

void add_atomic(ibv_qp_ex* qp, ibv_wr_opcode opcode, std::uint32_t key, std::uint64_t address,
  std::uint64_t compare_add, std::uint64_t swap) noexcept
{
  add(qp, opcode).wr.atomic = {address, compare_add, swap, key};
}

// Functions that verbs.h has since rdma-core 43.
template <class Queue>
void set_newer_operations(Queue& to) noexcept
{
  if constexpr (requires { to.wr_atomic_write; })
    to.wr_atomic_write =
      [](ibv_qp_ex* qp, std::uint32_t key, std::uint64_t address, const void* bytes)
    {
      add_rdma(qp, protocol::wr_atomic_write, key, address);
      const ibv_data_buf value{const_cast<void*>(bytes), 8};
      builder_of(qp).set_inline({&value, 1}, 8);
    };
  if constexpr (requires { to.wr_flush; })
    to.wr_flush = [](ibv_qp_ex* qp, std::uint32_t, std::uint64_t, std::size_t, std::uint8_t,
                    std::uint8_t) { builder_of(qp).fail(EOPNOTSUPP); };
}

} // namespace

void work_request_builder::start()
{
  if (!single_threaded_)
    batch_.lock();
  error_ = 0;
  requests_.clear();
  parts_.clear();
  elements_.clear();
  bytes_.clear();
}

ibv_send_wr& work_request_builder::add(
  ibv_wr_opcode opcode, std::uint64_t id, unsigned flags) noexcept
{
  // ibv_qp_create_send_ops_flags has the bit 1 << opcode for all other opcodes.
  const std::uint64_t operation = opcode == protocol::wr_atomic_write
    ? protocol::qp_ex_with_atomic_write
    : std::uint64_t{1} << opcode;
  if ((allowed_ & operation) == 0)
    fail(EOPNOTSUPP);
  if (error_ == 0)
    try
    {
      requests_.push_back({});
      parts_.push_back({});
    }
    catch (const std::bad_alloc&)
    {
      fail(ENOMEM);
    }
  ibv_send_wr& wr = error_ == 0 ? requests_.back() : unused_;
  wr.wr_id = id;
  wr.opcode = opcode;
  wr.send_flags = flags & ~unsigned{IBV_SEND_INLINE}; // set by set_inline()
  return wr;
}

void work_request_builder::set_elements(std::span<const ibv_sge> list) noexcept
{
  if (error_ == 0 && (parts_.empty() || parts_.back().set))
    fail(EINVAL);
  if (error_ != 0)
    return;
  parts_.back() = {elements_.size(), list.size(), true, parts_.back().addressed};
  try
  {
    elements_.insert(elements_.end(), list.begin(), list.end());
  }
  catch (const std::bad_alloc&)
  {
    fail(ENOMEM);
  }
}

void work_request_builder::set_inline(std::span<const ibv_data_buf> list, std::size_t most) noexcept
{
  if (error_ == 0 && (parts_.empty() || parts_.back().set))
    fail(EINVAL);
  if (error_ != 0)
    return;
  parts_.back() = {bytes_.size(), 0, true, parts_.back().addressed};
  requests_.back().send_flags |= IBV_SEND_INLINE;
  for (const ibv_data_buf& each : list)
  {
    if (each.length > most - parts_.back().size)
      return fail(EINVAL); // more than max_inline_data
    const auto* const from = static_cast<const std::byte*>(each.addr);
    try
    {
      bytes_.insert(bytes_.end(), from, from + each.length);
    }
    catch (const std::bad_alloc&)
    {
      return fail(ENOMEM);
    }
    parts_.back().size += each.length;
  }
}

void work_request_builder::set_address(ibv_ah* ah, std::uint32_t qp, std::uint32_t key) noexcept
{
  if (error_ == 0 && (parts_.empty() || service_ != IBV_QPT_UD))
    fail(EINVAL);
  if (error_ != 0)
    return;
  requests_.back().wr.ud = {ah, qp, key};
  parts_.back().addressed = true;
}

void work_request_builder::set_queue(std::uint32_t srq) noexcept
{
  if (error_ == 0 && (parts_.empty() || service_ != IBV_QPT_XRC_SEND))
    fail(EINVAL);
  if (error_ != 0)
    return;
  requests_.back().qp_type.xrc.remote_srqn = srq;
  parts_.back().addressed = true;
}

void work_request_builder::fail(int error) noexcept
{
  if (error_ == 0)
    error_ = error;
}

int work_request_builder::list(ibv_send_wr*& first) noexcept
{
  first = nullptr;
  std::size_t inlined = 0;
  for (std::size_t i = 0; i < requests_.size(); ++i)
  {
    inlined += (requests_[i].send_flags & IBV_SEND_INLINE) != 0 ? 1 : 0;
    const bool leaves =
      requests_[i].opcode != IBV_WR_BIND_MW && requests_[i].opcode != IBV_WR_LOCAL_INV;
    if ((service_ == IBV_QPT_UD || service_ == IBV_QPT_XRC_SEND) && leaves && !parts_[i].addressed)
      fail(EINVAL); // ibv_wr_post(3): mandatory
  }
  try
  {
    elements_.reserve(elements_.size() + inlined); // the loop below stores addresses of elements
  }
  catch (const std::bad_alloc&)
  {
    fail(ENOMEM);
  }
  if (error_ != 0)
    return error_;
  for (std::size_t i = 0; i < requests_.size(); ++i)
  {
    ibv_send_wr& wr = requests_[i];
    const part& data = parts_[i];
    wr.next = i + 1 != requests_.size() ? &requests_[i + 1] : nullptr;
    if ((wr.send_flags & IBV_SEND_INLINE) == 0)
    {
      wr.sg_list = elements_.data() + data.offset;
      wr.num_sge = static_cast<int>(data.size);
    }
    else if (data.size != 0)
    {
      elements_.push_back({reinterpret_cast<std::uintptr_t>(bytes_.data() + data.offset),
        static_cast<std::uint32_t>(data.size), 0});
      wr.sg_list = &elements_.back();
      wr.num_sge = 1;
    }
  }
  first = requests_.empty() ? nullptr : requests_.data();
  return 0;
}

void work_request_builder::end() noexcept
{
  if (!single_threaded_)
    batch_.unlock();
}

std::uint64_t operations_of(ibv_qp_type service) noexcept
{
  constexpr std::uint64_t ud = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  constexpr std::uint64_t uc = ud | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM
    | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW;
  switch (service)
  {
  case IBV_QPT_RC:
  case IBV_QPT_XRC_SEND:
    return uc | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP
      | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV
      | protocol::qp_ex_with_atomic_write;
  case IBV_QPT_UC:
    return uc;
  case IBV_QPT_UD:
    return ud;
  default:
    return 0;
  }
}

namespace {

void set_operations(ibv_qp_ex& to) noexcept
{
  to.wr_send = [](ibv_qp_ex* qp) { add(qp, IBV_WR_SEND); };
  to.wr_send_imm = [](ibv_qp_ex* qp, __be32 immediate)
  { add(qp, IBV_WR_SEND_WITH_IMM).imm_data = immediate; };
  to.wr_send_inv = [](ibv_qp_ex* qp, std::uint32_t key)
  { add(qp, IBV_WR_SEND_WITH_INV).invalidate_rkey = key; };
  to.wr_local_inv = [](ibv_qp_ex* qp, std::uint32_t key)
  { add(qp, IBV_WR_LOCAL_INV).invalidate_rkey = key; };
  to.wr_bind_mw = [](ibv_qp_ex* qp, ibv_mw* mw, std::uint32_t key, const ibv_mw_bind_info* info) {
    add(qp, IBV_WR_BIND_MW).bind_mw = {mw, key, *info};
  };
  to.wr_rdma_read = [](ibv_qp_ex* qp, std::uint32_t key, std::uint64_t address)
  { add_rdma(qp, IBV_WR_RDMA_READ, key, address); };
  to.wr_rdma_write = [](ibv_qp_ex* qp, std::uint32_t key, std::uint64_t address)
  { add_rdma(qp, IBV_WR_RDMA_WRITE, key, address); };
  to.wr_rdma_write_imm =
    [](ibv_qp_ex* qp, std::uint32_t key, std::uint64_t address, __be32 immediate)
  { add_rdma(qp, IBV_WR_RDMA_WRITE_WITH_IMM, key, address, immediate); };
  to.wr_atomic_cmp_swp = [](ibv_qp_ex* qp, std::uint32_t key, std::uint64_t address,
                           std::uint64_t compare, std::uint64_t swap)
  { add_atomic(qp, IBV_WR_ATOMIC_CMP_AND_SWP, key, address, compare, swap); };
  to.wr_atomic_fetch_add =
    [](ibv_qp_ex* qp, std::uint32_t key, std::uint64_t address, std::uint64_t add)
  { add_atomic(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, key, address, add, 0); };
}

void set_unsupported_operations(ibv_qp_ex& to) noexcept
{
  // No segmentation offload.
  to.wr_send_tso = [](ibv_qp_ex* qp, void*, std::uint16_t, std::uint16_t)
  { builder_of(qp).fail(EOPNOTSUPP); };
}

void set_setters(ibv_qp_ex& to) noexcept
{
  to.wr_set_ud_addr = [](ibv_qp_ex* qp, ibv_ah* ah, std::uint32_t remote, std::uint32_t key)
  { builder_of(qp).set_address(ah, remote, key); };
  to.wr_set_xrc_srqn = [](ibv_qp_ex* qp, std::uint32_t srq) { builder_of(qp).set_queue(srq); };
  to.wr_set_sge = [](ibv_qp_ex* qp, std::uint32_t key, std::uint64_t address, std::uint32_t length)
  {
    const ibv_sge element{address, length, key};
    builder_of(qp).set_elements({&element, 1});
  };
  to.wr_set_sge_list = [](ibv_qp_ex* qp, std::size_t count, const ibv_sge* list) {
    builder_of(qp).set_elements({list, count});
  };
  to.wr_set_inline_data = [](ibv_qp_ex* qp, void* address, std::size_t length)
  {
    const ibv_data_buf buffer{address, length};
    builder_of(qp).set_inline({&buffer, 1}, of(qp).cap.max_inline_data);
  };
  to.wr_set_inline_data_list = [](ibv_qp_ex* qp, std::size_t count, const ibv_data_buf* list) {
    builder_of(qp).set_inline({list, count}, of(qp).cap.max_inline_data);
  };
}

} // namespace

void set_builder_functions(ibv_qp_ex& to) noexcept
{
  to.wr_start = [](ibv_qp_ex* qp) { builder_of(qp).start(); };
  to.wr_abort = [](ibv_qp_ex* qp) { builder_of(qp).end(); };
  to.wr_complete = [](ibv_qp_ex* qp)
  {
    ibv_send_wr* first = nullptr;
    int error = builder_of(qp).list(first);
    if (error == 0 && first != nullptr)
      error = post_whole(&qp->qp_base, first);
    builder_of(qp).end();
    return error;
  };
  set_operations(to);
  set_newer_operations(to);
  set_unsupported_operations(to);
  set_setters(to);
}

} // namespace rdma::software

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/objects/transitions.hpp"

#include "verbs/software/objects/context.hpp"
#include "verbs/software/protocol/packet.hpp"

#include <span>

namespace rdma::software {
namespace {

struct transition
{
  ibv_qp_state from;
  ibv_qp_state to;
  int required;
  int optional;
};

constexpr int common = IBV_QP_STATE | IBV_QP_CUR_STATE;

// The optional attributes contain no alternate path: this device has none.
constexpr transition of_rc[] = {
  {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
  {IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
  {IBV_QPS_INIT, IBV_QPS_RTR,
    IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC
      | IBV_QP_MIN_RNR_TIMER,
    IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
  {IBV_QPS_RTR, IBV_QPS_RTS,
    IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
    IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
  {IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
  {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
  {IBV_QPS_SQD, IBV_QPS_RTS, 0, IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
  {IBV_QPS_SQD, IBV_QPS_SQD, 0,
    IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC
      | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_PKEY_INDEX},
};

constexpr transition of_uc[] = {
  {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
  {IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
  {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
    IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
  {IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_ACCESS_FLAGS},
  {IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_ACCESS_FLAGS},
  {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
  {IBV_QPS_SQD, IBV_QPS_RTS, 0, IBV_QP_ACCESS_FLAGS},
  {IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
  {IBV_QPS_SQE, IBV_QPS_RTS, 0, IBV_QP_ACCESS_FLAGS},
};

constexpr transition of_ud[] = {
  {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0},
  {IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY},
  {IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
  {IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_QKEY},
  {IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_QKEY},
  {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
  {IBV_QPS_SQD, IBV_QPS_RTS, 0, IBV_QP_QKEY},
  {IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_QKEY | IBV_QP_PKEY_INDEX},
  {IBV_QPS_SQE, IBV_QPS_RTS, 0, IBV_QP_QKEY},
};

std::span<const transition> transitions_of(ibv_qp_type service) noexcept
{
  switch (service)
  {
  case IBV_QPT_UC:
    return of_uc;
  case IBV_QPT_UD:
    return of_ud;
  default:
    return of_rc;
  }
}

} // namespace

bool may_change(ibv_qp_type service, ibv_qp_state from, ibv_qp_state to, int mask) noexcept
{
  for (const transition& t : transitions_of(service))
    if (t.from == from && t.to == to)
      return (t.required & ~mask) == 0 && (mask & ~(common | t.required | t.optional)) == 0;
  return false;
}

bool are_values(const ibv_qp_attr& a, int mask, const device_context& owner) noexcept
{
  const auto wrong = [&](int flag, bool condition) { return (mask & flag) != 0 && condition; };
  const auto most = owner.settings.max_read_atomic;
  constexpr int known_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE
    | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;
  const bool bad = wrong(IBV_QP_PKEY_INDEX, a.pkey_index != 0)
    || wrong(IBV_QP_PORT, a.port_num != 1)
    || wrong(IBV_QP_ACCESS_FLAGS, (a.qp_access_flags & ~static_cast<unsigned>(known_access)) != 0)
    || wrong(IBV_QP_PATH_MTU, a.path_mtu < IBV_MTU_256 || a.path_mtu > IBV_MTU_4096)
    || wrong(IBV_QP_DEST_QPN, a.dest_qp_num > protocol::psn_mask)
    || wrong(IBV_QP_RQ_PSN, a.rq_psn > protocol::psn_mask)
    || wrong(IBV_QP_SQ_PSN, a.sq_psn > protocol::psn_mask)
    || wrong(IBV_QP_MAX_DEST_RD_ATOMIC, a.max_dest_rd_atomic > most)
    || wrong(IBV_QP_MAX_QP_RD_ATOMIC, a.max_rd_atomic > most)
    || wrong(IBV_QP_MIN_RNR_TIMER, a.min_rnr_timer > 31) || wrong(IBV_QP_TIMEOUT, a.timeout > 31)
    || wrong(IBV_QP_RETRY_CNT, a.retry_cnt > 7)
    || wrong(IBV_QP_RNR_RETRY, a.rnr_retry > 7)
    // Addressed by GID, as RoCE is (IBTA Annex A17): there must be a global route header.
    || wrong(IBV_QP_AV,
      a.ah_attr.is_global == 0 || a.ah_attr.port_num != 1 || a.ah_attr.dlid == 0
        || a.ah_attr.grh.sgid_index >= owner.gids.size());
  return !bad;
}

void take_over(ibv_qp_attr& mine, const ibv_qp_attr& theirs, int mask) noexcept
{
  const auto given = [&](int flag) { return (mask & flag) != 0; };
  if (given(IBV_QP_PKEY_INDEX))
    mine.pkey_index = theirs.pkey_index;
  if (given(IBV_QP_PORT))
    mine.port_num = theirs.port_num;
  if (given(IBV_QP_ACCESS_FLAGS))
    mine.qp_access_flags = theirs.qp_access_flags;
  if (given(IBV_QP_AV))
    mine.ah_attr = theirs.ah_attr;
  if (given(IBV_QP_PATH_MTU))
    mine.path_mtu = theirs.path_mtu;
  if (given(IBV_QP_DEST_QPN))
    mine.dest_qp_num = theirs.dest_qp_num;
  if (given(IBV_QP_RQ_PSN))
    mine.rq_psn = theirs.rq_psn;
  if (given(IBV_QP_SQ_PSN))
    mine.sq_psn = theirs.sq_psn;
  if (given(IBV_QP_MAX_DEST_RD_ATOMIC))
    mine.max_dest_rd_atomic = theirs.max_dest_rd_atomic;
  if (given(IBV_QP_MAX_QP_RD_ATOMIC))
    mine.max_rd_atomic = theirs.max_rd_atomic;
  if (given(IBV_QP_MIN_RNR_TIMER))
    mine.min_rnr_timer = theirs.min_rnr_timer;
  if (given(IBV_QP_TIMEOUT))
    mine.timeout = theirs.timeout;
  if (given(IBV_QP_RETRY_CNT))
    mine.retry_cnt = theirs.retry_cnt;
  if (given(IBV_QP_RNR_RETRY))
    mine.rnr_retry = theirs.rnr_retry;
  if (given(IBV_QP_QKEY))
    mine.qkey = theirs.qkey;
  if (given(IBV_QP_EN_SQD_ASYNC_NOTIFY))
    mine.en_sqd_async_notify = theirs.en_sqd_async_notify;
}

} // namespace rdma::software

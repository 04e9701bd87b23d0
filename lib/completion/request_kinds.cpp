//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "completion/request_kinds.hpp"

namespace rdma::detail {

ibv_wr_opcode opcode_of(request_kind kind) noexcept
{
  switch (kind)
  {
  case request_kind::send:
    return IBV_WR_SEND;
  case request_kind::send_with_immediate:
    return IBV_WR_SEND_WITH_IMM;
  case request_kind::send_with_invalidate:
    return IBV_WR_SEND_WITH_INV;
  case request_kind::write:
    return IBV_WR_RDMA_WRITE;
  case request_kind::write_with_immediate:
    return IBV_WR_RDMA_WRITE_WITH_IMM;
  case request_kind::read:
    return IBV_WR_RDMA_READ;
  case request_kind::fetch_add:
    return IBV_WR_ATOMIC_FETCH_AND_ADD;
  case request_kind::compare_exchange:
    return IBV_WR_ATOMIC_CMP_AND_SWP;
  case request_kind::bind_window:
    return IBV_WR_BIND_MW;
  case request_kind::invalidate:
    return IBV_WR_LOCAL_INV;
  case request_kind::receive:
  case request_kind::batch:
    break;
  }
  return IBV_WR_SEND; // not reached: these two have own functions
}

const char* name_of(request_kind kind) noexcept
{
  switch (kind)
  {
  case request_kind::send:
  case request_kind::send_with_immediate:
  case request_kind::send_with_invalidate:
    return "send";
  case request_kind::write:
  case request_kind::write_with_immediate:
    return "write";
  case request_kind::read:
    return "read";
  case request_kind::fetch_add:
  case request_kind::compare_exchange:
    return "atomic";
  case request_kind::bind_window:
    return "window bind";
  case request_kind::invalidate:
    return "invalidate";
  case request_kind::receive:
    return "receive";
  case request_kind::batch:
    return "batch";
  }
  return "operation";
}

} // namespace rdma::detail

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_COMPLETION_REQUEST_KINDS_HPP
#define BOOST_RDMA_LIB_COMPLETION_REQUEST_KINDS_HPP

#include "boost_rdma/detail/operation.hpp"
#include "verbs/api.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace rdma::detail {

struct request_description
{
  request_kind kind;
  ibv_wr_opcode opcode; // of requests to the send queue
  const char* name;     // of the operation in a diagnosis
};

inline constexpr request_description request_descriptions[] = {
  {request_kind::send, IBV_WR_SEND, "send"},
  {request_kind::send_with_immediate, IBV_WR_SEND_WITH_IMM, "send"},
  {request_kind::send_with_invalidate, IBV_WR_SEND_WITH_INV, "send"},
  {request_kind::write, IBV_WR_RDMA_WRITE, "write"},
  {request_kind::write_with_immediate, IBV_WR_RDMA_WRITE_WITH_IMM, "write"},
  {request_kind::read, IBV_WR_RDMA_READ, "read"},
  {request_kind::fetch_add, IBV_WR_ATOMIC_FETCH_AND_ADD, "atomic"},
  {request_kind::compare_exchange, IBV_WR_ATOMIC_CMP_AND_SWP, "atomic"},
  {request_kind::bind_window, IBV_WR_BIND_MW, "window bind"},
  {request_kind::invalidate, IBV_WR_LOCAL_INV, "invalidate"},
  {request_kind::receive, {}, "receive"}, // this and the next one have own functions
  {request_kind::batch, {}, "batch"},
};
static_assert(std::all_of(std::begin(request_descriptions), std::end(request_descriptions),
  [](const request_description& each)
  { return &each == request_descriptions + static_cast<std::size_t>(each.kind); }));

inline ibv_wr_opcode opcode_of(request_kind kind) noexcept
{
  return request_descriptions[static_cast<std::size_t>(kind)].opcode;
}

inline const char* name_of(request_kind kind) noexcept
{
  return request_descriptions[static_cast<std::size_t>(kind)].name;
}

inline bool is_atomic(request_kind kind) noexcept
{
  return kind == request_kind::fetch_add || kind == request_kind::compare_exchange;
}

inline bool is_one_sided(request_kind kind) noexcept
{
  return kind == request_kind::write || kind == request_kind::write_with_immediate
    || kind == request_kind::read;
}

// Returns the right that a one-sided operation needs on the remote memory.
inline access remote_right(request_kind kind) noexcept
{
  return kind == request_kind::read ? access::remote_read : access::remote_write;
}

// Returns true if the peer may need a receive for it. A batch may contain a send.
inline bool may_take_receive(request_kind kind) noexcept
{
  return kind == request_kind::send || kind == request_kind::send_with_immediate
    || kind == request_kind::send_with_invalidate || kind == request_kind::write_with_immediate
    || kind == request_kind::batch;
}

// Returns true if the device writes to the local buffers.
inline bool receives_into(request_kind kind) noexcept
{
  return kind == request_kind::receive || kind == request_kind::read;
}

inline bool may_go_inline(request_kind kind) noexcept
{
  return kind == request_kind::send || kind == request_kind::send_with_immediate
    || kind == request_kind::send_with_invalidate || kind == request_kind::write
    || kind == request_kind::write_with_immediate;
}

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_COMPLETION_REQUEST_KINDS_HPP

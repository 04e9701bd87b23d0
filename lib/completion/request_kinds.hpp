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

namespace rdma::detail {

// Returns the verbs opcode of a request to the send queue.
ibv_wr_opcode opcode_of(request_kind kind) noexcept;

// Returns the name of the operation in a diagnosis.
const char* name_of(request_kind kind) noexcept;

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

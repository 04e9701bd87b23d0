//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_COMPLETION_REQUEST_RESULTS_HPP
#define BOOST_RDMA_LIB_COMPLETION_REQUEST_RESULTS_HPP

#include "boost_rdma/detail/operation.hpp"
#include "completion/posting.hpp"
#include "completion/request_kinds.hpp"

#include <cstddef>

// The result of a request that its device has completed without error. They change only the
// operation and its window.

namespace rdma::detail {

// The message that a receive has taken.
void set_message(operation& op, const ibv_wc& wc);

// The new key of a window that was bound.
void set_window(operation& op, std::size_t device_index);

inline void set_result(
  operation& op, const ibv_wc& wc, const posting& from, std::size_t device_index)
{
  op.result.ec = {};
  if (op.what.kind == request_kind::receive)
    set_message(op, wc);
  else if (is_atomic(op.what.kind)) // the device wrote it, in host byte order on all known devices
    op.result.value = from.atomic_result(&op);
  else if (op.what.kind == request_kind::bind_window)
    set_window(op, device_index);
  else
    op.result.received.size = op.bytes;
}

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_COMPLETION_REQUEST_RESULTS_HPP

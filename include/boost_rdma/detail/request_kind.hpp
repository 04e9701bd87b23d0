//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_REQUEST_KIND_HPP
#define BOOST_RDMA_DETAIL_REQUEST_KIND_HPP

#include <cstdint>

namespace rdma::detail {

enum class request_kind : std::uint8_t
{
  send,
  send_with_immediate,
  send_with_invalidate,
  write,
  write_with_immediate,
  read,
  fetch_add,
  compare_exchange,
  bind_window,
  invalidate,
  receive,
  batch,
};

} // namespace rdma::detail

#endif // BOOST_RDMA_DETAIL_REQUEST_KIND_HPP

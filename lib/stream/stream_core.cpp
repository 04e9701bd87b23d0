//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/detail/stream_core.hpp"

#include "completion/waiting_handler.hpp"

#include <utility>

namespace rdma::detail {

void stream_core::connect(const io_executor& executor, const endpoint_type&, plain_handler handler)
{
  waiting_handler<>(executor, std::move(handler)).complete(error::already_connected);
}

void start_read_some(const stream_core::io_executor& executor, stream_core* core,
  const stream_core::targets& to, stream_core::size_handler handler, bool on_executor)
{
  if (core != nullptr)
    core->read_some(executor, to, std::move(handler), on_executor);
  else
    waiting_handler<std::size_t>(executor, std::move(handler)).complete(error::closed, 0);
}

void start_write_some(const stream_core::io_executor& executor, stream_core* core,
  const stream_core::sources& from, stream_core::size_handler handler, bool on_executor)
{
  if (core != nullptr)
    core->write_some(executor, from, std::move(handler), on_executor);
  else
    waiting_handler<std::size_t>(executor, std::move(handler)).complete(error::closed, 0);
}

void start_wait(const stream_core::io_executor& executor, stream_core* core,
  stream_core::wait_type what, stream_core::plain_handler handler)
{
  if (core != nullptr)
    core->wait(executor, what, std::move(handler));
  else
    waiting_handler<>(executor, std::move(handler)).complete(error::closed);
}

void start_connect_stream(const stream_core::io_executor& executor, stream_core* core,
  const stream_core::endpoint_type& server, stream_core::plain_handler handler)
{
  if (core != nullptr)
    core->connect(executor, server, std::move(handler));
  else
    waiting_handler<>(executor, std::move(handler)).complete(error::closed);
}

} // namespace rdma::detail

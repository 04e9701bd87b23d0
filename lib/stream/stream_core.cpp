//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/detail/stream_core.hpp"

#include "completion/waiting_handler.hpp"
#include "stream/stream_deadline.hpp"

#include <utility>

namespace rdma::detail {

void stream_core::connect(const io_executor& executor, const endpoint_type&, plain_handler handler)
{
  waiting_handler<>(executor, std::move(handler)).complete(error::already_connected);
}

void stream_core::connect(const endpoint_type&, error_code& ec)
{
  ec = error::already_connected;
}

void limit_stream(const stream_core::io_executor& executor,
  const std::shared_ptr<stream_core>& core, stream_core::time_point time)
{
  if (!core->deadline)
    core->deadline = std::make_shared<stream_deadline>(executor, core);
  core->deadline->expires_at(time);
}

namespace {

// Calls function(*core, handler), if there is a core.
template <class... Results, class Function>
void start(const stream_core::io_executor& executor, stream_core* core,
  boost::asio::any_completion_handler<void(error_code, Results...)> handler, Function function)
{
  if (core == nullptr)
    waiting_handler<Results...>(executor, std::move(handler)).complete(error::closed, Results()...);
  else if (core->deadline)
    core->deadline->run(
      std::move(handler), [&](auto limited) { function(*core, std::move(limited)); });
  else
    function(*core, std::move(handler));
}

} // namespace

void start_read_some(const stream_core::io_executor& executor, stream_core* core,
  const stream_core::targets& to, stream_core::size_handler handler, bool on_executor)
{
  start(executor, core, std::move(handler),
    [&](stream_core& self, auto own)
    { self.read_some(executor, to, std::move(own), on_executor); });
}

void start_write_some(const stream_core::io_executor& executor, stream_core* core,
  const stream_core::sources& from, stream_core::size_handler handler, bool on_executor)
{
  start(executor, core, std::move(handler),
    [&](stream_core& self, auto own)
    { self.write_some(executor, from, std::move(own), on_executor); });
}

void start_wait(const stream_core::io_executor& executor, stream_core* core,
  stream_core::wait_type what, stream_core::plain_handler handler, bool on_executor)
{
  start(executor, core, std::move(handler),
    [&](stream_core& self, auto own) { self.wait(executor, what, std::move(own), on_executor); });
}

void start_connect_stream(const stream_core::io_executor& executor, stream_core* core,
  const stream_core::endpoint_type& server, stream_core::plain_handler handler)
{
  start(executor, core, std::move(handler),
    [&](stream_core& self, auto own) { self.connect(executor, server, std::move(own)); });
}

} // namespace rdma::detail

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/detail/queue_pair_handle.hpp"

#include "completion/queue_pair_core.hpp"
#include "completion/waiting_handler.hpp"

#include <utility>

// The functions of queue_pair_core for the templates in public headers.

namespace rdma::detail {

namespace asio = boost::asio;

std::shared_ptr<queue_pair_core> make_queue_pair(const asio::any_io_executor& executor,
  bool same_context, const protection_domain& domain, const queue_pair_options& options)
{
  return queue_pair_core::make(executor, same_context, domain, options);
}

bool is_open_core(const queue_pair_core& core)
{
  return core.is_open();
}

void close_core(queue_pair_core& core)
{
  core.close();
}

rdma::context context_of(const queue_pair_core& core)
{
  return core.context();
}

const queue_pair_options& options_of(const queue_pair_core& core) noexcept
{
  return core.options();
}

std::uint32_t number_of(const queue_pair_core& core)
{
  return core.number();
}

bool is_connected(const queue_pair_core& core)
{
  return core.is_connected();
}

diagnosis diagnosis_of(const queue_pair_core& core)
{
  return core.diagnose();
}

transport_choice transport_of(const queue_pair_core& core)
{
  return core.transport();
}

std::string peer_data_of(const queue_pair_core& core)
{
  return core.peer_data();
}

ibv_qp* native_of(const queue_pair_core& core)
{
  return core.native();
}

work_source* as_work_source(queue_pair_core* core) noexcept
{
  return core;
}

endpoint_description local_endpoint_of(
  queue_pair_core* core, const std::optional<asio::ip::address>& local, error_code& ec)
{
  if (core != nullptr)
    return core->local_endpoint(local, ec);
  ec = error::closed;
  return {};
}

void connect_core(queue_pair_core* core, const endpoint_description& remote, error_code& ec)
{
  if (core != nullptr)
    core->connect(remote, ec);
  else
    ec = error::closed;
}

void start_shutdown(
  const asio::any_io_executor& executor, queue_pair_core* core, end_handler handler)
{
  start_or_refuse(core, executor, std::move(handler), &queue_pair_core::shut_down);
}

void start_wait_close(
  const asio::any_io_executor& executor, queue_pair_core* core, end_handler handler)
{
  start_or_refuse(core, executor, std::move(handler), &queue_pair_core::wait_close);
}

} // namespace rdma::detail

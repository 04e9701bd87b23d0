//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_RPC_CLIENT_CORE_HPP
#define BOOST_RDMA_DETAIL_RPC_CLIENT_CORE_HPP

#include <boost_rdma/detail/rpc/call.hpp>
#include <boost_rdma/detail/rpc/flow_core.hpp>
#include <boost_rdma/error.hpp>
#include <boost_rdma/protection_domain.hpp>
#include <boost_rdma/rpc/method.hpp>
#include <boost_rdma/rpc/options.hpp>
#include <boost_rdma/transport_choice.hpp>

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace rdma::detail::rpc {

// Takes calls: a client or a pool of clients, independent of the types of methods and handlers.
class call_core
{
public:
  // A request of any type.
  struct request
  {
    const void* value;
    void (*encode)(const void* value, rdma::rpc::output& to);
    const rdma::rpc::detail::method_description* method;
  };

  virtual ~call_core() = default;

  // Gives the call a number. Returns an error if it cannot start; the caller has it then.
  [[nodiscard]] virtual error_code add(call& what) = 0;
  // The call was added, and ends from now on, unless an exception is thrown.
  virtual void submit(call& what, const request& r, const rdma::rpc::call_options& options) = 0;
  // The call was added, and does not start.
  virtual void withdraw(call& what) noexcept = 0;
  // Ends a submitted call with operation_aborted.
  virtual void cancel(std::uint32_t number) = 0;

  virtual void cancel() = 0; // all calls
  virtual void close() = 0;
  [[nodiscard]] virtual bool is_open() const = 0;
};

// A client.
class client_core : public call_core
{
public:
  using io_executor = boost::asio::any_io_executor;
  using endpoint_type = boost::asio::ip::tcp::endpoint;
  using plain_handler = boost::asio::any_completion_handler<void(error_code)>;

  // Throws system_error. `inner` is the executor inside the strands of `executor`.
  static std::shared_ptr<client_core> make(const io_executor& executor, const io_executor& inner,
    const protection_domain& domain, const rdma::rpc::client_options& options);

  virtual void connect(
    const io_executor& executor, const endpoint_type& server, plain_handler handler) = 0;

  // Makes a call with items. An error of starting it is the end of the flow.
  virtual std::shared_ptr<flow_core> open_flow(
    const request& r, const rdma::rpc::call_options& options, bool reads) = 0;

  // Returns false if a call would fail because of the connection, as far as this side can tell.
  [[nodiscard]] virtual bool can_call() = 0;
  [[nodiscard]] virtual transport_choice transport() const = 0;
  [[nodiscard]] virtual std::vector<rdma::rpc::offered_method> methods() const = 0;
};

// The handler of a cancellation slot.
class call_canceller
{
public:
  call_canceller(std::weak_ptr<call_core> core, std::uint32_t number)
    : core_(std::move(core))
    , number_(number)
  {
  }

  void operator()(boost::asio::cancellation_type_t type)
  {
    if (type == boost::asio::cancellation_type::none)
      return;
    if (const auto core = core_.lock())
      core->cancel(number_);
  }

private:
  std::weak_ptr<call_core> core_;
  std::uint32_t number_;
};

// Connects, or completes with error::closed if there is no core.
void start_connect(const client_core::io_executor& executor, client_core* core,
  const client_core::endpoint_type& server, client_core::plain_handler handler);

// Returns null if there is no core.
inline std::shared_ptr<flow_core> open_flow(client_core* core, const client_core::request& what,
  const rdma::rpc::call_options& options, bool reads)
{
  return core != nullptr ? core->open_flow(what, options, reads) : nullptr;
}

// Core is derived from call_core.
template <class Result, class Executor, class Core, class Handler>
void start_call(const Executor& executor, const std::shared_ptr<Core>& core, Handler&& handler,
  const call_core::request& what, const rdma::rpc::call_options& options)
{
  auto* const made = pending_call<Result, std::decay_t<Handler>, Executor>::make(
    executor, std::forward<Handler>(handler));
  try
  {
    if (!core)
      return made->end(error::closed);
    if (const error_code ec = core->add(*made))
      return made->end(ec);
  }
  catch (...)
  {
    made->remove();
    throw;
  }
  // The slot has a handler before another thread can end the call.
  auto slot = boost::asio::get_associated_cancellation_slot(made->handler());
  try
  {
    if (slot.is_connected())
      slot.template emplace<call_canceller>(core, made->number);
    core->submit(*made, what, options);
  }
  catch (...)
  {
    core->withdraw(*made);
    made->remove();
    throw;
  }
}

} // namespace rdma::detail::rpc

#endif // BOOST_RDMA_DETAIL_RPC_CLIENT_CORE_HPP

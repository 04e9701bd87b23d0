//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_RPC_FLOW_HANDLER_HPP
#define BOOST_RDMA_DETAIL_RPC_FLOW_HANDLER_HPP

#include <boost_rdma/detail/rpc/server_core.hpp>
#include <boost_rdma/rpc/flow.hpp>
#include <boost_rdma/rpc/responder.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>

#include <concepts>
#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace rdma::detail::rpc {

// A coroutine of the program as the handler of a streaming_method.
template <class Method, class Executor, class Function>
class flow_handler final : public method_handler
{
  using request_type = typename Method::request_type;
  using reply_type = typename Method::reply_type;
  using flow_type = rdma::rpc::server_flow<Method>;

public:
  flow_handler(const Executor& executor, Function function)
    : method_handler(rdma::rpc::detail::description_of<Method>)
    , executor_(executor)
    , function_(std::move(function))
  {
  }

  void start(arrived_call& what) override
  {
    if (!what.take_first_credit())
      return what.fail(error::malformed_message);
    try
    {
      run_with(what);
    }
    catch (...)
    {
      what.fail(error_of(std::current_exception()));
    }
  }

private:
  static decltype(auto) call(Function& function, const request_type& request,
    const rdma::rpc::call_info& info, flow_type& items)
  {
    if constexpr (std::invocable<Function&, const request_type&, const rdma::rpc::call_info&,
                    flow_type&>)
      return function(request, info, items);
    else
      return function(request, items);
  }

  using awaitable = decltype(call(std::declval<Function&>(), std::declval<const request_type&>(),
    std::declval<const rdma::rpc::call_info&>(), std::declval<flow_type&>()));
  using value_type = typename awaitable::value_type;

  void run_with(arrived_call& what)
  {
    error_code ec;
    std::optional<request_type> request = decode_content<request_type>(ec, what.content);
    if (!request)
      return what.fail(ec);
    const rdma::rpc::call_info info(what);
    // The request stays in the coroutine, and what a view refers to in the running call.
    auto running = what.keep();
    constexpr bool reads = !std::is_same_v<typename Method::to_server_type, rdma::rpc::nothing>;
    flow_type items(executor_, running->open_flow(reads));
    boost::asio::co_spawn(executor_, run(function_, std::move(*request), info, std::move(items)),
      boost::asio::bind_cancellation_slot(running->cancelled.slot(),
        [running](std::exception_ptr thrown, const value_type& returned)
        {
          if (thrown)
            return running->fail(error_of(std::move(thrown)));
          const reply_type value(returned);
          running->reply({&value, &encode});
        }));
  }

  static awaitable run(
    Function& function, request_type request, rdma::rpc::call_info info, flow_type items)
  {
    co_return co_await call(function, request, info, items);
  }

  static void encode(const void* value, rdma::rpc::output& to)
  {
    rdma::rpc::detail::codec_of<reply_type>::encode(*static_cast<const reply_type*>(value), to);
  }

  Executor executor_;
  Function function_;
};

} // namespace rdma::detail::rpc

#endif // BOOST_RDMA_DETAIL_RPC_FLOW_HANDLER_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_RPC_TYPED_HANDLER_HPP
#define BOOST_RDMA_DETAIL_RPC_TYPED_HANDLER_HPP

#include <boost_rdma/detail/rpc/server_core.hpp>
#include <boost_rdma/rpc/method.hpp>
#include <boost_rdma/rpc/responder.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>

#include <concepts>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

namespace rdma::detail::rpc {

// A function of the program as the handler of a method. It returns the reply, or an awaitable of
// it, or takes a responder as its last argument.
template <class Method, class Executor, class Function>
class typed_handler final : public method_handler
{
  using request_type = typename Method::request_type;
  using reply_type = typename Method::reply_type;
  using responder = rdma::rpc::responder<Method>;

public:
  typed_handler(const Executor& executor, Function function)
    : method_handler(rdma::rpc::detail::description_of<Method>)
    , executor_(executor)
    , function_(std::move(function))
  {
  }

  void start(arrived_call& what) override
  {
    std::optional<request_type> request = decode(what.content);
    if (!request)
      return what.fail(error::malformed_message);
    const rdma::rpc::call_info info(what);
    try
    {
      if constexpr (std::invocable<Function&, const request_type&, const rdma::rpc::call_info&,
                      responder>)
        function_(*request, info, responder(what.keep()));
      else if constexpr (std::invocable<Function&, const request_type&, responder>)
        function_(*request, responder(what.keep()));
      else
        answer(what, *request, info);
    }
    catch (...)
    {
      what.fail(error_of(std::current_exception()));
    }
  }

private:
  // A codec's exception means that the bytes are no value.
  static std::optional<request_type> decode(std::span<const std::byte> from)
  try
  {
    return rdma::rpc::detail::codec_of<request_type>::decode(from);
  }
  catch (...)
  {
    return std::nullopt;
  }

  static decltype(auto) call(
    Function& function, const request_type& request, const rdma::rpc::call_info& info)
  {
    if constexpr (std::invocable<Function&, const request_type&, const rdma::rpc::call_info&>)
      return function(request, info);
    else
      return function(request);
  }

  void answer(arrived_call& what, request_type& request, const rdma::rpc::call_info& info)
  {
    using result = decltype(call(function_, request, info));
    if constexpr (std::convertible_to<result, reply_type>)
    {
      // A view may refer to what the handler has returned.
      auto&& returned = call(function_, request, info);
      const reply_type value(returned);
      what.reply({&value, &encode});
    }
    else
    {
      using value_type = typename result::value_type;
      // The request stays in the coroutine, and what a view refers to in the running call.
      auto running = what.keep();
      boost::asio::co_spawn(executor_, run<result>(function_, std::move(request), info),
        boost::asio::bind_cancellation_slot(running->cancelled.slot(),
          [running](std::exception_ptr thrown, const value_type& returned)
          {
            if (thrown)
              return running->fail(error_of(std::move(thrown)));
            const reply_type value(returned);
            running->reply({&value, &encode});
          }));
    }
  }

  template <class Awaitable>
  static Awaitable run(Function& function, request_type request, rdma::rpc::call_info info)
  {
    co_return co_await call(function, request, info);
  }

  static void encode(const void* value, rdma::rpc::output& to)
  {
    rdma::rpc::detail::codec_of<reply_type>::encode(*static_cast<const reply_type*>(value), to);
  }

  Executor executor_;
  Function function_;
};

} // namespace rdma::detail::rpc

#endif // BOOST_RDMA_DETAIL_RPC_TYPED_HANDLER_HPP

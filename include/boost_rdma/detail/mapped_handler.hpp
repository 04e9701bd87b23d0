//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_MAPPED_HANDLER_HPP
#define BOOST_RDMA_DETAIL_MAPPED_HANDLER_HPP

#include <boost_rdma/error.hpp>

#include <boost/asio/associator.hpp>

#include <type_traits>
#include <utility>

namespace rdma::detail {

// A handler with other parameters than the user's, and the same associated executor, allocator and
// cancellation slot. Calls function(handler, arguments...).
template <class Function, class Handler>
class mapped_handler
{
public:
  template <class H>
  mapped_handler(Function function, H&& handler)
    : handler_(std::forward<H>(handler))
    , function_(std::move(function))
  {
  }

  template <class... Arguments>
  void operator()(Arguments&&... arguments)
  {
    function_(std::move(handler_), std::forward<Arguments>(arguments)...);
  }

  Handler handler_;

private:
  Function function_;
};

template <class Function, class Handler>
mapped_handler<Function, std::decay_t<Handler>> map_handler(Function function, Handler&& handler)
{
  return {std::move(function), std::forward<Handler>(handler)};
}

// Makes the user's I/O object of its core.
template <class Object, class Executor, class Handler>
auto handler_of_object(const Executor& executor, Handler&& handler)
{
  return map_handler([executor](auto own, const error_code& ec, auto core)
    { std::move(own)(ec, Object(executor, std::move(core))); },
    std::forward<Handler>(handler));
}

} // namespace rdma::detail

template <template <class, class> class Associator, class Function, class Handler, class Candidate>
struct boost::asio::associator<Associator, rdma::detail::mapped_handler<Function, Handler>,
  Candidate> : Associator<Handler, Candidate>
{
  using wrapped_type = rdma::detail::mapped_handler<Function, Handler>;

  static typename Associator<Handler, Candidate>::type get(const wrapped_type& wrapped) noexcept
  {
    return Associator<Handler, Candidate>::get(wrapped.handler_);
  }

  static auto get(const wrapped_type& wrapped, const Candidate& candidate) noexcept
    -> decltype(Associator<Handler, Candidate>::get(wrapped.handler_, candidate))
  {
    return Associator<Handler, Candidate>::get(wrapped.handler_, candidate);
  }
};

#endif // BOOST_RDMA_DETAIL_MAPPED_HANDLER_HPP

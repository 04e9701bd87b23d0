//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_OBJECT_HANDLER_HPP
#define BOOST_RDMA_DETAIL_OBJECT_HANDLER_HPP

#include <boost_rdma/error.hpp>

#include <boost/asio/associator.hpp>

#include <memory>
#include <type_traits>
#include <utility>

namespace rdma::detail {

// Adapts a handler of Object, an I/O object, to a completion with the object's core.
template <class Object, class Executor, class Handler>
class object_handler
{
public:
  template <class H>
  object_handler(const Executor& executor, H&& handler)
    : handler_(std::forward<H>(handler))
    , executor_(executor)
  {
  }

  template <class Core>
  void operator()(const error_code& ec, std::shared_ptr<Core> core)
  {
    std::move(handler_)(ec, Object(executor_, std::move(core)));
  }

  Handler handler_;

private:
  Executor executor_;
};

template <class Object, class Executor, class Handler>
object_handler<Object, Executor, std::decay_t<Handler>> handler_of_object(
  const Executor& executor, Handler&& handler)
{
  return {executor, std::forward<Handler>(handler)};
}

} // namespace rdma::detail

// The adapter has the handler's executor, allocator and cancellation slot.
template <template <class, class> class Associator, class Object, class Executor, class Handler,
  class Candidate>
struct boost::asio::associator<Associator, rdma::detail::object_handler<Object, Executor, Handler>,
  Candidate> : Associator<Handler, Candidate>
{
  using wrapped_type = rdma::detail::object_handler<Object, Executor, Handler>;

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

#endif // BOOST_RDMA_DETAIL_OBJECT_HANDLER_HPP

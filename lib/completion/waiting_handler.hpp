//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_COMPLETION_WAITING_HANDLER_HPP
#define BOOST_RDMA_LIB_COMPLETION_WAITING_HANDLER_HPP

#include "boost_rdma/error.hpp"
#include "completion/handler_turn.hpp"

#include <boost/asio/any_completion_executor.hpp>
#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>

#include <memory>
#include <new>
#include <utility>

namespace rdma::detail {

// A handler that waits, with the work guards that keep the user's execution contexts running.
template <class... Results>
class waiting_handler
{
public:
  using handler_type = boost::asio::any_completion_handler<void(error_code, Results...)>;

  waiting_handler(const boost::asio::any_io_executor& io_executor, handler_type handler)
    : io_work_(boost::asio::prefer(io_executor, boost::asio::execution::outstanding_work.tracked))
    , work_(tracked(boost::asio::get_associated_executor(handler, io_executor)))
    , handler_(std::move(handler))
  {
  }

  // May be called by any thread. Does not call the handler itself.
  void complete(const error_code& ec, Results... results) &&
  {
    const auto target = io_executor();
    boost::asio::post(target, std::move(*this).call(ec, std::move(results)...));
    handler_turn::want();
  }

  // Called on the I/O executor, outside initiating functions. May call the handler itself.
  void complete_here(const error_code& ec, Results... results) &&
  {
    const auto target = io_executor();
    boost::asio::dispatch(target, std::move(*this).call(ec, std::move(results)...));
  }

private:
  // any_completion_handler of Boost 1.81 returns an empty executor if there is no memory for it.
  static boost::asio::any_completion_executor tracked(
    const boost::asio::any_completion_executor& executor)
  {
    if (!executor)
      throw std::bad_alloc();
    return boost::asio::prefer(executor, boost::asio::execution::outstanding_work.tracked);
  }

  // The first destination, as in Asio's own operations: an associated executor that runs functions
  // at once must not run the handler on the library's thread.
  [[nodiscard]] boost::asio::any_io_executor io_executor() const
  {
    return boost::asio::prefer(io_work_, boost::asio::execution::outstanding_work.untracked);
  }

  // The work guards move with the handler: if the handler calls fork(), a guard that stayed here
  // would never be released in the child.
  auto call(const error_code& ec, Results... results) &&
  {
    return [work = std::move(io_work_), handler_work = std::move(work_),
             handler = std::move(handler_), ec, ... values = std::move(results)]() mutable
    {
      auto executor = boost::asio::get_associated_executor(handler, work);
      boost::asio::dispatch(executor,
        [handler = std::move(handler), ec, ... inner = std::move(values)]() mutable
        { std::move(handler)(ec, std::move(inner)...); });
    };
  }

  boost::asio::any_io_executor io_work_;
  boost::asio::any_completion_executor work_;
  handler_type handler_;
};

// Starts an operation of an object, or completes it with error::closed if there is no object.
template <class Object, class... Results>
void start_or_refuse(Object* object, const boost::asio::any_io_executor& executor,
  boost::asio::any_completion_handler<void(error_code, Results...)> handler,
  void (Object::*start)(const boost::asio::any_io_executor&,
    boost::asio::any_completion_handler<void(error_code, Results...)>))
{
  if (object != nullptr)
    (object->*start)(executor, std::move(handler));
  else
    waiting_handler<Results...>(executor, std::move(handler)).complete(error::closed, Results()...);
}

// Calls function() when the operation of this slot is cancelled. Only the initiating thread may use
// the slot: call this before other threads can see the operation.
template <class Function>
void on_cancellation(boost::asio::cancellation_slot slot, Function function)
{
  if (slot.is_connected())
    slot.assign(
      [function = std::move(function)](boost::asio::cancellation_type type)
      {
        if (type != boost::asio::cancellation_type::none)
          function();
      });
}

// The same for function(*object), if the object still exists.
template <class Object, class Function>
void on_cancellation(
  boost::asio::cancellation_slot slot, std::weak_ptr<Object> object, Function function)
{
  on_cancellation(slot,
    [object = std::move(object), function = std::move(function)]
    {
      if (const auto self = object.lock())
        function(*self);
    });
}

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_COMPLETION_WAITING_HANDLER_HPP

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
#include "completion/late_tasks.hpp"

#include <boost/asio/any_completion_executor.hpp>
#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/recycling_allocator.hpp>

#include <memory>
#include <new>
#include <optional>
#include <tuple>
#include <utility>

namespace rdma::detail {

// A handler that waits, with the work guards that keep the user's execution contexts running.
//
// If the thread of connections destroys it, its owner was lost for lack of memory, and it completes
// with no_memory.
template <class... Results>
class waiting_handler
{
public:
  using handler_type = boost::asio::any_completion_handler<void(error_code, Results...)>;

  waiting_handler(const boost::asio::any_io_executor& io_executor, handler_type handler)
    : state_(std::allocate_shared<state>(
      boost::asio::recycling_allocator<state>(), io_executor, std::move(handler)))
  {
  }
  waiting_handler(waiting_handler&&) noexcept = default;
  waiting_handler& operator=(waiting_handler&& other) noexcept
  {
    state_.swap(other.state_);
    return *this;
  }
  ~waiting_handler()
  {
    if (state_ && late_tasks::of_this_thread() != nullptr)
      finish(boost::asio::error::no_memory, Results()...);
  }

  // May be called by any thread. Does not call the handler itself. Throws std::bad_alloc only if
  // the execution context has no thread of connections; complete() can then be called again.
  void complete(const error_code& ec, Results... results) &&
  {
    finish(ec, std::move(results)...);
    handler_turn::want();
  }

  // Called on the I/O executor, outside initiating functions. May call the handler itself.
  void complete_here(const error_code& ec, Results... results) &&
  {
    auto waiting = std::exchange(state_, nullptr);
    waiting->results.emplace(ec, std::move(results)...);
    state::or_later(waiting,
      [&]
      {
        boost::asio::dispatch(
          waiting->io_executor(), [waiting]() mutable { state::call(std::move(waiting)); });
      });
  }

private:
  struct state final : late_task
  {
    state(const boost::asio::any_io_executor& io_executor, handler_type handler)
      : io_work(boost::asio::prefer(io_executor, boost::asio::execution::outstanding_work.tracked))
      , work(tracked(boost::asio::get_associated_executor(handler, io_executor), io_executor))
      , handler(std::move(handler))
    {
    }

    // The first destination, as in Asio's own operations: an associated executor that runs
    // functions at once must not run the handler on the library's thread.
    [[nodiscard]] boost::asio::any_io_executor io_executor() const
    {
      return boost::asio::prefer(io_work, boost::asio::execution::outstanding_work.untracked);
    }

    void run() override
    {
      boost::asio::post(io_executor(),
        [self = std::static_pointer_cast<state>(this->shared_from_this())]() mutable
        { call(std::move(self)); });
    }

    // On the I/O executor.
    static void call(std::shared_ptr<state> self)
    {
      if (!self->work)
        return invoke(std::move(self));
      or_later(self,
        [&] { boost::asio::dispatch(self->work, [self]() mutable { invoke(std::move(self)); }); });
    }

    // Without memory for a step to the handler's executor, run() begins again later.
    template <class Step>
    static void or_later(const std::shared_ptr<state>& self, Step step)
    try
    {
      step();
    }
    catch (const std::bad_alloc&)
    {
      if (!self->handler)
        throw; // by the handler, which was called
      if (late_tasks* const own = late_tasks::of_this_thread())
        own->add(self);
      else if (!run_later(self->io_work, self))
        throw;
    }

    // The work guards move with the handler: if the handler calls fork(), a guard that stayed here
    // might never be released in the child.
    static void invoke(std::shared_ptr<state> self)
    {
      const auto io_guard = std::move(self->io_work);
      const auto guard = std::move(self->work);
      auto function = std::move(self->handler);
      auto values = std::move(*self->results);
      self.reset(); // its memory is free for what the handler starts
      std::apply(std::move(function), std::move(values));
    }

    boost::asio::any_io_executor io_work;
    boost::asio::any_completion_executor work; // empty if it is the I/O executor
    handler_type handler;
    std::optional<std::tuple<error_code, Results...>> results;
  };

  // any_completion_handler of Boost 1.81 returns an empty executor if there is no memory for it.
  static boost::asio::any_completion_executor tracked(
    const boost::asio::any_completion_executor& executor,
    const boost::asio::any_io_executor& io_executor)
  {
    if (!executor)
      throw std::bad_alloc();
    if (executor == boost::asio::any_completion_executor(std::nothrow, io_executor))
      return {};
    return boost::asio::prefer(executor, boost::asio::execution::outstanding_work.tracked);
  }

  void finish(const error_code& ec, Results... results)
  {
    auto waiting = std::exchange(state_, nullptr); // the handler may destroy this object's owner
    waiting->results.emplace(ec, std::move(results)...);
    try
    {
      state::or_later(waiting, [&] { waiting->run(); });
    }
    catch (const std::bad_alloc&)
    {
      state_ = std::move(waiting);
      throw;
    }
  }

  std::shared_ptr<state> state_;
};

// Completes with a copy of the result, or with no_memory if there is none for it.
template <class Result>
void complete_with_copy(waiting_handler<Result> handler, error_code ec, const Result& of)
{
  Result own;
  try
  {
    own = of;
  }
  catch (const std::bad_alloc&)
  {
    ec = boost::asio::error::no_memory;
  }
  std::move(handler).complete(ec, std::move(own));
}

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

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_INITIATE_HPP
#define BOOST_RDMA_DETAIL_INITIATE_HPP

#include <boost_rdma/detail/initiation.hpp>
#include <boost_rdma/detail/work_source.hpp>

#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/recycling_allocator.hpp>

#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

namespace rdma::detail {

namespace asio = boost::asio;

// The handler's arguments, taken from the outcome; one class for each completion signature.
struct bytes_result
{
  static auto arguments(const outcome& o) { return std::make_tuple(o.ec, o.received.size); }
};
// A write with immediate data puts no bytes into the receive's buffer.
struct receive_result
{
  static auto arguments(const outcome& o)
  {
    return std::make_tuple(o.ec, o.received.written ? std::size_t{0} : o.received.size);
  }
};
struct message_result
{
  static auto arguments(const outcome& o) { return std::make_tuple(o.ec, o.received); }
};
struct value_result
{
  static auto arguments(const outcome& o) { return std::make_tuple(o.ec, o.value); }
};
struct window_result
{
  static auto arguments(const outcome& o) { return std::make_tuple(o.ec, o.bound); }
};
struct plain_result
{
  static auto arguments(const outcome& o) { return std::make_tuple(o.ec); }
};

// The handler's own allocator. Without one, the storage of the slot or Asio's recycling allocator.
template <class Handler>
using handler_allocator_t =
  std::conditional_t<std::is_same_v<asio::associated_allocator_t<Handler>, std::allocator<void>>,
    asio::recycling_allocator<void>, asio::associated_allocator_t<Handler>>;

template <class Handler>
handler_allocator_t<Handler> handler_allocator(const Handler& handler)
{
  if constexpr (std::is_same_v<asio::associated_allocator_t<Handler>, std::allocator<void>>)
    return {};
  else
    return asio::get_associated_allocator(handler);
}

// True if the handler has no associated executor and therefore certainly uses the I/O object's.
// Tests for a name that is reserved for Asio. If Asio does not define it, on_io_executor() compares
// the executors, which costs a copy of each.
template <class Handler, class IoExecutor>
inline constexpr bool names_no_executor = requires {
  typename asio::associated_executor<Handler,
    IoExecutor>::asio_associated_executor_is_unspecialised;
};

// True for handlers of the library that need no executor: the thread that polls calls them before
// those of programs, with a third argument that is true in completion_queue_impl::poll().
template <class Handler>
inline constexpr bool is_called_at_once = requires { typename Handler::is_called_at_once; };

// A stored handler, with the work guard of its executor's context.
template <class Handler, class IoExecutor, class Result>
class pending_handler
{
public:
  using executor_type = asio::associated_executor_t<Handler, IoExecutor>;
  using allocator_type = typename std::allocator_traits<
    handler_allocator_t<Handler>>::template rebind_alloc<pending_handler>;

  template <class H>
  pending_handler(H&& handler, const IoExecutor& io_executor, const work_source& source)
    : handler_(std::forward<H>(handler))
    , io_executor_(&source, io_executor)
  {
    // The completion queue keeps its own context running. Another context needs a guard.
    if (source.executor() == executor_relation::elsewhere || !on_io_executor())
      work_.emplace(executor());
  }

  // The slot's storage is used only with the default allocator; the user's allocator takes
  // precedence.
  static constexpr bool fits_slot()
  {
    return std::is_same_v<asio::associated_allocator_t<Handler>, std::allocator<void>>
      && sizeof(pending_handler) <= operation::storage_size
      && alignof(pending_handler) <= alignof(std::max_align_t);
  }

  template <class H>
  static void place(operation* op, H&& handler, const IoExecutor& io_executor)
  {
    if constexpr (fits_slot())
      op->handler = ::new (static_cast<void*>(op->storage))
        pending_handler(std::forward<H>(handler), io_executor, *op->source);
    else
    {
      allocator_type allocator(handler_allocator(handler));
      pending_handler* room = std::allocator_traits<allocator_type>::allocate(allocator, 1);
      try
      {
        op->handler = ::new (static_cast<void*>(room))
          pending_handler(std::forward<H>(handler), io_executor, *op->source);
      }
      catch (...)
      {
        std::allocator_traits<allocator_type>::deallocate(allocator, room, 1);
        throw;
      }
    }
    op->at_once = is_called_at_once<Handler>;
    if constexpr (is_called_at_once<Handler>)
      op->complete = &pending_handler::complete_at_once;
    else
      op->complete = &pending_handler::complete;
  }

private:
  static void complete_at_once(operation* op, bool invoke, bool in_poll)
  {
    auto* self = static_cast<pending_handler*>(op->handler);
    const auto work = std::move(self->work_); // the handler's end may need its context
    Handler handler(std::move(self->handler_));
    remove(self, handler);
    if (!invoke)
      return op->source->release(op);
    const work_source::spare_slot spare(op);
    std::apply(handler, std::tuple_cat(Result::arguments(op->result), std::make_tuple(in_poll)));
  }

  static void complete(operation* op, bool invoke, bool in_context)
  {
    auto* self = static_cast<pending_handler*>(op->handler);
    auto arguments = Result::arguments(op->result);
    if (invoke && op->bounced)
      work_source::deliver(op);
    if (invoke && in_context && op->source->executor() == executor_relation::same_executor
      && self->on_io_executor())
    {
      Handler handler(std::move(self->handler_));
      remove(self, handler);
      const work_source::spare_slot spare(op);
      std::apply(std::move(handler), std::move(arguments));
      return;
    }
    pending_handler moved(std::move(*self));
    remove(self, moved.handler_);
    if (!invoke)
      return op->source->release(op);
    auto target = moved.executor(); // the release may destroy the source, and its executor with it
    // The completion queue's work count ends with the slot, but on another thread the handler is
    // not queued yet.
    if (!in_context && !moved.work_)
      moved.work_.emplace(target);
    op->source->release(op);
    std::move(moved).dispatch(target, std::move(arguments));
  }

  executor_type executor() const
  {
    return asio::get_associated_executor(handler_, io_executor_.get());
  }

  bool on_io_executor() const
  {
    if constexpr (names_no_executor<Handler, IoExecutor>)
      return true;
    else if constexpr (std::is_same_v<executor_type, IoExecutor>)
      return executor() == io_executor_.get();
    else
      return false;
  }

  // Destroys the object made by place(). `handler` was moved out of it.
  static void remove(pending_handler* self, const Handler& handler) noexcept
  {
    if constexpr (fits_slot())
      self->~pending_handler();
    else
    {
      allocator_type allocator(handler_allocator(handler));
      self->~pending_handler();
      std::allocator_traits<allocator_type>::deallocate(allocator, self, 1);
    }
  }

  template <class Arguments>
  void dispatch(const executor_type& target, Arguments&& arguments) &&
  {
    auto allocator = handler_allocator(handler_);
    auto work = std::move(work_); // held until the handler is on its executor
    asio::dispatch(target,
      asio::bind_allocator(allocator,
        [handler = std::move(handler_), arguments = std::move(arguments)]() mutable
        { std::apply(std::move(handler), std::move(arguments)); }));
  }

  Handler handler_;
  source_executor<IoExecutor> io_executor_;
  std::optional<asio::executor_work_guard<executor_type>> work_;
};

// Is stored in a cancellation slot and may outlive its operation. The generation detects that.
class operation_canceller
{
public:
  operation_canceller(
    std::weak_ptr<work_source> source, std::uint32_t index, std::uint32_t generation)
    : source_(std::move(source))
    , index_(index)
    , generation_(generation)
  {
  }

  void operator()(asio::cancellation_type_t type)
  {
    if (auto source = source_.lock())
      source->cancel(index_, generation_, type);
  }

private:
  std::weak_ptr<work_source> source_;
  std::uint32_t index_;
  std::uint32_t generation_;
};

// Starts an operation of a work source, which is null if the I/O object was moved from.
template <class Result>
class start_operation
{
public:
  explicit start_operation(work_source* source)
    : source_(source)
  {
  }

  // A token that starts later stores the batch if it was passed as an rvalue, otherwise a
  // std::reference_wrapper.
  template <class IoExecutor, class H>
  void operator()(
    const IoExecutor& executor, H&& handler, request what, const rdma::batch& operations) const
  {
    what.batch = &operations;
    (*this)(executor, std::forward<H>(handler), what, no_data);
  }

  template <class IoExecutor, class H, const_buffer_sequence Buffers>
  void operator()(const IoExecutor& executor, H&& handler, const request& what,
    const Buffers& buffers, std::shared_ptr<window_impl> window = nullptr) const
  {
    using handler_type = std::decay_t<H>;
    if (source_ == nullptr || source_->forked())
    {
      // A mutex of the parent may be locked permanently in this process: access nothing of it.
      refuse<handler_type>(
        executor, std::forward<H>(handler), source_ == nullptr ? error::closed : error::forked);
      return;
    }
    operation* op = source_->claim();
    if (op == nullptr)
    {
      refuse<handler_type>(executor, std::forward<H>(handler), error::queue_too_deep);
      return;
    }
    auto slot = asio::get_associated_cancellation_slot(handler);
    try
    {
      pending_handler<handler_type, IoExecutor, Result>::place(
        op, std::forward<H>(handler), executor);
    }
    catch (...)
    {
      source_->release(op);
      throw;
    }
    op->what = what;
    if (window)
    {
      op->window = std::move(window);
      op->holds = true;
      op->result.bound = {};
    }
    if (slot.is_connected())
      try
      {
        slot.template emplace<operation_canceller>(
          source_->weak_from_this(), op->index, op->generation());
      }
      catch (...)
      {
        op->complete(op, false, false);
        throw;
      }
    source_->submit(op, as_list(buffers));
  }

private:
  // Completes without a slot: the object was moved from, belongs to another process, or has more
  // operations than slot indexes.
  template <class Handler, class IoExecutor, class H>
  static void refuse(const IoExecutor& io_executor, H&& handler, error why)
  {
    outcome o;
    o.ec = make_error_code(why);
    auto executor = asio::get_associated_executor(handler, io_executor);
    auto allocator = handler_allocator(handler);
    auto call =
      [handler = Handler(std::forward<H>(handler)), arguments = Result::arguments(o)]() mutable
    { std::apply(std::move(handler), std::move(arguments)); };
    // Posts to the I/O executor because a type-erased associated executor may not support post.
    asio::post(io_executor,
      asio::bind_allocator(allocator,
        [executor = std::move(executor), allocator, call = std::move(call)]() mutable
        {
          asio::dispatch(
            std::move(executor), asio::bind_allocator(std::move(allocator), std::move(call)));
        }));
  }

  work_source* source_;
};

template <class Result, class Executor>
auto initiation_of(work_source* source, const Executor& executor)
{
  return initiation<Executor, start_operation<Result>, source_executor<Executor>>(
    source_executor<Executor>(source, executor), start_operation<Result>(source));
}

} // namespace rdma::detail

#endif // BOOST_RDMA_DETAIL_INITIATE_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_RPC_CALL_HPP
#define BOOST_RDMA_DETAIL_RPC_CALL_HPP

#include <boost_rdma/detail/initiate.hpp>
#include <boost_rdma/detail/stream_core.hpp>
#include <boost_rdma/error.hpp>
#include <boost_rdma/rpc/codec.hpp>
#include <boost_rdma/rpc/tracer.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/intrusive/list_hook.hpp>
#include <boost/intrusive/set_hook.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace rdma::detail::rpc {

class exposed_memory; // of a client
class flow;

// A call that a tracer sees.
struct call_span
{
  rdma::rpc::tracer* by; // the client keeps it
  rdma::rpc::traced_call what;
};

// Orders the calls that have a deadline.
using deadline_hook = boost::intrusive::set_base_hook<>;

// A call of a client that has not ended, independent of its types.
class call
  : public deadline_hook
  , public boost::intrusive::list_base_hook<>
{
public:
  using time_point = std::chrono::steady_clock::time_point;

  // Stores the result of the call, while the client exists.
  void store(const error_code& ec, std::span<const std::byte> reply) noexcept
  {
    const error_code outcome = take_result(ec, reply);
    if (span)
      end_span(outcome);
  }

  // Calls the handler with the result, and destroys this object. `here`: this thread runs the
  // client's executor, outside of initiating functions, so that the handler may be called at once.
  // Otherwise, if there is no memory, throws std::bad_alloc and changes nothing.
  virtual void finish(bool here) = 0;

  // Destroys it without calling the handler.
  virtual void remove() noexcept = 0;

  void end(const error_code& ec)
  {
    store(ec, {});
    finish(false);
  }

  enum class progress_type : std::uint8_t
  {
    kept,     // nothing has left
    sent,     // the server may have started it
    refused,  // the server has not started it
    answered, // by its handler
  };

  progress_type progress = progress_type::kept;
  std::uint32_t number = 0;
  time_point deadline = time_point::max();
  std::size_t size = 0;        // of the messages
  std::size_t head = 0;        // of those in front of the call's own
  std::vector<std::byte> kept; // the messages, while the call waits for room
  std::shared_ptr<exposed_memory> exposed;
  std::shared_ptr<flow> items;     // null: of a method without items
  std::unique_ptr<call_span> span; // null: no tracer

protected:
  ~call() // finish() destroys
  {
    if (span) // an exception: the call was not made
      end_span(asio::error::operation_aborted);
  }

private:
  // Returns the error that the caller gets.
  virtual error_code take_result(
    const error_code& ec, std::span<const std::byte> reply) noexcept = 0;

  void end_span(const error_code& outcome) noexcept
  {
    span->by->end(span->what, outcome);
    span.reset();
  }
};

// Decodes the reply and calls the handler.
template <class Result, class Handler, class Executor>
class pending_call final : public call
{
public:
  template <class H>
  static pending_call* make(const Executor& executor, H&& handler)
  {
    allocator_type allocator(handler_allocator(handler));
    pending_call* const room = std::allocator_traits<allocator_type>::allocate(allocator, 1);
    try
    {
      return ::new (static_cast<void*>(room)) pending_call(executor, std::forward<H>(handler));
    }
    catch (...)
    {
      std::allocator_traits<allocator_type>::deallocate(allocator, room, 1);
      throw;
    }
  }

  // Everything of the handler, also its allocator, is used on the I/O executor.
  void finish(bool here) override
  {
    if (!here)
      return post();
    const auto io_work = std::move(io_work_);
    auto work = std::move(work_);
    const error_code ec = ec_;
    Result result(std::move(result_));
    Handler handler(std::move(handler_));
    remove(handler);
    if (!work)
      return std::move(handler)(ec, std::move(result));
    const auto target = work->get_executor();
    const auto allocator = handler_allocator(handler);
    asio::dispatch(target,
      asio::bind_allocator(allocator,
        [handler = std::move(handler), ec, result = std::move(result),
          work = std::move(work)]() mutable { std::move(handler)(ec, std::move(result)); }));
  }

  void remove() noexcept override { remove(handler_); }

  [[nodiscard]] Handler& handler() noexcept { return handler_; }

private:
  using allocator_type = typename std::allocator_traits<
    handler_allocator_t<Handler>>::template rebind_alloc<pending_call>;

  static inline thread_local constinit const pending_call* being_posted_ = nullptr;

  struct remover
  {
    void operator()(pending_call* call) const noexcept
    {
      if (call != being_posted_)
        call->remove();
    }
  };

  // A function that cannot be posted is destroyed, and does not remove the call.
  void post()
  {
    struct posting
    {
      explicit posting(const pending_call* what) { being_posted_ = what; }
      posting(const posting&) = delete;
      posting& operator=(const posting&) = delete;
      ~posting() { being_posted_ = nullptr; }
    };
    const auto io_executor = io_work_.get_executor();
    const posting now(this);
    asio::post(io_executor,
      [mine = std::unique_ptr<pending_call, remover>(this)]() mutable
      { mine.release()->finish(true); });
  }

  // A codec's exception means that the bytes are no value.
  error_code take_result(const error_code& ec, std::span<const std::byte> reply) noexcept override
  {
    ec_ = ec;
    if (ec)
      return ec_;
    try
    {
      if (auto decoded = rdma::rpc::detail::codec_of<Result>::decode(reply))
      {
        result_ = std::move(*decoded);
        return ec_;
      }
    }
    catch (const std::bad_alloc&)
    {
      return ec_ = asio::error::no_memory;
    }
    catch (...)
    {
    }
    return ec_ = error::malformed_message;
  }

  template <class H>
  pending_call(const Executor& executor, H&& handler)
    : io_work_(executor)
    , handler_(std::forward<H>(handler))
  {
    if (!is_on_executor(executor, handler_))
      work_.emplace(asio::get_associated_executor(handler_, executor));
  }

  void remove(const Handler& handler) noexcept
  {
    allocator_type allocator(handler_allocator(handler));
    this->~pending_call();
    std::allocator_traits<allocator_type>::deallocate(allocator, this, 1);
  }

  error_code ec_;
  Result result_{};
  asio::executor_work_guard<Executor> io_work_;
  Handler handler_;
  // Without a value, the handler's executor is the client's.
  std::optional<asio::executor_work_guard<asio::associated_executor_t<Handler, Executor>>> work_;
};

} // namespace rdma::detail::rpc

#endif // BOOST_RDMA_DETAIL_RPC_CALL_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/upgraded_stream.hpp"

#include "boost_rdma/detail/process_mark.hpp"
#include "completion/handler_slot.hpp"
#include "completion/late_tasks.hpp"

#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/require.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <new>
#include <utility>

namespace rdma::detail {

namespace asio = boost::asio;

// The part of an operation that other threads use, which may outlive the service.
class user_transfer : public std::enable_shared_from_this<user_transfer>
{
public:
  user_transfer(std::shared_ptr<inbox> to_service, std::weak_ptr<upgraded_stream::wait> of)
    : inbox_(std::move(to_service))
    , of_(std::move(of))
  {
  }

  // Any thread.
  void deliver(const error_code& ec, std::size_t count);

  std::array<char, 1024> bytes;

private:
  const std::shared_ptr<inbox> inbox_;
  const std::weak_ptr<upgraded_stream::wait> of_;
  handler_slot slot_; // of the function that is posted at the end
};

// An operation of the connection service that waits for an operation on another executor. Used only
// on the service's thread.
//
// Ownership is circular: the handler owns the connection, which owns this object. As with
// operations of a socket, the service's io_context breaks the circle by destroying its handlers.
// The handler is therefore stored in the wait of a timer that never expires.
class upgraded_stream::wait : public std::enable_shared_from_this<wait>
{
public:
  static std::shared_ptr<wait> make(asio::io_context& io, const std::shared_ptr<inbox>& to_service)
  {
    auto made = std::make_shared<wait>(io);
    made->transfer_ = std::make_shared<user_transfer>(to_service, made);
    return made;
  }

  explicit wait(asio::io_context& io)
    : timer_(io.get_executor())
  {
  }

  // `to` receives the data of a read.
  void start(const asio::mutable_buffer& to, handler_type handler)
  {
    to_ = to;
    timer_.expires_at(clock::time_point::max());
    timer_.async_wait(
      [self = shared_from_this(), handler = std::move(handler)](const error_code&) mutable
      { std::move(handler)(self->ec_, self->count_); });
    waits_ = true;
  }

  // Causes the call of the handler, but not inside this function. Has no effect after the first
  // call.
  void finish(const error_code& ec, std::size_t count = 0)
  {
    if (!std::exchange(waits_, false))
      return;
    ec_ = ec;
    count_ = count;
    asio::buffer_copy(to_, asio::buffer(transfer_->bytes, count));
    timer_.cancel();
  }

  [[nodiscard]] const std::shared_ptr<user_transfer>& transfer() const noexcept
  {
    return transfer_;
  }

private:
  using clock = std::chrono::steady_clock;

  asio::basic_waitable_timer<clock, asio::wait_traits<clock>, asio::io_context::executor_type>
    timer_;
  std::shared_ptr<user_transfer> transfer_;
  asio::mutable_buffer to_;
  bool waits_ = false;
  error_code ec_;
  std::size_t count_ = 0;
};

void user_transfer::deliver(const error_code& ec, std::size_t count)
{
  inbox_->post(asio::bind_allocator(slot_allocator<void>(slot_),
    [self = shared_from_this(), ec, count]
    {
      if (const auto found = self->of_.lock())
        found->finish(ec, count);
    }));
}

void deliver(
  const std::shared_ptr<user_transfer>& of, const error_code& ec, std::size_t count) noexcept
{
  of->deliver(ec, count);
}

// Ends the sending direction, or closes the stream. Without memory, the service's thread does it
// later.
class upgraded_stream::ending final : public late_task
{
public:
  ending(exclusive_executor by, std::shared_ptr<user_stream> stream)
    : by_(std::move(by))
    , stream_(std::move(stream))
  {
  }

  void start(bool closes)
  {
    closes_.store(closes, std::memory_order_relaxed); // the executor orders it before the function
    if (late_tasks::of_this_thread() != nullptr)
      return late_tasks::start(shared_from_this());
    try
    {
      run();
    }
    catch (const std::bad_alloc&)
    {
      // The execution context is being destroyed, or async_upgrade() fails: its caller destroys the
      // stream.
    }
  }

  void run() override
  {
    by_.execute_or_throw(
      [self = std::static_pointer_cast<ending>(shared_from_this())]
      {
        if (self->closes_.load(std::memory_order_relaxed))
          self->stream_->close();
        else
          self->stream_->shutdown_send();
      });
  }

private:
  const exclusive_executor by_;
  const std::shared_ptr<user_stream> stream_;
  std::atomic<bool> closes_{false};
};

upgraded_stream::upgraded_stream(asio::io_context& io, const std::shared_ptr<inbox>& to_service,
  const asio::any_io_executor& executor, std::unique_ptr<user_stream> stream)
  : executor_(executor)
  , never_here_(asio::require(executor_, asio::execution::blocking.never))
  , work_(asio::prefer(executor, asio::execution::outstanding_work.tracked))
  , reading_(wait::make(io, to_service))
  , writing_(wait::make(io, to_service))
  , probing_(wait::make(io, to_service))
  , stream_(std::move(stream))
  , in_child_(stream_)
  , ending_(std::make_shared<ending>(never_here_, stream_))
  , local_(stream_->local_endpoint())
  , remote_(stream_->remote_endpoint())
{
}

// The waiting operations finish without the last one: the user's executor may be busy or not run at
// all.
upgraded_stream::~upgraded_stream()
{
  close();
}

template <class Function>
void upgraded_stream::start(wait& what, Function function)
{
  if (!stream_)
    return what.finish(asio::error::operation_aborted);
  never_here_.execute(
    [function, handler = user_stream_handler(stream_, what.transfer(), executor_)]() mutable
    { function(std::move(handler)); });
}

void upgraded_stream::read_some(const asio::mutable_buffer& to, handler_type handler)
{
  reading_->start(to, std::move(handler));
  start(*reading_,
    [room = asio::buffer(reading_->transfer()->bytes, to.size())](user_stream_handler then)
    {
      user_stream& from = then.stream();
      from.read_some(room, std::move(then));
    });
}

void upgraded_stream::write_some(const asio::const_buffer& from, handler_type handler)
{
  writing_->start({}, std::move(handler));
  const auto data = asio::buffer(writing_->transfer()->bytes, from.size());
  asio::buffer_copy(data, from);
  start(*writing_,
    [data](user_stream_handler then)
    {
      user_stream& to = then.stream();
      to.write_some(data, std::move(then));
    });
}

bool upgraded_stream::probe(handler_type handler)
{
  if (!stream_)
    return false;
  probing_->start({}, std::move(handler));
  start(*probing_, [](user_stream_handler then) { then({}, 0); });
  return true;
}

void upgraded_stream::shutdown_send()
{
  if (ending_)
    ending_->start(false);
}

void upgraded_stream::close()
{
  if (!stream_)
    return;
  stream_ = nullptr;
  reading_->finish(asio::error::operation_aborted);
  writing_->finish(asio::error::operation_aborted);
  probing_->finish(asio::error::operation_aborted);
  std::exchange(ending_, nullptr)->start(true); // the last owner, apart from operations
  work_ = {};
}

// Does not close the parent's connection; the operation in flight ends. Closes directly: nothing
// else uses the stream while io_context::notify_fork() runs.
void upgraded_stream::end_in_child()
{
  if (const auto stream = in_child_.lock())
    stream->close();
  work_ = {};
}

} // namespace rdma::detail

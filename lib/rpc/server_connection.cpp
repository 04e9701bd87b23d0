//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/server_connection.hpp"

#include "connect/log.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/recycling_allocator.hpp>

#include <algorithm>
#include <exception>
#include <utility>

namespace rdma::detail::rpc {

namespace asio = boost::asio;
using clock = std::chrono::steady_clock;

error_code error_of(std::exception_ptr thrown) noexcept
try
{
  std::rethrow_exception(std::move(thrown));
}
catch (const system_error& e)
{
  return e.code();
}
catch (const std::bad_alloc&)
{
  return make_error_code(boost::system::errc::not_enough_memory);
}
catch (const std::exception& e)
{
  log_line(spdlog::level::warn, "a method's handler has thrown an exception: {}", e.what());
  return error::call_failed;
}
catch (...)
{
  log_line(spdlog::level::warn, "a method's handler has thrown an exception");
  return error::call_failed;
}

// A call that has arrived.
class server_connection::new_call final : public arrived_call
{
public:
  new_call(server_connection& by, std::uint32_t number, std::vector<std::byte>& of,
    clock::time_point until)
    : arrived_call(of, until)
    , by_(by)
    , number_(number)
  {
  }

  void reply(const reply_source& what) override
  {
    const lock_type lock(by_.mutex_);
    by_.reply(lock, number_, what);
  }

  // A handler may throw after keep(), and then the call has two owners.
  void fail(const error_code& ec) override
  {
    if (kept_)
      return kept_->fail(ec);
    const lock_type lock(by_.mutex_);
    by_.fail(lock, number_, ec);
  }

  std::shared_ptr<running_call> keep() override
  {
    const auto made =
      std::allocate_shared<kept_call>(asio::recycling_allocator<kept_call>(), by_.self(), number_);
    made->content.swap(content);
    const lock_type lock(by_.mutex_);
    by_.kept_.insert(*made);
    ++by_.running_;
    made->held = made->content.size();
    by_.held_ += made->held;
    kept_ = made;
    return made;
  }

private:
  server_connection& by_;
  const std::uint32_t number_;
  std::shared_ptr<kept_call> kept_;
};

void kept_call::reply(const reply_source& what)
{
  by_->finish(*this, &what, {});
}

void kept_call::fail(const error_code& ec)
{
  by_->finish(*this, nullptr, ec);
}

server_connection::server_connection(std::shared_ptr<stream_core> stream,
  const io_executor& executor, alarm by, std::shared_ptr<const method_table> methods,
  const rdma::rpc::server_options& options, std::function<void(server_connection&)> ended)
  : connection(executor, options.request_max, std::move(stream))
  , alarm_(std::move(by))
  , hello_timeout_(options.acceptor.handshake_timeout)
  , methods_(std::move(methods))
  , calls_max_(options.calls)
  , queue_max_(options.queue)
  , unread_max_(options.unread_max)
  , held_max_(options.bytes)
  , ended_(std::move(ended))
{
  const lock_type lock(mutex_);
  message hello;
  hello.type = message_type::hello;
  hello.selector = message::version;
  const std::size_t at = begin_message(messages(lock), hello);
  for (const auto& each : methods_->handlers)
    append_method(messages(lock), each->description);
  end_message(messages(lock), at);
}

void server_connection::open()
{
  alarm_.set(clock::now() + hello_timeout_, std::weak_ptr(self()));
  connection::open();
}

error_code server_connection::take(const message& m, std::vector<std::byte>& content)
{
  if (!greeted_.load(std::memory_order_relaxed))
  {
    // A client of another version learns that from this side's first message.
    if (m.type != message_type::hello)
      return error::malformed_message;
    greeted_.store(true, std::memory_order_relaxed);
    return m.selector == message::version ? error_code() : make_error_code(error::version_mismatch);
  }
  switch (m.type)
  {
  case message_type::call:
    take_call(m, content);
    return {};
  case message_type::cancel:
    take_cancel(m.number);
    return {};
  default:
    return error::malformed_message;
  }
}

void server_connection::on_alarm()
{
  if (!greeted_.load(std::memory_order_relaxed))
    end(error::handshake_timeout);
}

void server_connection::take_call(const message& m, std::vector<std::byte>& content)
{
  const auto deadline =
    m.detail != 0 ? clock::now() + std::chrono::microseconds(m.detail) : clock::time_point::max();
  {
    const lock_type lock(mutex_);
    if (leaving_)
      return fail(lock, m.number, error::peer_closed);
    if (running_ >= calls_max_ || !queue_.empty())
    {
      if (queue_.size() >= queue_max_)
        return fail(lock, m.number, error::overloaded);
      held_ += content.size();
      queue_.push_back({m, std::move(content), deadline});
      content = {};
      return;
    }
    // A client that uses a number twice confuses only itself.
    if (kept_.find(m.number) != kept_.end())
      return fail(lock, m.number, error::malformed_message);
  }
  start(m, content, deadline);
}

void server_connection::start(
  const message& m, std::vector<std::byte>& content, clock::time_point deadline)
{
  new_call call(*this, m.number, content, deadline);
  if (m.selector >= methods_->handlers.size())
    call.fail(error::no_such_method);
  else
    methods_->handlers[m.selector]->start(call);
}

void server_connection::start_queued()
{
  for (;;)
  {
    queued_call next;
    {
      lock_type lock(mutex_);
      if (queue_.empty() || running_ >= calls_max_)
        return end_if_done(std::move(lock));
      next = std::move(queue_.front());
      queue_.pop_front();
      held_ -= next.content.size();
      if (next.deadline <= clock::now())
      {
        fail(lock, next.what.number, error_code(ETIMEDOUT, boost::system::system_category()));
        continue;
      }
    }
    start(next.what, next.content, next.deadline);
  }
}

void server_connection::take_cancel(std::uint32_t number)
{
  lock_type lock(mutex_);
  if (const auto kept = kept_.find(number); kept != kept_.end())
  {
    const auto found = kept->shared_from_this();
    kept_.erase(kept);
    lock.unlock();
    found->cancelled.emit(asio::cancellation_type::terminal);
    return;
  }
  std::erase_if(queue_,
    [&](const queued_call& each)
    {
      if (each.what.number != number)
        return false;
      held_ -= each.content.size();
      return true;
    });
  end_if_done(std::move(lock));
}

void server_connection::reply(const lock_type& lock, std::uint32_t number, const reply_source& what)
{
  message m;
  m.type = message_type::reply;
  m.number = number;
  std::vector<std::byte>& to = messages(lock);
  const std::size_t at = begin_message(to, m);
  try
  {
    rdma::rpc::output content(to);
    what.encode(what.value, content);
  }
  catch (...)
  {
    to.resize(at);
    return fail(lock, number, error_of(std::current_exception()));
  }
  if (to.size() - at - message::header_size > message::size_max)
  {
    to.resize(at);
    return fail(lock, number, error::message_too_large);
  }
  end_message(to, at);
  flush(lock);
}

void server_connection::fail(const lock_type& lock, std::uint32_t number, const error_code& ec)
{
  begin_message(messages(lock), failure_message(number, ec));
  flush(lock);
}

// The handler of a call has ended, now or earlier.
void server_connection::finish(kept_call& of, const reply_source* what, const error_code& ec)
{
  lock_type lock(mutex_);
  if (std::exchange(of.has_ended, true))
    return;
  --running_;
  held_ -= of.held;
  if (of.is_linked())
  {
    kept_.erase(kept_.iterator_to(of));
    if (has_ended(lock))
      ;
    else if (what != nullptr)
      reply(lock, of.number, *what);
    else
      fail(lock, of.number, ec);
  }
  if (!queue_.empty())
    asio::post(executor_, [self = self()] { self->start_queued(); });
  end_if_done(std::move(lock));
}

// There may be room for more calls.
void server_connection::end_if_done(lock_type lock)
{
  if (!is_done(lock))
    return flush(lock);
  lock.unlock();
  end(error::closed);
}

void server_connection::leave()
{
  lock_type lock(mutex_);
  leaving_ = true;
  message m;
  m.type = message_type::goodbye;
  begin_message(messages(lock), m);
  flush(lock);
}

void server_connection::on_end(const error_code&)
{
  std::vector<std::shared_ptr<kept_call>> running;
  {
    const lock_type lock(mutex_);
    while (!kept_.empty())
    {
      running.push_back(kept_.begin()->shared_from_this());
      kept_.erase(kept_.begin());
    }
    for (const queued_call& each : queue_)
      held_ -= each.content.size();
    queue_.clear();
  }
  if (!running.empty())
    asio::post(executor_,
      [running = std::move(running)]
      {
        for (const auto& each : running)
          each->cancelled.emit(asio::cancellation_type::terminal);
      });
  ended_(*this);
}

} // namespace rdma::detail::rpc

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/server_connection.hpp"

#include "completion/handler_turn.hpp"
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

namespace {

// Returns the number of bytes that a call keeps.
std::size_t size_of(const std::vector<std::byte>& content, const call_memory* exposed) noexcept
{
  return content.size() + (exposed != nullptr ? exposed->content_bytes() : 0);
}

} // namespace

// A call that has arrived.
class server_connection::new_call final : public arrived_call
{
public:
  new_call(server_connection& by, const call_arrival& arrival, std::vector<std::byte>& of,
    clock::time_point until, std::shared_ptr<call_memory> memory)
    : arrived_call(of, until, arrival.trace, memory)
    , by_(by)
    , arrival_(arrival)
    , memory_(std::move(memory))
  {
  }

  void reply(const reply_source& what) override
  {
    const lock_type lock(by_.mutex_);
    by_.reply(lock, arrival_, memory_.get(), what);
  }

  // A handler may throw after keep(), and then the call has two owners.
  void fail(const error_code& ec) override
  {
    if (kept_)
      return kept_->fail(ec);
    const lock_type lock(by_.mutex_);
    by_.fail(lock, arrival_, memory_.get(), call_outcome::failed, ec);
  }

  bool take_first_credit() override
  {
    if (content.size() < first_credit_size)
      return false;
    first_credit_ = decode_first_credit(std::span(content).last<first_credit_size>());
    content.resize(content.size() - first_credit_size);
    return true;
  }

  std::shared_ptr<running_call> keep() override
  {
    const auto made = std::allocate_shared<kept_call>(
      asio::recycling_allocator<kept_call>(), by_.self(), arrival_, memory_, first_credit_);
    made->content.swap(content);
    const lock_type lock(by_.mutex_);
    by_.kept_.insert(*made);
    ++by_.running_;
    made->held = size_of(made->content, memory_.get());
    by_.held_ += made->held;
    kept_ = made;
    handler_turn::want(); // a coroutine that ends without a wait posts its answer
    return made;
  }

private:
  server_connection& by_;
  const call_arrival& arrival_; // kept by the caller of start()
  const std::shared_ptr<call_memory> memory_;
  std::uint32_t first_credit_ = 0;
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
  : connection(executor,
    std::max<std::size_t>({options.request_max, exposed_part::size_max, options.flow_bytes}),
    std::move(stream))
  , alarm_(std::move(by))
  , hello_timeout_(options.acceptor.handshake_timeout)
  , methods_(std::move(methods))
  , calls_max_(options.calls)
  , queue_max_(options.queue)
  , unread_max_(options.unread_max)
  , held_max_(options.bytes)
  , flow_bytes_(options.flow_bytes)
  , ended_(std::move(ended))
  , queue_pair_(stream_->queue_pair())
  , request_max_(options.request_max)
{
  const lock_type lock(mutex_);
  message hello;
  hello.type = message_type::hello;
  hello.selector = message::version;
  const std::size_t at = begin_message(messages(lock), hello);
  for (const auto& each : *methods_)
    append_method(messages(lock), each->handler->description);
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
    return take_call(m, content);
  case message_type::cancel:
    take_cancel(m.number);
    return {};
  case message_type::expose:
    return take_exposed(m, content) ? error_code() : make_error_code(error::malformed_message);
  case message_type::trace:
    return take_trace(m, content) ? error_code() : make_error_code(error::malformed_message);
  case message_type::part:
    return take_part(m, content) ? error_code() : make_error_code(error::malformed_message);
  case message_type::item:
  case message_type::credit:
  case message_type::end_of_items:
    return take_items(m, content) ? error_code() : make_error_code(error::malformed_message);
  default:
    return error::malformed_message;
  }
}

void server_connection::on_alarm()
{
  if (!greeted_.load(std::memory_order_relaxed))
    end(error::handshake_timeout);
}

bool server_connection::take_exposed(const message& m, std::span<const std::byte> content)
{
  auto ranges = decode_ranges(content);
  if (!ranges)
    return false;
  // By TCP there are no windows.
  if (!queue_pair_
    && std::ranges::any_of(*ranges,
      [](const exposed_range& each) { return each.form == exposed_range::form_type::window; }))
    return false;
  auto made = std::make_shared<call_memory>(self(), m.number, std::move(*ranges));
  const lock_type lock(mutex_);
  if (announced_)
    return false;
  if (!has_ended(lock)) // nobody would forget it
    announced_ = std::move(made);
  return true;
}

bool server_connection::take_trace(const message& m, std::span<const std::byte> content)
{
  if (trace_of_)
    return false;
  trace_of_ = m.number;
  trace_ = decode_trace(content.first<trace_size>());
  return true;
}

error_code server_connection::take_call(const message& m, std::vector<std::byte>& content)
{
  if (taken_at_ == clock::time_point())
    taken_at_ = clock::now();
  const auto deadline =
    m.detail != 0 ? taken_at_ + std::chrono::microseconds(m.detail) : clock::time_point::max();
  call_arrival arrived{m.number, nullptr, taken_at_, {}, {}};
  if (trace_of_)
  {
    if (*trace_of_ != m.number)
      return error::malformed_message;
    arrived.parent = trace_;
    trace_of_.reset();
  }
  std::shared_ptr<call_memory> exposed;
  {
    const lock_type lock(mutex_);
    exposed = std::move(announced_);
    if (content.size() > request_max_ || (exposed && exposed->number_ != m.number))
      return error::malformed_message;
    if (has_ended(lock))
      return {};
    if (m.selector >= methods_->size())
    {
      send_failure(lock, failure_message(m.number, error::no_such_method), exposed.get());
      return {};
    }
    arrived.method = (*methods_)[m.selector].get();
    const auto refuse = [&](error why)
    {
      arrived.begin();
      arrived.ended(call_outcome::refused, why);
      send_failure(lock, refusal_message(m.number, why), exposed.get());
      return error_code();
    };
    if (leaving_)
      return refuse(error::peer_closed);
    if (held_ >= held_max_) // it reads because of transfers
      return refuse(error::overloaded);
    if (running_ >= calls_max_ || !queue_.empty())
    {
      // Some of the queue may start as soon as start_queued() runs.
      if (running_ + queue_.size() >= std::size_t{calls_max_} + queue_max_)
        return refuse(error::overloaded);
      const std::size_t size = size_of(content, exposed.get());
      queue_.push_back({arrived, std::move(content), deadline, std::move(exposed)});
      content = {};
      held_ += size;
      queue_.back().what.begin();
      return {};
    }
    // A client that uses a number twice confuses only itself.
    if (kept_.find(m.number) != kept_.end())
      return refuse(error::malformed_message);
  }
  arrived.begin();
  start(arrived, content, deadline, std::move(exposed));
  return {};
}

void server_connection::start(const call_arrival& what, std::vector<std::byte>& content,
  clock::time_point deadline, std::shared_ptr<call_memory> exposed)
{
  new_call call(*this, what, content, deadline, std::move(exposed));
  what.method->handler->start(call);
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
      held_ -= size_of(next.content, next.exposed.get());
      if (next.deadline <= clock::now())
      {
        fail(lock, next.what, next.exposed.get(), call_outcome::expired,
          error_code(ETIMEDOUT, boost::system::system_category()));
        continue;
      }
      if (kept_.find(next.what.number) != kept_.end()) // as in take_call()
      {
        next.what.ended(call_outcome::refused, error::malformed_message);
        send_failure(
          lock, refusal_message(next.what.number, error::malformed_message), next.exposed.get());
        continue;
      }
    }
    start(next.what, next.content, next.deadline, std::move(next.exposed));
    if (next.has_end_of_items)
      end_items(next.what.number);
  }
}

void server_connection::take_cancel(std::uint32_t number)
{
  lock_type lock(mutex_);
  if (const auto kept = kept_.find(number); kept != kept_.end())
  {
    const auto found = kept->shared_from_this();
    kept_.erase(kept);
    found->arrival.ended(call_outcome::cancelled, asio::error::operation_aborted);
    if (found->exposed)
      release(lock, *found->exposed);
    if (found->items)
      found->items->abort(lock);
    lock.unlock();
    found->cancelled.emit(asio::cancellation_type::terminal);
    return;
  }
  std::erase_if(queue_,
    [&](const queued_call& each)
    {
      if (each.what.number != number)
        return false;
      each.what.ended(call_outcome::cancelled, asio::error::operation_aborted);
      held_ -= size_of(each.content, each.exposed.get());
      if (each.exposed)
        release(lock, *each.exposed);
      return true;
    });
  end_if_done(std::move(lock));
}

void server_connection::reply(
  const lock_type& lock, const call_arrival& of, call_memory* exposed, const reply_source& what)
{
  if (has_ended(lock))
    return of.ended(call_outcome::cancelled, asio::error::operation_aborted);
  message m;
  m.type = message_type::reply;
  m.number = of.number;
  std::vector<std::byte>& to = messages(lock);
  const std::size_t at = to.size();
  try
  {
    begin_message(to, m);
    rdma::rpc::output content(to);
    what.encode(what.value, content);
  }
  catch (...)
  {
    to.resize(at);
    return fail(lock, of, exposed, call_outcome::failed, error_of(std::current_exception()));
  }
  if (to.size() - at - message::header_size > message::size_max)
  {
    to.resize(at);
    return fail(lock, of, exposed, call_outcome::failed, error::message_too_large);
  }
  end_message(to, at);
  of.answered();
  end_memory(lock, exposed, at);
}

void server_connection::fail(const lock_type& lock, const call_arrival& of, call_memory* exposed,
  call_outcome how, const error_code& ec)
{
  if (has_ended(lock))
    return of.ended(call_outcome::cancelled, asio::error::operation_aborted);
  of.ended(how, ec);
  send_failure(lock, failure_message(of.number, ec), exposed);
}

void server_connection::send_failure(
  const lock_type& lock, const message& what, call_memory* exposed)
{
  const std::size_t at = messages(lock).size();
  add_messages(lock, [&](auto& to) { begin_message(to, what); });
  end_memory(lock, exposed, at);
}

// --- exposed memory ---

void server_connection::release(const lock_type& lock, call_memory& exposed)
{
  message m;
  m.type = message_type::released;
  m.number = exposed.number_;
  const std::size_t at = messages(lock).size();
  add_messages(lock, [&](auto& to) { begin_message(to, m); });
  end_memory(lock, &exposed, at);
}

// A call ends with the message that begins at `at`. The message leaves when nothing of this side
// accesses the call's memory.
void server_connection::end_memory(const lock_type& lock, call_memory* exposed, std::size_t at)
{
  if (exposed == nullptr || std::exchange(exposed->ended_, true))
    return flush(lock);
  if (exposed->active_ != 0)
  {
    std::vector<std::byte>& all = messages(lock);
    add_messages(lock,
      [&](auto&)
      { exposed->leaving_.assign(all.begin() + static_cast<std::ptrdiff_t>(at), all.end()); });
    all.resize(at);
    for (auto each = by_messages_.begin(); each != by_messages_.end();)
    {
      const std::shared_ptr<bulk_transfer> found = *each++;
      if (found->of_.get() == exposed)
        found->abort(lock);
    }
  }
  flush(lock);
}

// Limits the parts that the client has not answered. Other transfers wait.
bool server_connection::has_turn(bulk_transfer& what)
{
  const std::shared_ptr<bulk_transfer> each = what.shared_from_this();
  if (std::ranges::find(by_messages_, each) == by_messages_.end())
    by_messages_.push_back(each);
  return unanswered_ < exposed_part::most;
}

void server_connection::send_part(const lock_type& lock, const message& m, const exposed_part& part,
  std::span<const std::byte> pushed)
{
  std::vector<std::byte>& to = messages(lock);
  to.reserve(to.size() + message::header_size + exposed_part::encoded_size + pushed.size());
  const std::size_t at = begin_message(to, m);
  append_part(to, part);
  to.insert(to.end(), pushed.begin(), pushed.end());
  end_message(to, at);
  ++unanswered_;
  ++next_transfer_;
  flush(lock);
}

bool server_connection::take_part(const message& m, std::span<const std::byte> content)
{
  const lock_type lock(mutex_);
  // The parts are answered in their order.
  if (unanswered_ == 0 || m.number != next_transfer_ - unanswered_)
    return false;
  --unanswered_;
  const auto is_answered = [&](const auto& each)
  { return each->under_way_ != 0 && each->number_ == m.number; };
  const auto is_waiting = [](const auto& each) { return each->under_way_ == 0; };
  // Some have ended without the answer.
  if (const auto found = std::ranges::find_if(by_messages_, is_answered);
      found != by_messages_.end())
  {
    const std::shared_ptr<bulk_transfer> of = *found;
    if (!of->take_part(lock, m.selector != 0, content))
      return false;
  }
  if (const auto next = std::ranges::find_if(by_messages_, is_waiting);
      next != by_messages_.end() && unanswered_ < exposed_part::most)
    std::shared_ptr<bulk_transfer>(*next)->advance(lock);
  return true;
}

void server_connection::end_transfer(const lock_type& lock, bulk_transfer& what)
{
  const std::shared_ptr<bulk_transfer> ended = what.shared_from_this();
  call_memory& memory = *what.of_;
  std::move(what.handler_).complete(what.ec_, what.ec_ ? 0 : what.what_.local.size());
  --transfers_;
  if (--memory.active_ == 0 && !memory.leaving_.empty())
  {
    add_messages(
      lock, [&](auto& to) { to.insert(to.end(), memory.leaving_.begin(), memory.leaving_.end()); });
    memory.leaving_.clear();
  }
  by_messages_.remove(ended);
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
  if (of.items)
  {
    --flows_;
    of.items->abort(lock);
  }
  if (of.is_linked())
  {
    kept_.erase(kept_.iterator_to(of));
    if (what != nullptr)
      reply(lock, of.arrival, of.exposed.get(), *what);
    else
      fail(lock, of.arrival, of.exposed.get(), call_outcome::failed, ec);
  }
  if (!queue_.empty())
    try
    {
      asio::post(executor_, [self = self()] { self->start_queued(); });
    }
    catch (const std::bad_alloc&)
    {
      do_later(false);
    }
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
  add_messages(lock, [&](auto& to) { begin_message(to, m); });
  flush(lock);
}

void server_connection::on_end(const error_code& ec) noexcept
{
  std::list<queued_call> queue;           // they own this object
  std::shared_ptr<call_memory> announced; // likewise
  {
    const lock_type lock(mutex_);
    while (!kept_.empty())
    {
      const std::shared_ptr<kept_call> lost = kept_.begin()->shared_from_this();
      if (lost->items)
        lost->items->abort(lock);
      kept_.erase(kept_.begin());
      lost->arrival.ended(call_outcome::cancelled, ec);
      lost->next_lost = std::exchange(lost_, lost);
    }
    for (const queued_call& each : queue_)
    {
      each.what.ended(call_outcome::cancelled, ec);
      held_ -= size_of(each.content, each.exposed.get());
    }
    queue.swap(queue_);
    announced.swap(announced_);
    // No answer comes.
    while (!by_messages_.empty())
      std::shared_ptr<bulk_transfer>(by_messages_.back())->abort(lock);
  }
  ended_(*this);
  try
  {
    on_memory();
  }
  catch (const std::bad_alloc&)
  {
    do_later(false);
  }
}

void server_connection::on_memory()
{
  const lock_type lock(mutex_);
  if (lost_)
    asio::post(executor_, [lost = lost_] { cancel(lost); });
  lost_.reset(); // which owns this object
  if (!queue_.empty())
    asio::post(executor_, [self = self()] { self->start_queued(); });
}

void server_connection::cancel(std::shared_ptr<kept_call> lost)
{
  while (const auto next = lost)
  {
    lost = std::exchange(next->next_lost, nullptr);
    next->cancelled.emit(asio::cancellation_type::terminal);
  }
}

} // namespace rdma::detail::rpc

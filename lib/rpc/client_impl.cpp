//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/client_impl.hpp"

#include "boost_rdma/detail/initiate.hpp"
#include "rpc/flow.hpp"

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/error.hpp>

#include <algorithm>
#include <iterator>
#include <utility>

namespace rdma::detail::rpc {

namespace asio = boost::asio;
using rdma::rpc::client_options;

namespace {

// The server's list of methods may be larger than the replies.
constexpr std::size_t hello_max = 1024 * 1024;

// A server that has not told by then that it does not use the memory of an ended call loses its
// access, and may lose the connection.
constexpr std::chrono::microseconds release_timeout{500};

call& take_first(call_list& from) noexcept
{
  call& first = from.front();
  from.pop_front();
  return first;
}

} // namespace

std::shared_ptr<client_core> client_core::make(const io_executor& executor,
  const io_executor& inner, const protection_domain& domain, const client_options& options)
{
  error_code ec = options.stream.transports == stream_transports::tcp
    ? error_code()
    : stream_core::check(options.stream, options.queue_pair);
  if (options.calls == 0 || options.calls > UINT16_MAX || options.reply_max > message::size_max
    || options.flow_bytes < flow::window_min || options.flow_bytes > message::size_max)
    ec = asio::error::invalid_argument;
  if (ec)
    throw system_error(ec, "rpc::client");
  return std::make_shared<client_impl>(executor,
    stream_core::make_client(executor, inner, domain, options.stream, options.queue_pair),
    alarm(connection_service::of(inner)), options);
}

client_impl::client_impl(const io_executor& executor, std::shared_ptr<stream_core> stream, alarm by,
  const client_options& options)
  : connection(executor, std::max({options.reply_max, hello_max, std::size_t{options.flow_bytes}}),
    std::move(stream))
  , connect_timeout_(options.queue_pair.connect_timeout)
  , unsent_max_(options.bytes)
  , flow_bytes_(options.flow_bytes)
  , tracer_(options.tracer)
  , alarm_(std::move(by))
  , calls_(options)
{
}

// --- connecting ---

void client_impl::connect(
  const io_executor& executor, const endpoint_type& server, plain_handler handler)
{
  auto slot = asio::get_associated_cancellation_slot(handler);
  waiting_handler<> waiting(executor, std::move(handler));
  if (forked())
    return std::move(waiting).complete(error::forked);
  std::optional<waiting_handler<>> lost; // destroyed without the mutex
  {
    const lock_type lock(mutex_);
    if (!connecting_ && !ready_ && !has_ended(lock))
    {
      on_cancellation(slot, std::weak_ptr(self()), [](client_impl& self) { self.give_up(); });
      connecting_.emplace(std::move(waiting));
      try
      {
        return stream_->connect(
          executor_, server, [self = self()](const error_code& ec) { self->on_connected(ec); });
      }
      catch (...)
      {
        lost.swap(connecting_);
        slot.clear();
        throw;
      }
    }
  }
  std::move(waiting).complete(is_open() ? error::already_connected : error::closed);
}

void client_impl::on_connected(const error_code& ec)
{
  if (ec)
    return end_connecting(ec);
  {
    const lock_type lock(mutex_);
    if (has_ended(lock))
      return;
    message hello;
    hello.type = message_type::hello;
    hello.selector = message::version;
    add_messages(lock, [&](auto& to) { begin_message(to, hello); });
    connect_until_ = std::chrono::steady_clock::now() + connect_timeout_;
    set_alarm(lock);
  }
  open();
}

// The attempt to connect is cancelled.
void client_impl::give_up()
{
  {
    const lock_type lock(mutex_);
    if (!connecting_)
      return;
  }
  end(asio::error::operation_aborted);
}

void client_impl::end_connecting(const error_code& ec)
{
  std::optional<waiting_handler<>> handler;
  {
    const lock_type lock(mutex_);
    connect_until_ = call::time_point::max();
    handler.swap(connecting_);
  }
  if (handler)
    std::move(*handler).complete(ec);
}

error_code client_impl::take_hello(const message& m, std::span<const std::byte> content)
{
  if (m.type != message_type::hello)
    return error::malformed_message;
  if (m.selector != message::version)
    return error::version_mismatch;
  const auto offered = decode_methods(content);
  if (!offered || offered->size() > UINT16_MAX)
    return error::malformed_message;
  {
    const lock_type lock(mutex_);
    std::uint16_t index = 0;
    for (const offered_method& each : *offered)
      if (!methods_.try_emplace(each.name, index++, each.request, each.reply).second)
        return error::malformed_message;
    ready_ = true;
  }
  end_connecting({});
  return {};
}

std::vector<offered_method> client_impl::methods() const
{
  if (forked())
    return {};
  std::vector<offered_method> result;
  const lock_type lock(mutex_);
  for (const auto& [name, each] : methods_)
    result.push_back({name, each.request, each.reply});
  return result;
}

// --- calls ---

error_code client_impl::add(call& what)
{
  if (forked())
    return error::forked;
  const lock_type lock(mutex_);
  return calls_.add(what) ? error_code() : make_error_code(error::overloaded);
}

void client_impl::withdraw(call& what) noexcept
{
  const lock_type lock(mutex_);
  calls_.remove(what);
}

error_code client_impl::find(const request& r, method_map::const_pointer& found) const
{
  if (end_)
    return end_;
  if (!ready_)
    return error::not_connected;
  if (leaving_)
    return error::peer_closed;
  const auto named = methods_.find(r.method->name);
  if (named == methods_.end())
    return error::no_such_method;
  if (named->second.request != r.method->request || named->second.reply != r.method->reply)
    return error::method_mismatch;
  found = &*named;
  return {};
}

// Returns the trace that the server gets.
const rdma::rpc::trace_context& client_impl::start_span(
  call& what, std::string_view name, const rdma::rpc::trace_context& parent) const
{
  if (!tracer_)
    return parent;
  what.span = std::make_unique<call_span>(call_span{tracer_.get(),
    {rdma::rpc::call_side::client, name, parent, {}, std::chrono::steady_clock::now()}});
  rdma::rpc::traced_call& started = what.span->what;
  return started.context = tracer_->start(started);
}

void client_impl::encode(call& what, const request& r, std::uint16_t index,
  const rdma::rpc::trace_context& trace, std::vector<std::byte>& to)
{
  message m;
  m.type = message_type::call;
  m.selector = index;
  m.number = what.number;
  if (what.deadline != call::time_point::max())
    m.detail = encode_time(what.deadline - std::chrono::steady_clock::now());
  const std::size_t first = to.size();
  try
  {
    if (trace.is_valid())
    {
      message in;
      in.type = message_type::trace;
      in.number = what.number;
      const std::size_t at = begin_message(to, in);
      append_trace(to, trace);
      end_message(to, at);
    }
    if (what.exposed)
      what.exposed->describe(what.number, to);
    what.head = to.size() - first;
    const std::size_t at = begin_message(to, m);
    rdma::rpc::output content(to);
    r.encode(r.value, content);
    if (what.items)
      append_first_credit(to, what.items->window());
    end_message(to, at);
    what.size = to.size() - first;
  }
  catch (...)
  {
    to.resize(first);
    throw;
  }
}

// --- calls that are sent ---

void client_impl::submit(call& what, const request& r, const rdma::rpc::call_options& options)
{
  lock_type lock(mutex_);
  method_map::const_pointer found = nullptr;
  error_code ec = find(r, found);
  if (!ec)
    ec = exposed_memory::check(options.exposed.all());
  if (ec)
    return refuse(std::move(lock), what, ec);
  const auto now = std::chrono::steady_clock::now();
  if (options.timeout.count() > 0 && options.timeout < call::time_point::max() - now)
    what.deadline = now + options.timeout;
  std::shared_ptr<queue_pair_core> through;
  if (!options.exposed.all().empty())
  {
    through = stream_->queue_pair();
    what.exposed = std::make_shared<exposed_memory>(options.exposed.all(), through.get());
  }
  // Encoded behind the messages that leave next; taken back if it must wait for room.
  std::vector<std::byte>& to = messages(lock);
  encode(what, r, found->second.index, start_span(what, found->first, options.trace), to);
  const auto first = to.end() - static_cast<std::ptrdiff_t>(what.size);
  if (what.size - what.head - message::header_size > message::size_max)
  {
    to.erase(first, to.end());
    return refuse(std::move(lock), what, error::message_too_large);
  }
  try
  {
    if (what.exposed)
      bind(what.exposed, through.get());
    if (!calls_.submit(what, unsent(lock) - what.size < unsent_max_))
    {
      what.kept.assign(first, to.end());
      to.erase(first, to.end());
    }
  }
  catch (...)
  {
    to.resize(to.size() - what.size);
    throw;
  }
  set_alarm(lock);
  flush(lock);
}

// Ends a call that has not been submitted.
void client_impl::refuse(lock_type lock, call& what, const error_code& ec)
{
  calls_.remove(what);
  lock.unlock();
  what.store(ec, {});
  finish_soon(what);
}

void client_impl::send_waiting(const lock_type& lock)
{
  while (unsent(lock) < unsent_max_)
  {
    call* const next = calls_.next_to_send();
    if (next == nullptr)
      return;
    if (next->deadline != call::time_point::max())
      set_time(std::span(next->kept).subspan(next->head),
        next->deadline - std::chrono::steady_clock::now());
    add_messages(
      lock, [&](auto& to) { to.insert(to.end(), next->kept.begin(), next->kept.end()); });
    next->kept = {};
  }
}

bool client_impl::can_call()
{
  poll();
  const lock_type lock(mutex_);
  return ready_ && !leaving_ && !has_ended(lock);
}

error_code client_impl::take(const message& m, std::vector<std::byte>& content)
{
  if (!ready_)
    return take_hello(m, content);
  switch (m.type)
  {
  case message_type::reply:
  case message_type::failure:
  case message_type::released:
    take_answer(m, content);
    return {};
  case message_type::item:
  case message_type::credit:
    return take_items(m, content);
  case message_type::pull:
  case message_type::push:
    return take_transfer(m, content);
  case message_type::goodbye:
  {
    const lock_type lock(mutex_);
    leaving_ = true;
    return {};
  }
  default:
    return error::malformed_message;
  }
}

void client_impl::take_answer(const message& m, std::span<const std::byte> content)
{
  const lock_type lock(mutex_);
  call* const found = calls_.with_server(m.number);
  if (found == nullptr)
  {
    // It has been cancelled.
    for (call& each : withdrawing_)
      if (each.number == m.number)
      {
        withdrawing_.erase(withdrawing_.iterator_to(each));
        answered_.push_back(each);
        break;
      }
    return;
  }
  if (m.type == message_type::released)
    return;
  calls_.remove(*found);
  answered_.push_back(*found);
  found->progress = is_refusal(m) ? call::progress_type::refused : call::progress_type::answered;
  found->store(m.type == message_type::reply ? error_code() : failure_of(m), content);
  send_waiting(lock);
}

// The handlers of all replies that have arrived together, so that their next calls leave together.
void client_impl::on_taken()
{
  try
  {
    while (!answered_.empty())
      conclude(take_first(answered_), true);
  }
  catch (...)
  {
    while (!answered_.empty())
      conclude(take_first(answered_), false);
    throw;
  }
}

// The call has ended, and was with the server, which may answer before it knows. Returns true if
// the server may use its memory.
bool client_impl::tell_server(const lock_type& lock, call& what)
{
  message m;
  m.type = message_type::cancel;
  m.number = what.number;
  add_messages(lock, [&](auto& to) { begin_message(to, m); });
  if (!what.exposed || !what.exposed->has_windows())
    return false;
  what.deadline = std::chrono::steady_clock::now() + release_timeout;
  withdrawing_.push_back(what);
  set_alarm(lock);
  return true;
}

void client_impl::end_call(lock_type lock, call& what, const error_code& ec)
{
  what.store(ec, {});
  const bool is_used = calls_.remove(what) && tell_server(lock, what);
  send_waiting(lock); // a smaller call behind it may have room now
  flush(lock);
  lock.unlock();
  if (!is_used)
    conclude(what, false);
}

void client_impl::cancel(std::uint32_t number)
{
  if (forked())
    return;
  lock_type lock(mutex_);
  if (call* const found = calls_.find(number))
    end_call(std::move(lock), *found, asio::error::operation_aborted);
}

void client_impl::cancel()
{
  if (forked())
    return;
  give_up();
  call_list all;
  {
    const lock_type lock(mutex_);
    calls_.remove_all(all);
    for (auto each = all.begin(); each != all.end();)
    {
      call& ended = *each;
      each = all.erase(each);
      ended.store(asio::error::operation_aborted, {});
      if (ended.progress == call::progress_type::kept || !tell_server(lock, ended))
        each = std::next(all.insert(each, ended));
    }
    flush(lock);
  }
  while (!all.empty())
    conclude(take_first(all), false);
}

void client_impl::set_alarm(const lock_type&)
{
  auto next = std::min(calls_.deadline(), connect_until_);
  if (!withdrawing_.empty())
    next = std::min(next, withdrawing_.front().deadline);
  if (next >= alarm_at_)
    return;
  alarm_.set(next, std::weak_ptr(self()));
  alarm_at_ = next;
}

void client_impl::on_alarm()
{
  const auto now = std::chrono::steady_clock::now();
  lock_type lock(mutex_);
  alarm_at_ = call::time_point::max();
  while (call* const late = calls_.expired(now))
  {
    end_call(std::move(lock), *late, asio::error::timed_out);
    lock = lock_type(mutex_);
  }
  call_list all;
  while (!withdrawing_.empty() && withdrawing_.front().deadline <= now)
    all.push_back(take_first(withdrawing_));
  const bool gives_up = connect_until_ <= now;
  set_alarm(lock);
  lock.unlock();
  while (!all.empty())
    conclude(take_first(all), false);
  if (gives_up)
    end(error::handshake_timeout);
}

// --- the end ---

void client_impl::on_end(const error_code& ec) noexcept
{
  call_list all;
  {
    const lock_type lock(mutex_);
    end_ = ec;
    calls_.remove_all(all);
    for (call& each : all)
      each.store(ec, {});
    all.splice(all.end(), withdrawing_);
  }
  end_connecting(ec);
  while (!all.empty())
    conclude(take_first(all), false);
}

void client_impl::on_memory()
{
  for (;;)
  {
    call* next = nullptr;
    {
      const lock_type lock(mutex_);
      if (unfinished_.empty())
        return;
      next = &take_first(unfinished_);
    }
    try
    {
      next->finish(false);
    }
    catch (const std::bad_alloc&)
    {
      const lock_type lock(mutex_);
      unfinished_.push_front(*next);
      throw;
    }
  }
}

void client_impl::close()
{
  if (forked())
    return; // the parent uses the connection
  end(asio::error::operation_aborted);
  const lock_type lock(mutex_);
  end_ = error::closed;
}

bool client_impl::is_open() const
{
  if (forked())
    return false;
  const lock_type lock(mutex_);
  return !has_ended(lock);
}

void start_connect(const client_core::io_executor& executor, client_core* core,
  const client_core::endpoint_type& server, client_core::plain_handler handler)
{
  if (core != nullptr)
    core->connect(executor, server, std::move(handler));
  else
    waiting_handler<>(executor, std::move(handler)).complete(error::closed);
}

} // namespace rdma::detail::rpc

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/acceptor_impl.hpp"

#include "connect/log.hpp"

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detail/socket_option.hpp>

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

namespace rdma::detail {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

// How long a client may say nothing before it has to give way to others.
constexpr std::chrono::milliseconds silence_max{500};

// Texts take memory. Where that is short, a line of the log is lost and nothing else.
template <class Log>
void log_if_possible(Log log) noexcept
{
  try
  {
    log();
  }
  catch (const std::bad_alloc&)
  {
  }
}

} // namespace

std::shared_ptr<acceptor_core> acceptor_core::make(const asio::any_io_executor& executor,
  const asio::any_io_executor& inner, const protection_domain& domain,
  const tcp::endpoint& endpoint, const acceptor_options& options, error_code& ec)
{
  ec = {};
  try
  {
    connection_service& service = connection_service::of(inner);
    auto made = std::make_shared<acceptor_impl>(executor, inner, domain, options, service);
    service.add(made);
    made->listen(endpoint, ec);
    if (!ec)
      return made;
  }
  catch (const system_error& e)
  {
    ec = e.code(); // no thread to be had
  }
  return nullptr;
}

void refuse_accept(const asio::any_io_executor& executor, acceptor_core::handler_type handler)
{
  waiting_handler<std::shared_ptr<queue_pair_core>>(executor, std::move(handler))
    .complete(error::closed, nullptr);
}

acceptor_impl::acceptor_impl(const asio::any_io_executor& executor,
  const asio::any_io_executor& inner, const protection_domain& domain,
  const acceptor_options& options, connection_service& service)
  : options_(options)
  , settings_{inner, inner == executor, domain, options.queue_pair}
  , admission_(options.authorise, executor)
  , io_(service.io())
  , words_(service.words())
  , socket_(io_)
  , timer_(io_)
{
}

void acceptor_impl::listen(const tcp::endpoint& endpoint, error_code& ec)
{
  std::lock_guard lock(mutex_);
  socket_->open(endpoint.protocol(), ec);
  if (!ec)
    close_on_exec(*socket_);
  if (!ec)
    socket_->set_option(asio::socket_base::reuse_address(options_.reuse_address), ec);
  if (!ec && options_.reuse_port)
    socket_->set_option(asio::detail::socket_option::boolean<SOL_SOCKET, SO_REUSEPORT>(true), ec);
  if (!ec)
    socket_->bind(endpoint, ec);
  if (!ec)
    socket_->listen(options_.backlog, ec);
  // A client may leave the backlog before it is accepted: accept() must not wait for another one
  // then, which Asio does without these two.
  if (!ec)
    socket_->non_blocking(true, ec);
  if (!ec)
    socket_->set_option(asio::socket_base::enable_connection_aborted(true), ec);
  if (!ec)
    local_ = socket_->local_endpoint(ec);
  open_ = !ec;
}

bool acceptor_impl::is_open() const
{
  std::lock_guard lock(mutex_);
  return open_;
}

void acceptor_impl::accept(const asio::any_io_executor& executor, handler_type handler)
{
  auto slot = asio::get_associated_cancellation_slot(handler);
  waiting_handler<std::shared_ptr<queue_pair_core>> waiting(executor, std::move(handler));
  if (process_.foreign()) // the thread that accepts is the parent's
    return std::move(waiting).complete(error::forked, nullptr);
  std::unique_lock lock(mutex_);
  if (!open_)
  {
    lock.unlock();
    return std::move(waiting).complete(error::closed, nullptr);
  }
  while (!finished_.empty())
  {
    unclaimed_queue_pair next = std::move(finished_.front());
    finished_.pop_front();
    if (!next->is_connected())
      continue; // the client did not wait
    lock.unlock();
    return std::move(waiting).complete(error_code{}, next.release());
  }
  const std::uint64_t id = ++last_id_;
  // Before anybody else can see the accept: slots are for the thread that initiates.
  if (slot.is_connected())
    slot.assign(
      [self = weak_from_this(), id](asio::cancellation_type type)
      {
        if (const auto acceptor = self.lock(); acceptor && type != asio::cancellation_type::none)
          acceptor->withdraw(id);
      });
  waiting_.push_back({id, std::move(waiting)});
  start_accepting();
}

void acceptor_impl::withdraw(std::uint64_t id)
{
  std::list<waiting_accept> ended;
  {
    std::lock_guard lock(mutex_);
    const auto found = std::find_if(
      waiting_.begin(), waiting_.end(), [&](const waiting_accept& each) { return each.id == id; });
    if (found == waiting_.end())
      return;
    ended.splice(ended.end(), waiting_, found);
    pause_accepting();
  }
  std::move(ended.front().handler).complete(asio::error::operation_aborted, nullptr);
}

void acceptor_impl::cancel()
{
  std::list<waiting_accept> ended;
  {
    std::lock_guard lock(mutex_);
    ended.swap(waiting_);
    pause_accepting();
  }
  for (waiting_accept& each : ended)
    std::move(each.handler).complete(asio::error::operation_aborted, nullptr);
}

void acceptor_impl::close()
{
  std::deque<unclaimed_queue_pair> unclaimed; // closed without the mutex
  {
    if (process_.foreign())
    {
      // The parent's epoll set watches the socket, and would not any more if it were closed here:
      // it is kept for ever.
      static_cast<void>(new std::shared_ptr<acceptor_impl>(shared_from_this()));
      return;
    }
    std::lock_guard lock(mutex_);
    if (!std::exchange(open_, false))
      return;
    admission_.close();
    error_code ignored;
    socket_->close(ignored);
    timer_->cancel();
    unclaimed.swap(finished_);
    for (const handshake& each : handshakes_)
      connection::handle(*each.link).stop();
    in_hand_.reset();
  }
  cancel();
}

void acceptor_impl::abandon() noexcept
{
  std::list<waiting_accept> waiting;
  std::deque<unclaimed_queue_pair> unclaimed;
  std::list<handshake> handshakes;
  std::lock_guard lock(mutex_); // freed before the three above are destroyed: that may call us
  open_ = false;
  admission_.close();
  socket_.reset();
  timer_.reset();
  in_hand_.reset();
  waiting.swap(waiting_);
  unclaimed.swap(finished_);
  handshakes.swap(handshakes_);
}

void acceptor_impl::end_in_child()
{
  std::list<waiting_accept> ended;
  {
    // The parent's thread may have held it, which is not here to free it. Those accepts then end
    // with the io_context.
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock)
      ended.swap(waiting_);
  }
  for (waiting_accept& each : ended)
    std::move(each.handler).complete(error::forked, nullptr);
}

// The mutex is held. Takes no memory from the heap, so that an acceptor never stops for want of it:
// the wait has memory of its own. It is a wait and no async_accept(), because Asio registers an
// accepted socket with the reactor before it calls the handler; when that throws, the handler is
// never called.
void acceptor_impl::start_accepting()
{
  if (!open_ || waiting_.empty() || in_hand_ || accepting_)
    return;
  accepting_ = true;
  socket_->async_wait(asio::socket_base::wait_read,
    asio::bind_allocator(slot_allocator<void>(accept_slot_),
      [self = shared_from_this()](const error_code& ec) { self->on_readable(ec); }));
}

// Clients whom nobody waits for stay in the backlog. The mutex is held.
void acceptor_impl::pause_accepting()
{
  if (!open_ || !waiting_.empty())
    return;
  error_code ignored;
  socket_->cancel(ignored);
}

// The mutex is held. Accepts the first client of the backlog.
error_code acceptor_impl::take_client()
{
  error_code ec;
  try
  {
    in_hand_.emplace(socket_->accept(ec));
  }
  catch (const std::bad_alloc&)
  {
    ec = asio::error::no_memory; // Asio has closed the client's socket
  }
  if (ec)
    in_hand_.reset();
  else
    close_on_exec(*in_hand_);
  return ec;
}

void acceptor_impl::on_readable(error_code ec)
{
  constexpr std::chrono::milliseconds pause{100};
  std::unique_lock lock(mutex_);
  accepting_ = false;
  if (!open_ || (!ec && waiting_.empty())) // closed, or withdrawn when the client was there already
    return;
  if (!ec)
    ec = take_client();
  // After an aborted wait another accept may be outstanding by now; the client may have left the
  // backlog.
  if (ec == asio::error::operation_aborted || ec == asio::error::would_block
    || ec == asio::error::connection_aborted)
    return start_accepting();
  if (ec)
  {
    log_if_possible(
      [&] {
        log_line(spdlog::level::warn, "cannot accept on port {}: {}", local_.port(), ec.message());
      });
    // Errors like EMFILE last for a while, and the client stays in the backlog: do not spin on it.
    return back_off(pause);
  }
  admit(lock);
}

// The client in hand gets a place, or waits for one, and the backlog behind it with it. The mutex
// is held, and freed.
void acceptor_impl::admit(std::unique_lock<std::mutex>& lock)
{
  if (!open_ || !in_hand_)
    return start_accepting();
  // Else they wait as all others do.
  const bool limits_addresses = options_.handshakes_per_address_max < options_.handshakes_max;
  error_code gone;
  const asio::ip::address from = in_hand_->remote_endpoint(gone).address();
  const auto same = static_cast<std::size_t>(std::count_if(handshakes_.begin(), handshakes_.end(),
    [&](const handshake& each) { return each.from == from; }));
  if (!gone && limits_addresses && same >= options_.handshakes_per_address_max && !make_room(&from))
  {
    log_if_possible(
      [&]
      {
        log_line(spdlog::level::info,
          "too many concurrent handshakes with {}: closed a new connection", from.to_string());
      });
    gone = error::refused;
  }
  if (gone)
  {
    in_hand_.reset();
    return start_accepting();
  }
  if (handshakes_.size() >= options_.handshakes_max && !make_room(nullptr))
    return back_off(silence_max / 2); // or until one is over, see forget()
  std::shared_ptr<connection> link;
  try
  {
    auto stream = std::make_unique<tcp_control_stream>(std::move(*in_hand_));
    in_hand_.reset();
    stream->set_options();
    link = std::make_shared<connection>(io_, words_, std::move(stream));
    handshakes_.push_back({link, from, std::chrono::steady_clock::now()});
  }
  catch (const std::bad_alloc&)
  {
    in_hand_.reset();
    log_if_possible([&]
      { log_line(spdlog::level::warn, "cannot accept on port {}: out of memory", local_.port()); });
    return back_off(silence_max);
  }
  start_accepting();
  lock.unlock();
  serve(link);
}

void acceptor_impl::serve(const std::shared_ptr<connection>& link)
{
  try
  {
    link->set_deadline(options_.handshake_timeout);
    asio::co_spawn(io_, run_server(shared_from_this(), link),
      [weak = weak_from_this(), link](const std::exception_ptr& problem)
      {
        if (const auto self = weak.lock())
          self->forget(link);
        if (problem)
          std::rethrow_exception(problem); // to the service, which logs it
      });
  }
  catch (const std::bad_alloc&)
  {
    link->stop(asio::error::no_memory);
    forget(link);
    log_if_possible([&] { log_line(spdlog::level::warn, "{}: out of memory", name_of(*link)); });
  }
}

// The mutex is held.
void acceptor_impl::back_off(std::chrono::steady_clock::duration pause)
{
  try
  {
    timer_->expires_after(pause);
    timer_->async_wait(
      [self = shared_from_this(), number = ++back_offs_](const error_code& ec)
      {
        std::unique_lock lock(self->mutex_);
        if (ec || number != self->back_offs_)
          return; // there was room earlier
        self->accepting_ = false;
        if (self->open_)
          self->admit(lock);
      });
    accepting_ = true;
  }
  catch (const std::bad_alloc&)
  {
    // Without a pause then. A client in hand waits for the end of a handshake, see forget().
    start_accepting();
  }
}

// Whether somebody gave way, of all or of one address: who was refused and only has to read why, or
// who has said nothing for long; the oldest. The mutex is held.
bool acceptor_impl::make_room(const asio::ip::address* from)
{
  const auto now = std::chrono::steady_clock::now();
  const auto victim = std::find_if(handshakes_.begin(), handshakes_.end(),
    [&](const handshake& each)
    {
      return (from == nullptr || each.from == *from)
        && (each.link->progress == connection::stage::refused
          || (each.link->progress == connection::stage::unproven
            && now - each.since >= silence_max));
    });
  if (victim == handshakes_.end())
    return false;
  log_if_possible(
    [&]
    {
      log_line(spdlog::level::info, "too many concurrent handshakes: closed the one with {}",
        victim->from.to_string());
    });
  victim->link->stop(error::refused);
  handshakes_.erase(victim);
  return true;
}

void acceptor_impl::finished(unclaimed_queue_pair queue_pair)
{
  std::list<waiting_accept> served;
  {
    std::lock_guard lock(mutex_);
    if (!open_)
      return;
    if (waiting_.empty())
    {
      if (finished_.size() < options_.handshakes_max)
        finished_.push_back(std::move(queue_pair));
      return;
    }
    served.splice(served.end(), waiting_, waiting_.begin());
    pause_accepting();
  }
  std::move(served.front().handler).complete(error_code{}, queue_pair.release());
}

void acceptor_impl::forget(const std::shared_ptr<connection>& link)
{
  std::unique_lock lock(mutex_);
  std::erase_if(handshakes_, [&](const handshake& each) { return each.link == link; });
  if (open_ && in_hand_)
  {
    ++back_offs_; // it may be on its way
    timer_->cancel();
    accepting_ = false;
    admit(lock);
  }
}

asio::awaitable<void> run_server(
  std::shared_ptr<acceptor_impl> acceptor, std::shared_ptr<connection> link)
{
  admitted_client client;
  unclaimed_queue_pair queue_pair;
  heartbeat_times times;
  error_code ec =
    co_await read_request(*link, acceptor->options().target, acceptor->admission(), client);
  if (!ec)
    ec = co_await answer_request(*link, acceptor->settings(), std::move(client), queue_pair, times);
  if (ec)
    co_return link->stop(ec);
  link->establish(times);
  acceptor->forget(link);
  acceptor->finished(std::move(queue_pair));
  acceptor.reset(); // which may go before its connections do
  co_await link->watch();
}

} // namespace rdma::detail

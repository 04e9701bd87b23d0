//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/acceptor_impl.hpp"

#include "connect/log.hpp"

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

// How long an address with too many handshakes is not waited for after one of them was evicted.
constexpr std::chrono::seconds distrust_time{10};

} // namespace

std::shared_ptr<acceptor_core> acceptor_core::make(const asio::any_io_executor& executor,
  const asio::any_io_executor& inner, const protection_domain& domain,
  const tcp::endpoint& endpoint, const acceptor_options& options, error_code& ec, clients which)
{
  ec = {};
  try
  {
    connection_service& service = connection_service::of(inner);
    auto made = std::make_shared<acceptor_impl>(executor, inner, domain, options, which, service);
    service.add(made);
    made->listen(endpoint, ec);
    if (!ec)
      return made;
  }
  catch (const system_error& e)
  {
    ec = e.code(); // no thread could be started
  }
  return nullptr;
}

void start_accept(
  const asio::any_io_executor& executor, acceptor_core* core, acceptor_core::handler_type handler)
{
  start_or_refuse(core, executor, std::move(handler), &acceptor_core::accept);
}

acceptor_impl::acceptor_impl(const asio::any_io_executor& executor,
  const asio::any_io_executor& inner, const protection_domain& domain,
  const acceptor_options& options, clients which, connection_service& service)
  : accept_queue(options.handshakes_max)
  , options_(options)
  , clients_(which)
  , per_address_max_(options.handshakes_per_address_max != 0
        ? options.handshakes_per_address_max
        : std::max<std::size_t>(1, options.handshakes_max / 2))
  , settings_{inner, inner == executor, domain, options.queue_pair}
  , admission_(options.authorise, executor)
  , io_(service.io())
  , inbox_(service.service_inbox())
  , discovery_(which == clients::streams || which == clients::rdma_streams
        ? std::make_shared<discovery_server>(io_)
        : nullptr)
  , socket_(io_)
  , timer_(io_)
{
}

void acceptor_impl::listen(const tcp::endpoint& endpoint, error_code& ec)
{
  constexpr int port_attempts_max = 16;
  const lock_type lock(mutex_);
  error_code undiscovered;
  for (int attempt = 0; attempt != port_attempts_max; ++attempt)
  {
    listen_once(endpoint, ec, lock);
    open_ = !ec;
    if (!open_ || !discovery_)
      return;
    undiscovered = {};
    discovery_->open(local_, socket_->native_handle(), undiscovered);
    if (!undiscovered)
      return;
    if (endpoint.port() != 0)
      break;
    socket_.emplace(io_); // a free TCP port whose UDP port is used
  }
  log_line(spdlog::level::warn, "streams of {} use TCP only: UDP: {}", text_of(local_),
    undiscovered.message());
}

void acceptor_impl::listen_once(const tcp::endpoint& endpoint, error_code& ec, const lock_type&)
{
  ec = {};
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
}

void acceptor_impl::close()
{
  if (process_.foreign())
  {
    // The parent's epoll set watches the socket and would stop if it were closed here: it is
    // leaked.
    static_cast<void>(new std::shared_ptr<acceptor_impl>(self()));
    return;
  }
  {
    std::list<unclaimed_client> unclaimed; // closed without the mutex
    const lock_type lock(mutex_);
    if (!open_)
      return;
    unclaimed = close_queue(lock);
    if (discovery_)
      discovery_->close();
    admission_.close();
    error_code ignored;
    socket_->close(ignored);
    timer_->cancel();
    for (const handshake& each : handshakes_)
      connection::handle(*each.link).stop();
    pending_.clear();
  }
  cancel();
}

void acceptor_impl::abandon() noexcept
{
  contents operations; // destroyed without the mutex, like the handshakes
  std::list<handshake> handshakes;
  const lock_type lock(mutex_);
  operations = abandon_queue(lock);
  if (discovery_)
    discovery_->close();
  admission_.close();
  socket_.reset();
  timer_.reset();
  pending_.clear();
  handshakes.swap(handshakes_);
}

// Clients stay in the backlog while no accept operation waits.
void acceptor_impl::on_changed(const lock_type& lock)
{
  if (is_wanted(lock))
    return start_accepting(lock);
  error_code ignored;
  if (open_)
    socket_->cancel(ignored);
}

// Takes no memory from the heap, so that an acceptor never stops when there is none: the wait has
// its own memory. It is a wait and not async_accept(), because Asio registers an accepted socket
// with the reactor before it calls the handler; if that throws, the handler is never called.
void acceptor_impl::start_accepting(const lock_type& lock)
{
  if (!is_wanted(lock) || accepting_ || pauses_ || pending_.size() >= options_.handshakes_max)
    return;
  accepting_ = true;
  socket_->async_wait(asio::socket_base::wait_read,
    asio::bind_allocator(slot_allocator<void>(accept_slot_),
      [self = self()](const error_code& ec) { self->on_readable(ec); }));
}

// Accepts the first client of the backlog, which then waits for a place.
error_code acceptor_impl::take_client(const lock_type&)
try
{
  error_code ec;
  tcp_control_stream::socket_type socket = socket_->accept(ec);
  if (ec)
    return ec;
  close_on_exec(socket);
  const asio::ip::address from = socket.remote_endpoint(ec).address();
  if (ec)
    return asio::error::connection_aborted;
  pending_.push_back({std::move(socket), from});
  return {};
}
catch (const std::bad_alloc&)
{
  return asio::error::no_memory; // the client's socket is closed
}

void acceptor_impl::on_readable(error_code ec)
{
  constexpr std::chrono::milliseconds pause{100};
  lock_type lock(mutex_);
  accepting_ = false;
  if (!open_ || (!ec && !is_wanted(lock))) // closed, or withdrawn after the client had arrived
    return;
  if (!ec)
    ec = take_client(lock);
  // After an aborted wait another accept may be outstanding by now; the client may have left the
  // backlog.
  if (ec == asio::error::operation_aborted || ec == asio::error::would_block
    || ec == asio::error::connection_aborted)
    return start_accepting(lock);
  if (ec)
  {
    log_if_possible(
      [&] {
        log_line(spdlog::level::warn, "cannot accept on port {}: {}", local_.port(), ec.message());
      });
    // Errors like EMFILE last for a while, and the client stays in the backlog: do not spin on it.
    pauses_ = true;
    look_again(pause, lock);
    return start_accepting(lock);
  }
  admit(std::move(lock));
}

// Returns true if there is a place for a client of this address, or frees one.
bool acceptor_impl::has_place(const asio::ip::address& from, const lock_type& lock)
{
  const auto same = static_cast<std::size_t>(std::count_if(handshakes_.begin(), handshakes_.end(),
    [&](const handshake& each) { return each.from == from; }));
  if (per_address_max_ < options_.handshakes_max && same >= per_address_max_)
    return evict_handshake(&from, lock);
  // When they finish without an operation that waits for them, they must all find room.
  return handshakes_.size() + ready(lock) < options_.handshakes_max
    || evict_handshake(nullptr, lock);
}

// Takes the first waiting client for which there is a place.
std::shared_ptr<connection> acceptor_impl::take_waiting(const lock_type& lock)
{
  for (auto each = pending_.begin(); open_ && each != pending_.end();)
  {
    if (!has_place(each->from, lock))
    {
      ++each;
      continue;
    }
    try
    {
      auto stream = std::make_unique<tcp_control_stream>(std::move(each->socket));
      stream->set_options();
      auto link = std::make_shared<connection>(io_, inbox_, std::move(stream));
      handshakes_.push_back({link, each->from});
      pending_.erase(each);
      return link;
    }
    catch (const std::bad_alloc&)
    {
      each = pending_.erase(each);
      log_if_possible(
        [&] {
          log_line(spdlog::level::warn, "cannot accept on port {}: out of memory", local_.port());
        });
    }
  }
  return nullptr;
}

// Disconnects a waiting client of an address that wastes its places, if the clients of such
// addresses keep others from waiting.
void acceptor_impl::thin_out(const lock_type& lock)
{
  if (pending_.size() < options_.handshakes_max)
    return;
  const auto excess = std::find_if(pending_.begin(), pending_.end(),
    [&](const waiting_client& each) { return wastes_places(each.from, lock); });
  if (excess == pending_.end())
    return;
  log_if_possible(
    [&]
    {
      log_line(spdlog::level::info, "too many concurrent handshakes with {}: closed a connection",
        excess->from.to_string());
    });
  pending_.erase(excess);
}

// Returns true if as many handshakes of the address as it may have were evicted recently.
bool acceptor_impl::wastes_places(const asio::ip::address& from, const lock_type&) const
{
  const auto now = std::chrono::steady_clock::now();
  const auto wasted = std::count_if(evicted_.begin(), evicted_.end(),
    [&](const eviction& each) { return each.from == from && now - each.at < distrust_time; });
  return static_cast<std::size_t>(wasted) >= std::min(per_address_max_, evicted_.size());
}

// Waiting clients get the places that there are, and the next client of the backlog may come.
void acceptor_impl::admit(lock_type lock)
{
  while (const auto link = take_waiting(lock))
  {
    lock.unlock();
    serve(link);
    lock.lock();
  }
  thin_out(lock);
  if (!pending_.empty()) // or when a handshake ends, see remove_handshake()
    look_again(connection::peer_silence_max / 2, lock);
  start_accepting(lock);
}

void acceptor_impl::serve(const std::shared_ptr<connection>& link)
{
  try
  {
    link->expect_peer();
    link->set_deadline(options_.handshake_timeout);
    asio::co_spawn(service_executor(io_.get_executor()),
      run_server(self(), link, handshake_place(self(), link)),
      [](const std::exception_ptr& problem)
      {
        if (problem)
          std::rethrow_exception(problem); // to the service, which logs it
      });
  }
  catch (const std::bad_alloc&)
  {
    link->stop(asio::error::no_memory);
    log_if_possible([&] { log_line(spdlog::level::warn, "{}: out of memory", name_of(*link)); });
  }
}

void acceptor_impl::look_again(std::chrono::steady_clock::duration pause, const lock_type&)
{
  if (!open_ || std::exchange(looks_again_, true))
    return;
  try
  {
    timer_->expires_after(pause);
    timer_->async_wait(
      [self = self()](const error_code&)
      {
        lock_type relocked(self->mutex_);
        self->looks_again_ = self->pauses_ = false;
        self->admit(std::move(relocked));
      });
  }
  catch (const std::bad_alloc&)
  {
    // Without a pause then. Waiting clients wait for the end of a handshake.
    looks_again_ = pauses_ = false;
  }
}

// Evicts the oldest handshake, overall or of one address, of those that yield. Returns true if
// there is one.
bool acceptor_impl::evict_handshake(const asio::ip::address* from, const lock_type&)
{
  const auto now = std::chrono::steady_clock::now();
  // As long as others finish, clients that agree on a path may only wait for a processor.
  const bool is_stuck = now - finished_at_ >= connection::peer_silence_max;
  const auto victim = std::find_if(handshakes_.begin(), handshakes_.end(),
    [&](const handshake& each)
    {
      return (from == nullptr || each.from == *from) && each.link->yields_at <= now
        && (!each.link->agrees || is_stuck);
    });
  if (victim == handshakes_.end())
    return false;
  log_if_possible(
    [&]
    {
      log_line(spdlog::level::info, "too many concurrent handshakes: closed the one with {}",
        victim->from.to_string());
    });
  evicted_[evictions_++ % evicted_.size()] = {victim->from, now};
  victim->link->stop(error::refused);
  handshakes_.erase(victim);
  return true;
}

service_awaitable<bool> acceptor_impl::wants_queue_pair(connection& link)
{
  if (!discovery_) // GCC 12 evaluates a co_await behind && in any case
    co_return clients_ == clients::queue_pairs;
  co_return co_await takes_preamble(
    link, *discovery_, clients_ == clients::rdma_streams, options_.handshake_timeout / 2);
}

void acceptor_impl::finished(connection& link, unclaimed_queue_pair queue_pair)
{
  unclaimed_client client{.queue_pair = std::move(queue_pair),
    .socket = std::nullopt,
    .executor = settings_.inner,
    .local = link.stream().local_endpoint(),
    .remote = link.stream().remote_endpoint()};
  lock_type lock(mutex_);
  finished_at_ = std::chrono::steady_clock::now();
  // The handler may close the acceptor, and with it the handshakes.
  std::erase_if(handshakes_, [&](const handshake& each) { return each.link.get() == &link; });
  deliver(std::move(lock), client);
}

void acceptor_impl::finished_plain(connection& link)
{
  auto& socket = static_cast<tcp_control_stream&>(link.stream()).socket;
  unclaimed_client client{.queue_pair = {},
    .socket = std::nullopt,
    .executor = settings_.inner,
    .local = link.stream().local_endpoint(),
    .remote = link.stream().remote_endpoint()};
  client.socket.emplace(std::move(socket));
  link.stop(error::refused);
  if (clients_ == clients::rdma_streams)
    return log_line(
      spdlog::level::info, "{} does not ask for RDMA: disconnected", text_of(client.remote));
  deliver(lock_type(mutex_), client);
}

void acceptor_impl::remove_handshake(const std::shared_ptr<connection>& link)
{
  lock_type lock(mutex_);
  std::erase_if(handshakes_, [&](const handshake& each) { return each.link == link; });
  if (!pending_.empty())
    admit(std::move(lock));
}

handshake_place::handshake_place(
  const std::shared_ptr<acceptor_impl>& acceptor, std::shared_ptr<connection> link) noexcept
  : acceptor_(acceptor)
  , link_(std::move(link))
{
}

handshake_place::~handshake_place()
{
  if (link_)
    give_back();
}

void handshake_place::give_back()
{
  if (const auto acceptor = acceptor_.lock())
    acceptor->remove_handshake(std::exchange(link_, nullptr));
}

service_awaitable<void> run_server(
  std::shared_ptr<acceptor_impl> acceptor, std::shared_ptr<connection> link, handshake_place place)
{
  admitted_client client;
  unclaimed_queue_pair queue_pair;
  heartbeat_times times;
  if (!co_await acceptor->wants_queue_pair(*link))
  {
    if (!link->stopped())
      acceptor->finished_plain(*link);
    co_return;
  }
  error_code ec =
    co_await read_request(*link, acceptor->options().target, acceptor->admission(), client);
  if (!ec)
    ec = co_await answer_request(*link, acceptor->settings(), std::move(client), queue_pair, times);
  if (ec)
    co_return link->stop(ec);
  link->establish(times);
  acceptor->finished(*link, std::move(queue_pair));
  place.give_back(); // the client has its room by now
  acceptor.reset();  // which may go before its connections do
  co_await link->watch();
}

} // namespace rdma::detail

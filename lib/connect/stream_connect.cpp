//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/stream_connect.hpp"

#include "boost_rdma/detail/upgrade_start.hpp"
#include "completion/waiting_handler.hpp"
#include "connect/connection_service.hpp"
#include "connect/discovery.hpp"
#include "connect/log.hpp"
#include "connect/unclaimed_client.hpp"

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/write.hpp>

#include <exception>
#include <future>
#include <new>
#include <string>
#include <utility>

#include <unistd.h>

namespace rdma::detail {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

using waiting = waiting_handler<connected_peer>;
using token_type = discovery_message::token_type;

// Before the first byte for the server: afterwards the connection cannot carry the program's bytes.
unclaimed_queue_pair make_queue_pair(const stream_client& with, error_code& ec)
try
{
  ec = {};
  return with.settings().make_queue_pair();
}
catch (const system_error& e)
{
  ec = e.code();
  return {};
}

// Asks for RDMA on a connected socket.
service_awaitable<error_code> upgrade(tcp_control_stream::socket_type socket,
  const token_type& token, const stream_client& with, unclaimed_queue_pair queue_pair,
  connected_peer& made)
{
  error_code ec;
  const auto preamble = discovery_message{discovery_type::preamble, token}.encode();
  co_await asio::async_write(socket, asio::buffer(preamble), into(ec));
  if (ec)
    co_return ec;
  const asio::any_io_executor own = socket.get_executor(); // the program's context need not run
  const auto start = [&](auto handler)
  {
    start_upgrade(own, queue_pair.get(),
      {with.inner, std::make_unique<tcp_control_stream>(std::move(socket)), {}}, connect_options(),
      asio::any_completion_handler<void(error_code)>(std::move(handler)));
  };
  auto token_of_error = into(ec);
  co_await asio::async_initiate<decltype(token_of_error), void(error_code)>(start, token_of_error);
  if (!ec)
    made.queue_pair = queue_pair.release();
  co_return ec;
}

struct question_end
{
  discovery_client& question;
  ~question_end() { question.end({}); }
};

service_awaitable<error_code> connect(asio::io_context& io, const tcp::endpoint& server,
  const stream_client& with, connected_peer& made)
{
  co_await asio::this_coro::throw_if_cancelled(false);
  // After a failed upgrade the connection cannot carry the program's bytes: another one can.
  for (bool rdma = with.rdma;; rdma = false)
  {
    const auto question = std::make_shared<discovery_client>(io);
    const question_end ended{*question};
    if (rdma)
      question->ask(server, !with.tcp);
    else if (!with.rdma)
      made.why = "not allowed by the program";
    tcp_control_stream::socket_type socket(io);
    error_code ec;
    socket.open(server.protocol(), ec);
    if (ec)
      co_return ec;
    close_on_exec(socket);
    co_await socket.async_connect(server, into(ec));
    if (ec)
      co_return ec;
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    made.local = socket.local_endpoint(ignored);
    made.remote = server;
    if (rdma)
    {
      // Also without TCP: a server that has been asked expects the preamble.
      made.why = co_await question->answer(made.local.address() == server.address());
      rdma = made.why.empty() || !with.tcp;
    }
    if ((co_await asio::this_coro::cancellation_state).cancelled() != asio::cancellation_type::none)
      co_return asio::error::operation_aborted;
    if (!rdma)
    {
      made.socket = move_to(with.inner, std::move(socket));
      co_return made.socket ? error_code() : make_error_code(asio::error::no_descriptors);
    }
    auto queue_pair = make_queue_pair(with, ec);
    if (!ec)
      ec =
        co_await upgrade(std::move(socket), question->token(), with, std::move(queue_pair), made);
    if (!ec || ec == asio::error::operation_aborted || !with.tcp)
      co_return ec;
    made.why = "the handshake failed: " + ec.message();
    log_line(spdlog::level::info, "{} goes on over TCP: {}", text_of(server), made.why);
  }
}

// A copy of the program's socket, which may be connecting.
service_awaitable<error_code> decide(tcp_control_stream::socket_type socket,
  std::shared_ptr<discovery_client> question, const stream_client& with, connected_peer& made)
{
  if (!question)
  {
    made.why = "the server was not asked";
    co_return error_code();
  }
  const question_end ended{*question};
  error_code ec;
  co_await socket.async_wait(tcp::socket::wait_write, into(ec));
  made.local = socket.local_endpoint(ec);
  if (!ec)
    made.remote = socket.remote_endpoint(ec);
  if (ec)
    made.why = "TCP is not connected";
  else // a repeated question could come after the server has decided
    made.why = co_await question->answer(made.local.address() == made.remote.address(), false);
  if (!made.why.empty())
    co_return error_code();
  auto queue_pair = make_queue_pair(with, ec);
  if (ec)
  {
    made.why = "no queue pair can be made: " + ec.message();
    co_return error_code();
  }
  co_return co_await upgrade(
    std::move(socket), question->token(), with, std::move(queue_pair), made);
}

// `attempt` returns the error, and fills the peer.
template <class Attempt, class Handler>
service_awaitable<void> run_attempt(Attempt attempt, Handler handler)
{
  connected_peer made;
  error_code ec;
  try
  {
    ec = co_await attempt(made);
  }
  catch (const std::bad_alloc&)
  {
    ec = asio::error::no_memory;
  }
  catch (const system_error& e)
  {
    ec = e.code();
  }
  std::move(handler)(ec, std::move(made));
}

} // namespace

stream_connect::stream_connect(stream_client with)
  : with_(std::move(with))
  , inbox_(connection_service::of(with_.inner).service_inbox())
{
}

template <class Function, class Handler>
void stream_connect::spawn(Function function, Handler handler)
{
  // The signal is used on the service's thread only.
  connection_service& service = connection_service::of(with_.inner);
  asio::post(service.io(),
    [self = shared_from_this(), &io = service.io(), handler = std::move(handler),
      function = std::move(function)]() mutable
    {
      asio::co_spawn(service_executor(io.get_executor()),
        run_attempt(function(*self, self->with_, io), std::move(handler)),
        asio::bind_cancellation_slot(self->cancellation_.slot(),
          [self](const std::exception_ptr& problem)
          {
            if (problem)
              std::rethrow_exception(problem); // to the service, which logs it
          }));
    });
}

template <class Function>
void stream_connect::begin(handler_type handler, Function function)
{
  auto slot = asio::get_associated_cancellation_slot(handler);
  waiting operation(with_.executor, std::move(handler));
  on_cancellation(slot, weak_from_this(), [](stream_connect& self) { self.cancel(); });
  spawn(std::move(function),
    [operation = std::move(operation)](const error_code& ec, connected_peer made) mutable
    { std::move(operation).complete(ec, std::move(made)); });
}

namespace {

auto attempt_to(const tcp::endpoint& server)
{
  return [server](stream_connect&, const stream_client& with, asio::io_context& io) {
    return [server, &with, &io](connected_peer& made) { return connect(io, server, with, made); };
  };
}

} // namespace

void stream_connect::start(const tcp::endpoint& server, handler_type handler)
{
  begin(std::move(handler), attempt_to(server));
}

connected_peer stream_connect::run(const tcp::endpoint& server, error_code& ec)
{
  connected_peer result;
  std::promise<error_code> end;
  auto ended = end.get_future();
  spawn(attempt_to(server),
    [&result, end = std::move(end)](const error_code& failure, connected_peer made) mutable
    {
      result = std::move(made);
      end.set_value(failure);
    });
  try
  {
    ec = ended.get();
  }
  catch (const std::future_error&) // the handler was destroyed: the attempt could not start
  {
    ec = asio::error::no_memory;
  }
  return result;
}

void stream_connect::ask(const tcp::endpoint& server, const asio::ip::address& from)
{
  question_ = std::make_shared<discovery_client>(connection_service::of(with_.inner).io());
  question_->ask(server, false, from);
}

void stream_connect::decide(const tcp& protocol, int socket, handler_type handler)
{
  begin(std::move(handler),
    [protocol, socket](stream_connect& self, const stream_client& with, asio::io_context& io)
    {
      tcp_control_stream::socket_type copy(io);
      error_code ec;
      copy.assign(protocol, socket, ec);
      if (ec)
        ::close(socket);
      return [copy = std::move(copy), &self, &with](connected_peer& made) mutable {
        return detail::decide(std::move(copy), std::exchange(self.question_, nullptr), with, made);
      };
    });
}

void stream_connect::cancel()
{
  // acquire: pairs with the release below, so that the slot is seen to be free
  if (cancels_.exchange(true, std::memory_order_acquire))
    return;
  inbox_->post(asio::bind_allocator(slot_allocator<void>(cancel_slot_),
    [self = shared_from_this()] // the question ends also if nobody else has it
    {
      self->cancels_.store(false, std::memory_order_release);
      self->cancellation_.emit(asio::cancellation_type::terminal);
      if (self->question_)
        self->question_->end({}); // nothing will be decided
    }));
}

} // namespace rdma::detail

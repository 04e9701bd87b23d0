//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "stream/tcp_stream.hpp"

#include "completion/waiting_handler.hpp"
#include "connect/discovery.hpp"
#include "resource/domain_impl.hpp"

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/compose.hpp>
#include <boost/asio/error.hpp>

#include <algorithm>
#include <utility>

namespace rdma::detail {

namespace asio = boost::asio;

namespace {

// The stream's executor and not the socket's is the default of a handler.
template <class Handler>
auto with_executor(const stream_core::io_executor& executor, Handler handler)
{
  auto own = asio::get_associated_executor(handler, executor);
  return asio::bind_executor(std::move(own), std::move(handler));
}

} // namespace

tcp_stream::tcp_stream(connected_peer peer, std::shared_ptr<device_set> devices)
  : devices_(std::move(devices))
  , socket_(std::move(*peer.socket))
  , why_(std::move(peer.why))
  , local_(peer.local)
  , remote_(peer.remote)
{
  devices_->activity.connected(&statistics::tcp);
}

template <class Buffers>
bool tcp_stream::refuses(
  const io_executor& executor, const Buffers& buffers, size_handler& handler) const
{
  if (socket_.is_open() && !buffers.empty())
    return false;
  const error_code ec = socket_.is_open() ? error_code() : make_error_code(error::closed);
  waiting_handler<std::size_t>(executor, std::move(handler)).complete(ec, 0);
  return true;
}

// A client whose preamble came late has not heard that this stream goes on over TCP: no byte of
// its handshake may reach the program. The client then connects again, for TCP.
error_code tcp_stream::look_at_beginning()
{
  begins_ = false;
  if (look_at_first_bytes(socket_.native_handle()) != first_bytes::preamble)
    return {};
  close();
  return asio::error::connection_reset;
}

void tcp_stream::read_some(
  const io_executor& executor, const targets& to, size_handler handler, bool)
{
  if (refuses(executor, to, handler))
    return;
  if (ahead().size() != 0)
  {
    const std::size_t size = asio::buffer_copy(to, ahead());
    consume(size);
    return waiting_handler<std::size_t>(executor, std::move(handler)).complete({}, size);
  }
  if (!begins_)
    return socket_.async_read_some(to, with_executor(executor, std::move(handler)));
  enum class step
  {
    begin,
    arrived,
    end,
  };
  asio::async_compose<size_handler, void(error_code, std::size_t)>(
    [self = shared_from_this(), to, next = step::begin](
      auto& operation, error_code ec = {}, std::size_t size = 0) mutable
    {
      switch (std::exchange(next, next == step::begin ? step::arrived : step::end))
      {
      case step::begin:
        operation.reset_cancellation_state(asio::enable_total_cancellation());
        return self->socket_.async_wait(asio::socket_base::wait_read, std::move(operation));
      case step::arrived:
        if (!ec && self->socket_.is_open())
          ec = self->look_at_beginning();
        else if (!ec)
          ec = asio::error::operation_aborted;
        if (!ec)
          return self->socket_.async_read_some(to, std::move(operation));
        [[fallthrough]];
      case step::end:
        operation.complete(ec, size);
      }
    },
    handler, executor);
}

void tcp_stream::write_some(
  const io_executor& executor, const sources& from, size_handler handler, bool)
{
  if (!refuses(executor, from, handler))
    socket_.async_write_some(from, with_executor(executor, std::move(handler)));
}

void tcp_stream::wait(const io_executor& executor, wait_type what, plain_handler handler, bool)
{
  if (!socket_.is_open() || (what == wait_type::wait_read && ahead().size() != 0))
    return waiting_handler<>(executor, std::move(handler))
      .complete(socket_.is_open() ? error_code() : make_error_code(error::closed));
  socket_.async_wait(what, with_executor(executor, std::move(handler)));
}

bool tcp_stream::can_use(bool waits, error_code& ec)
{
  ec = error::closed;
  if (socket_.is_open() && (ec = {}, socket_.non_blocking() == waits))
    socket_.non_blocking(!waits, ec);
  return !ec;
}

std::size_t tcp_stream::read_some(const targets& to, bool waits, error_code& ec)
{
  if (!can_use(waits, ec) || to.empty())
    return 0;
  if (ahead().size() != 0)
  {
    const std::size_t size = asio::buffer_copy(to, ahead());
    consume(size);
    return size;
  }
  if (begins_)
  {
    if (waits)
      socket_.wait(wait_type::wait_read, ec);
    else if (socket_.available(ec) == 0 && !ec)
      return socket_.read_some(to, ec); // would_block, or the end
    if (!ec)
      ec = look_at_beginning();
    if (ec)
      return 0;
  }
  return socket_.read_some(to, ec);
}

std::size_t tcp_stream::write_some(const sources& from, bool waits, error_code& ec)
{
  return can_use(waits, ec) && !from.empty() ? socket_.write_some(from, ec) : 0;
}

void tcp_stream::wait(wait_type what, bool waits, error_code& ec)
{
  if (!can_use(waits, ec) || (what == wait_type::wait_read && ahead().size() != 0))
    return;
  socket_.wait(what, ec);
}

asio::const_buffer tcp_stream::ahead() const
{
  return asio::buffer(ahead_) + first_ahead_;
}

std::size_t tcp_stream::available() const
{
  error_code ignored;
  return ahead().size() + socket_.available(ignored);
}

stream_core::sources tcp_stream::peek()
{
  constexpr std::size_t size_max = 64 * 1024;
  ahead_.reserve(size_max); // what the program has seen stays where it is
  ahead_.erase(ahead_.begin(), ahead_.begin() + static_cast<std::ptrdiff_t>(first_ahead_));
  first_ahead_ = 0;
  error_code ec;
  const std::size_t old = std::min(ahead_.size(), size_max);
  const std::size_t arrived = std::min(socket_.available(ec), size_max - old);
  if (!ec && arrived != 0 && (!begins_ || !look_at_beginning()))
  {
    ahead_.resize(old + arrived);
    ahead_.resize(old + socket_.read_some(asio::buffer(ahead_) + old, ec)); // does not wait
  }
  return sources(ahead());
}

void tcp_stream::consume(std::size_t size)
{
  first_ahead_ += std::min(size, ahead().size());
}

transport_choice tcp_stream::transport() const
{
  transport_choice choice;
  choice.wire = wire::socket;
  choice.declined.push_back({"RDMA", why_});
  return choice;
}

void tcp_stream::shut_down(error_code& ec)
{
  if (!socket_.is_open())
    ec = error::closed;
  else
    socket_.shutdown(asio::socket_base::shutdown_send, ec);
}

void tcp_stream::cancel()
{
  error_code ignored;
  socket_.cancel(ignored);
}

void tcp_stream::close()
{
  if (socket_.is_open())
    devices_->activity.disconnected(&statistics::tcp, {});
  error_code ignored;
  socket_.close(ignored);
}

} // namespace rdma::detail

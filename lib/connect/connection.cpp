//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/connection.hpp"

#include "connect/log.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>

#include <span>
#include <utility>

namespace rdma::detail {

namespace asio = boost::asio;

namespace {

// How long, and how often, a farewell waits for acknowledgements that are on their way.
constexpr std::chrono::milliseconds farewell_time_max{250};
constexpr std::chrono::milliseconds farewell_step{2};

class control_guard final : public connection_guard
{
public:
  explicit control_guard(std::weak_ptr<connection> link)
    : link_(std::move(link))
  {
  }
  ~control_guard() override { connection::post_stop(link_); }
  void close() noexcept override { connection::post_stop(link_); }

private:
  std::weak_ptr<connection> link_;
};

} // namespace

connection::connection(asio::io_context& io)
  : socket(io)
  , timer_(io)
{
}

connection::connection(socket_type connected)
  : socket(std::move(connected))
  , timer_(socket.get_executor())
{
}

bool connection::adopt(const std::shared_ptr<queue_pair_core>& core)
{
  core_ = core;
  return core->attach(std::make_unique<control_guard>(weak_from_this()));
}

void connection::set_deadline(std::chrono::steady_clock::duration time_limit)
{
  timer_.expires_after(time_limit);
  timer_.async_wait(
    [link = weak_from_this()](const error_code& ec)
    {
      const auto self = link.lock();
      // It may have been on its way when establish() cancelled it.
      if (!ec && self && self->progress != stage::established)
        self->stop(error::handshake_timeout);
    });
}

void connection::establish()
{
  progress = stage::established;
  timer_.cancel();
  error_code ignored;
  socket.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored); // a host that vanished
}

void connection::stop(const error_code& why)
{
  if (why_)
    return;
  why_ = why;
  if (progress == stage::established)
  {
    // Eight bytes fit into a socket's buffer that is all but empty; where they do not, the peer has
    // stopped reading and will learn of the end from the end of the stream.
    error_code ignored;
    socket.non_blocking(true, ignored);
    socket.write_some(asio::buffer(encode_frame(frame_type::bye)), ignored);
    socket.shutdown(asio::socket_base::shutdown_send, ignored);
  }
  close();
}

void connection::close()
{
  error_code ignored;
  timer_.cancel();
  socket.close(ignored);
}

void connection::cancel_handshake()
{
  if (progress != stage::established)
    stop(asio::error::operation_aborted);
}

void connection::post_stop(const std::weak_ptr<connection>& link)
{
  if (const auto self = link.lock())
    asio::post(self->socket.get_executor(),
      [self]
      {
        const auto core = self->core();
        self->stop(core ? core->end_reason() : asio::error::operation_aborted);
      });
}

void connection::post_cancel(const std::weak_ptr<connection>& link)
{
  if (const auto self = link.lock())
    asio::post(self->socket.get_executor(), [self] { self->cancel_handshake(); });
}

asio::awaitable<error_code> connection::send(frame_type type)
{
  const auto bytes = encode_frame(type);
  error_code ec;
  co_await asio::async_write(socket, asio::buffer(bytes), into(ec));
  co_return failure(ec);
}

asio::awaitable<error_code> connection::read_frame(std::uint8_t& type)
{
  constexpr std::size_t read_size = 512;
  for (;;)
  {
    if (stopped())
      co_return why_; // also when the frame is there: what follows it cannot be
    const auto data = buffer.data();
    std::span<const std::uint8_t> input(static_cast<const std::uint8_t*>(data.data()), data.size());
    const frame_reader::result result = frames_.read(input);
    buffer.consume(data.size() - input.size());
    type = frames_.type();
    if (result == frame_reader::result::frame)
      co_return error_code{};
    if (result == frame_reader::result::malformed)
    {
      log_line(spdlog::level::info, "the peer sent a malformed control frame");
      co_return error::peer_lost;
    }
    error_code ec;
    const std::size_t count = co_await socket.async_read_some(buffer.prepare(read_size), into(ec));
    buffer.commit(count);
    if (ec)
      co_return failure(error::peer_lost); // end of stream, reset, time-out: no farewell
  }
}

asio::awaitable<error_code> connection::receive(frame_type type)
{
  std::uint8_t found = 0;
  do
  {
    if (const error_code ec = co_await read_frame(found))
      co_return ec;
    if (found == static_cast<std::uint8_t>(frame_type::bye))
      co_return error::peer_closed;
  } while (found != static_cast<std::uint8_t>(type));
  co_return error_code{};
}

// The farewell overtakes what the peer's device had acknowledged before: a send that it took deserves
// its success, so give those that are under way a moment.
asio::awaitable<void> connection::let_sends_finish()
{
  const auto end = std::chrono::steady_clock::now() + farewell_time_max;
  while (!stopped() && std::chrono::steady_clock::now() < end)
  {
    {
      const auto held = core();
      if (!held || !held->sends_in_flight())
        break;
    }
    error_code ignored;
    timer_.expires_after(farewell_step);
    co_await timer_.async_wait(into(ignored));
  }
}

asio::awaitable<void> connection::watch()
{
  // Nothing is waited for but `bye`: what else comes belongs to later versions.
  const error_code ec = co_await receive(frame_type::bye);
  if (ec == error::peer_closed)
    co_await let_sends_finish();
  if (!stopped())
  {
    why_ = ec;
    if (const auto held = core())
      held->disconnect(ec);
  }
  close();
}

} // namespace rdma::detail

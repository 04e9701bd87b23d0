//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_STREAM_TEARDOWN_HPP
#define BOOST_RDMA_DETAIL_STREAM_TEARDOWN_HPP

#include <boost_rdma/error.hpp>

#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/compose.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/socket_base.hpp>
#include <boost/beast/core/role.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <utility>

// The functions by which Beast's WebSocket ends a stream. It finds them by argument-dependent
// lookup.

namespace rdma {

template <class Executor>
class basic_stream;

namespace detail {

// Ends this side's bytes, discards the peer's until their end, and closes the stream.
template <class Executor>
class stream_teardown
{
public:
  explicit stream_teardown(basic_stream<Executor>& stream)
    : stream_(&stream)
  {
  }

  template <class Self>
  void operator()(Self& self, error_code ec = {}, std::size_t = 0)
  {
    if (!room_)
    {
      self.reset_cancellation_state(boost::asio::enable_total_cancellation());
      room_ = std::allocate_shared<room>(boost::asio::get_associated_allocator(self));
      error_code ignored; // reading reports it
      stream_->shutdown(boost::asio::socket_base::shutdown_send, ignored);
    }
    else if (!ec && self.cancelled() != boost::asio::cancellation_type::none)
      ec = boost::asio::error::operation_aborted;
    if (!ec)
    {
      const auto bytes = boost::asio::buffer(*room_); // before self moves the room
      return stream_->async_read_some(bytes, std::move(self));
    }
    room_.reset(); // freed before the handler is called
    if (ec != boost::asio::error::operation_aborted)
      stream_->close();
    self.complete(ec == boost::asio::error::eof ? error_code() : ec);
  }

private:
  using room = std::array<char, 2048>;

  basic_stream<Executor>* stream_;
  std::shared_ptr<room> room_;
};

} // namespace detail

// Closes a WebSocket's stream in an orderly way. Both roles end their bytes first: the order that
// Beast has for TCP leaves the TIME_WAIT state to the server, and RDMA has no such state.
template <class Executor, class TeardownHandler>
void async_teardown(
  boost::beast::role_type, basic_stream<Executor>& stream, TeardownHandler&& handler)
{
  boost::asio::async_compose<TeardownHandler, void(error_code)>(
    detail::stream_teardown<Executor>(stream), handler, stream);
}

// The same in the call.
template <class Executor>
void teardown(boost::beast::role_type, basic_stream<Executor>& stream, error_code& ec)
{
  stream.shutdown(boost::asio::socket_base::shutdown_send, ec);
  std::array<char, 2048> room{};
  while (!ec)
    stream.read_some(boost::asio::buffer(room), ec);
  if (ec == boost::asio::error::would_block)
    return;
  stream.close();
  if (ec == boost::asio::error::eof)
    ec = {};
}

// Closes a stream whose WebSocket has timed out.
template <class Executor>
void beast_close_socket(basic_stream<Executor>& stream)
{
  stream.close();
}

} // namespace rdma

#endif // BOOST_RDMA_DETAIL_STREAM_TEARDOWN_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_TCP_CONTROL_STREAM_HPP
#define BOOST_RDMA_LIB_CONNECT_TCP_CONTROL_STREAM_HPP

#include "boost_rdma/detail/control_stream.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/socket_base.hpp>

#include <utility>

#include <fcntl.h>

namespace rdma::detail {

// Closes the socket in programs that this process starts: they would keep connections open that are
// closed here, and the acceptor's port in use. Asio cannot open sockets with this flag.
template <class Socket>
void close_on_exec(Socket& socket) noexcept
{
  ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
}

// TCP, on the connection service's own io_context.
class tcp_control_stream final : public control_stream
{
public:
  using socket_type =
    boost::asio::basic_stream_socket<boost::asio::ip::tcp, boost::asio::io_context::executor_type>;

  explicit tcp_control_stream(socket_type connected_or_not)
    : socket(std::move(connected_or_not))
  {
  }

  void open(const boost::asio::ip::tcp& protocol, error_code& ec)
  {
    socket.open(protocol, ec);
    if (!ec)
      close_on_exec(socket);
  }

  // Frames are small and must be sent at once. The kernel also detects a host that has failed.
  void set_options()
  {
    error_code ignored;
    socket.set_option(boost::asio::ip::tcp::no_delay(true), ignored);
    socket.set_option(boost::asio::socket_base::keep_alive(true), ignored);
  }

  void read_some(const boost::asio::mutable_buffer& to, handler_type handler) override
  {
    socket.async_read_some(to, std::move(handler));
  }

  void write_some(const boost::asio::const_buffer& from, handler_type handler) override
  {
    socket.async_write_some(from, std::move(handler));
  }

  bool probe(handler_type) override { return false; }

  [[nodiscard]] bool has_unread() override
  {
    error_code ignored;
    return socket.available(ignored) != 0;
  }

  void shutdown_send() override
  {
    error_code ignored;
    socket.shutdown(boost::asio::socket_base::shutdown_send, ignored);
  }

  void close() override
  {
    error_code ignored;
    socket.close(ignored);
  }

  void end_in_child() override {} // ended with the connection service's io_context

  [[nodiscard]] boost::asio::ip::tcp::endpoint local_endpoint() const override
  {
    error_code ignored;
    return socket.local_endpoint(ignored);
  }

  [[nodiscard]] boost::asio::ip::tcp::endpoint remote_endpoint() const override
  {
    error_code ignored;
    return socket.remote_endpoint(ignored);
  }

  socket_type socket;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_CONNECT_TCP_CONTROL_STREAM_HPP

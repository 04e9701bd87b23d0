//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_CONTROL_STREAM_HPP
#define BOOST_RDMA_DETAIL_CONTROL_STREAM_HPP

#include <boost_rdma/error.hpp>

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <cstddef>

namespace rdma::detail {

// Carries the handshake and then the control frames: a TCP socket or a stream of the user. Used
// only on the connection service's thread. At most one read and one write are outstanding. Their
// handlers are called on that thread, and never inside the initiating call.
class control_stream
{
public:
  using handler_type = boost::asio::any_completion_handler<void(error_code, std::size_t)>;

  virtual ~control_stream() = default;
  virtual void read_some(const boost::asio::mutable_buffer& to, handler_type handler) = 0;
  virtual void write_some(const boost::asio::const_buffer& from, handler_type handler) = 0;

  // Returns true if threads outside the library read the stream; they may be busy. `handler` is
  // then called after they have processed the request.
  virtual bool probe(handler_type handler) = 0;

  // Returns true if bytes have arrived that no read has taken yet. A stream that others read as
  // well returns false: probe() finds out.
  [[nodiscard]] virtual bool has_unread() { return false; }

  // Ends the sending direction. The peer can still read data that was written before.
  virtual void shutdown_send() = 0;

  // Aborts outstanding reads and writes.
  virtual void close() = 0;

  // Called in a child process that continues to use the user's execution context. The stream
  // belongs to the parent: the child must neither read from it nor let it keep run() from
  // returning.
  virtual void end_in_child() = 0;

  // Addresses of the two hosts; unspecified if unknown.
  [[nodiscard]] virtual boost::asio::ip::tcp::endpoint local_endpoint() const = 0;
  [[nodiscard]] virtual boost::asio::ip::tcp::endpoint remote_endpoint() const = 0;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_DETAIL_CONTROL_STREAM_HPP

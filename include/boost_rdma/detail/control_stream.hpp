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

// What carries the handshake, and then the control frames: TCP, or whatever stream the user has.
// Used by the connection service's thread alone. One read and one write may be outstanding; their
// handlers are not called inside the call, and on the service's thread.
class control_stream
{
public:
  using handler_type = boost::asio::any_completion_handler<void(error_code, std::size_t)>;

  virtual ~control_stream() = default;
  virtual void read_some(const boost::asio::mutable_buffer& to, handler_type handler) = 0;
  virtual void write_some(const boost::asio::const_buffer& from, handler_type handler) = 0;

  // Whether what arrives is read by somebody else's threads, who may be busy; then `handler` is
  // called when they have got round to us.
  virtual bool probe(handler_type handler) = 0;

  // Nothing more will be written; the peer may read what was.
  virtual void shutdown_send() = 0;

  // Outstanding reads and writes end.
  virtual void close() = 0;

  // In a child process that goes on with the user's execution context. The stream is the parent's:
  // nothing may read from it here, or keep run() from returning.
  virtual void end_in_child() = 0;

  // Addresses of the hosts; unspecified where they are not known.
  [[nodiscard]] virtual boost::asio::ip::tcp::endpoint local_endpoint() const = 0;
  [[nodiscard]] virtual boost::asio::ip::tcp::endpoint remote_endpoint() const = 0;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_DETAIL_CONTROL_STREAM_HPP

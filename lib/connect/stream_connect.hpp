//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_STREAM_CONNECT_HPP
#define BOOST_RDMA_LIB_CONNECT_STREAM_CONNECT_HPP

#include "boost_rdma/detail/connected_peer.hpp"
#include "boost_rdma/error.hpp"
#include "completion/handler_slot.hpp"
#include "completion/inbox.hpp"
#include "connect/handshake.hpp"

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include <atomic>
#include <functional>
#include <memory>

namespace rdma::detail {

class discovery_client;

// The settings of a client.
struct stream_client
{
  boost::asio::any_io_executor executor;         // of the program's object
  boost::asio::any_io_executor inner;            // without strands
  std::function<queue_pair_settings()> settings; // for a server with RDMA; throws system_error
  bool rdma = true;                              // at least one is allowed
  bool tcp = true;
};

// A client that connects to a server of streams, or to a plain TCP server.
class stream_connect : public std::enable_shared_from_this<stream_connect>
{
public:
  using handler_type = boost::asio::any_completion_handler<void(error_code, connected_peer)>;

  // Throws system_error if no thread can be started.
  explicit stream_connect(stream_client with);

  // Either of these, once. run() waits.
  void start(const boost::asio::ip::tcp::endpoint& server, handler_type handler);
  connected_peer run(const boost::asio::ip::tcp::endpoint& server, error_code& ec);

  // For a socket that the program connects (tools/rdma_sockets): ask() before that, so that the
  // question is there before the connection, from the address that the socket has if it has one,
  // and decide() after it, once each. decide() takes a
  // copy of the socket. The handler's peer has a queue pair, or the reason for which the program's
  // socket goes on with TCP; after an error, neither.
  void ask(const boost::asio::ip::tcp::endpoint& server, const boost::asio::ip::address& from);
  void decide(const boost::asio::ip::tcp& protocol, int socket, handler_type handler);

  // Any thread. Ends it with operation_aborted, unless it has ended.
  void cancel();

private:
  template <class Function>
  void begin(handler_type handler, Function function);
  template <class Function, class Handler>
  void spawn(Function function, Handler handler);

  const stream_client with_;
  const std::shared_ptr<inbox> inbox_;
  boost::asio::cancellation_signal cancellation_; // of the service's thread
  std::shared_ptr<discovery_client> question_;    // likewise, after ask()
  std::atomic<bool> cancels_{false};              // the function for that is queued
  handler_slot cancel_slot_;                      // of that function: close() needs no memory
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_CONNECT_STREAM_CONNECT_HPP

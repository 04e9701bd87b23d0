//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_UPGRADED_STREAM_HPP
#define BOOST_RDMA_LIB_CONNECT_UPGRADED_STREAM_HPP

#include "boost_rdma/detail/control_stream.hpp"
#include "boost_rdma/detail/exclusive_executor.hpp"
#include "boost_rdma/detail/user_stream.hpp"
#include "completion/inbox.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/io_context.hpp>

#include <memory>

namespace rdma::detail {

// A user's stream as a control stream.
//
// Two executors are involved. This object is used on the service's thread, like the connection that
// owns it. The user's stream is accessed only on its own executor, by one thread at a time, because
// that executor may have many threads. The user runs no operations on it any more because the
// stream was moved into the library. Each operation is posted to the stream's executor, and its
// result is posted back.
//
// Lifetimes:
// - The connection, with its buffers and handlers, is destroyed when it ends or with the service,
//   possibly while an operation on the user's stream is in flight. That operation owns the stream
//   and the bytes (user_transfer). It refers to the `wait` of the service weakly, and locks that
//   reference on the service's thread only.
// - The service's io_context is destroyed when the user's execution context is shut down. From then
//   on handlers of that context are destroyed but not called, and the inbox drops their results.
// - The user's stream is destroyed with its last operation. The last operation is `ending`, which
//   closes the stream. The stream is therefore destroyed on its executor, or by the end of the
//   execution context, when no thread runs there.
//
// TLS's close_notify is not sent: control frames mark their own end, and data after frame_type::bye
// is ignored.
class upgraded_stream final : public control_stream
{
public:
  // Called on the stream's executor. `io` is that of the connection service.
  upgraded_stream(boost::asio::io_context& io, const std::shared_ptr<inbox>& to_service,
    const boost::asio::any_io_executor& executor, std::unique_ptr<user_stream> stream);
  ~upgraded_stream() override;

  void read_some(const boost::asio::mutable_buffer& to, handler_type handler) override;
  void write_some(const boost::asio::const_buffer& from, handler_type handler) override;
  bool probe(handler_type handler) override;
  void shutdown_send() override;
  void close() override;
  void end_in_child() override;

  [[nodiscard]] boost::asio::ip::tcp::endpoint local_endpoint() const override { return local_; }
  [[nodiscard]] boost::asio::ip::tcp::endpoint remote_endpoint() const override { return remote_; }

private:
  class wait;
  class ending;
  friend class user_transfer;

  template <class Function>
  void start(wait& what, Function function);

  const exclusive_executor executor_;
  const exclusive_executor never_here_; // the same; calls no function inside execute()
  // Keeps the user's context from running out of work between two operations.
  boost::asio::any_io_executor work_;
  const std::shared_ptr<wait> reading_;
  const std::shared_ptr<wait> writing_;
  const std::shared_ptr<wait> probing_;
  std::shared_ptr<user_stream> stream_; // null after close
  // The same stream, independent of stream_, which a thread of the parent may have been changing.
  const std::weak_ptr<user_stream> in_child_;
  std::shared_ptr<ending> ending_; // likewise null
  const boost::asio::ip::tcp::endpoint local_;
  const boost::asio::ip::tcp::endpoint remote_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_CONNECT_UPGRADED_STREAM_HPP

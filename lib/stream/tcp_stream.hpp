//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_STREAM_TCP_STREAM_HPP
#define BOOST_RDMA_LIB_STREAM_TCP_STREAM_HPP

#include "boost_rdma/detail/stream_core.hpp"

#include <boost/asio/ip/tcp.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace rdma::detail {

// A stream whose peer has no RDMA.
class tcp_stream final
  : public stream_core
  , public std::enable_shared_from_this<tcp_stream>
{
public:
  // Precondition: the peer has a socket.
  tcp_stream(connected_peer peer, std::shared_ptr<device_set> devices);
  ~tcp_stream() override { tcp_stream::close(); }

  void read_some(const io_executor& executor, const targets& to, size_handler handler,
    bool on_executor) override;
  void write_some(const io_executor& executor, const sources& from, size_handler handler,
    bool on_executor) override;
  void wait(
    const io_executor& executor, wait_type what, plain_handler handler, bool on_executor) override;
  std::size_t read_some(const targets& to, bool waits, error_code& ec) override;
  std::size_t write_some(const sources& from, bool waits, error_code& ec) override;
  void wait(wait_type what, bool waits, error_code& ec) override;
  [[nodiscard]] std::size_t available() const override;
  [[nodiscard]] sources peek() override;
  void consume(std::size_t size) override;
  [[nodiscard]] bool is_open() const override { return socket_.is_open(); }
  [[nodiscard]] transport_choice transport() const override;
  [[nodiscard]] endpoint_type local_endpoint() const override { return local_; }
  [[nodiscard]] endpoint_type remote_endpoint() const override { return remote_; }
  void shut_down(error_code& ec) override;
  void cancel() override;
  void close() override;

private:
  template <class Buffers>
  [[nodiscard]] bool refuses(
    const io_executor& executor, const Buffers& buffers, size_handler& handler) const;
  [[nodiscard]] error_code look_at_beginning();
  [[nodiscard]] bool can_use(bool waits, error_code& ec);
  [[nodiscard]] boost::asio::const_buffer ahead() const;

  const std::shared_ptr<device_set> devices_;   // of the context, for its statistics
  mutable boost::asio::ip::tcp::socket socket_; // available() is not const
  const std::string why_;
  const endpoint_type local_;
  const endpoint_type remote_;
  bool begins_ = true;           // nothing has been read
  std::vector<std::byte> ahead_; // bytes that peek() has read, from first_ahead_ on
  std::size_t first_ahead_ = 0;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_STREAM_TCP_STREAM_HPP

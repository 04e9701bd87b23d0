//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_STREAM_CLIENT_STREAM_HPP
#define BOOST_RDMA_LIB_STREAM_CLIENT_STREAM_HPP

#include "boost_rdma/detail/process_mark.hpp"
#include "boost_rdma/detail/stream_core.hpp"
#include "connect/stream_connect.hpp"

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>

namespace rdma::detail {

// A stream that connects. Then it passes everything on to a stream of the queue pair or socket.
class client_stream final
  : public stream_core
  , public std::enable_shared_from_this<client_stream>
{
public:
  client_stream(
    stream_client with, std::shared_ptr<device_set> devices, const stream_options& options);

  void connect(
    const io_executor& executor, const endpoint_type& server, plain_handler handler) override;
  void connect(const endpoint_type& server, error_code& ec) override;
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
  [[nodiscard]] std::shared_ptr<queue_pair_core> queue_pair() const override;
  [[nodiscard]] bool is_open() const override;
  [[nodiscard]] transport_choice transport() const override;
  [[nodiscard]] endpoint_type local_endpoint() const override;
  [[nodiscard]] endpoint_type remote_endpoint() const override;
  void shut_down(error_code& ec) override;
  void cancel() override;
  void close() override;
  void abort() override;

  // Called by the handler of the attempt. Returns the error for the program.
  [[nodiscard]] error_code connected(const error_code& ec, connected_peer peer);

private:
  // The stream, when connected. Functions without the mutex may run during connected().
  [[nodiscard]] stream_core* stream() const noexcept
  {
    return ready_.load(std::memory_order_acquire);
  }
  [[nodiscard]] error_code why_not() const noexcept;
  [[nodiscard]] std::shared_ptr<stream_connect> begin(error_code& ec);
  [[nodiscard]] std::shared_ptr<stream_connect> take_attempt(bool closes);

  const stream_client with_;
  const std::shared_ptr<device_set> devices_; // for statistics
  const stream_options options_;
  const process_mark process_;
  std::atomic<stream_core*> ready_{nullptr}; // stream_, set once
  std::atomic<bool> closed_{false};

  std::mutex mutex_;
  std::shared_ptr<stream_connect> attempt_;
  std::shared_ptr<stream_core> stream_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_STREAM_CLIENT_STREAM_HPP

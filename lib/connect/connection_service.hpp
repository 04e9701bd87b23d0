//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_CONNECTION_SERVICE_HPP
#define BOOST_RDMA_LIB_CONNECT_CONNECTION_SERVICE_HPP

#include "boost_rdma/detail/process_mark.hpp"
#include "completion/abandonable.hpp"
#include "connect/inbox.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace rdma::detail {

class connection;
class control_stream;

// Runs everything of layer 3 on one background thread, for each execution context that connects.
//
// A control connection is watched for as long as its queue pair lives. Were that a read on the
// user's io_context, run() would not return while a connected queue pair exists, and a peer would
// be taken for dead whenever a handler computes for long. As a rule, then: sockets and timers of
// layer 3 live here, and only the user's handlers go to the user's executors. It also makes layer 3
// single-threaded.
class connection_service : public boost::asio::execution_context::service
{
public:
  using key_type = connection_service;
  static boost::asio::execution_context::id id;

  // Throws system_error when there is no thread to be had.
  explicit connection_service(boost::asio::execution_context& owner);
  ~connection_service() override;

  // Throws likewise, and error::forked in a child of the process that has the thread.
  static connection_service& of(const boost::asio::any_io_executor& executor);

  [[nodiscard]] boost::asio::io_context& io() noexcept { return *io_; }
  [[nodiscard]] const std::shared_ptr<inbox>& words() const noexcept { return words_; }
  [[nodiscard]] bool forked() const noexcept { return process_.foreign(); }

  void add(std::weak_ptr<abandonable> object);

  // A connection on a stream of the user's, which hears of fork().
  std::shared_ptr<connection> make_connection(std::unique_ptr<control_stream> stream);

private:
  void shutdown() override;
  void notify_fork(boost::asio::execution_context::fork_event event) override;
  void start();
  void run() noexcept;

  std::unique_ptr<boost::asio::io_context> io_;
  std::shared_ptr<inbox> words_; // for io_
  std::unique_ptr<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> work_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<abandonable>> objects_;
  std::size_t objects_at_sweep_ = 0; // that were in use
  process_mark process_;             // that has the thread
  std::unique_ptr<std::thread> thread_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_CONNECT_CONNECTION_SERVICE_HPP

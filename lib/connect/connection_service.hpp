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
#include "completion/handler_slot.hpp"
#include "completion/inbox.hpp"

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
class late_tasks;

// Runs layer 3 on one background thread for each execution context that connects.
//
// A control connection is read for the lifetime of its queue pair. On the user's io_context, this
// read would keep run() from returning, and a handler that computes for a long time would make a
// peer appear dead. Sockets and timers of layer 3 therefore belong to this thread, and only the
// user's handlers run on the user's executors. Layer 3 needs few locks as a result.
class connection_service : public boost::asio::execution_context::service
{
public:
  using key_type = connection_service;
  static boost::asio::execution_context::id id;

  // Throws system_error if no thread can be started.
  explicit connection_service(boost::asio::execution_context& owner);
  ~connection_service() override;

  // Throws likewise, and error::forked in a child of the process with the thread.
  static connection_service& of(const boost::asio::any_io_executor& executor);

  [[nodiscard]] boost::asio::io_context& io() noexcept { return *io_; }
  [[nodiscard]] const std::shared_ptr<inbox>& service_inbox() const noexcept { return inbox_; }
  [[nodiscard]] bool forked() const noexcept { return process_.foreign(); }

  void add(std::weak_ptr<abandonable> object);

  // Returns a connection on a stream of the user; end_in_child() is called for it after fork().
  std::shared_ptr<connection> make_connection(std::unique_ptr<control_stream> stream);

private:
  void shutdown() override;
  void notify_fork(boost::asio::execution_context::fork_event event) override;
  void start();
  void run() noexcept;

  std::unique_ptr<boost::asio::io_context> io_;
  std::shared_ptr<inbox> inbox_; // for io_
  std::shared_ptr<late_tasks> late_;
  std::unique_ptr<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> work_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<abandonable>> objects_;
  std::size_t objects_at_sweep_ = 0; // number that was in use
  process_mark process_;             // the process with the thread
  std::unique_ptr<std::thread> thread_;
  handler_slot stop_slot_; // of the function that ends the thread
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_CONNECT_CONNECTION_SERVICE_HPP

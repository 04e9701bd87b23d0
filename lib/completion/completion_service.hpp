//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_COMPLETION_COMPLETION_SERVICE_HPP
#define BOOST_RDMA_LIB_COMPLETION_COMPLETION_SERVICE_HPP

#include "completion/abandonable.hpp"
#include "completion/completion_queue_impl.hpp"

#include <boost/asio/execution_context.hpp>

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace rdma::detail {

// Finds the completion queue of an execution context and device, and shuts down the completion
// queues when the execution context is destroyed.
class completion_service : public boost::asio::execution_context::service
{
public:
  using key_type = completion_service;
  static boost::asio::execution_context::id id;

  explicit completion_service(boost::asio::execution_context& owner);

  static completion_service& of(const boost::asio::any_io_executor& executor);

  // Returns the queue that queue pairs without an own one share, with `reserved` entries reserved.
  // It is created on first use and destroyed with its last user. Throws system_error.
  std::shared_ptr<completion_queue_impl> shared_queue(const boost::asio::any_io_executor& executor,
    const std::shared_ptr<device_set>& devices, std::size_t device_index, std::uint32_t reserved);

  void add(completion_queue_impl* queue);
  void remove(completion_queue_impl* queue) noexcept;
  void add(std::weak_ptr<abandonable> object);

private:
  std::shared_ptr<completion_queue_impl> find_shared(device_set* devices, std::size_t device_index);
  void shutdown() override;
  void notify_fork(boost::asio::execution_context::fork_event event) override;

  std::mutex mutex_;
  std::vector<completion_queue_impl*> queues_;
  std::vector<std::weak_ptr<abandonable>> objects_;
  std::map<std::pair<device_set*, std::size_t>, std::weak_ptr<completion_queue_impl>> shared_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_COMPLETION_COMPLETION_SERVICE_HPP

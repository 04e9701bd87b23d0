//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_INITIATE_ENDING_HPP
#define BOOST_RDMA_DETAIL_INITIATE_ENDING_HPP

#include <boost_rdma/detail/queue_pair_core.hpp>
#include <boost_rdma/error.hpp>

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>

#include <memory>
#include <utility>

namespace rdma::detail {

// Completes an operation of a queue pair that was moved from.
void refuse_ending(const boost::asio::any_io_executor& executor,
  boost::asio::any_completion_handler<void(error_code)> handler);

// Initiates an operation that ends a connection or waits for its end.
template <class IoExecutor>
class initiate_ending
{
public:
  using executor_type = IoExecutor;
  using operation_type = void (queue_pair_core::*)(
    const boost::asio::any_io_executor&, queue_pair_core::end_handler);

  initiate_ending(
    const IoExecutor& executor, std::shared_ptr<queue_pair_core> core, operation_type operation)
    : executor_(executor)
    , core_(std::move(core))
    , operation_(operation)
  {
  }

  executor_type get_executor() const noexcept { return executor_; }

  template <class Handler>
  void operator()(Handler&& handler) const
  {
    if (core_)
      ((*core_).*operation_)(executor_, std::forward<Handler>(handler));
    else
      refuse_ending(executor_, std::forward<Handler>(handler));
  }

private:
  IoExecutor executor_;
  std::shared_ptr<queue_pair_core> core_;
  operation_type operation_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_DETAIL_INITIATE_ENDING_HPP

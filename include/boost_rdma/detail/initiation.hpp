//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_INITIATION_HPP
#define BOOST_RDMA_DETAIL_INITIATION_HPP

#include <utility>

namespace rdma::detail {

// The initiation of every asynchronous operation of the library: calls `start` with the I/O
// object's executor, the handler and the arguments of async_initiate().
template <class Executor, class Start>
class initiation
{
public:
  using executor_type = Executor;

  initiation(const Executor& executor, Start start)
    : executor_(executor)
    , start_(std::move(start))
  {
  }

  executor_type get_executor() const noexcept { return executor_; }

  template <class Handler, class... Arguments>
  void operator()(Handler&& handler, Arguments&&... arguments)
  {
    start_(executor_, std::forward<Handler>(handler), std::forward<Arguments>(arguments)...);
  }

private:
  Executor executor_;
  Start start_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_DETAIL_INITIATION_HPP

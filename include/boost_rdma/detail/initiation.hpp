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

// The executor of an I/O object, as an initiation holds it.
template <class Executor>
class kept_executor
{
public:
  explicit kept_executor(const Executor& executor)
    : executor_(executor)
  {
  }

  [[nodiscard]] const Executor& get() const noexcept { return executor_; }

private:
  Executor executor_;
};

// The initiation of every asynchronous operation of the library: calls `start` with the I/O
// object's executor, the handler and the arguments of async_initiate(). Kept holds the executor.
template <class Executor, class Start, class Kept = kept_executor<Executor>>
class initiation
{
public:
  using executor_type = Executor;

  initiation(const Executor& executor, Start start)
    : initiation(Kept(executor), std::move(start))
  {
  }

  initiation(Kept executor, Start start)
    : executor_(std::move(executor))
    , start_(std::move(start))
  {
  }

  executor_type get_executor() const noexcept { return executor_.get(); }

  template <class Handler, class... Arguments>
  void operator()(Handler&& handler, Arguments&&... arguments)
  {
    start_(executor_.get(), std::forward<Handler>(handler), std::forward<Arguments>(arguments)...);
  }

private:
  Kept executor_;
  Start start_;
};

template <class Executor, class Start>
initiation(const Executor&, Start) -> initiation<Executor, Start>;

} // namespace rdma::detail

#endif // BOOST_RDMA_DETAIL_INITIATION_HPP

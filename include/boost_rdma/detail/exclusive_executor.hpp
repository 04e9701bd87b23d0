//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_EXCLUSIVE_EXECUTOR_HPP
#define BOOST_RDMA_DETAIL_EXCLUSIVE_EXECUTOR_HPP

#include <boost_rdma/detail/process_mark.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/require.hpp>

#include <concepts>
#include <memory>
#include <mutex>
#include <new>
#include <type_traits>
#include <utility>

namespace rdma::detail {

// Runs functions on another executor, one at a time. If there is no memory for a function, or for a
// step that the function takes, execute() destroys the function and does not throw.
//
// Asio's strand (Boost 1.81) then runs no function any more, or ends the process.
class exclusive_executor
{
public:
  // No other type: any_io_executor converts from exclusive_executor, too.
  template <std::same_as<boost::asio::any_io_executor> Inner>
  explicit exclusive_executor(const Inner& inner)
    : inner_(inner)
    , turns_(std::make_shared<turns>())
  {
  }

  template <class Property>
    requires boost::asio::can_query_v<const boost::asio::any_io_executor&, Property>
  [[nodiscard]] decltype(auto) query(const Property& which) const
  {
    return boost::asio::query(inner_, which);
  }

  template <class Property>
    requires boost::asio::can_require_v<const boost::asio::any_io_executor&, Property>
  [[nodiscard]] exclusive_executor require(const Property& which) const
  {
    return {boost::asio::require(inner_, which), turns_};
  }

  template <class Function>
  void execute(Function&& function) const
  try
  {
    execute_or_throw(std::forward<Function>(function));
  }
  catch (const std::bad_alloc&)
  {
  }

  // Throws std::bad_alloc if there is no memory for the function.
  template <class Function>
  void execute_or_throw(Function&& function) const
  {
    inner_.execute(
      [turns = turns_, own = std::decay_t<Function>(std::forward<Function>(function))]() mutable
      { turns->call(own); });
  }

  bool operator==(const exclusive_executor&) const noexcept = default;

private:
  class turns
  {
  public:
    template <class Function>
    void call(Function& function)
    {
      if (process_.foreign())
        return; // the function is the parent's, and another thread there may have held the mutex
      const std::lock_guard lock(mutex_);
      try
      {
        function();
      }
      catch (const std::bad_alloc&)
      {
      }
    }

  private:
    const process_mark process_;
    std::recursive_mutex mutex_; // a function may call others
  };

  exclusive_executor(boost::asio::any_io_executor inner, std::shared_ptr<turns> of)
    : inner_(std::move(inner))
    , turns_(std::move(of))
  {
  }

  boost::asio::any_io_executor inner_;
  std::shared_ptr<turns> turns_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_DETAIL_EXCLUSIVE_EXECUTOR_HPP

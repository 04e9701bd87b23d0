//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_SERVICE_EXECUTOR_HPP
#define BOOST_RDMA_LIB_CONNECT_SERVICE_EXECUTOR_HPP

#include "completion/late_tasks.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/execution/blocking.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/require.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/error_code.hpp>

#include <new>
#include <type_traits>
#include <utility>

namespace rdma::detail {

// While it exists, this thread destroys what is left in a context. Functions that are queued there
// meanwhile are destroyed: by the context, or at once if there is no memory to queue them.
class context_end
{
public:
  explicit context_end(const boost::asio::execution_context& of) noexcept
    : outer_(std::exchange(current_, &of))
  {
  }
  context_end(const context_end&) = delete;
  context_end& operator=(const context_end&) = delete;
  ~context_end() { current_ = outer_; }

  [[nodiscard]] static bool is_of(const boost::asio::execution_context& which) noexcept
  {
    return current_ == &which;
  }

private:
  static inline thread_local constinit const boost::asio::execution_context* current_ = nullptr;

  const boost::asio::execution_context* const outer_;
};

// An executor of the connection service's io_context for its coroutines. If there is no memory to
// queue a function, the thread's late_tasks keep it, or context_end destroys it. The destructor of
// Asio's coroutines queues one (awaitable_thread, Boost 1.74 to 1.87), and would otherwise end the
// process.
template <class Inner>
class basic_service_executor
{
public:
  basic_service_executor(Inner inner) noexcept
    : inner_(std::move(inner))
  {
  }

  template <class Property>
    requires boost::asio::can_query_v<const Inner&, Property>
  [[nodiscard]] decltype(auto) query(const Property& which) const noexcept
  {
    return boost::asio::query(inner_, which);
  }

  template <class Property>
    requires boost::asio::can_require_v<const Inner&, Property>
  [[nodiscard]] auto require(const Property& which) const noexcept
  {
    return basic_service_executor<std::decay_t<decltype(boost::asio::require(inner_, which))>>(
      boost::asio::require(inner_, which));
  }

  template <class Function>
  void execute(Function&& function) const
  {
    using namespace boost::asio;
    late_tasks* const late = late_tasks::of_this_thread();
    const bool ends = context_end::is_of(boost::asio::query(inner_, execution::context));
    if ((late == nullptr && !ends)
      || boost::asio::query(inner_, execution::blocking) != execution::blocking.never)
      return inner_.execute(std::forward<Function>(function));
    std::decay_t<Function> kept(std::forward<Function>(function));
    try
    {
      inner_.execute(std::move(kept)); // allocates before it moves the function
    }
    catch (const std::bad_alloc&)
    {
      if (!ends && !late->keep(kept))
        throw;
    }
  }

  bool operator==(const basic_service_executor&) const noexcept = default;

private:
  Inner inner_;
};

using service_executor = basic_service_executor<boost::asio::io_context::executor_type>;

template <class T>
using service_awaitable = boost::asio::awaitable<T, service_executor>;

// Completion token of asynchronous operations in the service's coroutines; stores the error in ec.
inline auto into(boost::system::error_code& ec)
{
  return boost::asio::redirect_error(boost::asio::use_awaitable_t<service_executor>(), ec);
}

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_CONNECT_SERVICE_EXECUTOR_HPP

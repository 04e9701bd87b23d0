//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_PERF_PLAIN_COROUTINE_HPP
#define BOOST_RDMA_TOOLS_PERF_PLAIN_COROUTINE_HPP

#include "perf/side.hpp"

#include <coroutine>
#include <cstddef>
#include <utility>

namespace perf {

/// A coroutine type without Asio, like those in programs of their own: C++20 only.
class plain_coroutine
{
public:
  struct promise_type
  {
    plain_coroutine get_return_object()
    {
      return plain_coroutine(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { throw; } // to the caller of io_context::run()
  };

  plain_coroutine(plain_coroutine&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr))
  {
  }
  plain_coroutine& operator=(plain_coroutine&&) = delete;
  ~plain_coroutine()
  {
    if (handle_)
      handle_.destroy();
  }

private:
  explicit plain_coroutine(std::coroutine_handle<promise_type> handle)
    : handle_(handle)
  {
  }

  std::coroutine_handle<promise_type> handle_;
};

/// co_await result_of(operation(asio::deferred)) works in any coroutine: the handler resumes it
/// directly.
template <class Deferred>
class result_of
{
public:
  explicit result_of(Deferred operation)
    : operation_(std::move(operation))
  {
  }

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiting)
  {
    std::move(operation_)(
      [this, waiting](rdma::error_code ec, std::size_t value)
      {
        ec_ = ec;
        value_ = value;
        waiting.resume();
      });
  }
  std::size_t await_resume() const
  {
    check(ec_);
    return value_;
  }

private:
  Deferred operation_;
  rdma::error_code ec_;
  std::size_t value_ = 0;
};

} // namespace perf

#endif // BOOST_RDMA_TOOLS_PERF_PLAIN_COROUTINE_HPP

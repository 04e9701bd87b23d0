//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_IO_OBJECT_HPP
#define BOOST_RDMA_DETAIL_IO_OBJECT_HPP

#include <memory>
#include <utility>

namespace rdma::detail {

// Overloaded for cores whose class is private.
template <class Core>
bool is_open_core(const Core& core)
{
  return core.is_open();
}

template <class Core>
void close_core(Core& core)
{
  core.close();
}

/// Common base of I/O objects: an executor, and a core that does the work and is independent of the
/// types of executor and handlers.
template <class Executor, class Core>
class io_object
{
public:
  /// The executor type, for handlers without an associated executor.
  using executor_type = Executor;

  /// Moves an object with its outstanding operations. Later operations on `other` complete with an
  /// error.
  io_object(io_object&& other) noexcept
    : executor_(other.executor_)
    , core_(std::move(other.core_))
  {
  }

  /// Closes this object and moves `other` into it.
  io_object& operator=(io_object&& other) noexcept
  {
    if (this != &other)
    {
      close();
      executor_ = other.executor_;
      core_ = std::move(other.core_);
    }
    return *this;
  }

  /// Returns the executor for handlers without an associated executor.
  [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }

  /// Returns true if the object was neither closed nor moved from.
  [[nodiscard]] bool is_open() const { return core_ && is_open_core(*core_); }

  /// Cancels outstanding operations; they complete with operation_aborted. Events or clients that
  /// they waited for are kept for later operations.
  void cancel()
    requires requires(Core& core) { core.cancel(); }
  {
    if (core_)
      core_->cancel();
  }

  /// Closes the object, as its destructor does; closing a queue pair ends the connection.
  /// Outstanding operations complete with operation_aborted.
  void close()
  {
    if (core_)
      close_core(*core_);
  }

protected:
  /// @cond
  explicit io_object(const Executor& executor, std::shared_ptr<Core> core = nullptr)
    : executor_(executor)
    , core_(std::move(core))
  {
  }

  ~io_object() { close(); }

  Executor executor_;
  std::shared_ptr<Core> core_;
  /// @endcond
};

} // namespace rdma::detail

#endif // BOOST_RDMA_DETAIL_IO_OBJECT_HPP

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

/// What I/O objects have in common: an executor, and a core that does the work and knows neither
/// the executor's nor the handlers' types.
template <class Executor, class Core>
class io_object
{
public:
  /// Whose handlers they are.
  using executor_type = Executor;

  /// Takes over what the other is, its outstanding operations too. Operations on the other then
  /// complete with an error.
  io_object(io_object&& other) noexcept
    : executor_(other.executor_)
    , core_(std::move(other.core_))
  {
  }

  /// Closes what this was, and takes over what the other is.
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

  /// The executor that handlers run on which have none of their own.
  [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }

  /// Neither closed nor moved from.
  [[nodiscard]] bool is_open() const { return core_ && core_->is_open(); }

  /// Outstanding operations complete with operation_aborted. What they waited for is kept for those
  /// to come.
  void cancel()
    requires requires(Core& core) { core.cancel(); }
  {
    if (core_)
      core_->cancel();
  }

  /// Ends the object's work (a queue pair's: the connection), as its destruction does. Outstanding
  /// operations complete with operation_aborted.
  void close()
  {
    if (core_)
      core_->close();
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

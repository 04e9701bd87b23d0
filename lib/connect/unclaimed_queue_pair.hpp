//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_UNCLAIMED_QUEUE_PAIR_HPP
#define BOOST_RDMA_LIB_CONNECT_UNCLAIMED_QUEUE_PAIR_HPP

#include "completion/queue_pair_core.hpp"

#include <memory>
#include <utility>

namespace rdma::detail {

// A queue pair without a user: its destructor closes it.
class unclaimed_queue_pair
{
public:
  using result_type = std::shared_ptr<queue_pair_core>;

  unclaimed_queue_pair() noexcept = default;
  explicit unclaimed_queue_pair(std::shared_ptr<queue_pair_core> core) noexcept
    : core_(std::move(core))
  {
  }
  unclaimed_queue_pair(unclaimed_queue_pair&&) noexcept = default;
  unclaimed_queue_pair& operator=(unclaimed_queue_pair&& other) noexcept
  {
    core_.swap(other.core_); // the destructor of `other` closes the previous one
    return *this;
  }
  ~unclaimed_queue_pair()
  {
    if (core_)
      core_->close();
  }

  explicit operator bool() const noexcept { return static_cast<bool>(core_); }
  queue_pair_core* operator->() const noexcept { return core_.get(); }
  [[nodiscard]] const std::shared_ptr<queue_pair_core>& get() const noexcept { return core_; }
  [[nodiscard]] bool is_connected() const { return core_ && core_->is_connected(); }
  [[nodiscard]] std::shared_ptr<queue_pair_core> release() noexcept
  {
    return std::exchange(core_, nullptr);
  }

private:
  std::shared_ptr<queue_pair_core> core_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_CONNECT_UNCLAIMED_QUEUE_PAIR_HPP

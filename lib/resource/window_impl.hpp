//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RESOURCE_WINDOW_IMPL_HPP
#define BOOST_RDMA_LIB_RESOURCE_WINDOW_IMPL_HPP

#include "resource/domain_impl.hpp"

#include <memory>
#include <mutex>
#include <vector>

namespace rdma::detail {

struct window_impl
{
  window_impl(std::shared_ptr<domain_impl> domain, const std::string& device_name);
  ~window_impl();
  window_impl(const window_impl&) = delete;
  window_impl& operator=(const window_impl&) = delete;

  // Called before a bind to this region is posted. The region remains registered while the window
  // may open on it, even if the device carries out the bind but its completion reports "flushed".
  // May throw std::bad_alloc.
  void may_open_on(registration* region);

  // Called when the bind to this region has completed. Releases the regions of earlier binds.
  void opens_on(registration* region) noexcept;

  // The key of the first bind.
  [[nodiscard]] std::uint32_t next_key() const noexcept { return ibv_inc_rkey(native->rkey); }

  // Ends the access of peers before it returns. Precondition: no bind is outstanding.
  void close() noexcept;

  std::shared_ptr<domain_impl> domain;
  device_impl* device = nullptr;
  ibv_mw* native = nullptr;

private:
  std::mutex mutex_; // several queue pairs may post binds
  std::vector<registration*> held_;
  bool bound_ = false; // the window is bound to held_[0]; later entries are not bound (yet)
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_RESOURCE_WINDOW_IMPL_HPP

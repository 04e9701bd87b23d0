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

  // A bind to this is being posted: it stays registered for as long as the window may open on it,
  // also when the bind is carried out and its completion says "flushed". May throw std::bad_alloc.
  void may_open_on(registration* region);

  // The bind to this has completed, and with it what was bound before.
  void opens_on(registration* region) noexcept;

  std::shared_ptr<domain_impl> domain;
  device_impl* device = nullptr;
  ibv_mw* native = nullptr;

private:
  std::mutex mutex_; // binds by several queue pairs
  std::vector<registration*> held_;
  bool bound_ = false; // to the first of them; the others' binds have not succeeded (yet)
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_RESOURCE_WINDOW_IMPL_HPP

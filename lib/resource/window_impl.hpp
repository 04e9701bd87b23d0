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

namespace rdma::detail {

struct window_impl
{
  window_impl(std::shared_ptr<domain_impl> domain, const std::string& device_name);
  ~window_impl();
  window_impl(const window_impl&) = delete;
  window_impl& operator=(const window_impl&) = delete;

  // The window is bound to this now: it stays registered for as long as the window may open on it.
  void hold(registration* bound) noexcept;

  std::shared_ptr<domain_impl> domain;
  device_impl* device = nullptr;
  ibv_mw* native = nullptr;

private:
  registration* bound_ = nullptr;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_RESOURCE_WINDOW_IMPL_HPP

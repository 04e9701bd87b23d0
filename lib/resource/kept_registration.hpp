//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RESOURCE_KEPT_REGISTRATION_HPP
#define BOOST_RDMA_LIB_RESOURCE_KEPT_REGISTRATION_HPP

#include "boost_rdma/detail/registration.hpp"

#include <utility>

namespace rdma::detail {

// Holds a reference to a registration.
class kept_registration
{
public:
  kept_registration() = default;
  explicit kept_registration(registration* kept) noexcept
    : kept_(kept)
  {
    kept_->retain();
  }
  kept_registration(kept_registration&& other) noexcept
    : kept_(std::exchange(other.kept_, nullptr))
  {
  }
  kept_registration& operator=(kept_registration&& other) noexcept
  {
    std::swap(kept_, other.kept_);
    return *this;
  }
  ~kept_registration()
  {
    if (kept_ != nullptr)
      kept_->release();
  }

private:
  registration* kept_ = nullptr;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_RESOURCE_KEPT_REGISTRATION_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_PROTECTION_DOMAIN_HPP
#define BOOST_RDMA_PROTECTION_DOMAIN_HPP

#include <boost_rdma/context.hpp>

#include <memory>

namespace rdma {

/// A set of queue pairs and memory that may be used together (ibv_alloc_pd), on all devices of a
/// context.
/**
 * Every context has one of its own, which everything made with the context uses. Make another to
 * keep a group of peers away from the memory that is exposed to the rest: a queue pair reaches,
 * and lets its peer reach, only memory of its own domain.
 *
 * A copy is a handle to the same domain.
 *
 * @par Thread safety
 * Distinct objects: safe, also handles to the same domain. Shared objects: safe, except for
 * assignment.
 */
class protection_domain
{
public:
  /// The domain that this context allocates and registers in.
  protection_domain(const rdma::context& context) noexcept
    : impl_(context.impl())
  {
  }

  /// A new domain. Throws system_error with what ibv_alloc_pd said.
  static protection_domain make(const rdma::context& context);

  /// A context of the same devices that allocates and registers in this domain.
  [[nodiscard]] rdma::context context() const { return rdma::context(impl_); }

  /// For the library itself.
  [[nodiscard]] const std::shared_ptr<detail::domain_impl>& impl() const noexcept { return impl_; }

private:
  explicit protection_domain(std::shared_ptr<detail::domain_impl> impl) noexcept
    : impl_(std::move(impl))
  {
  }

  std::shared_ptr<detail::domain_impl> impl_;
};

} // namespace rdma

#endif // BOOST_RDMA_PROTECTION_DOMAIN_HPP

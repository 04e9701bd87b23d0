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

/// A set of queue pairs and memory that may be used together (ibv_alloc_pd(3)), on all devices of a
/// context.
/**
 * Every context has its own domain, which all objects made with the context use. Create another
 * domain to separate a group of peers from the memory that is exposed to the others: a queue pair
 * and its peer can access only memory of the queue pair's domain.
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
  /// Returns a handle to the domain in which this context allocates and registers.
  protection_domain(const rdma::context& context) noexcept
    : impl_(context.impl())
  {
  }

  /// Creates a domain. Throws system_error with the error of ibv_alloc_pd.
  static protection_domain make(const rdma::context& context);

  /// Returns a context of the same devices that allocates and registers in this domain.
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

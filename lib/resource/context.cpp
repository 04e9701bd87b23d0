//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/context.hpp"

#include "boost_rdma/protection_domain.hpp"
#include "boost_rdma/statistics.hpp"
#include "resource/domain_impl.hpp"
#include "resource/pool_impl.hpp"

namespace rdma {
namespace {

constexpr std::size_t buffer_alignment = 64; // documented in context::allocate()

} // namespace

context::context()
  : context(context_options{})
{
}

context::context(const context_options& options)
  : impl_(detail::domain_impl::make(std::make_shared<detail::device_set>(options)))
{
}

context::context(const context_options& options, error_code& ec)
{
  ec = {};
  try
  {
    *this = context(options);
  }
  catch (const system_error& e)
  {
    ec = e.code();
  }
}

device context::default_device() const
{
  return device(impl_->default_device());
}

std::vector<device> context::devices() const
{
  std::vector<device> result;
  for (const auto& opened : impl_->devices()->devices)
    if (opened)
      result.emplace_back(*opened);
  return result;
}

registered_buffer context::allocate(std::size_t size) const
{
  if (registered_buffer cached = impl_->pool().allocate_cached(size); cached.size() != 0)
    return cached;
  return pool().make_buffer(size);
}

registered_buffer context::allocate(std::size_t size, error_code& ec) const
{
  ec = {};
  if (registered_buffer cached = impl_->pool().allocate_cached(size); cached.size() != 0)
    return cached;
  return pool().make_buffer(size, buffer_alignment, ec);
}

memory_pool& context::pool() const noexcept
{
  return impl_->resource();
}

memory_pool_statistics context::pool_statistics() const
{
  return impl_->pool().statistics();
}

rdma::registration_cache_statistics context::registration_cache_statistics() const
{
  return impl_->cache().statistics();
}

rdma::statistics context::statistics() const
{
  rdma::statistics result;
  impl_->devices()->activity.read(result);
  result.pool = pool_statistics();
  result.cache = registration_cache_statistics();
  return result;
}

protection_domain protection_domain::make(const rdma::context& context)
{
  return protection_domain(detail::domain_impl::make(context.impl()->devices()));
}

} // namespace rdma

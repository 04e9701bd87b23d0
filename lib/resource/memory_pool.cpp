//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/memory_pool.hpp"

#include "boost_rdma/protection_domain.hpp"
#include "resource/domain_impl.hpp"
#include "resource/pool_impl.hpp"

#include <cstdio>
#include <string>

namespace rdma {

static_assert(memory_pool::alignment_max == detail::alignment_max);

namespace {

// A separate function, so that the fast path needs no stack frame.
[[gnu::noinline]] void* allocate_or_throw(
  detail::pool_impl& pool, std::size_t bytes, std::size_t alignment)
{
  error_code ec;
  if (std::byte* const taken = pool.take(bytes, alignment, ec))
    return taken;
  throw pool_bad_alloc(ec, (ec.message() + ": " + pool.failure(bytes, ec)).c_str());
}

} // namespace

pool_bad_alloc::pool_bad_alloc(const error_code& ec, const char* what) noexcept
  : code_(ec)
{
  std::snprintf(text_, sizeof text_, "%s", what);
}

memory_pool::memory_pool(const rdma::context& context, const memory_pool_options& options)
  : memory_pool(protection_domain(context), options)
{
}

memory_pool::memory_pool(const protection_domain& domain, const memory_pool_options& options)
  : owner_(true)
{
  auto made = std::make_unique<detail::pool_impl>(*domain.impl(), options);
  made->keep(domain.impl());
  impl_ = made.release(); // ~memory_pool() passes it to retire()
}

memory_pool::~memory_pool()
{
  if (owner_)
    detail::pool_impl::retire(std::unique_ptr<detail::pool_impl>(impl_));
}

registered_buffer memory_pool::make_buffer(std::size_t size, std::size_t alignment)
{
  error_code ec;
  registered_buffer result = make_buffer(size, alignment, ec);
  if (ec)
    throw system_error(ec, "cannot allocate registered memory: " + impl_->failure(size, ec));
  return result;
}

registered_buffer memory_pool::make_buffer(std::size_t size, std::size_t alignment, error_code& ec)
{
  return impl_->allocate(size, alignment, ec);
}

mutable_buffer memory_pool::buffer(std::span<std::byte> memory, error_code& ec) noexcept
{
  ec = {};
  if (memory.empty())
    return {};
  detail::registration* const found = impl_->find(memory.data(), memory.size());
  if (found == nullptr)
  {
    ec = error::not_pool_memory;
    return {};
  }
  const mutable_buffer result(memory.data(), memory.size(), found);
  found->release(); // the allocated block keeps the arena registered
  return result;
}

const_buffer memory_pool::buffer(std::span<const std::byte> memory, error_code& ec) noexcept
{
  // As in const_buffer: the view is never written through.
  return buffer(std::span(const_cast<std::byte*>(memory.data()), memory.size()), ec);
}

mutable_buffer memory_pool::buffer(std::span<std::byte> memory)
{
  return detail::or_throw(
    "memory_pool::buffer", [&](error_code& ec) { return buffer(memory, ec); });
}

const_buffer memory_pool::buffer(std::span<const std::byte> memory)
{
  return buffer(std::span(const_cast<std::byte*>(memory.data()), memory.size()));
}

bool memory_pool::owns(const void* data, std::size_t size) const noexcept
{
  detail::registration* const found = impl_->find(data, size);
  if (found == nullptr)
    return false;
  found->release();
  return true;
}

std::size_t memory_pool::trim() noexcept
{
  return impl_->trim();
}

memory_pool_statistics memory_pool::statistics() const
{
  return impl_->statistics();
}

const memory_pool_options& memory_pool::options() const noexcept
{
  return impl_->options();
}

void* memory_pool::do_allocate(std::size_t bytes, std::size_t alignment)
{
  if (std::byte* const cached = impl_->take_cached(bytes, alignment)) [[likely]]
    return cached;
  return allocate_or_throw(*impl_, bytes, alignment);
}

void memory_pool::do_deallocate(void* memory, std::size_t bytes, std::size_t alignment)
{
  impl_->give_back(static_cast<std::byte*>(memory), bytes, alignment);
}

bool memory_pool::do_is_equal(const std::pmr::memory_resource& other) const noexcept
{
  return this == &other;
}

} // namespace rdma

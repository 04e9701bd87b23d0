//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "agent/lessor_core.hpp"

#include "agent/agent_impl.hpp"
#include "resource/domain_impl.hpp"

#include <algorithm>

namespace rdma {
namespace detail {
namespace {

constexpr std::size_t quick_size_max = std::size_t{128} << 10;
constexpr std::size_t peer_arena_bytes = 65536;
// The pages of a larger arena take a millisecond to unmap. A smaller one needs a descriptor, too.
constexpr std::size_t quick_arena_bytes_max = std::size_t{4} << 20;

} // namespace

lessor_core::lessor_core(const protection_domain& domain, const lessor_options& options)
  : options_(options)
  , domain_(domain)
  , pool_(domain, options.pool)
{
}

std::shared_ptr<agent_attachment> lessor_core::make(const std::shared_ptr<queue_pair_core>& beside)
{
  return agent_impl::make(beside, shared_from_this());
}

bool lessor_core::is_quick(std::size_t size) noexcept
{
  return size <= quick_size_max;
}

std::unique_ptr<memory_pool> lessor_core::make_peer_pool(bool quick) const
{
  if (!domain_.impl()->default_device().traits().copies_shared_memory)
    return nullptr;
  // Most peers lease little, and each pool has few users.
  memory_pool_options options = options_.pool;
  options.arena_size = std::min(options.arena_size, peer_arena_bytes);
  options.idle_bytes_high = options.idle_bytes_low = options.arena_size;
  options.thread_cache_bytes_max = 0;
  if (quick)
  {
    options.arena_size_max = std::min(options.arena_size_max, quick_arena_bytes_max);
    options.huge = huge_pages::off; // the kernel clears them when the arena is made
  }
  return std::make_unique<memory_pool>(domain_, options);
}

lessor_statistics lessor_core::statistics() const
{
  const std::lock_guard lock(mutex_);
  return granted_;
}

bool lessor_core::charge(std::size_t bytes) noexcept
{
  const std::lock_guard lock(mutex_);
  if (granted_.regions >= options_.regions_max
    || bytes > options_.bytes_max - std::min(options_.bytes_max, granted_.bytes))
    return false;
  granted_.bytes += bytes;
  ++granted_.regions;
  return true;
}

void lessor_core::refund(std::size_t bytes) noexcept
{
  const std::lock_guard lock(mutex_);
  granted_.bytes -= bytes;
  --granted_.regions;
}

void lessor_core::count_grant() noexcept
{
  const std::lock_guard lock(mutex_);
  ++granted_.grants;
}

void lessor_core::count_refusal() noexcept
{
  const std::lock_guard lock(mutex_);
  ++granted_.refusals;
}

lessor_charge lessor_charge::take(const std::shared_ptr<lessor_core>& of,
  const std::shared_ptr<peer_share>& share, std::size_t bytes)
{
  const lessor_options& limits = of->options();
  {
    const std::lock_guard lock(share->mutex);
    if (share->regions >= limits.regions_per_peer_max
      || bytes > limits.bytes_per_peer_max - std::min(limits.bytes_per_peer_max, share->bytes)
      || !of->charge(bytes))
      return {};
    share->bytes += bytes;
    ++share->regions;
  }
  return {of, share, bytes};
}

lessor_charge::~lessor_charge()
{
  if (!lessor_)
    return;
  {
    const std::lock_guard lock(share_->mutex);
    share_->bytes -= bytes_;
    --share_->regions;
  }
  lessor_->refund(bytes_);
}

} // namespace detail

lessor::lessor(const rdma::context& context, const lessor_options& options)
  : lessor(protection_domain(context), options)
{
}

lessor::lessor(const protection_domain& domain, const lessor_options& options)
  : core_(std::make_shared<detail::lessor_core>(domain, options))
{
}

const lessor_options& lessor::options() const noexcept
{
  return core_->options();
}

lessor_statistics lessor::statistics() const
{
  return core_->statistics();
}

memory_pool& lessor::pool() const noexcept
{
  return core_->pool();
}

std::shared_ptr<detail::agent_attachment_source> lessor::source() const
{
  return core_;
}

} // namespace rdma

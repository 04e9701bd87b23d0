//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "resource/pool_impl.hpp"

#include "resource/domain_impl.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

// The ways that take no lock; those that do are in pool_slow_paths.cpp.

namespace rdma::detail {
namespace {

constexpr std::size_t buffer_alignment = 64;

std::uint64_t next_id() noexcept
{
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1; // only unlike all others
}

} // namespace

pool_impl::pool_impl(const domain_impl& domain, const memory_pool_options& options)
  : domain_(domain)
  , options_(options)
  , id_(next_id())
  , shell_(std::make_shared<pool_shell>())
  , store_(domain, options, this, &pool_impl::destroy_arena)
{
  shell_->pool = this;
}

pool_impl::~pool_impl()
{
  assert(store_.arenas() == 0);
}

// The size becomes what a block of that alignment takes.
bool pool_impl::check(std::size_t& size, std::size_t alignment, error_code& ec) const noexcept
{
  if (forked())
    ec = error::forked; // and the parent's mutex may be locked for ever
  else if (size == 0)
    ec = error::empty_buffer;
  else if (!std::has_single_bit(alignment) || alignment > alignment_max)
    ec = error::bad_alignment;
  // The latter, which no machine has, keeps the arithmetic from overflowing.
  else if (size > options_.size_max || size > SIZE_MAX / 4)
    ec = error::pool_exhausted;
  else
  {
    ec = {};
    size = round_up(size, alignment);
    return true;
  }
  return false;
}

registered_buffer pool_impl::allocate(std::size_t size, error_code& ec)
{
  return allocate(size, buffer_alignment, ec);
}

registered_buffer pool_impl::allocate(std::size_t size, std::size_t alignment, error_code& ec)
{
  std::size_t bytes = size;
  if (!check(bytes, std::max(alignment, buffer_alignment), ec))
    return {};
  const std::size_t index = bytes <= largest_class_bytes ? class_of(bytes) : large;
  std::byte* data = nullptr;
  pool_block* block = nullptr;
  if (thread_cache* const cache = thread_cache::of(id_); cache != nullptr && index != large && cache->enter())
  {
    block = cache->pop_descriptor();
    if (block != nullptr)
      data = cache->pop(index);
    cache->leave();
  }
  if (data == nullptr)
    data = take_slowly(index, bytes, &block, ec);
  if (data == nullptr)
    return {};
  return dress(*block, data, index != large ? class_bytes[index] : round_up(bytes, page_bytes), index, size);
}

registered_buffer pool_impl::dress(pool_block& block, std::byte* data, std::size_t bytes,
  std::size_t class_index, std::size_t size) const noexcept
{
  block.local_keys = store_.find(data)->local_keys;
  block.base = data;
  block.size = bytes;
  block.class_index = static_cast<std::uint32_t>(class_index);
  // relaxed: the block is ours alone until it is handed out
  block.references.store(1, std::memory_order_relaxed);
  return {&block, size};
}

std::byte* pool_impl::take(std::size_t size, std::size_t alignment, error_code& ec)
{
  size = std::max<std::size_t>(size, 1); // pmr's allocate(0) is no error
  if (!check(size, alignment, ec))
    return nullptr;
  const std::size_t index = size <= largest_class_bytes ? class_of(size) : large;
  if (thread_cache* const cache = thread_cache::of(id_); cache != nullptr && index != large && cache->enter())
  {
    std::byte* const data = cache->pop(index);
    cache->leave();
    if (data != nullptr)
      return data;
  }
  return take_slowly(index, size, nullptr, ec);
}

void pool_impl::give_back(std::byte* block, std::size_t size, std::size_t alignment) noexcept
{
  size = round_up(std::max<std::size_t>(size, 1), alignment);
  const std::size_t index = size <= largest_class_bytes ? class_of(size) : large;
  if (thread_cache* const cache = thread_cache::of(id_); cache != nullptr && index != large && cache->enter())
  {
    const bool kept = cache->push(index, block);
    cache->leave();
    if (kept)
      return;
  }
  give_back_slowly(index, size, block, nullptr);
}

void pool_impl::destroy_block(registration* returned) noexcept
{
  auto* const block = static_cast<pool_block*>(returned);
  pool_impl& pool = *block->pool;
  const std::size_t index = block->class_index;
  std::byte* const data = block->base;
  if (thread_cache* const cache = thread_cache::of(pool.id_);
      cache != nullptr && index != large && cache->enter())
  {
    const bool kept = cache->push(block);
    const bool data_kept = kept && cache->push(index, data);
    cache->leave();
    if (data_kept)
      return;
    // What was kept of it is not ours any more.
    return pool.give_back_slowly(index, class_bytes[index], data, kept ? nullptr : block);
  }
  pool.give_back_slowly(index, block->size, data, block);
}

registration* pool_impl::find(const void* data, std::size_t size) noexcept
{
  arena* const found = store_.find(data);
  if (found == nullptr || !found->try_retain())
    return nullptr;
  if (found->contains(data, size))
    return found;
  found->release();
  return nullptr;
}

} // namespace rdma::detail

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

// Lock-free paths of the pool. pool_slow_paths.cpp has the paths that take its mutex.

namespace rdma::detail {
namespace {

constexpr std::size_t block_bytes(std::size_t size) noexcept
{
  return size <= largest_class_bytes ? class_bytes[class_of(size)] : round_up(size, page_bytes);
}

} // namespace

pool_impl::pool_impl(const domain_impl& domain, const memory_pool_options& options)
  : domain_(domain)
  , shell_(std::make_shared<pool_shell>())
  , store_(domain, options, this, &pool_impl::destroy_arena)
{
  shell_->pool = this;
}

pool_impl::~pool_impl()
{
  assert(store_.arenas() == 0);
}

// Replaces `size` by the size that a block of that alignment takes.
bool pool_impl::check(std::size_t& size, std::size_t alignment, error_code& ec) noexcept
{
  if (forked())
    ec = error::forked; // the mutex may be locked by a thread of the parent
  else if (size == 0)
    ec = error::empty_buffer;
  else if (!std::has_single_bit(alignment) || alignment > alignment_max)
    ec = error::bad_alignment;
  // The first condition is never true on real machines; it prevents overflow. A size that never
  // fits must not trigger trimming.
  else if (size > SIZE_MAX / 4 || block_bytes(round_up(size, alignment)) > options().size_max)
  {
    failures_.fetch_add(1, std::memory_order_relaxed);
    ec = error::pool_exhausted;
  }
  else
  {
    ec = {};
    size = round_up(size, alignment);
    return true;
  }
  return false;
}

registered_buffer pool_impl::allocate(std::size_t size, std::size_t alignment, error_code& ec)
{
  std::size_t bytes = size;
  // An invalid alignment must not become valid by the minimum.
  if (!check(bytes,
        std::has_single_bit(alignment) ? std::max(alignment, buffer_alignment) : alignment, ec))
    return {};
  const std::size_t index = bytes <= largest_class_bytes ? class_of(bytes) : large;
  pool_block* found = index != large ? pop<pool_block>(index) : nullptr;
  if (found == nullptr)
    found = take_slowly<pool_block>(index, bytes, ec);
  return found != nullptr ? registered_buffer(found, size) : registered_buffer();
}

std::byte* pool_impl::take(std::size_t size, std::size_t alignment, error_code& ec)
{
  size = std::max<std::size_t>(size, 1); // allocate(0) of std::pmr is valid
  if (!check(size, alignment, ec))
    return nullptr;
  const std::size_t index = size <= largest_class_bytes ? class_of(size) : large;
  if (index != large)
    if (std::byte* const found = pop<std::byte>(index))
      return found;
  return take_slowly<std::byte>(index, size, ec);
}

void pool_impl::destroy_block(registration* returned) noexcept
{
  auto* const block = static_cast<pool_block*>(returned);
  pool_impl& pool = *block->pool;
  // relaxed: the next owner gets the block from this thread or through the mutex
  block->references.store(1, std::memory_order_relaxed);
  if (block->class_index == large || software::late_writers::any()
    || !pool.push(block->class_index, block))
    pool.give_back_slowly(block->class_index, block->size, block);
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

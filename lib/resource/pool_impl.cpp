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
#include <sys/mman.h>

namespace rdma::detail {

struct pool_impl::block : registration
{
  arena* home = nullptr;
  block* next = nullptr;
};

struct pool_impl::arena
{
  arena(pool_impl& pool, std::size_t bytes)
    : owner(pool)
    , size(bytes)
  {
    void* mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    data = mapped != MAP_FAILED ? static_cast<std::byte*>(mapped) : nullptr;
  }
  ~arena()
  {
    range.reset(); // before the memory goes
    if (data != nullptr)
      ::munmap(data, size);
  }

  pool_impl& owner;
  std::size_t size;
  std::byte* data = nullptr;
  std::unique_ptr<registered_range> range = std::make_unique<registered_range>();
  std::unique_ptr<block[]> blocks;
  std::size_t block_size = 0;
  bool shared = true; // cut into blocks of a size class, rather than one large buffer
};

pool_impl::pool_impl(domain_impl& domain, const memory_pool_options& options)
  : domain_(domain)
  , options_(options)
{
}

pool_impl::~pool_impl() = default;

void pool_impl::clear() noexcept
{
  assert(statistics_.buffers == 0);
  free_.fill(nullptr);
  arenas_.clear();
}

memory_pool_statistics pool_impl::statistics() const
{
  std::lock_guard lock(mutex_);
  return statistics_;
}

std::size_t pool_impl::growth(std::size_t size) const noexcept
{
  const bool shared = size <= options_.arena_size / 4
    && std::bit_ceil(std::max(size, smallest_class)) <= options_.arena_size / 4;
  return shared ? options_.arena_size : size;
}

pool_impl::arena* pool_impl::grow(std::size_t block_size, std::size_t blocks, error_code& ec)
{
  constexpr std::size_t page = 4096;
  const std::size_t size = (block_size * blocks + page - 1) / page * page;
  if (size > options_.size_max - std::min(options_.size_max, statistics_.bytes_registered))
  {
    ec = error::pool_exhausted;
    return nullptr;
  }
  auto made = std::make_unique<arena>(*this, size);
  if (made->data == nullptr)
  {
    ec = last_verbs_error();
    return nullptr;
  }
  made->range->open(domain_, made->data, size, access::local_write, ec);
  if (ec)
    return nullptr;
  made->block_size = block_size;
  made->blocks = std::make_unique<block[]>(blocks);
  for (std::size_t i = 0; i < blocks; ++i)
  {
    block& b = made->blocks[i];
    b.home = made.get();
    b.local_keys = made->range->local_keys();
    b.domain = &domain_;
    b.base = made->data + i * block_size;
    b.size = block_size;
    b.rights = access::local_write;
    b.destroy = &pool_impl::give_back;
  }
  statistics_.arenas++;
  statistics_.bytes_registered += size;
  arenas_.push_back(std::move(made));
  return arenas_.back().get();
}

registered_buffer pool_impl::allocate(std::size_t size, error_code& ec)
{
  ec = {};
  if (size == 0)
  {
    ec = error::empty_buffer;
    return {};
  }
  if (domain_.default_device().forked())
  {
    ec = error::forked; // and the parent's mutex may be locked for ever
    return {};
  }
  // The latter, which no machine has, keeps the arithmetic below from overflowing.
  if (size > options_.size_max || size > SIZE_MAX / 4)
  {
    ec = error::pool_exhausted;
    return {};
  }

  std::lock_guard lock(mutex_);
  block* found = nullptr;
  if (const std::size_t rounded = std::bit_ceil(std::max(size, smallest_class));
      rounded <= options_.arena_size / 4)
  {
    block*& free = free_[static_cast<std::size_t>(std::countr_zero(rounded / smallest_class))];
    if (free == nullptr)
    {
      const std::size_t count = options_.arena_size / rounded;
      arena* fresh = grow(rounded, count, ec);
      if (fresh == nullptr)
        return {};
      for (std::size_t i = count; i-- > 0;)
      {
        fresh->blocks[i].next = free;
        free = &fresh->blocks[i];
      }
    }
    found = free;
    free = found->next;
  }
  else
  {
    arena* fresh = grow(size, 1, ec);
    if (fresh == nullptr)
      return {};
    fresh->shared = false;
    found = &fresh->blocks[0];
  }
  // relaxed: the block is ours alone until it is handed out
  found->references.store(1, std::memory_order_relaxed);
  if (statistics_.buffers++ == 0)
    keep_alive_ = domain_.shared_from_this();
  statistics_.bytes_allocated += found->size;
  return {found, size};
}

void pool_impl::give_back(registration* returned) noexcept
{
  auto* freed = static_cast<block*>(returned);
  pool_impl& pool = freed->home->owner;
  std::shared_ptr<domain_impl> last; // may own the pool: goes after the lock
  std::unique_ptr<arena> emptied;
  std::lock_guard lock(pool.mutex_);
  pool.statistics_.bytes_allocated -= freed->size;
  if (--pool.statistics_.buffers == 0)
    last = std::move(pool.keep_alive_);
  if (freed->home->shared)
  {
    const std::size_t index = static_cast<std::size_t>(std::countr_zero(freed->size / smallest_class));
    freed->next = std::exchange(pool.free_[index], freed);
    return;
  }
  auto home = std::find_if(pool.arenas_.begin(), pool.arenas_.end(),
    [&](const auto& candidate) { return candidate.get() == freed->home; });
  emptied = std::move(*home);
  pool.arenas_.erase(home);
  pool.statistics_.arenas--;
  pool.statistics_.bytes_registered -= emptied->size;
}

} // namespace rdma::detail

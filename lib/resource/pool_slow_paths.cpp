//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "resource/domain_impl.hpp"
#include "resource/pool_impl.hpp"

#include <boost/system/errc.hpp>

#include <algorithm>
#include <new>
#include <utility>

// The ways of a pool that take its mutex.

namespace rdma::detail {

// This thread's. A retired pool takes what comes back at once.
thread_cache* pool_impl::own_cache() noexcept
{
  return retired_ ? nullptr : thread_cache::attach(shell_, id_);
}

std::byte* pool_impl::take_slowly(
  std::size_t class_index, std::size_t size, pool_block** block, error_code& ec)
{
  const lock_type lock(shell_->mutex);
  thread_cache* const cache = own_cache();
  if (block != nullptr && *block == nullptr)
  {
    *block = take_descriptor(cache, ec);
    if (*block == nullptr)
      return nullptr;
  }
  std::byte* data = class_index != large && cache != nullptr ? cache->pop(class_index) : nullptr;
  if (data == nullptr)
    data = take_from_store(cache, class_index, size, ec);
  // At the limit: what others have cached, then memory that is not in one piece large enough.
  if (ec == error::pool_exhausted && empty_all())
    data = take_from_store(nullptr, class_index, size, ec);
  if (ec == error::pool_exhausted && store_.give_back_idle(0) != 0)
    data = take_from_store(nullptr, class_index, size, ec);
  if (data != nullptr)
    return data;
  ++failures_;
  if (block != nullptr)
    give_back_descriptor(std::exchange(*block, nullptr));
  return nullptr;
}

std::byte* pool_impl::take_from_store(
  thread_cache* cache, std::size_t class_index, std::size_t size, error_code& ec)
{
  if (class_index == large)
    return store_.take_large(size, ec);
  std::byte* one = nullptr;
  if (cache == nullptr)
    return store_.take(class_index, &one, 1, ec) != 0 ? one : nullptr;
  // A batch into the magazine, which is empty, but for the one that is asked for.
  thread_cache::magazine& to = cache->blocks_of(class_index);
  const std::size_t bytes = class_bytes[class_index];
  const std::size_t room = (cache->bytes_max - std::min(cache->bytes_max, cache->bytes())) / bytes;
  const std::size_t taken =
    store_.take(class_index, to.blocks, std::min<std::size_t>(to.batch, room + 1), ec);
  if (taken == 0)
    return nullptr;
  to.batch = std::min(to.batch * 2, to.capacity / 2);
  to.count = static_cast<std::uint32_t>(taken - 1);
  cache->add_bytes(to.count * bytes);
  // The lowest address is given out first, that is, it lies on top.
  std::reverse(to.blocks, to.blocks + taken);
  return to.blocks[taken - 1];
}

void pool_impl::give_back_slowly(
  std::size_t class_index, std::size_t size, std::byte* data, pool_block* block) noexcept
{
  if (forked())
    return; // the parent's: the child's copy of it is of no use
  lock_type lock(shell_->mutex);
  thread_cache* const cache = own_cache();
  if (block != nullptr && (cache == nullptr || !cache->push(block)))
  {
    if (cache != nullptr)
      for (std::size_t i = thread_cache::descriptors_max / 2; i > 0; --i)
        give_back_descriptor(cache->pop_descriptor());
    give_back_descriptor(block);
  }
  if (class_index == large)
    store_.give_back_large(data, size);
  else if (cache == nullptr)
    store_.give_back(class_index, data);
  else if (!cache->push(class_index, data))
  {
    // Half of the magazine that is full; where the thread has as much as it may, half of all.
    const thread_cache::magazine& from = cache->blocks_of(class_index);
    if (from.count == from.capacity)
      flush(*cache, class_index, from.count / 2);
    else
      for (std::size_t i = 0; i < class_count; ++i)
        flush(*cache, i, cache->blocks_of(i).count / 2);
    if (!cache->push(class_index, data))
      store_.give_back(class_index, data);
  }
  end_if_empty(std::move(lock));
}

pool_block* pool_impl::take_descriptor(thread_cache* cache, error_code& ec)
{
  constexpr std::size_t chunk = 64;
  if (cache != nullptr)
    if (pool_block* const cached = cache->pop_descriptor())
      return cached;
  if (free_descriptors_ == nullptr)
  {
    try
    {
      descriptor_chunks_.reserve(descriptor_chunks_.size() + 1);
      descriptor_chunks_.push_back(std::make_unique<pool_block[]>(chunk));
    }
    catch (const std::bad_alloc&)
    {
      ec = make_error_code(boost::system::errc::not_enough_memory);
      return nullptr;
    }
    for (std::size_t i = chunk; i-- > 0;)
    {
      pool_block& each = descriptor_chunks_.back()[i];
      each.domain = &domain_;
      each.rights = access::local_write;
      each.destroy = &pool_impl::destroy_block;
      each.pool = this;
      each.next = std::exchange(free_descriptors_, &each);
    }
  }
  // Half a thread's fill, and one to give out.
  const auto take_one = [&]
  {
    ++descriptors_taken_;
    return std::exchange(free_descriptors_, free_descriptors_->next);
  };
  pool_block* const taken = take_one();
  if (cache != nullptr)
    for (std::size_t i = thread_cache::descriptors_max / 2; i > 1 && free_descriptors_ != nullptr; --i)
      (void)cache->push(take_one()); // it was empty
  return taken;
}

void pool_impl::give_back_descriptor(pool_block* block) noexcept
{
  if (block == nullptr)
    return;
  block->next = std::exchange(free_descriptors_, block);
  --descriptors_taken_;
}

// The oldest go: those on top are the ones that the processor's cache has.
void pool_impl::flush(thread_cache& cache, std::size_t class_index, std::size_t left) noexcept
{
  thread_cache::magazine& from = cache.blocks_of(class_index);
  const std::size_t going = from.count - left;
  for (std::size_t i = 0; i < going; ++i)
    store_.give_back(class_index, from.blocks[i]);
  std::copy(from.blocks + going, from.blocks + from.count, from.blocks);
  from.count = static_cast<std::uint32_t>(left);
  cache.add_bytes(0 - going * class_bytes[class_index]);
}

void pool_impl::empty(thread_cache& cache) noexcept
{
  for (std::size_t i = 0; i < class_count; ++i)
    flush(cache, i, 0);
  while (pool_block* const each = cache.pop_descriptor())
    give_back_descriptor(each);
}

// False when the caches hold nothing, or the system does not let others' be taken from.
bool pool_impl::empty_all() noexcept
{
  const auto& all = shell_->caches;
  if (std::none_of(all.begin(), all.end(), [](const thread_cache* each) { return each->bytes() != 0; }))
    return false;
  if (!thread_cache::claim(all))
    return false;
  for (thread_cache* each : all)
  {
    empty(*each);
    each->let_go();
  }
  return true;
}

std::size_t pool_impl::trim() noexcept
{
  if (forked())
    return 0;
  const lock_type lock(shell_->mutex);
  const std::size_t before = store_.counts().bytes_registered;
  (void)empty_all();
  store_.give_back_idle(0);
  return before - store_.counts().bytes_registered;
}

void pool_impl::detach(thread_cache& cache, lock_type lock) noexcept
{
  empty(cache);
  std::erase(shell_->caches, &cache);
  end_if_empty(std::move(lock));
}

memory_pool_statistics pool_impl::statistics() const
{
  if (forked())
    return {};
  const lock_type lock(shell_->mutex);
  memory_pool_statistics result = store_.counts();
  std::size_t cached_descriptors = 0;
  for (const thread_cache* each : shell_->caches)
  {
    result.bytes_cached += each->bytes();
    cached_descriptors += each->descriptors();
  }
  // Threads go on meanwhile: what was read of them may not add up.
  result.bytes_allocated -= std::min(result.bytes_allocated, result.bytes_cached);
  result.buffers = descriptors_taken_ - std::min(descriptors_taken_, cached_descriptors);
  result.failures = failures_;
  return result;
}

std::string pool_impl::failure(std::size_t size, const error_code& ec) const
{
  if (ec.category() != error_category())
  {
    const lock_type lock(shell_->mutex);
    return registration_failure(store_.growth(size), ec); // so much is registered at once
  }
  if (ec != error::pool_exhausted)
    return std::to_string(size) + " bytes (" + likely_cause(ec) + ")";
  const memory_pool_statistics now = statistics();
  return std::to_string(size) + " bytes are more than the pool has left: " + std::to_string(now.bytes_allocated)
    + " of " + std::to_string(now.bytes_registered) + " registered bytes are in use, " + std::to_string(now.bytes_cached)
    + " in threads' caches, and memory_pool_options::size_max is " + std::to_string(options_.size_max) + " ("
    + likely_cause(ec) + ")";
}

void pool_impl::destroy_arena(registration* unused) noexcept
{
  auto& closed = static_cast<arena&>(*unused);
  auto& pool = *static_cast<pool_impl*>(closed.owner);
  if (pool.forked())
    return;
  lock_type lock(pool.shell_->mutex);
  pool.store_.close(closed);
  pool.end_if_empty(std::move(lock));
}

// Everything that comes back from now on comes by way of the mutex, where the last one is noticed.
void pool_impl::start_ending(lock_type& lock) noexcept
{
  (void)lock;
  retired_ = true;
  // Where others' caches cannot be claimed they are emptied when their threads end, and the pool stays as long.
  if (thread_cache::claim(shell_->caches))
  {
    for (thread_cache* each : shell_->caches)
    {
      empty(*each);
      each->retire();
    }
    shell_->caches.clear();
  }
}

void pool_impl::end_if_empty(lock_type lock) noexcept
{
  if (!retired_)
    return;
  store_.give_back_idle(0);
  if (store_.arenas() != 0)
    return;
  shell_->pool = nullptr;
  // Whoever is the owner goes last, when the mutex is free.
  const auto shell = shell_;
  const auto domain_kept = std::move(domain_kept_);
  const auto domain = std::move(domain_of_);
  const auto self = std::move(self_);
  lock.unlock();
}

void pool_impl::retire(std::unique_ptr<pool_impl> pool) noexcept
{
  pool_impl& ending = *pool;
  if (ending.forked())
    return static_cast<void>(pool.release()); // threads that are not here may have been in the midst of it
  lock_type lock(ending.shell_->mutex);
  ending.self_ = std::move(pool);
  ending.start_ending(lock);
  ending.end_if_empty(std::move(lock));
}

void pool_impl::retire(std::unique_ptr<domain_impl> domain) noexcept
{
  pool_impl& ending = domain->pool();
  if (ending.forked())
    return domain->leave_pool();
  lock_type lock(ending.shell_->mutex);
  ending.domain_of_ = std::move(domain);
  ending.start_ending(lock);
  ending.end_if_empty(std::move(lock));
}

} // namespace rdma::detail

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
#include <array>
#include <cerrno>
#include <new>
#include <type_traits>
#include <utility>

// Paths of the pool that take its mutex.

namespace rdma::detail {
namespace {

constexpr std::size_t batch_max = thread_cache::capacity_max(0) / 2; // the largest of any class

std::byte* memory_of(std::byte* memory) noexcept
{
  return memory;
}
std::byte* memory_of(pool_block* block) noexcept
{
  return block->base;
}
pool_block* block_of(std::byte*) noexcept
{
  return nullptr;
}
pool_block* block_of(pool_block* block) noexcept
{
  return block;
}

} // namespace

// Returns this thread's cache. A retired pool has no caches.
thread_cache* pool_impl::own_cache() noexcept
{
  return retired_ || options().thread_cache_bytes_max == 0
    ? nullptr
    : thread_cache::attach(shell_, id_.value());
}

// Calls take(). If the pool's limit or the system's limit of locked memory prevents the allocation,
// releases the threads' caches and retries, then releases the idle arenas and retries. Releases
// nothing if the block would not fit afterwards either.
template <class Take>
auto pool_impl::in_need(Take take, std::size_t bytes, error_code& ec)
{
  const auto refused = [&ec]
  {
    return ec == error::pool_exhausted
      || ec == error_code(ENOMEM, boost::system::system_category());
  };
  auto taken = take();
  if (refused() && empty_all(bytes))
    taken = take();
  if (refused() && store_.may_hold(bytes) && store_.give_back_idle(0) != 0)
    taken = take();
  return taken;
}

// Converts a block of the store to T: the block itself, or a pool_block with a registration. If
// there is no descriptor, returns the block to the store and returns null.
template <class T>
T* pool_impl::from_memory(std::byte* data, [[maybe_unused]] std::size_t class_index,
  [[maybe_unused]] std::size_t bytes, error_code& ec)
{
  if constexpr (std::is_same_v<T, std::byte>)
    return data;
  else if (pool_block* const block = take_descriptor(ec))
  {
    describe_block(*block, data, bytes, class_index);
    return block;
  }
  to_store(class_index, bytes, data);
  return nullptr;
}

template <class T>
T* pool_impl::take_slowly(std::size_t class_index, std::size_t bytes, error_code& ec)
{
  T* const taken = take_locked<T>(class_index, bytes, ec);
  if (taken == nullptr)
    failures_.fetch_add(1, std::memory_order_relaxed);
  return taken;
}
template std::byte* pool_impl::take_slowly(std::size_t, std::size_t, error_code&);
template pool_block* pool_impl::take_slowly(std::size_t, std::size_t, error_code&);

template <class T>
T* pool_impl::take_locked(std::size_t class_index, std::size_t bytes, error_code& ec)
{
  const lock_type lock(shell_->mutex);
  take_back_aside();
  if (class_index == large)
  {
    bytes = round_up(bytes, page_bytes);
    std::byte* const data = in_need([&] { return store_.take_large(bytes, ec); }, bytes, ec);
    return data != nullptr ? from_memory<T>(data, large, bytes, ec) : nullptr;
  }
  bytes = class_bytes[class_index];
  thread_cache* const cache = own_cache();
  std::array<std::byte*, batch_max> batch;
  std::size_t wanted = 1;
  if (cache != nullptr)
  {
    if (T* const found = cache->pop<T>(class_index)) // another thread refilled it in the meantime
      return found;
    auto& magazine = cache->of_class<T>(class_index);
    std::uint32_t& batch_size = cache->batch_of<T>(class_index);
    if (magazine.capacity + 1 < batch_size)
      make_room<T>(*cache, class_index, batch_size - 1 - magazine.capacity);
    wanted = std::min(batch_size, magazine.capacity + 1);
    batch_size = std::min(
      batch_size * 2, static_cast<std::uint32_t>(thread_cache::capacity_max(class_index) / 2));
  }
  const std::size_t taken =
    in_need([&] { return store_.take(class_index, batch.data(), wanted, ec); }, bytes, ec);
  if (taken == 0)
    return nullptr;
  T* const first = from_memory<T>(batch[0], class_index, bytes, ec);
  error_code of_the_rest;               // ignored: the rest of the batch is only a reserve
  for (std::size_t i = taken; i-- > 1;) // leaves the lowest address on top, to be used first
    if (T* const each = from_memory<T>(batch[i], class_index, bytes, of_the_rest))
      if (!cache->push(class_index, each))
        to_store(class_index, bytes, each);
  return first;
}

template <class T>
void pool_impl::to_store(std::size_t class_index, std::size_t bytes, T* item) noexcept
{
  if constexpr (std::is_same_v<T, pool_block>)
  {
    to_store(class_index, bytes, item->base);
    give_back_descriptor(item);
  }
  else if (class_index == large)
    store_.give_back_large(item, bytes);
  else
    store_.give_back(class_index, item);
}

// Keeps a returned block from being reused while a peer may still write to it. Returns false if
// none may. A retired pool allocates nothing.
bool pool_impl::set_aside(
  std::size_t class_index, std::size_t bytes, std::byte* memory, pool_block* block) noexcept
{
  const std::size_t size =
    class_index == large ? round_up(bytes, page_bytes) : class_bytes[class_index];
  if (retired_ || !software::late_writers::may_write(memory, size))
    return false;
  try
  {
    asides_.push_back({class_index, bytes, memory, block});
  }
  catch (const std::bad_alloc&)
  {
    return true; // remains allocated for ever
  }
  return true;
}

void pool_impl::take_back_aside() noexcept
{
  std::erase_if(asides_,
    [this](const aside& each)
    {
      const std::size_t size = each.class_index == large ? round_up(each.bytes, page_bytes)
                                                         : class_bytes[each.class_index];
      if (!retired_ && software::late_writers::may_write(each.memory, size))
        return false;
      if (each.block != nullptr)
        to_store(each.class_index, each.bytes, each.block);
      else
        to_store(each.class_index, each.bytes, each.memory);
      return true;
    });
}

template <class T>
void pool_impl::give_back_slowly(std::size_t class_index, std::size_t bytes, T* item) noexcept
{
  if (forked())
    return; // the child's copy of the parent's pool cannot be used
  lock_type lock(shell_->mutex);
  if (set_aside(class_index, bytes, memory_of(item), block_of(item)))
    return;
  take_back_aside();
  thread_cache* const cache = class_index != large ? own_cache() : nullptr;
  if (cache == nullptr)
    to_store(class_index, bytes, item);
  else if (!cache->push(class_index, item))
  {
    auto& full = cache->of_class<T>(class_index);
    if (!make_room<T>(*cache, class_index, std::max<std::size_t>(full.capacity, 1)))
      flush<T>(*cache, class_index, full.count / 2);
    if (!cache->push(class_index, item))
      to_store(class_index, bytes, item);
  }
  end_if_empty(std::move(lock));
}
template void pool_impl::give_back_slowly(std::size_t, std::size_t, std::byte*) noexcept;
template void pool_impl::give_back_slowly(std::size_t, std::size_t, pool_block*) noexcept;

pool_block* pool_impl::take_descriptor(error_code& ec)
{
  constexpr std::size_t chunk = 64;
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
  ++descriptors_taken_;
  return std::exchange(free_descriptors_, free_descriptors_->next);
}

void pool_impl::give_back_descriptor(pool_block* block) noexcept
{
  block->next = std::exchange(free_descriptors_, block);
  --descriptors_taken_;
}

void pool_impl::describe_block(
  pool_block& block, std::byte* data, std::size_t bytes, std::size_t class_index) const noexcept
{
  const arena& home = *store_.find(data);
  block.local_keys = home.local_keys;
  block.natives = home.natives;
  block.rights = home.rights;
  block.base = data;
  block.size = bytes;
  block.class_index = static_cast<std::uint32_t>(class_index);
}

// Raises the share of one magazine. If the thread's limit is reached, halves the shares of all
// other magazines.
template <class T>
bool pool_impl::make_room(thread_cache& cache, std::size_t class_index, std::size_t more) noexcept
{
  if (cache.of_class<T>(class_index).capacity == thread_cache::capacity_max(class_index)
    || class_bytes[class_index] > cache.bytes_max) // never fits, so the others keep their shares
    return false;
  if (cache.widen<T>(class_index, more))
    return true;
  const auto halve = [&]<class Other>(std::type_identity<Other>, std::size_t i)
  {
    if (std::is_same_v<Other, T> && i == class_index)
      return;
    cache.narrow<Other>(i);
    const auto& less = cache.of_class<Other>(i);
    if (less.count > less.capacity)
      flush<Other>(cache, i, less.capacity);
  };
  for (std::size_t i = 0; i < class_count; ++i)
  {
    halve(std::type_identity<std::byte>(), i);
    halve(std::type_identity<pool_block>(), i);
  }
  return cache.widen<T>(class_index, more);
}

// Flushes the oldest items. Those on top are likely in the processor's cache.
template <class T>
void pool_impl::flush(thread_cache& cache, std::size_t class_index, std::size_t left) noexcept
{
  auto& from = cache.of_class<T>(class_index);
  const std::size_t count = from.count;
  const std::size_t going = count - left;
  for (std::size_t i = 0; i < going; ++i)
    to_store(class_index, class_bytes[class_index], from.items[i]);
  std::copy(from.items + going, from.items + count, from.items);
  from.count.store(static_cast<std::uint32_t>(left), std::memory_order_relaxed);
}

void pool_impl::empty(thread_cache& cache) noexcept
{
  for (std::size_t i = 0; i < class_count; ++i)
  {
    flush<std::byte>(cache, i, 0);
    flush<pool_block>(cache, i, 0);
  }
}

// Returns false if the caches are empty, or hold too little for `wanted` bytes, or other threads'
// caches cannot be claimed.
bool pool_impl::empty_all(std::size_t wanted) noexcept
{
  const auto& all = shell_->caches;
  if (std::none_of(
        all.begin(), all.end(), [](const thread_cache* each) { return each->bytes() != 0; }))
    return false;
  if (!thread_cache::claim(all))
    return false;
  std::size_t cached = 0; // exact, because all caches are claimed
  for (const thread_cache* each : all)
    cached += each->bytes();
  const bool enough = store_.may_hold(wanted, cached);
  for (thread_cache* each : all)
  {
    if (enough)
      empty(*each);
    each->let_go();
  }
  return enough;
}

std::size_t pool_impl::trim() noexcept
{
  if (forked())
    return 0;
  const lock_type lock(shell_->mutex);
  const std::size_t before = store_.counts().bytes_registered;
  take_back_aside();
  (void)empty_all(0);
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
  std::size_t cached = 0;
  for (const thread_cache* each : shell_->caches)
  {
    result.bytes_cached += each->bytes();
    cached += each->blocks();
  }
  // The threads continue in the meantime, so the figures may be inconsistent.
  result.bytes_allocated -= std::min(result.bytes_allocated, result.bytes_cached);
  result.buffers = descriptors_taken_ - std::min(descriptors_taken_, cached);
  result.failures = failures_.load(std::memory_order_relaxed);
  return result;
}

std::string pool_impl::failure(std::size_t size, const error_code& ec) const
{
  if (ec.category() != error_category())
  {
    const lock_type lock(shell_->mutex);
    return registration_failure(store_.growth(size), ec); // the size of the registration
  }
  if (ec != error::pool_exhausted)
    return std::to_string(size) + " bytes (" + likely_cause(ec) + ")";
  const memory_pool_statistics now = statistics();
  return std::to_string(size) + " bytes do not fit into the pool: "
    + std::to_string(now.bytes_allocated) + " of " + std::to_string(now.bytes_registered)
    + " registered bytes are in use, " + std::to_string(now.bytes_cached)
    + " in threads' caches, and memory_pool_options::size_max is "
    + std::to_string(options().size_max) + " (" + likely_cause(ec) + ")";
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

// From now on every block returns through the mutex, so that the last one is noticed.
void pool_impl::start_ending(lock_type& lock) noexcept
{
  (void)lock;
  retired_ = true;
  take_back_aside();
  // If other threads' caches cannot be claimed, they are emptied when their threads end. The pool
  // exists until then.
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
  // Keeps the owners alive until the mutex is unlocked.
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
    return static_cast<void>(pool.release()); // a thread of the parent may have been changing it
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
  domain->cache().clear(); // must not wait for the pool's last block
  lock_type lock(ending.shell_->mutex);
  ending.domain_of_ = std::move(domain);
  ending.start_ending(lock);
  ending.end_if_empty(std::move(lock));
}

} // namespace rdma::detail

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RESOURCE_POOL_IMPL_HPP
#define BOOST_RDMA_LIB_RESOURCE_POOL_IMPL_HPP

#include "boost_rdma/error.hpp"
#include "boost_rdma/memory_pool.hpp"
#include "boost_rdma/registered_buffer.hpp"
#include "resource/block_store.hpp"
#include "resource/pool_block.hpp"
#include "resource/thread_cache.hpp"
#include "verbs/software/memory/late_writers.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace rdma::detail {

class domain_impl;

// A pool of registered memory: a cache of free blocks per thread, in front of a block_store behind
// a mutex.
//
// It ends in two steps. First its owner calls retire(), which empties and closes the threads'
// caches. From then on, returned blocks go to the store, and each arena is closed when its last
// block is returned. With the last arena, the pool and the objects that keep() stored are
// destroyed. Therefore the pool needs no count of allocated blocks while it is in use.
class pool_impl
{
public:
  pool_impl(const domain_impl& domain, const memory_pool_options& options);
  ~pool_impl();
  pool_impl(const pool_impl&) = delete;
  pool_impl& operator=(const pool_impl&) = delete;

  // Allocates a block with a registration of its own, aligned to `alignment` (the alignment of
  // registered_buffer, at least 64). Errors: error::empty_buffer, error::bad_alignment,
  // error::pool_exhausted, error::forked, or the error of the registration.
  [[nodiscard]] registered_buffer allocate(std::size_t size, std::size_t alignment, error_code& ec);
  // Fast path: allocates from this thread's cache, aligned to 64. Returns an empty buffer if the
  // cache has no such block or the size has no class.
  [[nodiscard]] registered_buffer allocate_cached(std::size_t size) noexcept
  {
    if (size - 1 < largest_class_bytes) // and size is not 0
      if (pool_block* const found = pop<pool_block>(class_of(round_up(size, buffer_alignment))))
        return {found, size};
    return {};
  }

  // Allocates a block without a registration of its own. Returns null with the errors above.
  // give_back() requires the same size and alignment.
  [[nodiscard]] std::byte* take(std::size_t size, std::size_t alignment, error_code& ec);
  void give_back(std::byte* block, std::size_t size, std::size_t alignment) noexcept
  {
    size = round_up(std::max<std::size_t>(size, 1), alignment);
    const std::size_t index = size <= largest_class_bytes ? class_of(size) : large;
    if (index == large || software::late_writers::any() || !push(index, block))
      give_back_slowly(index, size, block);
  }
  // Fast path of take(), for alignments that all blocks have.
  [[nodiscard]] std::byte* take_cached(std::size_t size, std::size_t alignment) noexcept
  {
    return size - 1 < largest_class_bytes && alignment <= quantum_bytes
      ? pop<std::byte>(class_of(size))
      : nullptr;
  }

  // Returns the registration of the arena that contains the whole range, with a reference for the
  // caller, or null. Accepts any address. The reference keeps the arena registered, but the block
  // may be reallocated.
  [[nodiscard]] registration* find(const void* data, std::size_t size) noexcept;

  // Releases the threads' caches and arenas without blocks. Returns the number of bytes that were
  // deregistered.
  std::size_t trim() noexcept;

  [[nodiscard]] memory_pool_statistics statistics() const;
  [[nodiscard]] const memory_pool_options& options() const noexcept { return store_.options(); }

  // Returns the reason why an allocation of that size failed, as text for the user.
  [[nodiscard]] std::string failure(std::size_t size, const error_code& ec) const;

  // Ends a stand-alone pool, which keeps its domain alive; or the pool of a domain.
  static void retire(std::unique_ptr<pool_impl> pool) noexcept;
  static void retire(std::unique_ptr<domain_impl> domain) noexcept;
  void keep(std::shared_ptr<domain_impl> domain) noexcept { domain_kept_ = std::move(domain); }

  // Empties the cache of a thread that ends. `lock` holds the shell's mutex.
  void detach(thread_cache& cache, std::unique_lock<std::mutex> lock) noexcept;

private:
  using lock_type = std::unique_lock<std::mutex>;
  static constexpr std::size_t large = pool_block::large;
  static constexpr std::size_t buffer_alignment = 64;

  static void destroy_block(registration* returned) noexcept;
  static void destroy_arena(registration* unused) noexcept;

  [[nodiscard]] bool forked() const noexcept { return shell_->process.foreign(); }
  [[nodiscard]] bool check(std::size_t& size, std::size_t alignment, error_code& ec) noexcept;
  void describe_block(
    pool_block& block, std::byte* data, std::size_t bytes, std::size_t class_index) const noexcept;

  // Lock-free paths. T is std::byte or pool_block, as in thread_cache.
  template <class T>
  [[nodiscard]] T* pop(std::size_t class_index) noexcept;
  template <class T>
  [[nodiscard]] bool push(std::size_t class_index, T* item) noexcept;

  // Paths through the store, which take the mutex.
  template <class T>
  [[nodiscard]] T* take_slowly(std::size_t class_index, std::size_t bytes, error_code& ec);
  template <class T>
  [[nodiscard]] T* take_locked(std::size_t class_index, std::size_t bytes, error_code& ec);
  template <class T>
  void give_back_slowly(std::size_t class_index, std::size_t bytes, T* item) noexcept;
  template <class Take>
  [[nodiscard]] auto in_need(Take take, std::size_t bytes, error_code& ec);
  [[nodiscard]] thread_cache* own_cache() noexcept;
  [[nodiscard]] pool_block* take_descriptor(error_code& ec);
  void give_back_descriptor(pool_block* block) noexcept;
  template <class T>
  [[nodiscard]] T* from_memory(
    std::byte* data, std::size_t class_index, std::size_t bytes, error_code& ec);
  template <class T>
  void to_store(std::size_t class_index, std::size_t bytes, T* item) noexcept;
  [[nodiscard]] bool set_aside(
    std::size_t class_index, std::size_t bytes, std::byte* memory, pool_block* block) noexcept;
  void take_back_aside() noexcept;
  template <class T>
  bool make_room(thread_cache& cache, std::size_t class_index, std::size_t more) noexcept;
  template <class T>
  void flush(thread_cache& cache, std::size_t class_index, std::size_t left) noexcept;
  void empty(thread_cache& cache) noexcept;
  [[nodiscard]] bool empty_all(std::size_t wanted) noexcept;

  void start_ending(lock_type& lock) noexcept;
  void end_if_empty(lock_type lock) noexcept;

  const domain_impl& domain_;
  const pool_id id_;
  const std::shared_ptr<pool_shell> shell_;
  block_store store_;
  std::vector<std::unique_ptr<pool_block[]>> descriptor_chunks_;
  pool_block* free_descriptors_ = nullptr;
  std::size_t descriptors_taken_ = 0; // including those in threads' caches
  // Returned blocks that peers may still write to (software::late_writers). They count as
  // allocated. `block` is null for memory without a registration of its own.
  struct aside
  {
    std::size_t class_index;
    std::size_t bytes;
    std::byte* memory;
    pool_block* block;
  };
  std::vector<aside> asides_;
  std::atomic<std::uint64_t> failures_{0}; // relaxed: a statistic

  bool retired_ = false;
  std::shared_ptr<domain_impl> domain_kept_;
  // Owned by a retired pool itself, and destroyed with the last arena.
  std::unique_ptr<pool_impl> self_;
  std::unique_ptr<domain_impl> domain_of_;
};

template <class T>
inline T* pool_impl::pop(std::size_t class_index) noexcept
{
  thread_cache* const cache = thread_cache::of(id_.value());
  if (cache == nullptr || !cache->enter())
    return nullptr;
  T* const found = cache->pop<T>(class_index);
  cache->leave();
  return found;
}

template <class T>
inline bool pool_impl::push(std::size_t class_index, T* item) noexcept
{
  thread_cache* const cache = thread_cache::of(id_.value());
  if (cache == nullptr || !cache->enter())
    return false;
  const bool kept = cache->push(class_index, item);
  cache->leave();
  return kept;
}

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_RESOURCE_POOL_IMPL_HPP

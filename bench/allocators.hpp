//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_BENCH_ALLOCATORS_HPP
#define BOOST_RDMA_BENCH_ALLOCATORS_HPP

#include "jemalloc.hpp"

#include <boost_rdma/memory_pool.hpp>
#include <boost_rdma/registered_buffer.hpp>

#include <cstddef>
#include <cstdlib>
#include <memory_resource>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>

// The compared allocators. Each has a type `block`, and a type `user` that takes and gives blocks.
// A `user` is constructed in the thread that uses it.

namespace bench {

struct plain_block
{
  void* data = nullptr;
  std::size_t size = 0;
};

/// Any memory_resource: the pool of this library, or another one over registered memory.
struct resource_allocator
{
  using block = plain_block;
  std::pmr::memory_resource* resource;

  struct user
  {
    explicit user(const resource_allocator& all) noexcept
      : resource(all.resource)
    {
    }
    block take(std::size_t size) { return {resource->allocate(size), size}; }
    void give(block& b) { resource->deallocate(b.data, b.size); }
    std::pmr::memory_resource* resource;
  };
};

/// context::allocate().
struct buffer_allocator
{
  using block = rdma::registered_buffer;
  const rdma::context* context;

  struct user
  {
    explicit user(const buffer_allocator& all) noexcept
      : context(all.context)
    {
    }
    block take(std::size_t size) { return context->allocate(size); }
    void give(block& b) { b = block(); }
    const rdma::context* context;
  };
};

/// The process's malloc, from the C library.
struct system_allocator
{
  using block = plain_block;

  struct user
  {
    explicit user(const system_allocator&) noexcept {}
    block take(std::size_t size)
    {
      block result{std::malloc(size), size};
      if (result.data == nullptr)
        throw std::bad_alloc();
      return result;
    }
    void give(block& b) { std::free(b.data); }
  };
};

/// jemalloc's malloc and free.
struct jemalloc_allocator
{
  using block = plain_block;
  const jemalloc* functions;

  struct user
  {
    explicit user(const jemalloc_allocator& all) noexcept
      : functions(all.functions)
    {
    }
    block take(std::size_t size)
    {
      block result{functions->malloc(size), size};
      if (result.data == nullptr)
        throw std::bad_alloc();
      return result;
    }
    void give(block& b) { functions->free(b.data); }
    const jemalloc* functions;
  };
};

/// jemalloc over registered extents, with a cache for each thread.
struct extents_allocator
{
  using block = plain_block;
  const jemalloc* functions;
  unsigned arena;

  struct user
  {
    explicit user(const extents_allocator& all)
      : functions(all.functions)
      , cache(functions->make("tcache.create"))
      // MALLOCX_TCACHE(cache) and MALLOCX_ARENA(arena) of jemalloc.h
      , give_flags(static_cast<int>((cache + 2) << 8))
      , take_flags(give_flags | static_cast<int>((all.arena + 1) << 20))
    {
    }
    ~user() { (void)functions->mallctl("tcache.destroy", nullptr, nullptr, &cache, sizeof cache); }
    user(const user&) = delete;
    user& operator=(const user&) = delete;

    block take(std::size_t size)
    {
      block result{functions->mallocx(size, take_flags), size};
      if (result.data == nullptr)
        throw std::bad_alloc();
      return result;
    }
    void give(block& b) { functions->sdallocx(b.data, b.size, give_flags); }

    const jemalloc* functions;
    unsigned cache;
    int give_flags;
    int take_flags;
  };
};

/// Maps and registers memory for each allocation.
struct region_allocator
{
  using block = rdma::memory_region;
  const rdma::context* context;

  struct user
  {
    explicit user(const region_allocator& all) noexcept
      : context(all.context)
    {
    }
    block take(std::size_t size) { return {*context, size, rdma::access::local_write}; }
    void give(block& b) { b = block(); }
    const rdma::context* context;
  };
};

/// Provides std::pmr::synchronized_pool_resource with chunks that are memory regions.
class registered_upstream final : public std::pmr::memory_resource
{
public:
  explicit registered_upstream(const rdma::context& context)
    : context_(context)
  {
  }

private:
  void* do_allocate(std::size_t bytes, std::size_t) override
  {
    rdma::memory_region made(context_, bytes, rdma::access::local_write);
    const std::lock_guard lock(mutex_);
    void* const data = made.data();
    regions_.emplace(data, std::move(made));
    return data;
  }
  void do_deallocate(void* memory, std::size_t, std::size_t) override
  {
    rdma::memory_region gone;
    const std::lock_guard lock(mutex_);
    gone = std::move(regions_.at(memory));
    regions_.erase(memory);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override
  {
    return this == &other;
  }

  rdma::context context_;
  std::mutex mutex_;
  std::unordered_map<void*, rdma::memory_region> regions_;
};

} // namespace bench

#endif // BOOST_RDMA_BENCH_ALLOCATORS_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_MEMORY_POOL_HPP
#define BOOST_RDMA_MEMORY_POOL_HPP

#include <boost_rdma/buffer.hpp>
#include <boost_rdma/error.hpp>
#include <boost_rdma/registered_buffer.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <new>
#include <ranges>
#include <span>
#include <type_traits>

namespace rdma {

class context;
class protection_domain;

namespace detail {
class domain_impl;
class pool_impl;
} // namespace detail

/// Use of huge pages in a pool. They need fewer entries in the translation tables of a NIC and of
/// the processor.
enum class huge_pages
{
  /// No huge pages.
  off,
  /// Transparent huge pages (madvise(2), MADV_HUGEPAGE) for whole 2 MiB of an arena. The kernel
  /// provides as many as it has.
  transparent,
  /// Reserved huge pages (mmap(2), MAP_HUGETLB; /proc/sys/vm/nr_hugepages) for whole arenas of 2
  /// MiB or more. Transparent huge pages are used if none are left.
  reserved,
};

/// Growth, limits and caching of a memory_pool.
/** Arena sizes are rounded up to pages. If arena_size_max is smaller than arena_size, it is raised
 * to arena_size. If idle_bytes_low is larger than idle_bytes_high, it is lowered to
 * idle_bytes_high. memory_pool::options() returns the effective values. */
struct memory_pool_options
{
  /// Size of the first arenas in bytes. An arena is a block of memory that is registered as a whole
  /// and from which the pool allocates.
  std::size_t arena_size = std::size_t{2} << 20;

  /// Maximum size of an arena in bytes, except for an arena that is made for a larger block.
  /** A new arena has about a quarter of the pool's size, so that the number of arenas remains
   * small. If the system refuses that much memory, the pool tries an arena of arena_size, or of the
   * size of the block if that is larger. */
  std::size_t arena_size_max = std::size_t{32} << 20;

  /// Maximum number of registered bytes in all arenas, rounded down to pages. Allocations beyond it
  /// fail with error::pool_exhausted.
  std::size_t size_max = std::size_t{4} << 30;

  /// Number of bytes in unused arenas above which the pool returns arenas to the system.
  std::size_t idle_bytes_high = std::size_t{32} << 20;
  /// Number of bytes in unused arenas at which the pool stops returning arenas.
  std::size_t idle_bytes_low = std::size_t{8} << 20;

  /// Maximum number of bytes of free blocks in the cache of one thread; 0 disables the cache.
  /** When the pool reaches size_max, it takes blocks back from the caches of all threads before an
   * allocation fails. */
  std::size_t thread_cache_bytes_max = std::size_t{2} << 20;

  /// Kind of pages that arenas request.
  huge_pages huge = huge_pages::transparent;

  /// If set, peers that use the software device on this host map the memory for reading only
  /// (F_SEAL_FUTURE_WRITE). Set it if peers read the memory and do not write it.
  /** By default they map it for reading and writing, and a peer that may only read does not map it.
   * Requests to memory that a peer does not map are permitted as their keys say, but are slower:
   * reads if this is not set, writes and atomic operations if it is. Memory that peers map for
   * reading only returns to the system when no peer has it mapped any more. */
  bool peers_only_read = false;
};

/// Current state of a pool, and counters since its construction.
/**
 * Operations of this thread, and operations of other threads that happened before the call, are
 * counted exactly. If other threads use the pool during the call, the figures can differ by a few
 * blocks.
 */
struct memory_pool_statistics
{
  /// Number of registered arenas.
  std::size_t arenas = 0;
  /// Total size of the registered arenas.
  std::size_t bytes_registered = 0;
  /// Number of existing registered_buffers, including destroyed ones whose memory is still held by
  /// an operation.
  std::size_t buffers = 0;
  /// Bytes of registered_buffers and of std::pmr allocations, rounded up to their size classes.
  /// A returned block that a stopped peer on this host may still write to counts until the peer
  /// continues or its process ends. The pool does not reuse it before.
  std::size_t bytes_allocated = 0;
  /// Bytes of free blocks in the caches of threads.
  std::size_t bytes_cached = 0;
  /// Part of bytes_registered for which huge pages were requested.
  std::size_t huge_bytes_requested = 0;
  /// Total number of arenas registered since construction.
  std::uint64_t arenas_added = 0;
  /// Total number of arenas returned to the system.
  std::uint64_t arenas_released = 0;
  /// Total number of allocations that failed for lack of memory.
  std::uint64_t failures = 0;
};

/// Exception of memory_pool as a memory_resource: a std::bad_alloc with an error_code.
class pool_bad_alloc : public std::bad_alloc
{
public:
  /// Copies at most 511 characters of `what`.
  pool_bad_alloc(const error_code& ec, const char* what) noexcept;

  /// Returns the error:
  /**
   * @li error::bad_alignment: the alignment is not a power of two, or is greater than
   *     memory_pool::alignment_max.
   * @li error::pool_exhausted: the pool reached its limit.
   * @li error::forked: the pool was made in the parent process.
   * @li the error of registering memory.
   */
  [[nodiscard]] const error_code& code() const noexcept { return code_; }
  /// Returns a text for logs.
  [[nodiscard]] const char* what() const noexcept override { return text_; }

private:
  error_code code_;
  char text_[512]; // not a std::string: copying an exception must not throw
};

/// A contiguous range of trivially copyable values that is non-owning (std::span) or not a
/// temporary: `std::vector<T>&`, `std::pmr::string&`, `std::array<T, n>&`.
template <class Range>
concept pool_range = std::ranges::contiguous_range<Range> && std::ranges::sized_range<Range>
  && std::ranges::borrowed_range<Range>
  && std::is_trivially_copyable_v<std::ranges::range_value_t<Range>>;

/// Registered memory for containers: a std::pmr::memory_resource on large registered arenas.
/**
 * Data in std::pmr containers of this pool can be sent and received without a copy:
 * @code
 * std::pmr::vector<sample> samples(&context.pool());
 * ...
 * peer.async_send(context.pool().buffer(samples), token);
 * @endcode
 * Every context has a pool, context::pool(), which context::allocate() uses, too. Create further
 * pools for separate limits. The memory is registered without remote access rights.
 *
 * Each thread has a cache of free blocks. Allocation and deallocation therefore take no lock and
 * make no system call in the steady state. A block may be deallocated by another thread than the
 * one that allocated it. If a process has more than sixteen pools at a time, some of them share
 * their place for a cache. A thread that alternates between two such pools takes a lock each time.
 *
 * Sizes up to 128 bytes are rounded up to multiples of 16 bytes. Sizes up to 64 KiB are rounded up
 * to one of four classes per doubling, so that at most 20 % of a block is unused. Larger sizes are
 * rounded up to pages of 4 KiB.
 *
 * @par Lifetime
 * A pool that the program creates ends with its destruction. A context's pool ends with the last
 * handle to its protection domain (a context, a queue pair, a region). Containers must deallocate
 * their memory before the pool ends, as with any memory_resource. registered_buffers may outlive
 * the pool.
 *
 * @par
 * Memory of a container must not be freed while an operation uses it, as with any Asio buffer. If
 * it is freed, the operation keeps the arena registered, but the block may be allocated again.
 *
 * @par
 * After fork() a child can destroy objects of the parent; allocations fail with error::forked.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: safe, except for destruction.
 */
class memory_pool final : public std::pmr::memory_resource
{
public:
  /// Largest alignment that the pool supports.
  static constexpr std::size_t alignment_max = 4096;

  /// Creates a pool in the context's own protection domain. Registers nothing before the first
  /// allocation.
  explicit memory_pool(const rdma::context& context, const memory_pool_options& options = {});

  /// Creates a pool in a protection domain. Registers nothing before the first allocation.
  explicit memory_pool(const protection_domain& domain, const memory_pool_options& options = {});

  /// Destroys the pool. All its memory except registered_buffers must have been deallocated.
  ~memory_pool() override;
  memory_pool(const memory_pool&) = delete;
  memory_pool& operator=(const memory_pool&) = delete;

  /// Allocates a buffer of `size` bytes, aligned to `alignment` (a power of two; at least 64). Its
  /// destruction returns it to the pool. Throws system_error.
  [[nodiscard]] registered_buffer make_buffer(std::size_t size, std::size_t alignment = 64);

  /// Allocates a buffer of `size` bytes that returns to the pool when it is destroyed.
  /**
   * @param size Size in bytes.
   * @param alignment A power of two, at most alignment_max. Values below 64 mean 64.
   * @param ec Set to indicate the error, if any:
   * @li error::empty_buffer: the size is 0.
   * @li error::bad_alignment: the alignment is not a power of two, or is greater than
   *     alignment_max.
   * @li error::pool_exhausted: the pool reached its limit.
   * @li error::forked: the pool was made in the parent process.
   * @li the error of registering memory.
   */
  [[nodiscard]] registered_buffer make_buffer(
    std::size_t size, std::size_t alignment, error_code& ec);

  /// Returns a view, for operations, of memory that was allocated from this pool. Throws
  /// system_error.
  /** The view is non-owning: it is valid as long as the memory is allocated. `memory` may be a part
   * of an allocation. Does not allocate. */
  [[nodiscard]] mutable_buffer buffer(std::span<std::byte> memory);
  /// Returns a read-only view, for operations, of memory that was allocated from this pool. Throws
  /// system_error.
  [[nodiscard]] const_buffer buffer(std::span<const std::byte> memory);

  /// Returns a view of memory that was allocated from this pool. Sets error::not_pool_memory for
  /// other memory. An empty span gives an empty buffer.
  [[nodiscard]] mutable_buffer buffer(std::span<std::byte> memory, error_code& ec) noexcept;
  /// Returns a read-only view of memory that was allocated from this pool. Sets
  /// error::not_pool_memory for other memory. An empty span gives an empty buffer.
  [[nodiscard]] const_buffer buffer(std::span<const std::byte> memory, error_code& ec) noexcept;

  /// Returns a view of a container's elements: a const_buffer if the elements are const, otherwise
  /// a mutable_buffer. Throws system_error.
  /** Temporary containers do not compile, because their elements would be destroyed at once. */
  template <pool_range Range>
  [[nodiscard]] auto buffer(Range&& range)
  {
    return buffer(bytes_of(range));
  }
  /// Returns a view of a container's elements. Sets error::not_pool_memory for other memory.
  template <pool_range Range>
  [[nodiscard]] auto buffer(Range&& range, error_code& ec) noexcept
  {
    return buffer(bytes_of(range), ec);
  }
  /// Deleted for temporary containers.
  // A temporary container of bytes would otherwise convert to a span.
  template <std::ranges::contiguous_range Range>
    requires(!std::ranges::borrowed_range<Range>)
  void buffer(Range&& temporary, auto&&...) = delete;

  /// Returns true if the memory is completely inside the pool's arenas, allocated or free.
  [[nodiscard]] bool owns(const void* data, std::size_t size) const noexcept;

  /// Empties the caches of all threads and returns all unused arenas to the system.
  /** Returns the number of deregistered bytes. Useful after a peak; normally idle_bytes_high and
   * idle_bytes_low control the return of arenas. */
  std::size_t trim() noexcept;

  /// Returns a snapshot of the statistics.
  [[nodiscard]] memory_pool_statistics statistics() const;

  /// Returns the effective options: sizes are rounded to pages, arena_size_max is at least
  /// arena_size, and idle_bytes_low is at most idle_bytes_high.
  [[nodiscard]] const memory_pool_options& options() const noexcept;

  /// For the library itself.
  detail::pool_impl& impl() const noexcept { return *impl_; }

private:
  friend class detail::domain_impl;
  explicit memory_pool(detail::pool_impl& of_domain) noexcept
    : impl_(&of_domain)
  {
  }

  template <class Range>
  static auto bytes_of(Range& range) noexcept
  {
    const std::span elements(std::ranges::data(range), std::ranges::size(range));
    if constexpr (std::is_const_v<typename decltype(elements)::element_type>)
      return std::as_bytes(elements);
    else
      return std::as_writable_bytes(elements);
  }

  // Throws pool_bad_alloc; its code() documents the errors.
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override;
  // Compares identity: memory of one pool cannot be deallocated in another.
  [[nodiscard]] bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override;

  detail::pool_impl* impl_;
  bool owner_ = false;
};

} // namespace rdma

#endif // BOOST_RDMA_MEMORY_POOL_HPP

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

/// Whether a pool asks for huge pages. A NIC needs fewer entries of its tables for them, and the
/// processor, too.
enum class huge_pages
{
  /// No.
  off,
  /// Transparent ones (madvise(2), MADV_HUGEPAGE), for whole 2 MiB of an arena. The kernel gives
  /// what it has.
  transparent,
  /// Those that the system sets apart (mmap(2), MAP_HUGETLB; /proc/sys/vm/nr_hugepages), for the
  /// whole of an arena that has 2 MiB or more; transparent ones where there are none left.
  reserved,
};

/// How a memory_pool grows, gives back, and what it is limited to.
/** Values that contradict each other are drawn to what makes sense; sizes of arenas are rounded up
 * to pages. What comes of it memory_pool::options() says. */
struct memory_pool_options
{
  /// Bytes of the first arenas. Memory is registered by the arena.
  std::size_t arena_size = std::size_t{2} << 20;

  /// Bytes of an arena at most, but for one that is made for a larger block.
  /** An arena grows the pool by a quarter, so that there are few. Where the system refuses so much,
   * it has arena_size. */
  std::size_t arena_size_max = std::size_t{32} << 20;

  /// Bytes registered at most, over all arenas; error::pool_exhausted beyond. Rounded down to
  /// pages.
  std::size_t size_max = std::size_t{4} << 30;

  /// When arenas without any block in use hold more bytes than this, some are given back to the
  /// system...
  std::size_t idle_bytes_high = std::size_t{32} << 20;
  /// ... until the others hold no more than this.
  std::size_t idle_bytes_low = std::size_t{8} << 20;

  /// Bytes of free blocks that one thread keeps at most for itself; 0 for none.
  /** At the limit they are taken back from all threads before an allocation fails that they could
   * make room for. */
  std::size_t thread_cache_bytes_max = std::size_t{2} << 20;

  /// Which pages arenas ask for.
  huge_pages huge = huge_pages::transparent;
};

/// What a pool holds at this moment, and what it did so far.
/**
 * A snapshot: other threads go on while it is taken, so that figures of theirs may be a few blocks
 * apart. What this thread did, and what others did before in the sense of happens-before, is
 * counted exactly.
 */
struct memory_pool_statistics
{
  std::size_t arenas = 0;           ///< registrations made and kept
  std::size_t bytes_registered = 0; ///< their sizes
  std::size_t buffers =
    0; ///< registered_buffers that are out, also those that an operation alone holds
  std::size_t bytes_allocated =
    0;                          ///< of registered_buffers and pmr's, rounded up to their size class
  std::size_t bytes_cached = 0; ///< free blocks in the caches of threads
  std::size_t huge_bytes_asked = 0; ///< of bytes_registered, what huge pages were asked for
  std::uint64_t growths = 0;        ///< arenas registered so far
  std::uint64_t give_backs = 0;     ///< arenas given back so far
  std::uint64_t failures = 0;       ///< allocations refused for want of memory so far
};

/// What memory_pool throws as a memory_resource: a std::bad_alloc with an error_code.
class pool_bad_alloc : public std::bad_alloc
{
public:
  /// `what` is copied, of which what() has 511 characters at most.
  pool_bad_alloc(const error_code& ec, const char* what) noexcept;

  /// error::bad_alignment, error::pool_exhausted, error::forked, or what registering said.
  [[nodiscard]] const error_code& code() const noexcept { return code_; }
  /// For a log.
  [[nodiscard]] const char* what() const noexcept override { return text_; }

private:
  error_code code_;
  char text_[512]; // no std::string: copying an exception must not throw
};

/// A contiguous range of trivially copyable values that owns nothing, as std::span, or is no
/// temporary: `std::vector<T>&`, `std::pmr::string&`, `std::array<T, n>&`.
template <class Range>
concept pool_range = std::ranges::contiguous_range<Range> && std::ranges::sized_range<Range>
  && std::ranges::borrowed_range<Range>
  && std::is_trivially_copyable_v<std::ranges::range_value_t<Range>>;

/// Registered memory for containers: a std::pmr::memory_resource over large registered arenas.
/**
 * What std::pmr containers keep in it can be sent and received into without a copy:
 * @code
 * std::pmr::vector<sample> samples(&context.pool());
 * ...
 * peer.async_send(context.pool().buffer(samples), token);
 * @endcode
 * Every context has one, context::pool(), which context::allocate() uses, too. Others are made
 * where limits are to be apart. The memory is not reachable from remote.
 *
 * Each thread has a cache of free blocks, so that allocating and deallocating take no lock and call
 * nothing in the steady state; a block may be given back by another thread than it was taken by.
 * That is so for sixteen pools of a process at one time; of more, some take a lock when a thread
 * goes back and forth between them. Small sizes are rounded up to one of 44 classes, by at most 20
 * % from 128 bytes to 64 KiB and to 16 bytes below; larger ones to pages of 4 KiB.
 *
 * @par Lifetime
 * As with any memory_resource, memory is to be deallocated before the pool goes: a pool made by the
 * user before it is destroyed, a context's while a handle to its domain (a context, a queue pair, a
 * region) is left. registered_buffers may outlive both. Memory of a container must not be freed
 * while an operation uses it, as with any Asio buffer; if it happens, the operation keeps the arena
 * registered, while the block may be given out again.
 *
 * After fork() a child can destroy what the parent made; allocating ends with error::forked.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: safe, except for destruction.
 */
class memory_pool final : public std::pmr::memory_resource
{
public:
  /// Alignments that can be asked for, at most.
  static constexpr std::size_t alignment_max = 4096;

  /// A pool of its own in the domain of this context. Nothing is registered before the first
  /// allocation.
  explicit memory_pool(const rdma::context& context, const memory_pool_options& options = {});

  /// A pool of its own in this domain.
  explicit memory_pool(const protection_domain& domain, const memory_pool_options& options = {});

  /// Memory that was allocated from it, other than registered_buffers, must have been deallocated.
  ~memory_pool() override;
  memory_pool(const memory_pool&) = delete;
  memory_pool& operator=(const memory_pool&) = delete;

  /// A buffer of `size` bytes, aligned to `alignment` (a power of two; 64 where it is less), that
  /// goes back to the pool when it is destroyed. Throws system_error.
  [[nodiscard]] registered_buffer make_buffer(std::size_t size, std::size_t alignment = 64);

  /// As above: error::empty_buffer for no bytes, error::bad_alignment, error::pool_exhausted,
  /// error::forked, or what registering said.
  [[nodiscard]] registered_buffer make_buffer(
    std::size_t size, std::size_t alignment, error_code& ec);

  /// A view, for operations, of memory that was allocated from this pool, wholly or in part. Throws
  /// system_error.
  /** It owns nothing: it is valid for as long as the memory is allocated. Does not allocate. */
  [[nodiscard]] mutable_buffer buffer(std::span<std::byte> memory);
  /// As above, to be read only.
  [[nodiscard]] const_buffer buffer(std::span<const std::byte> memory);

  /// As above: error::not_pool_memory for memory of others. No bytes give an empty buffer.
  [[nodiscard]] mutable_buffer buffer(std::span<std::byte> memory, error_code& ec) noexcept;
  /// As above, to be read only.
  [[nodiscard]] const_buffer buffer(std::span<const std::byte> memory, error_code& ec) noexcept;

  /// The same of a container's elements: to write to, unless they are const. Not of a temporary's,
  /// which are gone at once.
  template <pool_range Range>
  [[nodiscard]] auto buffer(Range&& range)
  {
    return buffer(bytes_of(range));
  }
  /// As above: error::not_pool_memory.
  template <pool_range Range>
  [[nodiscard]] auto buffer(Range&& range, error_code& ec) noexcept
  {
    return buffer(bytes_of(range), ec);
  }
  /// Of a temporary's elements: there is none.
  // One of bytes would turn into a span otherwise.
  template <std::ranges::contiguous_range Range>
    requires(!std::ranges::borrowed_range<Range>)
  void buffer(Range&& temporary, auto&&...) = delete;

  /// Whether this memory is wholly the pool's. A free block is, too.
  [[nodiscard]] bool owns(const void* data, std::size_t size) const noexcept;

  /// Takes back what threads have cached, and gives all arenas without blocks in use to the system.
  /** Returns the bytes that were deregistered. For after a peak: the watermarks give back as a
   * matter of course. */
  std::size_t trim() noexcept;

  /// What it holds, and did.
  [[nodiscard]] memory_pool_statistics statistics() const;

  /// What is in effect: with sizes rounded to pages, arena_size_max no less than arena_size, and
  /// idle_bytes_low no more than idle_bytes_high.
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

  // Throws pool_bad_alloc: error::bad_alignment, error::pool_exhausted, error::forked, or what
  // registering said.
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override;
  // By identity: memory of one pool cannot be given back to another.
  [[nodiscard]] bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override;

  detail::pool_impl* impl_;
  bool owner_ = false;
};

} // namespace rdma

#endif // BOOST_RDMA_MEMORY_POOL_HPP

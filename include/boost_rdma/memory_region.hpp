//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_MEMORY_REGION_HPP
#define BOOST_RDMA_MEMORY_REGION_HPP

#include <boost_rdma/access.hpp>
#include <boost_rdma/buffer.hpp>
#include <boost_rdma/error.hpp>
#include <boost_rdma/protection_domain.hpp>
#include <boost_rdma/remote_buffer.hpp>

#include <cstddef>
#include <span>
#include <utility>

namespace rdma {

/// Memory registered with every device of a context (ibv_reg_mr(3)), owned by the region or by the
/// program.
/**
 * Use a region to expose memory to a peer: register the memory with the peer's rights, and send the
 * peer the handle that remote() returns.
 *
 * Destroying the region invalidates its keys, and no peer can access the memory any more. This
 * happens at once, unless an operation of this side still uses the memory or a memory_window is
 * bound to it. In that case it happens when the last operation has completed and the window has
 * been bound elsewhere or destroyed. Memory that the program owns must remain valid until then.
 *
 * @par Objects
 * as<T>(), as_span<T>() and elements<T>() work as those of mutable_buffer.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe.
 */
class memory_region : public detail::typed::typed_views<memory_region, true>
{
public:
  /// Creates a region without memory: data() is null.
  memory_region() = default;

  /// Allocates and registers `size` bytes, filled with zeros and aligned to a page. Throws
  /// system_error.
  /**
   * @param domain Protection domain of the queue pairs that use the memory; a context converts to
   * one.
   * @param size Size in bytes; must be greater than 0.
   * @param rights Rights of this side's operations and of peers.
   */
  memory_region(
    const protection_domain& domain, std::size_t size, access rights = access::local_write);

  /// Allocates and registers `size` bytes, filled with zeros and aligned to a page.
  /**
   * @param domain Protection domain of the queue pairs that use the memory; a context converts to
   * one.
   * @param size Size in bytes; must be greater than 0.
   * @param rights Rights of this side's operations and of peers.
   * @param ec Set to indicate the error, if any:
   * @li error::empty_buffer: the size is 0.
   * @li error::bad_access: the rights contradict each other, or a required right is missing.
   * @li the error of ibv_reg_mr.
   */
  memory_region(const protection_domain& domain, std::size_t size, access rights, error_code& ec);

  /// Registers memory that the program owns. It must outlive the region and the operations that use
  /// it. Throws system_error.
  /** register_buffer() registers a container or an Asio buffer. */
  memory_region(const protection_domain& domain, void* data, std::size_t size, access rights);

  /// Registers memory that the program owns. It must outlive the region and the operations that use
  /// it.
  /**
   * @param domain Protection domain of the queue pairs that use the memory; a context converts to
   * one.
   * @param data Address of the memory.
   * @param size Size in bytes; must be greater than 0.
   * @param rights Rights of this side's operations and of peers.
   * @param ec Set to indicate the error, if any:
   * @li error::empty_buffer: the size is 0.
   * @li error::bad_access: the rights contradict each other, or a required right is missing.
   * @li the error of ibv_reg_mr.
   */
  memory_region(
    const protection_domain& domain, void* data, std::size_t size, access rights, error_code& ec);

  /// For the library itself: takes ownership of a reference to the registration.
  explicit memory_region(detail::registration* registration) noexcept
    : registration_(registration)
  {
  }

  /// Moves a region. `other` has no memory afterwards.
  memory_region(memory_region&& other) noexcept
    : registration_(std::exchange(other.registration_, nullptr))
  {
  }

  /// Releases this object's registration, as the destructor does, and moves `other` into it.
  memory_region& operator=(memory_region&& other) noexcept
  {
    memory_region taken(std::move(other));
    std::swap(registration_, taken.registration_);
    return *this;
  }

  /// Deregisters the memory (ibv_dereg_mr(3)), at once or when its last user has released it; see
  /// the description of the class.
  ~memory_region()
  {
    if (registration_ != nullptr)
      registration_->release();
  }

  /// Returns the address of the memory; null if there is none.
  [[nodiscard]] std::byte* data() const noexcept
  {
    return registration_ != nullptr ? registration_->base : nullptr;
  }
  /// Returns the size in bytes.
  [[nodiscard]] std::size_t size() const noexcept
  {
    return registration_ != nullptr ? registration_->size : 0;
  }
  /// Returns the whole memory. Do not write to it if it was registered as const.
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {data(), size()}; }
  /// Returns the rights of the registration; access::local_read if there is no memory.
  [[nodiscard]] access rights() const noexcept
  {
    return registration_ != nullptr ? registration_->rights : access::local_read;
  }

  /// Returns true if the memory is shared memory of the library, which queue pairs of the software
  /// device between two processes of one host access fastest.
  /**
   * A region that allocates its memory is shared if the software device is the context's default
   * device. Memory that the program owns is not shared, unless it lies in such a region or in a
   * memory_pool. Peers on this host access shared memory directly; other memory is copied twice,
   * with system calls. With an RDMA NIC and over TCP it makes no difference.
   */
  [[nodiscard]] bool is_shared() const noexcept;

  /// Returns the whole memory as a buffer for operations.
  operator mutable_buffer() const noexcept { return {data(), size(), registration_}; }
  /// Returns the whole memory as a buffer for operations that only read it.
  operator const_buffer() const noexcept { return mutable_buffer(*this); }

  /// Returns the first n bytes, or all if there are fewer.
  [[nodiscard]] mutable_buffer first(std::size_t n) const noexcept
  {
    return mutable_buffer(*this).first(n);
  }

  /// Returns n bytes from `offset`, clipped to the end of the region.
  [[nodiscard]] mutable_buffer slice(std::size_t offset, std::size_t n = SIZE_MAX) const noexcept
  {
    return mutable_buffer(*this).slice(offset, n);
  }

  /// Returns the handle for a peer. Throws system_error(error::not_exposed) if no remote_ right was
  /// given.
  [[nodiscard]] remote_buffer remote() const;

  /// Returns the handle for a peer. Sets error::not_exposed if no remote_ right was given.
  [[nodiscard]] remote_buffer remote(error_code& ec) const noexcept;

  /// For the library itself.
  [[nodiscard]] detail::registration* registration() const noexcept { return registration_; }

private:
  detail::registration* registration_ = nullptr;
};

} // namespace rdma

#endif // BOOST_RDMA_MEMORY_REGION_HPP

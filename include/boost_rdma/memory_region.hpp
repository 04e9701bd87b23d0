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

/// Memory registered with every device of a context (ibv_reg_mr), the library's own or the user's.
/**
 * This is the way to expose memory to a peer: register it with the rights that the peer is to have,
 * and send it the handle that remote() gives. When the region is destroyed its keys become invalid
 * and no peer reaches the memory any more: at once, or, where operations of one's own still use it
 * or a memory_window was bound to it, when the last of them has completed, and the window has been
 * bound to something else or destroyed. Memory of the user's own must stay until then.
 *
 * @par Objects
 * as<T>(), as_span<T>() and elements<T>() are mutable_buffer's.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe.
 */
class memory_region : public detail::typed::typed_views<memory_region, true>
{
public:
  /// No memory: data() is null.
  memory_region() = default;

  /// Registers `size` bytes of its own: zeroed, aligned to a page. Throws system_error.
  /**
   * @param domain Whose queue pairs reach it; a context will do.
   * @param size Bytes, more than none.
   * @param rights What may be done with it, by operations of this side and by peers.
   */
  memory_region(
    const protection_domain& domain, std::size_t size, access rights = access::local_write);

  /// As above, with ec: error::empty_buffer, error::bad_access, or what ibv_reg_mr said.
  memory_region(const protection_domain& domain, std::size_t size, access rights, error_code& ec);

  /// Registers the user's memory, which must outlive the region and the operations that use it.
  /// Throws system_error.
  /** register_buffer() does the same with a container or a buffer of Asio's. */
  memory_region(const protection_domain& domain, void* data, std::size_t size, access rights);

  /// As above, with ec: error::empty_buffer, error::bad_access, or what ibv_reg_mr said.
  memory_region(
    const protection_domain& domain, void* data, std::size_t size, access rights, error_code& ec);

  /// For the library itself: takes over a reference to the registration.
  explicit memory_region(detail::registration* registration) noexcept
    : registration_(registration)
  {
  }

  /// The one that was moved from has no memory then.
  memory_region(memory_region&& other) noexcept
    : registration_(std::exchange(other.registration_, nullptr))
  {
  }

  /// Lets go of the registration that it had, as destruction does.
  memory_region& operator=(memory_region&& other) noexcept
  {
    memory_region taken(std::move(other));
    std::swap(registration_, taken.registration_);
    return *this;
  }

  /// Deregisters the memory (ibv_dereg_mr(3)): at once, or when the last that uses it has let go;
  /// see above.
  ~memory_region()
  {
    if (registration_ != nullptr)
      registration_->release();
  }

  /// Where it begins; null where there is none.
  [[nodiscard]] std::byte* data() const noexcept
  {
    return registration_ != nullptr ? registration_->base : nullptr;
  }
  /// Bytes.
  [[nodiscard]] std::size_t size() const noexcept
  {
    return registration_ != nullptr ? registration_->size : 0;
  }
  /// All of it. Not to be written to where it was registered as const.
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {data(), size()}; }
  /// What it was registered with; access::local_read where there is none.
  [[nodiscard]] access rights() const noexcept
  {
    return registration_ != nullptr ? registration_->rights : access::local_read;
  }

  /// All of it, for operations.
  operator mutable_buffer() const noexcept { return {data(), size(), registration_}; }
  /// All of it, for operations that only read it.
  operator const_buffer() const noexcept { return mutable_buffer(*this); }

  /// The first n bytes, or all where there are fewer.
  [[nodiscard]] mutable_buffer first(std::size_t n) const noexcept
  {
    return mutable_buffer(*this).first(n);
  }

  /// n bytes from offset on, clipped to what there is.
  [[nodiscard]] mutable_buffer slice(std::size_t offset, std::size_t n = SIZE_MAX) const noexcept
  {
    return mutable_buffer(*this).slice(offset, n);
  }

  /// The handle to give to a peer. Throws system_error(error::not_exposed) without a remote right.
  [[nodiscard]] remote_buffer remote() const;

  /// As above, with ec.
  [[nodiscard]] remote_buffer remote(error_code& ec) const noexcept;

  /// For the library itself.
  [[nodiscard]] detail::registration* registration() const noexcept { return registration_; }

private:
  detail::registration* registration_ = nullptr;
};

} // namespace rdma

#endif // BOOST_RDMA_MEMORY_REGION_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_MEMORY_WINDOW_HPP
#define BOOST_RDMA_MEMORY_WINDOW_HPP

#include <boost_rdma/error.hpp>
#include <boost_rdma/protection_domain.hpp>
#include <boost_rdma/verbs_fwd.hpp>

#include <memory>
#include <string>

namespace rdma {

namespace detail {
struct window_impl;
}

/// A type 2 memory window (ibv_alloc_mw(3)): exposes part of a region to the peer of one queue
/// pair.
/**
 * Bind it with basic_queue_pair::async_bind_window(), which returns the remote_buffer for the peer.
 * The window is closed by async_invalidate(), by the peer's async_send_with_invalidate(), or by its
 * destruction. The region stays registered. A window that was moved from can only be destroyed or
 * assigned to. A copy is a handle to the same window; the last handle destroys the window.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe.
 */
class memory_window
{
public:
  /// Creates a window on one of the context's devices; an empty name means the default device.
  /**
   * @throws system_error With one of these errors:
   * @li error::no_device: the context has not opened a device of that name.
   * @li error::device_lost: the device failed or was removed.
   * @li EOPNOTSUPP: device::has_memory_windows() is false.
   * @li the error of ibv_alloc_mw.
   */
  explicit memory_window(const protection_domain& domain, const std::string& device = {});

  /// Returns the current key for the peer (ibv_mw::rkey); it changes with each bind.
  [[nodiscard]] std::uint32_t key() const noexcept;

  /// Returns the verbs window, for direct calls (<boost_rdma/native.hpp>).
  [[nodiscard]] ibv_mw* native_handle() const noexcept;
  /// For the library itself.
  [[nodiscard]] const std::shared_ptr<detail::window_impl>& impl() const noexcept { return impl_; }

private:
  std::shared_ptr<detail::window_impl> impl_;
};

} // namespace rdma

#endif // BOOST_RDMA_MEMORY_WINDOW_HPP

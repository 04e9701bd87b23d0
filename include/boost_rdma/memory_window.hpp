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

/// A type 2 memory window (ibv_alloc_mw): exposes part of a region to one queue pair's peer.
/**
 * Bind it with basic_queue_pair::async_bind_window, which gives the remote_buffer to send to the
 * peer. The window is closed by async_invalidate, by the peer's async_send_with_invalidate, or by
 * destroying it; the region stays registered. One that was moved from can only be destroyed or
 * assigned to. A copy is a handle to the same window, which goes with the last of them.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe.
 */
class memory_window
{
public:
  /// A window on one of the context's devices ("" for the default one).
  /** Throws system_error: error::no_device, error::device_lost, EOPNOTSUPP without
   * device::has_memory_windows(), or what ibv_alloc_mw said. */
  explicit memory_window(const protection_domain& domain, const std::string& device = {});

  /// The key that a peer uses at present (ibv_mw::rkey); it changes with each bind.
  [[nodiscard]] std::uint32_t key() const noexcept;

  /// The verbs window, for calls of one's own (<boost_rdma/native.hpp>).
  [[nodiscard]] ibv_mw* native_handle() const noexcept;
  /// For the library itself.
  [[nodiscard]] const std::shared_ptr<detail::window_impl>& impl() const noexcept { return impl_; }

private:
  std::shared_ptr<detail::window_impl> impl_;
};

} // namespace rdma

#endif // BOOST_RDMA_MEMORY_WINDOW_HPP

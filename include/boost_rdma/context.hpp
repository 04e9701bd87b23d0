//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_CONTEXT_HPP
#define BOOST_RDMA_CONTEXT_HPP

#include <boost_rdma/device.hpp>
#include <boost_rdma/error.hpp>
#include <boost_rdma/memory_pool.hpp>
#include <boost_rdma/registered_buffer.hpp>
#include <boost_rdma/registration_cache.hpp>
#include <boost_rdma/software/device.hpp>

#include <memory>
#include <string>
#include <vector>

namespace rdma {

namespace detail {
class domain_impl;
}

/// What a context opens.
struct context_options
{
  /// The device that queue pairs use unless told otherwise: a name from list_devices().
  /**
   * Empty: the one that the environment variable BOOST_RDMA_DEVICE names, else the first NIC with
   * an active port, else the software device. "soft0" opens no NIC at all.
   */
  std::string device;

  /// Settings of the software device, which every context opens.
  software::device_settings software;

  /// The pool behind allocate() and pool(), of every domain of the context.
  memory_pool_options pool;

  /// What is kept of plain memory that operations were given (doc/user_memory.md).
  registration_cache_options cache;
};

/// The devices that a program uses, a protection domain over them, and a pool of registered memory.
/**
 * As asio::ssl::context: made once, passed by reference to what uses it. A copy is a handle to the
 * same devices; they are closed when the last handle, and all that was made with it, is gone.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: safe, except for assignment.
 */
class context
{
public:
  /// Opens the best NIC, if there is one, and the software device. Throws system_error.
  context();

  /// Opens what the options say (ibv_open_device(3)). Throws system_error, for instance
  /// error::no_device.
  explicit context(const context_options& options);

  /// As above, without exceptions: on failure ec is set and the context can only be assigned to.
  context(const context_options& options, error_code& ec);

  /// For the library itself.
  explicit context(std::shared_ptr<detail::domain_impl> impl) noexcept
    : impl_(std::move(impl))
  {
  }

  /// The device that queue pairs use unless told otherwise.
  [[nodiscard]] device default_device() const;

  /// All devices that this context has opened: the NIC if there is one, then the software device.
  [[nodiscard]] std::vector<device> devices() const;

  /// The pool of this context's domain, which allocate() uses and std::pmr containers can.
  /** Valid while a handle to the domain is left: a context, or a queue pair, region or the like
   * that was made with it. */
  [[nodiscard]] memory_pool& pool() const noexcept;

  /// A buffer of `size` bytes from the pool, aligned to 64. Throws system_error.
  [[nodiscard]] registered_buffer allocate(std::size_t size) const;

  /// As above: error::empty_buffer for no bytes, error::pool_exhausted, or what registering said.
  [[nodiscard]] registered_buffer allocate(std::size_t size, error_code& ec) const;

  /// What the pool behind allocate() holds.
  [[nodiscard]] memory_pool_statistics pool_statistics() const;

  /// What is kept of plain memory that operations were given, and why nothing is where that is so.
  /** The first call, or the first operation that asks for it, finds out whether the kernel lets
   * memory be watched. */
  [[nodiscard]] rdma::registration_cache_statistics registration_cache_statistics() const;

  /// For the library itself.
  [[nodiscard]] const std::shared_ptr<detail::domain_impl>& impl() const noexcept { return impl_; }

private:
  std::shared_ptr<detail::domain_impl> impl_;
};

} // namespace rdma

#endif // BOOST_RDMA_CONTEXT_HPP

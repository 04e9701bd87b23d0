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

struct statistics;

namespace detail {
class domain_impl;
}

/// Options of a context.
struct context_options
{
  /// Default device for queue pairs: a name from list_devices().
  /**
   * If empty, the default is the device named in the environment variable BOOST_RDMA_DEVICE,
   * otherwise the first NIC with an active port, otherwise the software device. "soft0" opens no
   * NIC.
   */
  std::string device;

  /// Settings of the software device. Every context opens it.
  software::device_settings software;

  /// Options of the pool of allocate() and pool(), for every protection domain of the context.
  memory_pool_options pool;

  /// Options of the cache of registrations of plain memory (doc/user_memory.md).
  registration_cache_options cache;
};

/// The devices that a program uses, a protection domain on them, and a pool of registered memory.
/**
 * Corresponds to asio::ssl::context: a program creates it once and passes it by reference to the
 * objects that use it. A copy is a handle to the same devices. They are closed when the last handle
 * and all objects made with it are destroyed.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: safe, except for assignment.
 */
class context
{
public:
  /// Opens the best NIC, if any, and the software device. Throws system_error.
  context();

  /// Opens the devices that the options select (ibv_open_device(3)). Throws system_error, for
  /// instance error::no_device.
  explicit context(const context_options& options);

  /// Opens the devices that the options select. On failure sets ec, and the context can only be
  /// assigned to.
  context(const context_options& options, error_code& ec);

  /// For the library itself.
  explicit context(std::shared_ptr<detail::domain_impl> impl) noexcept
    : impl_(std::move(impl))
  {
  }

  /// Returns the default device for queue pairs.
  [[nodiscard]] device default_device() const;

  /// Returns all devices that this context has opened: the NIC, if any, then the software device.
  [[nodiscard]] std::vector<device> devices() const;

  /// Returns the pool of this context's protection domain, for allocate() and std::pmr containers.
  /** Valid as long as any handle to the domain exists: a context, or a queue pair, region or other
   * object made with it. */
  [[nodiscard]] memory_pool& pool() const noexcept;

  /// Allocates a buffer of `size` bytes from the pool, aligned to 64. Throws system_error.
  [[nodiscard]] registered_buffer allocate(std::size_t size) const;

  /// Allocates a buffer of `size` bytes from the pool, aligned to 64.
  /**
   * @param size Size in bytes.
   * @param ec Set to indicate the error, if any:
   * @li error::empty_buffer: the size is 0.
   * @li error::pool_exhausted: the pool reached its limit.
   * @li the error of registering memory.
   */
  [[nodiscard]] registered_buffer allocate(std::size_t size, error_code& ec) const;

  /// Returns the statistics of the pool.
  [[nodiscard]] memory_pool_statistics pool_statistics() const;

  /// Returns the statistics of the cache of registrations of plain memory, and the reason if
  /// nothing is cached.
  /** The first call, or the first operation that needs the cache, tests if the kernel allows the
   * library to watch memory. */
  [[nodiscard]] rdma::registration_cache_statistics registration_cache_statistics() const;

  /// Returns the operations and connections on the devices that this context has opened, and the
  /// statistics of the pool and the cache (<boost_rdma/statistics.hpp>).
  /** A snapshot: if other threads complete operations during the call, each counter is from another
   * moment of it. */
  [[nodiscard]] rdma::statistics statistics() const;

  /// For the library itself.
  [[nodiscard]] const std::shared_ptr<detail::domain_impl>& impl() const noexcept { return impl_; }

private:
  std::shared_ptr<detail::domain_impl> impl_;
};

} // namespace rdma

#endif // BOOST_RDMA_CONTEXT_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_REMOTE_MEMORY_HPP
#define BOOST_RDMA_REMOTE_MEMORY_HPP

#include <boost_rdma/remote_buffer.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

namespace rdma {

class remote_memory;

namespace detail {
class agent_core;
struct held_lease;
struct lent_lease;
std::shared_ptr<held_lease> take_lease(remote_memory& memory) noexcept;
} // namespace detail

/// Memory of the peer that this side leases. Converts to a remote_buffer.
/**
 * Its destruction releases the lease: the peer is notified, without waiting for an answer.
 * basic_agent::async_release() waits. A lease also ends when its lifetime ends, when the peer takes
 * back memory that it lent, and with the connection. An operation that uses the memory afterwards
 * fails with wc_status::remote_access_error, and the connection ends.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe.
 */
class remote_memory
{
public:
  /// Clock of expires_at().
  using clock = std::chrono::steady_clock;

  /// Creates an object without a lease.
  remote_memory() = default;

  /// For the library itself.
  explicit remote_memory(std::shared_ptr<detail::held_lease> lease) noexcept
    : lease_(std::move(lease))
  {
  }
  /// Moves a lease. The source has no lease afterwards.
  remote_memory(remote_memory&&) noexcept = default;

  /// Releases this object's lease, as the destructor does, and moves the other lease into it.
  remote_memory& operator=(remote_memory&&) noexcept = default;

  /// Returns the buffer for operations; empty without a lease. It does not change when the lease
  /// ends.
  [[nodiscard]] const remote_buffer& buffer() const noexcept;
  /// Returns buffer(), so that operations accept this object.
  operator const remote_buffer&() const noexcept { return buffer(); }

  /// Returns the size in bytes; 0 without a lease.
  [[nodiscard]] std::uint64_t size() const noexcept { return buffer().size(); }

  /// Returns the rights of this side.
  [[nodiscard]] access rights() const noexcept { return buffer().rights(); }

  /// Returns the first n bytes, as remote_buffer::first(). The result does not keep the lease.
  [[nodiscard]] remote_buffer first(std::uint64_t n) const noexcept { return buffer().first(n); }
  /// Returns n bytes from `offset`, as remote_buffer::slice(). The result does not keep the lease.
  [[nodiscard]] remote_buffer slice(
    std::uint64_t offset, std::uint64_t n = UINT64_MAX) const noexcept
  {
    return buffer().slice(offset, n);
  }
  /// Returns a part as remote_buffer::elements(). The result does not keep the lease. Throws
  /// system_error.
  template <detail::viewable T>
  [[nodiscard]] remote_buffer elements(std::uint64_t first, std::uint64_t count = 1) const
  {
    return buffer().elements<T>(first, count);
  }

  /// Returns true if there is a lease that has not ended, as far as this side has been notified.
  [[nodiscard]] bool is_valid() const noexcept;

  /// Returns the time at which the lease ends unless it is renewed; time_point::max() means with
  /// the connection.
  /** Counted from this side's request, which was made before the peer's time began. For memory that
   * the peer lent it is counted from the arrival of the lease. */
  [[nodiscard]] clock::time_point expires_at() const noexcept;

  /// Ends the lease without waiting, as the destructor does.
  void release() noexcept { lease_.reset(); }

  /// For the library itself.
  [[nodiscard]] const std::shared_ptr<detail::held_lease>& lease() const noexcept { return lease_; }

private:
  friend std::shared_ptr<detail::held_lease> detail::take_lease(remote_memory& memory) noexcept;

  std::shared_ptr<detail::held_lease> lease_;
};

namespace detail {

// For a request that ends the lease. If the request is never initiated, destroying it releases the
// lease.
inline std::shared_ptr<held_lease> take_lease(remote_memory& memory) noexcept
{
  return std::move(memory.lease_);
}

} // namespace detail

/// Memory of this side that is lent to the peer by basic_agent::async_lend().
/**
 * Keeps the region registered. Its destruction takes the memory back, as take_back() does.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe.
 */
class loan
{
public:
  /// Creates an empty loan.
  loan() = default;

  /// For the library itself.
  explicit loan(std::shared_ptr<detail::lent_lease> lease) noexcept
    : lease_(std::move(lease))
  {
  }
  /// Moves a loan. The source is empty afterwards.
  loan(loan&&) noexcept = default;

  /// Takes this object's memory back, as the destructor does, and moves the other loan into it.
  loan& operator=(loan&&) noexcept = default;

  /// Returns true if the peer can still access the memory.
  /** Returns false after the peer returned it, after the end of its lifetime, after take_back(),
   * and after the end of the connection. */
  [[nodiscard]] bool is_active() const noexcept;

  /// Takes the memory back. The peer cannot access it any more when this returns. The peer is
  /// notified; a later access by it ends the connection.
  void take_back() noexcept;

  /// For the library itself.
  [[nodiscard]] const std::shared_ptr<detail::lent_lease>& lease() const noexcept { return lease_; }

private:
  std::shared_ptr<detail::lent_lease> lease_;
};

} // namespace rdma

#endif // BOOST_RDMA_REMOTE_MEMORY_HPP

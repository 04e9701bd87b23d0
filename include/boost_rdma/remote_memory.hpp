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

/// Memory of the peer's that this side has a lease of; wherever a remote_buffer is wanted, it is
/// one.
/**
 * Destroying it releases the lease: the peer is told, and nobody waits for it;
 * basic_agent::async_release() does wait. The lease ends as well when its time is over, when the
 * peer takes back what it lent, and with the connection. Using the memory after that ends the
 * operation, and with it the connection, with wc_status::remote_access_error.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe.
 */
class remote_memory
{
public:
  /// What expires_at() goes by.
  using clock = std::chrono::steady_clock;

  /// No lease.
  remote_memory() = default;

  /// For the library itself.
  explicit remote_memory(std::shared_ptr<detail::held_lease> lease) noexcept
    : lease_(std::move(lease))
  {
  }
  /// The one that was moved from has no lease then.
  remote_memory(remote_memory&&) noexcept = default;

  /// Releases the lease that it had, as destruction does.
  remote_memory& operator=(remote_memory&&) noexcept = default;

  /// What operations take; empty without a lease. Stays as it is when the lease ends.
  [[nodiscard]] const remote_buffer& buffer() const noexcept;
  /// As above: operations take it as it is.
  operator const remote_buffer&() const noexcept { return buffer(); }

  /// Bytes; 0 without a lease.
  [[nodiscard]] std::uint64_t size() const noexcept { return buffer().size(); }

  /// What this side may do with it.
  [[nodiscard]] access rights() const noexcept { return buffer().rights(); }

  /// As remote_buffer's; what they return keeps no lease.
  [[nodiscard]] remote_buffer first(std::uint64_t n) const noexcept { return buffer().first(n); }
  /// As above.
  [[nodiscard]] remote_buffer slice(
    std::uint64_t offset, std::uint64_t n = UINT64_MAX) const noexcept
  {
    return buffer().slice(offset, n);
  }
  /// As above. Throws system_error.
  template <detail::viewable T>
  [[nodiscard]] remote_buffer elements(std::uint64_t first, std::uint64_t count = 1) const
  {
    return buffer().elements<T>(first, count);
  }

  /// There is a lease, and as far as this side knows it has not ended.
  [[nodiscard]] bool is_valid() const noexcept;

  /// When it ends unless it is renewed; time_point::max() when with the connection.
  /** Counted from when this side asked, which was before the peer began to count; of what was lent,
   * from when it arrived. */
  [[nodiscard]] clock::time_point expires_at() const noexcept;

  /// Ends the lease without waiting, as destruction does.
  void release() noexcept { lease_.reset(); }

  /// For the library itself.
  [[nodiscard]] const std::shared_ptr<detail::held_lease>& lease() const noexcept { return lease_; }

private:
  friend std::shared_ptr<detail::held_lease> detail::take_lease(remote_memory& memory) noexcept;

  std::shared_ptr<detail::held_lease> lease_;
};

namespace detail {

// Of a request that ends the lease; released after all when the request is never initiated.
inline std::shared_ptr<held_lease> take_lease(remote_memory& memory) noexcept
{
  return std::move(memory.lease_);
}

} // namespace detail

/// Memory of this side's that the peer has a lease of, by basic_agent::async_lend().
/**
 * Keeps the region registered. Destroying it takes the memory back, as take_back() does.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe.
 */
class loan
{
public:
  /// Of nothing.
  loan() = default;

  /// For the library itself.
  explicit loan(std::shared_ptr<detail::lent_lease> lease) noexcept
    : lease_(std::move(lease))
  {
  }
  /// The one that was moved from is of nothing then.
  loan(loan&&) noexcept = default;

  /// Takes back what it was of, as destruction does.
  loan& operator=(loan&&) noexcept = default;

  /// The peer reaches the memory still.
  /** Not when it gave it back, when the time is over, after take_back(), and when the connection
   * has ended. */
  [[nodiscard]] bool is_out() const noexcept;

  /// When this returns the peer reaches the memory no more. It is told, and what it does then with
  /// it ends the connection.
  void take_back() noexcept;

  /// For the library itself.
  [[nodiscard]] const std::shared_ptr<detail::lent_lease>& lease() const noexcept { return lease_; }

private:
  std::shared_ptr<detail::lent_lease> lease_;
};

} // namespace rdma

#endif // BOOST_RDMA_REMOTE_MEMORY_HPP

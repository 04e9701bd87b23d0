//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_OBJECTS_LEASE_HPP
#define BOOST_RDMA_DETAIL_OBJECTS_LEASE_HPP

#include <boost_rdma/detail/objects/header.hpp>
#include <boost_rdma/detail/objects/step.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>

// Leases, by which one process at a time holds a word: the common part of remote_mutex and
// remote_semaphore. doc/objects.md gives the proof.
//
// A lease word is changed by compare-and-swaps only, and never has the same content twice. A
// process that has seen one content for the time of a lease, by its own clock, may end the lease.
// The holder counts its time from before it posted the request that made the content, so its time
// ends first.

namespace rdma::detail::objects {

// Reads a process's own clock. The simulation of the tests has clocks of different speed.
using clock_function = std::chrono::steady_clock::time_point (*)() noexcept;

struct lease_word
{
  static constexpr unsigned beat_bits = 19;
  static constexpr std::uint32_t beat_mask = (1U << beat_bits) - 1;

  std::uint64_t ticket; // of a holder; 44 bits
  std::uint32_t beat;   // number of renewals
  bool held;            // otherwise free, or kept for the process that has the ticket

  [[nodiscard]] constexpr std::uint64_t packed() const noexcept
  {
    return (ticket << (beat_bits + 1)) | (std::uint64_t{beat} << 1) | std::uint64_t{held};
  }
  [[nodiscard]] static constexpr lease_word of(std::uint64_t word) noexcept
  {
    return {
      word >> (beat_bits + 1), static_cast<std::uint32_t>(word >> 1) & beat_mask, (word & 1) != 0};
  }

  [[nodiscard]] constexpr lease_word renewed() const noexcept
  {
    return {ticket, (beat + 1) & beat_mask, true};
  }
  [[nodiscard]] constexpr lease_word released() const noexcept { return {ticket + 1, 0, false}; }
};

inline constexpr std::chrono::milliseconds lease_default{1000};
inline constexpr std::chrono::milliseconds lease_min{1};
inline constexpr std::chrono::milliseconds lease_max = std::chrono::hours(1);

[[nodiscard]] constexpr std::uint64_t lease_in_header(std::chrono::milliseconds lease) noexcept
{
  return static_cast<std::uint64_t>(std::clamp(lease, lease_min, lease_max).count());
}
[[nodiscard]] constexpr std::chrono::milliseconds lease_of(const header& described) noexcept
{
  return std::chrono::milliseconds(
    std::clamp<std::uint64_t>(described.lease_ms, lease_min.count(), lease_max.count()));
}

// Longest pause between looks at a word that others hold.
[[nodiscard]] constexpr std::chrono::microseconds pause_max(
  std::chrono::milliseconds lease) noexcept
{
  return std::min(std::chrono::microseconds(lease) / 8, std::chrono::microseconds(1000));
}

// End of a lease for its holder. The sixteenth allows for clocks of different speed.
[[nodiscard]] constexpr std::chrono::steady_clock::time_point holder_end(
  std::chrono::steady_clock::time_point posted, std::chrono::milliseconds lease) noexcept
{
  return posted + (lease - std::chrono::microseconds(lease) / 16);
}

/// What the holder of a lock knows of it. A copy is the same lock.
class held_lease
{
public:
  /// Creates the handle of a lock that nobody holds.
  held_lease() = default;

  /// Returns a number that is greater than those of all earlier holders.
  /**
   * Holders of different permits of a semaphore have independent numbers.
   *
   * A holder that was stopped can send a request when another process holds the lock already. No
   * device compares this number with anything: the program has to, where the data are. For
   * instance, store it with the data by remote_versioned::async_compare_store(), which fails for a
   * process that has not seen the newest version; or let the owner of the memory give each holder a
   * memory window, and invalidate that of the previous one.
   */
  [[nodiscard]] std::uint64_t fencing_token() const noexcept { return word_.ticket; }

  /// Returns the time at which this process has to regard the lock as lost, unless it has renewed
  /// it.
  [[nodiscard]] std::chrono::steady_clock::time_point expires_at() const noexcept
  {
    return expires_at_;
  }

  /// @cond
  held_lease(lease_word word, std::size_t index, std::chrono::milliseconds lease,
    std::chrono::steady_clock::time_point expires_at) noexcept
    : word_(word)
    , index_(index)
    , lease_(lease)
    , expires_at_(expires_at)
  {
  }

  [[nodiscard]] std::size_t index() const noexcept { return index_; }
  /// @endcond

private:
  friend class lease_change;

  lease_word word_{0, 0, true}; // such a word is never in memory
  std::size_t index_ = 0;       // of a semaphore's permit
  std::chrono::milliseconds lease_ = lease_min;
  std::chrono::steady_clock::time_point expires_at_{};
};

// A compare-and-swap.
struct exchange
{
  std::uint64_t offset = 0;
  std::uint64_t expected = 0;
  std::uint64_t desired = 0;
  std::uint64_t was = 0;

  [[nodiscard]] access_request request() const noexcept
  {
    return {.kind = request_kind::compare_exchange,
      .offset = offset,
      .compare_or_add = expected,
      .swap = desired};
  }
  [[nodiscard]] bool succeeded() const noexcept { return was == expected; }
  // Content of the word after the request.
  [[nodiscard]] std::uint64_t content() const noexcept { return succeeded() ? desired : was; }
};

// Renews or releases a lease.
class lease_change
{
public:
  enum class kind : std::uint8_t
  {
    renew,
    release,
  };

  lease_change(kind what, const held_lease& held, std::uint64_t offset,
    clock_function now = &std::chrono::steady_clock::now) noexcept
    : what_(what)
    , held_(held)
    , now_(now)
  {
    exchange_.offset = offset;
  }

  step begin() noexcept;
  access_request request(std::size_t) const noexcept { return exchange_.request(); }
  void answered(std::size_t, std::uint64_t was) noexcept { exchange_.was = was; }
  step next(bool cancelled) noexcept;

  // The renewed lease; the former one after an error.
  [[nodiscard]] const held_lease& held() const noexcept { return held_; }

private:
  kind what_;
  held_lease held_;
  clock_function now_;
  std::chrono::steady_clock::time_point posted_;
  exchange exchange_;
};

// An operation that renews or releases `Lock`.
template <class Lock>
struct renewing : lease_change
{
  renewing(const Lock& held, std::uint64_t offset) noexcept
    : lease_change(kind::renew, held, offset)
  {
  }
  [[nodiscard]] auto results() const { return std::make_tuple(Lock(held())); }
};
struct releasing : lease_change
{
  releasing(const held_lease& held, std::uint64_t offset) noexcept
    : lease_change(kind::release, held, offset)
  {
  }
  [[nodiscard]] static auto results() noexcept { return std::make_tuple(); }
};

// An operation whose result is a `Lock`. Machine has held(), which is empty without success.
template <class Machine, class Lock>
struct acquiring : Machine
{
  acquiring() noexcept
    : Machine(false)
  {
  }
  [[nodiscard]] auto results() const
  {
    const std::optional<held_lease> held = this->held();
    return std::make_tuple(held ? Lock(*held) : Lock());
  }
};
template <class Machine, class Lock>
struct try_acquiring : Machine
{
  try_acquiring() noexcept
    : Machine(true)
  {
  }
  [[nodiscard]] auto results() const
  {
    const std::optional<held_lease> held = this->held();
    return std::make_tuple(held ? std::optional<Lock>(*held) : std::nullopt);
  }
};

// Opens an object with any lease and number of permits.
class open_leased : public open_object
{
public:
  static constexpr std::uint64_t permits_max = 64;

  using open_object::open_object;

  step next(bool cancelled) noexcept;
};

} // namespace rdma::detail::objects

#endif // BOOST_RDMA_DETAIL_OBJECTS_LEASE_HPP

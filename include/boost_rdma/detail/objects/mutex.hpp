//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_OBJECTS_MUTEX_HPP
#define BOOST_RDMA_DETAIL_OBJECTS_MUTEX_HPP

#include <boost_rdma/detail/objects/header.hpp>
#include <boost_rdma/detail/objects/lease.hpp>
#include <boost_rdma/detail/objects/step.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

// The lock of remote_mutex: a ticket lock whose served ticket is a lease.

namespace rdma::detail::objects {

// A mutex in memory.
struct mutex_memory
{
  static constexpr std::size_t marks_max = 32;
  static constexpr std::uint64_t first_ticket = 1;

  objects::header header{.kind = kind::mutex, .capacity = 1};
  std::uint64_t next = first_ticket; // ticket for the next process
  // The lease. A ticket that is not held yet is kept for its process.
  std::uint64_t served = lease_word{first_ticket, 0, false}.packed();
  // Tickets whose processes no longer wait, at the index ticket % marks_max.
  std::array<std::uint64_t, marks_max> marks{};
};

[[nodiscard]] inline mutex_memory new_mutex(std::chrono::milliseconds lease) noexcept
{
  mutex_memory result;
  result.header.lease_ms = lease_in_header(lease);
  return result;
}

// Locks a mutex. A process that dies delays the others by the time of a lease.
class mutex_lock_request
{
public:
  explicit mutex_lock_request(
    bool tries, clock_function now = &std::chrono::steady_clock::now) noexcept
    : tries_(tries)
    , now_(now)
  {
  }

  step begin() noexcept { return tries_ ? look() : take_ticket(); }
  access_request request(std::size_t i) noexcept;
  void answered(std::size_t i, std::uint64_t was) noexcept;
  step next(bool cancelled) noexcept;

  // The lock, if the operation has locked the mutex.
  [[nodiscard]] std::optional<held_lease> held() const noexcept;
  // Number of times that others have ended leases of this process during the operation.
  [[nodiscard]] unsigned skipped() const noexcept { return skipped_; }
  // Number of leases of other processes that this operation has ended after their time.
  [[nodiscard]] unsigned ended_leases() const noexcept { return ended_leases_; }

private:
  enum class stage : std::uint8_t
  {
    ticket,  // take a ticket and read the mutex
    look,    // read the mutex
    claim,   // take a certain ticket, to try
    pause,   // before the next look
    lock,    // make the word held by this process
    skip,    // serve a later ticket
    abandon, // mark the ticket
  };

  step take_ticket() noexcept;
  step look() noexcept;
  step claim_if_free() noexcept;
  step decide() noexcept;
  step abandon() noexcept;
  step change_served(stage entered, const lease_word& desired) noexcept;
  step give_up() noexcept;
  [[nodiscard]] lease_word word() const noexcept { return lease_word::of(memory_.served); }
  [[nodiscard]] std::chrono::milliseconds lease() const noexcept
  {
    return lease_of(memory_.header);
  }
  [[nodiscard]] std::uint64_t first_waiting(std::uint64_t ticket) const noexcept;

  bool tries_;
  clock_function now_;
  stage stage_ = stage::look;
  bool locked_ = false;
  bool cancelled_ = false;
  bool ends_lease_ = false; // the exchange does, of another process
  unsigned skipped_ = 0;
  unsigned ended_leases_ = 0;
  std::uint64_t ticket_ = 0;
  mutex_memory memory_; // as far as known
  exchange exchange_;
  std::chrono::steady_clock::time_point posted_; // before the last exchange
  std::uint64_t seen_ = 0;                       // served word
  std::chrono::steady_clock::time_point seen_since_;
  back_off pause_{std::chrono::milliseconds(1)};
};

} // namespace rdma::detail::objects

#endif // BOOST_RDMA_DETAIL_OBJECTS_MUTEX_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//
#ifndef BOOST_RDMA_DETAIL_OBJECTS_SEMAPHORE_HPP
#define BOOST_RDMA_DETAIL_OBJECTS_SEMAPHORE_HPP

#include <boost_rdma/detail/objects/header.hpp>
#include <boost_rdma/detail/objects/lease.hpp>
#include <boost_rdma/detail/objects/step.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

// The acquisition of a permit of remote_semaphore. Each permit is a lease.

namespace rdma::detail::objects {

// A semaphore in memory. The header contains the number of permits.
struct semaphore_memory
{
  objects::header header{.kind = kind::semaphore};
  std::array<std::uint64_t, open_leased::permits_max> permits{};
};

[[nodiscard]] inline semaphore_memory new_semaphore(
  std::size_t permits, std::chrono::milliseconds lease) noexcept
{
  semaphore_memory result;
  result.header.capacity = std::clamp<std::size_t>(permits, 1, open_leased::permits_max);
  result.header.lease_ms = lease_in_header(lease);
  result.permits.fill(lease_word{1, 0, false}.packed());
  return result;
}

// Takes a free permit, or one whose lease has ended.
class permit_request
{
public:
  explicit permit_request(bool tries, clock_function now = &std::chrono::steady_clock::now) noexcept
    : tries_(tries)
    , now_(now)
  {
  }

  step begin() noexcept;
  access_request request(std::size_t) noexcept;
  void answered(std::size_t, std::uint64_t was) noexcept { exchange_.was = was; }
  step next(bool cancelled) noexcept;

  // The permit, if the operation has acquired one.
  [[nodiscard]] std::optional<held_lease> held() const noexcept;
  // Returns true if the permit was that of a process whose lease has ended.
  [[nodiscard]] bool ended_lease() const noexcept { return ended_lease_; }

private:
  enum class stage : std::uint8_t
  {
    look,   // read the permits
    pause,  // before the next look
    take,   // make the permit held by this process
    renew,  // a permit whose lease ended before the answer came
    release // because the operation is cancelled
  };

  step look() noexcept;
  step decide(bool cancelled) noexcept;
  step change(stage entered, const lease_word& desired) noexcept;
  [[nodiscard]] lease_word word() const noexcept { return lease_word::of(memory_.permits[index_]); }
  [[nodiscard]] std::chrono::milliseconds lease() const noexcept
  {
    return lease_of(memory_.header);
  }

  // Of a try whose permits always change.
  static constexpr unsigned looks_max = 1000;

  bool tries_;
  clock_function now_;
  stage stage_ = stage::look;
  unsigned looks_ = 0;
  bool acquired_ = false;
  bool ended_lease_ = false;
  std::size_t index_ = 0;
  semaphore_memory memory_; // as far as known
  exchange exchange_;
  std::chrono::steady_clock::time_point posted_; // before the last exchange
  std::array<std::uint64_t, open_leased::permits_max> seen_{};
  std::array<std::chrono::steady_clock::time_point, open_leased::permits_max> seen_since_;
  back_off pause_{std::chrono::milliseconds(1)};
};

} // namespace rdma::detail::objects

#endif // BOOST_RDMA_DETAIL_OBJECTS_SEMAPHORE_HPP

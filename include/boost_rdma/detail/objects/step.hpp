//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_OBJECTS_STEP_HPP
#define BOOST_RDMA_DETAIL_OBJECTS_STEP_HPP

#include <boost_rdma/detail/operation.hpp>
#include <boost_rdma/detail/registration.hpp>
#include <boost_rdma/error.hpp>
#include <boost_rdma/remote_buffer.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

// Steps of the state machines of remote objects. They have no I/O: operation.hpp carries the steps
// out, and the simulation of the tests does.

namespace rdma::detail::objects {

// A request of a step.
struct access_request
{
  request_kind kind;            // read, write, compare_exchange or fetch_add
  std::uint64_t offset;         // in the memory
  std::span<std::byte> bytes{}; // of a read or a write
  std::uint64_t compare_or_add = 0;
  std::uint64_t swap = 0;
  registration* registered = nullptr;    // of `bytes`; null for plain memory
  const remote_buffer* memory = nullptr; // null: that of the object
};

// Next action of an operation: requests that are in flight together, a pause, or the end.
/* The requests of a step may be carried out in any order. Those of the next step are posted when
 * all have completed. */
struct step
{
  enum class action : std::uint8_t
  {
    access,
    pause,
    finish,
  };

  action what = action::finish;
  std::size_t requests = 0;
  std::chrono::microseconds pause{};
  error_code ec{};

  static step access(std::size_t requests) noexcept { return {action::access, requests, {}, {}}; }
  // Without time: after what the executor runs already.
  static step wait(std::chrono::microseconds time) noexcept { return {action::pause, 0, time, {}}; }
  static step finish(error_code ec = {}) noexcept { return {action::finish, 0, {}, ec}; }
};

// Pauses between looks at memory that another process has to change: each twice the one before.
class back_off
{
public:
  explicit back_off(std::chrono::microseconds longest) noexcept
    : longest_(longest)
  {
  }

  [[nodiscard]] step next() noexcept
  {
    const auto time = next_;
    next_ = std::min(next_ * 2, longest_);
    return step::wait(time);
  }
  void reset() noexcept { next_ = shortest; }

private:
  static constexpr std::chrono::microseconds shortest{25};

  std::chrono::microseconds longest_;
  std::chrono::microseconds next_ = shortest;
};

} // namespace rdma::detail::objects

#endif // BOOST_RDMA_DETAIL_OBJECTS_STEP_HPP

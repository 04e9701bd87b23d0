//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_PENDING_HELLOS_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_PENDING_HELLOS_HPP

#include "verbs/software/protocol/hello.hpp"
#include "verbs/software/wire/lanes.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace rdma::software::wire {

class link;

/// The hello of a queue pair that wants to connect, and where the answer goes: to a TCP connection,
/// or to a lane of a local link.
struct pending_hello
{
  std::shared_ptr<wire::link> link;
  lane_use lane;
  protocol::hello theirs;
  std::int64_t until = 0;
};

/// Visitors whose queue pair has not met them yet: of two that connect, one is ready first. Any
/// thread.
class pending_hellos
{
public:
  static constexpr std::size_t pending_max = 64;

  pending_hellos() { pending_.reserve(pending_max); }

  /// The oldest, when there was no room without it leaving.
  std::optional<pending_hello> add(pending_hello v)
  {
    const std::lock_guard lock(mutex_);
    std::optional<pending_hello> oldest;
    if (pending_.size() == pending_max)
      oldest = remove(pending_.begin());
    pending_.push_back(std::move(v));
    return oldest;
  }

  /// The next one for this queue pair.
  std::optional<pending_hello> take(std::uint32_t qp)
  {
    return take_if([qp](const pending_hello& v) { return v.theirs.to.qp == qp; });
  }

  /// One who has been here for too long.
  std::optional<pending_hello> take_late(std::int64_t now)
  {
    return take_if([now](const pending_hello& v) { return v.until <= now; });
  }

  /// When the next one will have been; 0 when nobody is here.
  std::int64_t until() const
  {
    const std::lock_guard lock(mutex_);
    return pending_.empty() ? 0
                            : pending_.front().until; // all stay as long, and leave in their order
  }

private:
  using iterator = std::vector<pending_hello>::iterator;

  std::optional<pending_hello> remove(iterator which)
  {
    std::optional<pending_hello> gone(std::move(*which));
    pending_.erase(which);
    return gone;
  }

  template <class Predicate>
  std::optional<pending_hello> take_if(Predicate which)
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(pending_.begin(), pending_.end(), which);
    return found != pending_.end() ? remove(found) : std::nullopt;
  }

  mutable std::mutex mutex_;
  std::vector<pending_hello> pending_;
};

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_PENDING_HELLOS_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_WAITING_ROOM_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_WAITING_ROOM_HPP

#include "verbs/software/protocol/hello.hpp"
#include "verbs/software/wire/socket.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace rdma::software::wire {

/// A connection that has said hello.
struct visitor
{
  descriptor fd;
  protocol::hello theirs;
  std::int64_t until = 0;
  bool is_local = false; ///< came by the local wire's socket, of a process of the same user
  descriptor memory;     ///< what came along
};

/// Visitors whose queue pair has not met them yet: of two that connect, one is ready first. Any
/// thread.
class waiting_room
{
public:
  static constexpr std::size_t visitors_max = 64;

  waiting_room() { visitors_.reserve(visitors_max); }

  /// The oldest, when there was no room without it leaving.
  std::optional<visitor> add(visitor v)
  {
    const std::lock_guard lock(mutex_);
    std::optional<visitor> oldest;
    if (visitors_.size() == visitors_max)
      oldest = remove(visitors_.begin());
    visitors_.push_back(std::move(v));
    return oldest;
  }

  /// The next one for this queue pair.
  std::optional<visitor> take(std::uint32_t qp)
  {
    return take_if([qp](const visitor& v) { return v.theirs.to.qp == qp; });
  }

  /// One who has been here for too long.
  std::optional<visitor> take_late(std::int64_t now)
  {
    return take_if([now](const visitor& v) { return v.until <= now; });
  }

  /// When the next one will have been; 0 when nobody is here.
  std::int64_t until() const
  {
    const std::lock_guard lock(mutex_);
    return visitors_.empty()
      ? 0
      : visitors_.front().until; // all stay as long, and leave in their order
  }

private:
  using iterator = std::vector<visitor>::iterator;

  std::optional<visitor> remove(iterator which)
  {
    std::optional<visitor> gone(std::move(*which));
    visitors_.erase(which);
    return gone;
  }

  template <class Predicate>
  std::optional<visitor> take_if(Predicate which)
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(visitors_.begin(), visitors_.end(), which);
    return found != visitors_.end() ? remove(found) : std::nullopt;
  }

  mutable std::mutex mutex_;
  std::vector<visitor> visitors_;
};

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_WAITING_ROOM_HPP

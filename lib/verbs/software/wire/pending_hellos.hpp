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

/// The hello of a queue pair that wants to connect, with the link and lane for the answer.
struct pending_hello
{
  std::shared_ptr<wire::link> link;
  lane_use lane;
  protocol::hello theirs;
  std::int64_t until = 0;
};

/// Hellos whose queue pair has not taken them yet: the two queue pairs of a connection become ready
/// one after the other. Thread-safe.
class pending_hellos
{
public:
  static constexpr std::size_t pending_max = 64;

  pending_hellos() { pending_.reserve(pending_max); }

  /// Adds a hello. Returns the oldest one, removed, if there was no room left.
  std::optional<pending_hello> add(pending_hello v)
  {
    const std::lock_guard lock(mutex_);
    std::optional<pending_hello> oldest;
    if (pending_.size() == pending_max)
      oldest = remove(pending_.begin());
    pending_.push_back(std::move(v));
    return oldest;
  }

  /// Takes the oldest hello for this queue pair.
  std::optional<pending_hello> take(std::uint32_t qp)
  {
    return take_if([qp](const pending_hello& v) { return v.theirs.to.qp == qp; });
  }

  /// Takes a hello whose time limit has passed.
  std::optional<pending_hello> take_late(std::int64_t now)
  {
    return take_if([now](const pending_hello& v) { return v.until <= now; });
  }

  /// Returns the time limit of the oldest hello; 0: there is none.
  std::int64_t until() const
  {
    const std::lock_guard lock(mutex_);
    // All have the same time limit, so they are in order.
    return pending_.empty() ? 0 : pending_.front().until;
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

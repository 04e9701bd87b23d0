//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_LANES_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_LANES_HPP

#include "verbs/software/protocol/hello.hpp"
#include "verbs/software/short_lock.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

namespace rdma::software::wire {

/// The maximum number of queue pairs of a link.
inline constexpr unsigned lanes_max = 256;

/// Identifies one use of a lane, so that a late message does not reach the next user.
struct lane_use
{
  std::uint32_t lane : 8 = 0;
  std::uint32_t number : 24 = 0;
};
static_assert(lanes_max <= 1u << 8);

/// A message of one queue pair's handshake.
struct attach_message
{
  lane_use lane;
  protocol::hello_bytes bytes{};
};

/// The lanes of one end of a link. A lane is the slot of an attached queue pair.
/**
 * The end that has made the link is end 0 and allocates the lanes. A lane is free again when both
 * ends have detached. Thread-safe.
 */
class lane_table
{
public:
  /// The receivers of a handshake message.
  enum class purpose
  {
    none, ///< none: that use of the lane is over
    user, ///< the lane's queue pair, by take_message()
    hello ///< the engine: a queue pair of the peer wants to attach
  };

  explicit lane_table(unsigned end) noexcept
    : end_(end)
  {
  }

  /// End 0: reserves a lane for a queue pair. Returns nothing if all are in use, or the link has
  /// ended.
  /**
   * `is_left(lane)` returns true if the peer has detached from a lane. `begin(lane)` prepares the
   * lane.
   */
  template <class IsLeft, class Begin>
  std::optional<lane_use> take(std::uint32_t qp, IsLeft is_left, Begin begin) noexcept
  {
    const std::lock_guard lock(mutex_);
    if (ended_.load(std::memory_order_relaxed))
      return std::nullopt;
    for (std::uint32_t i = 0; i != lanes_max; ++i)
    {
      lane& l = lanes_[i];
      if (l.qp.load(std::memory_order_relaxed) != 0 || (l.detaching && !is_left(i)))
        continue;
      lane_use use;
      use.lane = i;
      use.number = l.number + 1;
      begin(i);
      start(l, use, qp); // the number has 24 bits
      return use;
    }
    return std::nullopt;
  }

  /// End 1: attaches a queue pair to the lane that the peer has chosen. Returns false if the lane
  /// is in use.
  bool adopt(lane_use which, std::uint32_t qp) noexcept
  {
    const std::lock_guard lock(mutex_);
    lane& l = lanes_[which.lane];
    if (end_ != 1 || ended_.load(std::memory_order_relaxed)
      || l.qp.load(std::memory_order_relaxed) != 0)
      return false;
    const bool left = is_current(which) && l.left.load(std::memory_order_relaxed);
    start(l, which, qp);
    l.left.store(left, std::memory_order_relaxed);
    return true;
  }

  /// Detaches a queue pair from its lane. Returns false if it was not attached. Otherwise calls
  /// leave(lane), which notifies the peer, before the lane can be taken again.
  template <class Leave>
  bool release(lane_use which, Leave leave) noexcept
  {
    const std::lock_guard lock(mutex_);
    lane& l = lanes_[which.lane];
    if (!is_current(which) || l.qp.load(std::memory_order_relaxed) == 0)
      return false;
    l.qp.store(0, std::memory_order_release);
    leave(which.lane);
    l.detaching = !l.refused;
    l.message.reset();
    used_.fetch_sub(1, std::memory_order_relaxed);
    return true;
  }

  /// Returns the queue pair that is attached to a lane; 0: none.
  std::uint32_t user_of(unsigned lane) const noexcept
  {
    return lanes_[lane].qp.load(std::memory_order_acquire);
  }

  bool is_unused() const noexcept { return used_.load(std::memory_order_relaxed) == 0; }

  /// Prevents queue pairs from attaching. Returns false if one is attached.
  bool retire() noexcept
  {
    const std::lock_guard lock(mutex_);
    if (!is_unused())
      return false;
    ended_.store(true, std::memory_order_release);
    return true;
  }

  /// Ends the link. No queue pair attaches any more when this returns.
  void end() noexcept
  {
    const std::lock_guard lock(mutex_);
    ended_.store(true, std::memory_order_release);
  }
  bool ended() const noexcept { return ended_.load(std::memory_order_acquire); }

  /// Processes the peer's message that it has detached from a lane. Returns the queue pair that is
  /// attached to the lane; 0: none.
  std::uint32_t leave(lane_use which) noexcept
  {
    const std::lock_guard lock(mutex_);
    lane& l = lanes_[which.lane];
    const std::uint32_t qp = l.qp.load(std::memory_order_relaxed);
    // At end 1, the hello of this use may still be pending. A number is newer if it is ahead by
    // less than half of the range.
    constexpr std::uint32_t half = 1u << 23;
    const bool is_newer = ((which.number - l.number) & (2 * half - 1)) < half;
    if (!is_current(which) && (end_ == 0 || qp != 0 || !is_newer))
      return 0;
    l.number = which.number;
    return l.left.exchange(true, std::memory_order_acq_rel) ? 0 : qp;
  }
  bool has_left(unsigned lane) const noexcept
  {
    return lanes_[lane].left.load(std::memory_order_acquire);
  }

  /// Returns true if the peer may still send to a queue pair, which may have detached.
  bool expects(std::uint32_t qp) noexcept
  {
    const std::lock_guard lock(mutex_);
    for (const lane& l : lanes_)
      if (l.last_qp == qp && !l.left.load(std::memory_order_relaxed)
        && (l.detaching || l.qp.load(std::memory_order_relaxed) != 0))
        return true;
    return false;
  }

  /// Stores a message for the user of its lane. May throw std::bad_alloc.
  purpose receive(const attach_message& what)
  {
    const std::lock_guard lock(mutex_);
    lane& l = lanes_[what.lane.lane];
    const bool used = l.qp.load(std::memory_order_relaxed) != 0;
    if (end_ == 1 && !(used && is_current(what.lane)))
      return purpose::hello;
    if (!is_current(what.lane))
      return purpose::none;
    if (end_ == 0 && protocol::is_not_ready(what.bytes))
    {
      l.refused = true;
      l.detaching = false;
    }
    if (!used)
      return purpose::none;
    l.message = std::make_unique<protocol::hello_bytes>(what.bytes);
    return purpose::user;
  }

  /// Takes the last handshake message that has arrived for a lane.
  bool take_message(lane_use from, protocol::hello_bytes& to) noexcept
  {
    const std::lock_guard lock(mutex_);
    lane& l = lanes_[from.lane];
    if (!is_current(from) || !l.message)
      return false;
    to = *l.message;
    l.message.reset();
    return true;
  }

  /// Returns true if a queue pair is attached with this use of a lane.
  bool is_attached(lane_use which) const noexcept
  {
    const std::lock_guard lock(mutex_);
    return is_current(which) && user_of(which.lane) != 0;
  }

private:
  struct lane
  {
    std::atomic<std::uint32_t> qp{0};
    std::atomic<bool> left{false}; ///< the peer has detached
    bool detaching = false;   ///< this end has detached; the lane is free when the peer has as well
    bool refused = false;     ///< the peer has refused to attach
    std::uint32_t number = 0; ///< lane_use::number of this use
    std::uint32_t last_qp = 0;
    std::unique_ptr<protocol::hello_bytes> message;
  };

  bool is_current(lane_use which) const noexcept
  {
    return lanes_[which.lane].number == which.number;
  }

  void start(lane& l, lane_use which, std::uint32_t qp) noexcept
  {
    l.number = which.number;
    l.last_qp = qp;
    l.detaching = l.refused = false;
    l.left.store(false, std::memory_order_relaxed);
    l.message.reset();
    l.qp.store(qp, std::memory_order_release);
    used_.fetch_add(1, std::memory_order_relaxed);
  }

  const unsigned end_;
  std::atomic<bool> ended_{false};
  std::atomic<unsigned> used_{0}; ///< lanes with a queue pair
  mutable short_lock mutex_;
  std::array<lane, lanes_max> lanes_;
};

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_LANES_HPP

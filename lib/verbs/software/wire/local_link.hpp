//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_LOCAL_LINK_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_LOCAL_LINK_HPP

#include "verbs/software/protocol/hello.hpp"
#include "verbs/software/short_lock.hpp"
#include "verbs/software/wire/direct_access.hpp"
#include "verbs/software/wire/lanes.hpp"
#include "verbs/software/wire/mapped_area.hpp"
#include "verbs/software/wire/segment.hpp"
#include "verbs/software/wire/socket.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace rdma::software::wire {

/// The answer to a request for a grant. The message also carries the descriptor of the memory.
struct grant_answer
{
  lane_use lane;
  grant_message what;
};

/// The link between two contexts of one host: a socket, a segment, and a lane for each attached
/// queue pair.
/**
 * The connecting context is end 0: it makes the segment and allocates the lanes. A lane is free
 * again when both ends have detached. Thread-safe.
 */
class local_link
{
public:
  /// The kinds of messages that arrive through the socket.
  enum class heard
  {
    nothing, ///< no message yet
    wake,    ///< a wake-up, usually the last message
    message, ///< a message for a lane, whose bell is rung
    hello,   ///< a peer's queue pair wants to attach
    end,     ///< the end of the link
  };

  /// `segment_fd`: at end 0, the descriptor that the first message carries.
  local_link(descriptor socket, std::shared_ptr<segment> memory, unsigned end,
    descriptor segment_fd = {}) noexcept;
  ~local_link();
  local_link(const local_link&) = delete;
  local_link& operator=(const local_link&) = delete;

  int socket() const noexcept { return socket_.get(); }
  const std::shared_ptr<segment>& memory() const noexcept { return memory_; }
  unsigned end() const noexcept { return end_; }

  // --- lanes ---

  /// End 0: reserves a lane for a queue pair. Returns nothing if all are in use.
  std::optional<lane_use> take(std::uint32_t qp) noexcept;

  /// End 1: attaches a queue pair to the lane that the peer has chosen. Returns false if the lane
  /// is in use.
  bool adopt(lane_use which, std::uint32_t qp) noexcept { return lanes_.adopt(which, qp); }

  /// Detaches a queue pair from its lane. Returns false if ring() does.
  bool release(lane_use which) noexcept;

  /// Returns the queue pair that is attached to a lane; 0: none.
  std::uint32_t user_of(unsigned lane) const noexcept { return lanes_.user_of(lane); }

  bool is_unused() const noexcept { return lanes_.is_unused(); }

  /// Returns true if the peer has detached from the lane, or the link has ended.
  bool is_over(lane_use which) const noexcept;

  /// Prevents queue pairs from attaching. Returns false if one is attached.
  bool retire() noexcept { return lanes_.retire(); }

  /// Ends the link: the socket is shut down, and no queue pair attaches any more.
  void shut_down() noexcept;

  /// Returns true in a child of fork(), where the link remains owned by the parent.
  bool inherited() const noexcept { return forks.load(std::memory_order_relaxed) != forks_; }

  /// Returns true if the link has ended.
  bool ended() const noexcept { return lanes_.ended(); }

  // --- the socket ---

  /// Sends a handshake message. Returns false with errno set if it cannot be sent now.
  bool send(lane_use to, const protocol::hello_bytes& bytes) noexcept;

  /// Sends a grant with the descriptor of its memory. Returns false with errno set if it cannot be
  /// sent now.
  bool send(lane_use to, const grant_message& what, int memory) noexcept;

  /// Reads one message. Not thread-safe.
  heard hear(attach_message& hello) noexcept;

  /// Reads a bounded number of messages; an honest peer sends one wake-up for each sleep. Calls
  /// visit(const attach_message&) for each hello. Not thread-safe.
  template <class Visit>
  void hear_some(Visit visit)
  {
    bool woken = false;
    for (unsigned i = 0; i != messages_max; ++i)
    {
      attach_message hello;
      const heard what = hear(hello);
      if (what == heard::nothing || what == heard::end)
        break;
      woken = true;
      if (what == heard::wake)
        break; // epoll reports a message behind it
      if (what == heard::hello)
        visit(hello);
    }
    if (woken)
      rearm();
  }

  /// Take the last handshake message, and the oldest grant, that has arrived for a lane.
  bool take_message(lane_use from, protocol::hello_bytes& to) noexcept
  {
    return lanes_.take_message(from, to);
  }
  std::optional<grant_message> take_grant(lane_use from, descriptor& memory) noexcept;
  bool has_grants() const noexcept { return grant_count_.load(std::memory_order_relaxed) != 0; }

  peer_areas& areas() noexcept { return areas_; }

  // --- bells ---

  /// Rings the peer's bell of a lane. The caller has stored the records, then made a sequentially
  /// consistent fence. Returns false if the socket refuses the wake-up: the caller rings again
  /// later.
  bool ring(unsigned lane) noexcept;

  /// Wakes the peer if it sleeps. Returns false if the socket refuses the wake-up.
  bool wake() noexcept;

  /// Rings this end's own bell of a lane.
  void ring_here(unsigned lane) noexcept;

  bool has_bells() const noexcept { return memory_->side(end_).has_bells(); }

  /// Calls visit(lane) for each lane whose bell was rung, after clearing it.
  template <class Visit>
  void take_bells(Visit visit)
  {
    memory_->side(end_).take_bells(visit);
  }

  /// Records whether a thread polls the bells. The caller looks at them once more afterwards.
  void look(bool on) noexcept;

  /// Begins a new sleep after a wake-up has arrived. The caller looks at the bells afterwards.
  void rearm() noexcept;

private:
  static constexpr unsigned messages_max = 16; // in one call

  struct pending_grant
  {
    lane_use lane;
    grant_message what;
    descriptor memory;
  };

  heard receive(const attach_message& what) noexcept;
  heard receive(const grant_answer& what, descriptor memory) noexcept;
  heard end_link() noexcept;

  const unsigned forks_ = forks.load(std::memory_order_relaxed);
  const descriptor socket_;
  const std::shared_ptr<segment> memory_;
  const unsigned end_;
  lane_table lanes_;
  peer_areas areas_;
  basic_wake_ups<atomics> wake_ups_;
  std::atomic<std::size_t> grant_count_{0}; ///< grants_.size(); the lane's bell orders it

  short_lock mutex_; // guards the following
  descriptor segment_fd_;
  sleep_count sleeps_;
  std::vector<pending_grant> grants_;
};

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_LOCAL_LINK_HPP

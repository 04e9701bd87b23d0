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

/// The answer to a request for a grant. The descriptor of the memory comes with it.
struct grant_answer
{
  lane_use lane;
  grant_message what;
};

/// The link between two contexts of one host: a socket, a segment, and a lane for each queue pair
/// that is attached to it.
/**
 * The connecting context makes the segment and gives out the lanes; it has end 0. A lane is free
 * again when both ends have detached. Any thread.
 */
class local_link
{
public:
  /// The kinds of messages that come through the socket.
  enum class heard
  {
    nothing, ///< more comes later
    wake,    ///< a wake-up, usually the last message
    message, ///< for a lane, whose bell rings
    hello,   ///< a peer's queue pair wants to attach
    end,     ///< of the link
  };

  /// `segment_fd`: what the first message of the connecting end brings.
  local_link(descriptor socket, std::shared_ptr<segment> memory, unsigned end,
    descriptor segment_fd = {}) noexcept;
  ~local_link();
  local_link(const local_link&) = delete;
  local_link& operator=(const local_link&) = delete;

  int socket() const noexcept { return socket_.get(); }
  const std::shared_ptr<segment>& memory() const noexcept { return memory_; }
  unsigned end() const noexcept { return end_; }

  // --- lanes ---

  /// End 0: reserves a lane for a queue pair. Nothing if all are in use.
  std::optional<lane_use> take(std::uint32_t qp) noexcept;

  /// End 1: attaches a queue pair to the lane that the peer has chosen. False if it is in use.
  bool adopt(lane_use which, std::uint32_t qp) noexcept { return lanes_.adopt(which, qp); }

  /// The queue pair uses its lane no more. Returns false as ring() does.
  bool release(lane_use which) noexcept;

  /// Returns the queue pair that is attached to a lane; 0: none.
  std::uint32_t user_of(unsigned lane) const noexcept { return lanes_.user_of(lane); }

  bool is_unused() const noexcept { return lanes_.is_unused(); }

  /// Returns true if the peer has detached from the lane, or the link has ended.
  bool is_over(lane_use which) const noexcept;

  /// Lets no queue pair attach any more. Returns false if one is attached.
  bool retire() noexcept { return lanes_.retire(); }

  /// Ends the link: the peer finds its socket closed, and no queue pair attaches any more.
  void shut_down() noexcept;

  /// Returns true in a child of fork(): the link is the parent's.
  bool inherited() const noexcept { return forks.load(std::memory_order_relaxed) != forks_; }

  /// The socket has ended.
  bool ended() const noexcept { return lanes_.ended(); }

  // --- the socket ---

  /// Sends a message of the handshake. Returns false with errno set if it cannot leave now.
  bool send(lane_use to, const protocol::hello_bytes& bytes) noexcept;

  /// Sends a grant with the descriptor of its memory; likewise.
  bool send(lane_use to, const grant_message& what, int memory) noexcept;

  /// Reads one message. One thread at a time.
  heard hear(attach_message& hello) noexcept;

  /// Reads a bounded number of messages; an honest peer sends one wake-up for each sleep. Calls
  /// visit(const attach_message&) for each hello.
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

  /// Takes the last message of the handshake, or the oldest grant, that has come for a lane.
  bool take_message(lane_use from, protocol::hello_bytes& to) noexcept
  {
    return lanes_.take_message(from, to);
  }
  std::optional<grant_message> take_grant(lane_use from, descriptor& memory) noexcept;
  bool has_grants() const noexcept { return grant_count_.load(std::memory_order_relaxed) != 0; }

  peer_areas& areas() noexcept { return areas_; }

  // --- bells ---

  /// Reports news in a lane to the peer. The caller has stored the news, then made a sequentially
  /// consistent fence. Returns false if the socket refuses the wake-up: ring again later.
  bool ring(unsigned lane) noexcept;

  /// Wakes the peer if it sleeps. Returns false if the socket refuses that.
  bool wake() noexcept;

  /// Rings this end's own bell.
  void ring_here(unsigned lane) noexcept;

  bool has_bells() const noexcept { return memory_->side(end_).has_bells(); }

  /// Calls visit(lane) for each lane whose bell was rung, after clearing it.
  template <class Visit>
  void take_bells(Visit visit)
  {
    memory_->side(end_).take_bells(visit);
  }

  /// A thread polls the bells from now on, or no longer; look once more then.
  void look(bool on) noexcept;

  /// A wake-up has come: the next one is a new one. Look at the bells afterwards.
  void rearm() noexcept;

private:
  static constexpr unsigned messages_max = 16; // of one call

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
  std::atomic<std::size_t> grant_count_{0}; ///< grants_.size(); its lane's bell orders it

  short_lock mutex_; // guards the following
  descriptor segment_fd_;
  sleep_count sleeps_;
  std::vector<pending_grant> grants_;
};

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_LOCAL_LINK_HPP

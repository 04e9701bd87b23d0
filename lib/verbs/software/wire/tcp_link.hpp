//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_TCP_LINK_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_TCP_LINK_HPP

#include "verbs/software/wire/frame_stream.hpp"
#include "verbs/software/wire/lanes.hpp"
#include "verbs/software/wire/link.hpp"
#include "verbs/software/wire/socket.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include <sys/uio.h>

namespace rdma::software::wire {

/// The first bytes of a message of a link, which tell it from a frame. All but the detach message
/// have the bytes of the handshake behind them.
inline constexpr std::size_t tcp_message_size = 8;
inline constexpr std::size_t tcp_attach_size = tcp_message_size + protocol::hello_size;
/// The first byte of the message of an end that uses a lane no more: an opcode that IBA 9.2.1
/// leaves to manufacturers, as that of the other message. No frame begins with one.
inline constexpr std::byte tcp_detach{0xc1};

using tcp_attach_bytes = std::array<std::byte, tcp_attach_size>;

void encode(const attach_message& from, tcp_attach_bytes& to) noexcept;

/// Returns nothing if the bytes are not such a message.
std::optional<attach_message> decode_attach(
  std::span<const std::byte, tcp_attach_size> from) noexcept;

/// A link over TCP: the frames of all attached queue pairs travel through one connection.
/**
 * Small frames are copied to a buffer and leave together, with one system call at the end of a call
 * of serve(). Large ones leave straight from registered memory. What has come is read by the thread
 * that serves, which lends the stream to the queue pair whose frame is next.
 */
class tcp_link final : public link
{
public:
  /// `made_here`: the socket is connecting; otherwise the peer has made the link. May throw
  /// std::bad_alloc.
  tcp_link(engine& by, descriptor socket, const path& to, bool made_here);

  // link
  int socket() const noexcept override { return socket_.get(); }
  std::optional<lane_use> take(std::uint32_t qp) noexcept override;
  bool adopt(lane_use which, std::uint32_t qp, const route& by) noexcept override;
  void release(lane_use which) noexcept override;
  bool send(lane_use to, const protocol::hello_bytes& bytes) noexcept override;
  bool take_message(lane_use from, protocol::hello_bytes& to) noexcept override
  {
    return lanes_.take_message(from, to);
  }
  bool is_over(lane_use which) const noexcept override
  {
    return lanes_.ended() || lanes_.has_left(which.lane);
  }
  std::uint32_t user_of(unsigned lane) const noexcept override { return lanes_.user_of(lane); }
  bool is_unused() const noexcept override { return lanes_.is_unused(); }
  bool retire() noexcept override { return lanes_.retire(); }
  void end() noexcept override;
  bool ended() const noexcept override { return lanes_.ended(); }

  /// The peer has violated the protocol, which has ended the link.
  bool malformed() const noexcept { return malformed_.load(std::memory_order_acquire); }

  // progress_target
  void serve(mover by, std::uint32_t events = 0) override;
  bool come_due(std::int64_t now) override;

  // --- receiving: for the queue pair that the stream is lent to ---

  frame_stream& stream() noexcept { return stream_; }

  /// The queue pair takes what is next in the stream.
  void claim() noexcept { claimed_ = true; }

  /// The queue pair has taken this many messages that use a receive. A program that polls is likely
  /// to answer them.
  void expect_answers(std::uint32_t count) noexcept { received_ += count; }

  // --- sending: with the queue pair's progress lock held ---

  /// Sends frames of a queue pair; `ends`: where each of them ends in `what`. Returns how many of
  /// its bytes have been taken, which are whole frames, or -1 with errno set: EAGAIN if the queue
  /// pair is served again when there is room, EFAULT, or EPIPE.
  std::ptrdiff_t send(unsigned lane, std::span<const iovec> what, std::span<const std::size_t> ends,
    bool unordered) noexcept;

  /// Sends a frame of a queue pair that is about to detach. It is copied if there is no room, and
  /// dropped if the peer has not read much that was copied before.
  void send_last(std::span<const iovec> what) noexcept { put(what, out_last_max); }

  /// A queue pair has more to send than it may in this turn: it is served again.
  void wait_for_turn(unsigned lane) noexcept;

  /// Returns true if other queue pairs wait for room: then a turn is short.
  bool has_others_waiting(unsigned lane) const noexcept;
  bool is_waiting(unsigned lane) const noexcept
  {
    return (waiting_[lane / 64].load(std::memory_order_relaxed) >> lane % 64 & 1) != 0;
  }

  // --- gathering ---

  /// Lets the next poll serve a queue pair, so that what many of them have leaves together. The
  /// engine does it if nobody polls. `poll_is_near`: see engine::defer().
  void defer(unsigned lane, bool poll_is_near) noexcept;

  /// Returns true if the program is likely to post more before it polls: one of several messages
  /// that have come together has been answered.
  bool expects_more() noexcept
  {
    return expected_.load(std::memory_order_relaxed) > 0
      && expected_.fetch_sub(1, std::memory_order_relaxed) > 0;
  }

private:
  using lane_bits = std::array<std::atomic<std::uint64_t>, lanes_max / 64>;

  // Queue pairs wait when so much has been appended and has not left: many small frames, and the
  // rest of a large one.
  static constexpr std::size_t out_max = 320 * 1024;

  // The last answers of queue pairs that end may exceed it up to here.
  static constexpr std::size_t out_last_max = 1024 * 1024;

  // The peer reads nothing, and would not learn of the end of a lane.
  static constexpr std::size_t out_broken = 2 * 1024 * 1024;

  void work(mover by) override;
  bool may_name(const protocol::endpoint_name& who) const noexcept override;
  void read(mover by);
  bool take_next(mover by);
  bool take_frame(mover by, std::uint32_t qp);
  bool take_message(mover by);
  void break_off(bool malformed) noexcept;
  void use_room(mover by);
  bool put(std::span<const iovec> what, std::size_t most) noexcept;
  bool put(std::span<const std::byte> bytes, std::size_t most) noexcept
  {
    const iovec all{const_cast<std::byte*>(bytes.data()), bytes.size()};
    return put({&all, 1}, most);
  }
  bool append(std::span<const iovec> what, std::size_t begin, std::size_t end) noexcept;
  void flush() noexcept;
  void abandon() noexcept;
  void sent(std::size_t size) noexcept;
  void compact() noexcept;
  std::ptrdiff_t refuse(unsigned lane) noexcept;
  void rewatch(bool blocked) noexcept;

  /// Calls visit(lane) for each bit, after clearing it.
  template <class Visit>
  static void take_bits(lane_bits& from, Visit visit)
  {
    for (std::size_t i = 0; i != from.size(); ++i)
    {
      if (from[i].load(std::memory_order_relaxed) == 0)
        continue;
      for (std::uint64_t bits = from[i].exchange(0, std::memory_order_seq_cst); bits != 0;
           bits &= bits - 1)
        visit(static_cast<unsigned>(i * 64) + static_cast<unsigned>(__builtin_ctzll(bits)));
    }
  }

  descriptor socket_;
  lane_table lanes_;

  // For the thread that serves.
  frame_stream stream_;
  bool claimed_ = false;
  std::uint32_t received_ = 0; ///< in this call
  unsigned next_turn_ = 0;     ///< where use_room() begins

  std::atomic<bool> malformed_{false};
  std::atomic<int> expected_{0};
  std::atomic<bool> deferred_{false};
  std::atomic<std::uint32_t> deferrals_{0}; ///< how often that was set
  std::uint32_t seen_ = 0;                  ///< of them, by the engine's thread
  lane_bits deferring_{};
  lane_bits waiting_{}; ///< for room

  std::mutex out_mutex_; // guards the following
  std::vector<std::byte> out_;
  std::size_t out_begin_ = 0; ///< what has left of it
  bool blocked_ = false;      ///< until the socket has room
  bool broken_ = false;       ///< nothing can be sent any more
  bool working_ = false;      ///< a thread serves, which sends what is appended
  bool makes_room_ = false;   ///< a thread is in use_room()
};

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_TCP_LINK_HPP

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

/// The size of a link message's first part, which distinguishes it from a frame. The handshake
/// bytes follow, except in a detach message.
inline constexpr std::size_t tcp_message_size = 8;
inline constexpr std::size_t tcp_attach_size = tcp_message_size + protocol::hello_size;
/// The first byte of a detach message: an opcode that IBA 9.2.1 leaves to manufacturers, as that of
/// an attach message. No frame begins with either.
inline constexpr std::byte tcp_detach{0xc1};

using tcp_attach_bytes = std::array<std::byte, tcp_attach_size>;

void encode(const attach_message& from, tcp_attach_bytes& to) noexcept;

/// Returns nothing if the bytes are not an attach message.
std::optional<attach_message> decode_attach(
  std::span<const std::byte, tcp_attach_size> from) noexcept;

/// A link over TCP: one connection carries the frames of all attached queue pairs.
/**
 * Small frames are copied to a buffer and are sent by one system call at the end of serve(). Large
 * ones are sent directly from registered memory. The serving thread reads the stream and passes it
 * to the queue pair that the next frame names.
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

  /// Returns true if the peer has violated the protocol, which has ended the link.
  bool malformed() const noexcept { return malformed_.load(std::memory_order_acquire); }

  // progress_target
  void serve(mover by, std::uint32_t events = 0) override;
  bool come_due(std::int64_t now) override;

  // --- receiving: called by the queue pair to which the stream was passed ---

  frame_stream& stream() noexcept { return stream_; }

  /// Records that the queue pair takes the next bytes of the stream.
  void claim() noexcept { claimed_ = true; }

  /// Counts messages that have consumed a receive. A program that polls is likely to answer them.
  void expect_answers(std::uint32_t count) noexcept { received_ += count; }

  // --- sending: the caller holds the queue pair's progress lock ---

  /// Sends frames of a queue pair. `ends`: the end of each frame in `what`. Returns the number of
  /// bytes taken, always whole frames; or -1 with errno set: EAGAIN (the queue pair is served again
  /// when there is room), EFAULT, or EPIPE.
  std::ptrdiff_t send(unsigned lane, std::span<const iovec> what, std::span<const std::size_t> ends,
    bool unordered) noexcept;

  /// Sends a frame of a queue pair that is about to detach. It is copied if there is no room, and
  /// dropped if too many copied bytes are still unsent.
  void send_last(std::span<const iovec> what) noexcept { put(what, out_last_max); }

  /// Serves the queue pair again, because it has more to send than its turn permits.
  void wait_for_turn(unsigned lane) noexcept;

  /// Returns true if other queue pairs wait for room. The caller's turn is then short.
  bool has_others_waiting(unsigned lane) const noexcept;
  bool is_waiting(unsigned lane) const noexcept
  {
    return (waiting_[lane / 64].load(std::memory_order_relaxed) >> lane % 64 & 1) != 0;
  }

  // --- gathering ---

  /// Lets the next poll serve a queue pair, so that the frames of many queue pairs are sent
  /// together. The engine does it if no thread polls. `poll_is_near`: see engine::defer().
  void defer(unsigned lane, bool poll_is_near) noexcept;

  /// Returns true if the program is likely to post more before it polls: several messages have
  /// arrived together, and not all of them have been answered.
  bool expects_more() noexcept
  {
    return expected_.load(std::memory_order_relaxed) > 0
      && expected_.fetch_sub(1, std::memory_order_relaxed) > 0;
  }

private:
  using lane_bits = std::array<std::atomic<std::uint64_t>, lanes_max / 64>;

  // Queue pairs wait while so many bytes are appended and unsent: many small frames, and the rest
  // of a large one.
  static constexpr std::size_t out_max = 320 * 1024;

  // The larger bound for the last answers of queue pairs that detach.
  static constexpr std::size_t out_last_max = 1024 * 1024;

  // The bound at which the link is ended: the peer does not read, so it would miss a detach
  // message.
  static constexpr std::size_t out_broken = 2 * 1024 * 1024;

  void work(mover by) override;
  bool may_name(const protocol::endpoint_name& peer) const noexcept override;
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

  // Used by the serving thread.
  frame_stream stream_;
  bool claimed_ = false;
  std::uint32_t received_ = 0; ///< in this call
  unsigned next_turn_ = 0;     ///< the lane at which use_room() begins

  std::atomic<bool> malformed_{false};
  std::atomic<int> expected_{0};
  std::atomic<bool> deferred_{false};
  std::atomic<std::uint32_t> deferrals_{0}; ///< the number of times deferred_ was set
  std::uint32_t seen_ = 0; ///< the last value of deferrals_ that the engine's thread has seen
  lane_bits deferring_{};
  lane_bits waiting_{}; ///< lanes that wait for room

  std::mutex out_mutex_; // guards the following
  std::vector<std::byte> out_;
  std::size_t out_begin_ = 0; ///< the bytes of out_ before this have been sent
  bool blocked_ = false;      ///< until the socket has room
  bool broken_ = false;       ///< nothing can be sent any more
  bool working_ = false;      ///< a thread serves, and sends appended bytes at the end
  bool makes_room_ = false;   ///< a thread is in use_room()
};

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_TCP_LINK_HPP

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
#include "verbs/software/wire/tcp_output.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

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
 * The serving thread reads the stream and passes it to the queue pair that the next frame names. A
 * tcp_output sends, in turns that end with serve().
 */
class tcp_link final
  : public link
  , private output_socket
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

  /// See tcp_output::send(). `unordered`: the payload may change meanwhile.
  std::ptrdiff_t send(unsigned lane, std::span<const iovec> what, std::span<const std::size_t> ends,
    bool unordered) noexcept;

  /// Sends a frame of a queue pair that is about to detach. It is copied if there is no room, and
  /// dropped if too many copied bytes are still unsent.
  void send_last(std::span<const iovec> what) noexcept { put(what, tcp_output::stored_last_max); }

  /// Serves the queue pair again, because it has more to send than its turn permits.
  void wait_for_turn(unsigned lane) noexcept { output_.wait_for_turn(lane); }

  /// Returns true if other queue pairs wait for room. The caller's turn is then short.
  bool has_others_waiting(unsigned lane) const noexcept { return output_.has_others_waiting(lane); }
  bool is_waiting(unsigned lane) const noexcept { return output_.is_waiting(lane); }

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
  void work(mover by) override;
  bool may_name(const protocol::endpoint_name& peer) const noexcept override;
  void read(mover by);
  bool take_next(mover by);
  bool take_frame(mover by, std::uint32_t qp);
  bool take_message(mover by);
  void break_off(bool malformed) noexcept;
  bool put(std::span<const iovec> what, std::size_t most) noexcept
  {
    return !inherited() && output_.put(what, most);
  }
  bool put(std::span<const std::byte> bytes, std::size_t most) noexcept
  {
    const iovec all{const_cast<std::byte*>(bytes.data()), bytes.size()};
    return put({&all, 1}, most);
  }

  // output_socket
  std::ptrdiff_t write(std::span<const iovec> what) noexcept override;
  void watch_for_room(bool on) noexcept override;
  void shut_down() noexcept override;

  descriptor socket_;
  lane_table lanes_;

  // Used by the serving thread.
  frame_stream stream_;
  bool claimed_ = false;
  std::uint32_t received_ = 0; ///< in this call

  std::atomic<bool> malformed_{false};
  std::atomic<int> expected_{0};
  std::atomic<bool> deferred_{false};
  std::atomic<std::uint32_t> deferrals_{0}; ///< the number of times deferred_ was set
  std::uint32_t seen_ = 0; ///< the last value of deferrals_ that the engine's thread has seen
  lane_set deferring_;
  tcp_output output_{*this};
};

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_TCP_LINK_HPP

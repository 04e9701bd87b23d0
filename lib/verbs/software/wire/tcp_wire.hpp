//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_TCP_WIRE_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_TCP_WIRE_HPP

#include "verbs/software/memory/pinned_buffers.hpp"
#include "verbs/software/protocol/requester.hpp"
#include "verbs/software/protocol/responder.hpp"
#include "verbs/software/wire/frame_stream.hpp"
#include "verbs/software/wire/tcp_link.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace rdma::software::wire {

/// Carries the frames of one queue pair through a link over TCP, with payload directly from and to
/// registered memory. Not thread-safe.
class tcp_wire
{
public:
  /// Payload of a full frame. Large, because TCP segments it; small enough for queue pairs to share
  /// a connection.
  static constexpr std::uint32_t segment_bytes = 256 * 1024;

  tcp_wire(protocol::parameters& with, protocol::requester& requests,
    protocol::responder& responses) noexcept
    : with_(with)
    , requester_(requests)
    , responder_(responses)
  {
  }

  /// Begins with a lane of a link, after the handshake.
  void open(tcp_link& by, unsigned lane) noexcept;

  /// Discards what was not sent or received.
  void close() noexcept;

  /// Sends the answers to the requests that were carried out, then closes.
  void finish() noexcept;

  /// Takes this queue pair's frames from the link's stream, and passes them to requester and
  /// responder. Returns false if the peer has violated the protocol.
  bool receive();

  /// Sends the frames of requester and responder; an acknowledgement alone only if `acknowledge`.
  void transmit(bool acknowledge);

  /// Lets the next poll call transmit(). `poll_is_near`: see engine::defer().
  void defer(bool poll_is_near) noexcept { link_->defer(lane_, poll_is_near); }

  /// Returns true while there is a link.
  bool is_open() const noexcept { return link_ != nullptr; }

  /// Returns true if the program is likely to post more before it polls.
  bool expects_more() const noexcept { return link_->expects_more(); }

  /// Returns a value that changes when bytes of this end's requests, or of answers to them, are
  /// transferred.
  std::uint64_t moved() const noexcept { return moved_; }

private:
  // A large payload is read directly into its destination. The same call reads this many bytes
  // behind it: the next headers, but little of a next payload, which could be read directly as
  // well.
  static constexpr std::size_t lookahead = 512;
  static constexpr std::size_t outbox_size = 64;
  static constexpr std::size_t batch_bytes = 1024 * 1024;

  bool read_payload(frame_stream& in);
  bool begin_frame(frame_stream& in);
  void use_payload(frame_stream& in, std::uint32_t size);
  void end_frame();
  bool place(
    std::uint32_t offset, std::uint32_t size, pinned_buffers& to, std::uint64_t& done) noexcept;
  bool place_staged(std::span<const std::byte> from);
  void unplaceable(frame_stream& in, protocol::detail why);

  bool fill(bool acknowledge);
  bool fill_answer();
  bool fill_request();
  bool fill_one();
  void drop_superseded() noexcept;
  bool send_batch(std::size_t limit);
  bool gather(const protocol::frame& of, std::uint32_t offset, pinned_buffers& to,
    std::uint64_t& done) noexcept;
  std::size_t gather_batch(pinned_buffers& to, std::span<std::size_t> ends) noexcept;
  bool send_copied() noexcept;
  bool send_last_copied() noexcept;
  std::optional<protocol::detail> copy_frame(std::vector<std::byte>& to, iovec& whole);
  void leave() noexcept;
  void pop() noexcept;
  void unreadable(protocol::detail why);
  protocol::frame& box(std::size_t i) noexcept
  {
    return outbox_[(outbox_first_ + i) % outbox_size];
  }

  protocol::parameters& with_;
  protocol::requester& requester_;
  protocol::responder& responder_;
  tcp_link* link_ = nullptr;
  bool malformed_ = false; // the peer has violated the protocol
  unsigned lane_ = 0;
  std::uint64_t moved_ = 0;

  // Receiving.
  bool placing_ = false; // the frame's payload is placed; otherwise it is skipped
  bool request_ = false; // the frame is for the responder
  std::uint32_t payload_done_ = 0;

  // Sending.
  std::array<protocol::frame, outbox_size> outbox_;
  std::size_t outbox_first_ = 0;
  std::size_t outbox_count_ = 0;
  bool turn_ = false; // responses and requests alternate
};

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_TCP_WIRE_HPP

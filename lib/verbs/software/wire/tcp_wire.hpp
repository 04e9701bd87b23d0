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
#include "verbs/software/wire/staging.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <sys/types.h>

namespace rdma::software::wire {

class engine;

/// Carries frames through a connected TCP socket, payload straight from and to registered memory.
/** One thread at a time. The socket, which the engine watches, remains the caller's. */
class tcp_wire
{
public:
  enum class condition : std::uint8_t
  {
    closed,
    open,
    ended,     ///< the connection is gone
    malformed, ///< the peer has violated the protocol
  };

  tcp_wire(engine& by, protocol::parameters& with, protocol::requester& requests,
    protocol::responder& responses) noexcept
    : engine_(by)
    , with_(with)
    , requester_(requests)
    , responder_(responses)
  {
  }

  /// Begins with a connected socket, behind the hellos.
  void open(int socket) noexcept;

  /// Forgets what was not sent or received.
  void close() noexcept;

  /// Reads what has arrived and passes it to requester and responder.
  condition receive();

  /// Sends what requester and responder have; a pure acknowledgement only when `acknowledge`.
  condition transmit(bool acknowledge);

  /// Takes frames for the next transmit(). Returns false when there are none.
  bool fill(bool acknowledge);

  /// The socket has room again.
  void writable() noexcept;

  /// Returns the bytes to send before the connection is closed: answers to what was carried out,
  /// and the rest of a frame that has begun. Nothing if they cannot be had.
  std::optional<std::vector<std::byte>> take_rest() noexcept;

  /// Sending has failed: read what the peer sent before it ended.
  bool deaf() const noexcept { return deaf_; }

  /// Changes when bytes of this end's requests, or of answers to them, move.
  std::uint64_t moved() const noexcept { return moved_; }

private:
  // A large payload goes straight to its place. This many bytes behind it are read by the same
  // call: the next headers, but little of a next payload that could go straight to its own place.
  static constexpr std::size_t lookahead = 512;
  static constexpr std::size_t outbox_size = 32;
  static constexpr std::size_t batch_bytes = 1024 * 1024;

  bool is_open() const noexcept { return condition_ == condition::open; }
  void end(condition with) noexcept;
  void rewatch() noexcept;

  void read_frames();
  bool read_some();
  bool take(ssize_t n, std::size_t placed);
  void parse();
  bool begin_frame();
  void end_frame();
  bool place_staged(std::uint32_t size);
  void unplaceable(protocol::detail why);

  bool fill_one();
  void drop_superseded() noexcept;
  bool send_batch();
  std::size_t gather_batch(pinned_buffers& to, std::size_t limit, bool& blocked_by_key);
  void consume(std::size_t n) noexcept;
  void unreadable(protocol::detail why);
  bool find_fault();
  bool append(protocol::frame& from, std::vector<std::byte>& to);
  protocol::frame& box(std::size_t i) noexcept
  {
    return outbox_[(outbox_first_ + i) % outbox_size];
  }

  engine& engine_;
  protocol::parameters& with_;
  protocol::requester& requester_;
  protocol::responder& responder_;
  int socket_ = -1;
  condition condition_ = condition::closed;
  bool deaf_ = false;
  std::uint64_t moved_ = 0;

  // Receiving. Staged bytes are [begin_, end_); where there are none, there is no buffer.
  staging staging_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  bool in_frame_ = false;
  bool placing_ = false; // the frame's payload is placed; otherwise it is skipped
  bool request_ = false; // the frame is for the responder
  std::uint32_t payload_done_ = 0;
  std::uint32_t payload_left_ = 0;

  // Sending.
  std::array<protocol::frame, outbox_size> outbox_;
  std::size_t outbox_first_ = 0;
  std::size_t outbox_count_ = 0;
  bool blocked_ = false; // the socket is full; EPOLLOUT is requested
  bool turn_ = false;    // responses and requests alternate
};

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_TCP_WIRE_HPP

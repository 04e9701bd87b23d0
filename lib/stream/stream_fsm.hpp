//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_STREAM_STREAM_FSM_HPP
#define BOOST_RDMA_LIB_STREAM_STREAM_FSM_HPP

#include "stream/message.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace rdma::detail {

// One end of a stream: what may be sent, and where its bytes go (doc/stream_protocol.md).
//
// Without I/O and without memory: the caller sends the messages, writes to the peer's ring and
// keeps its own ring. One thread at a time.
class stream_fsm
{
public:
  // The last receives of the peer are for messages without bytes, so that two ends that both wait
  // to send bytes still tell each other what they have read.
  static constexpr std::uint32_t reserve = 4;
  static constexpr std::uint32_t receives_min = 2 * reserve;
  static constexpr std::uint32_t receives_max = 1024;
  static constexpr std::uint32_t ring_min = 1024;
  static constexpr std::uint32_t ring_max = 1u << 30; // totals of bytes are compared modulo 2^32
  // A ring shrinks if the peer has used little of it while so many messages arrived.
  static constexpr std::uint32_t messages_before_shrinking = 256;

  // The order of the first messages. On iWARP one end sends first, and nothing else before it has
  // the other one's first message.
  enum class order : std::uint8_t
  {
    none,
    first,
    second,
  };

  // With so many receives posted, and a ring of so many bytes.
  stream_fsm(std::uint32_t receives, std::uint32_t ring_size, order which = order::none) noexcept
    : receives_(receives)
    , order_(which)
    , in_{.size = ring_size}
  {
  }

  // --- sending ---

  // The first message.
  stream_message hello(const remote_buffer& ring) noexcept;
  [[nodiscard]] bool hello_due() const noexcept
  {
    return !greeted_ && (peer_greeted_ || order_ != order::second);
  }

  // Returns true if a message with bytes of the stream may be sent.
  [[nodiscard]] bool can_send_bytes() const noexcept { return room() > reserve && !finished_; }

  // A message with `size` bytes in it, at most data_max.
  stream_message data(std::size_t size) noexcept;

  // The part of the peer's ring that can be written now, without wrapping around.
  struct range
  {
    std::uint32_t offset = 0;
    std::uint32_t size = 0;
  };
  [[nodiscard]] range writable() const noexcept;
  [[nodiscard]] const remote_buffer& peer_ring() const noexcept { return peer_ring_; }

  // The message that follows a write of the first `size` bytes of writable().
  stream_message written(std::uint32_t size) noexcept;

  // The last message with a place in the stream: finish, or reset. It may follow the first one at
  // once, unless there is an order.
  [[nodiscard]] bool can_finish() const noexcept
  {
    return greeted_ && !finished_ && (can_tell() || (!peer_greeted_ && order_ == order::none));
  }
  stream_message finish(bool resets = false) noexcept;
  [[nodiscard]] bool has_finished() const noexcept { return finished_; }

  // Returns true if the peer must hear what this end has read.
  [[nodiscard]] bool credit_due() const noexcept;
  stream_message credit() noexcept;

  // Returns the size of a larger or smaller ring that this end should offer; 0: none.
  [[nodiscard]] std::uint32_t wanted_ring(std::uint32_t least, std::uint32_t most) const noexcept;
  // Precondition: wanted_ring() is not 0.
  stream_message ring(const remote_buffer& offered) noexcept;

  // --- receiving ---

  enum class arrival
  {
    nothing,  // for the program
    data,     // the message's bytes
    written,  // bytes in the ring: see arrived()
    finished, // the end of the stream
    reset,
    violation,
  };
  arrival receive(const stream_message& m) noexcept;

  // After arrival::written: where the bytes are. Each ring is used until it has been read.
  struct place
  {
    bool odd_ring = false;
    range bytes;
  };
  [[nodiscard]] const place& arrived() const noexcept { return arrived_; }

  // The receive of a message has been posted again.
  void reposted() noexcept { ++reposted_; }

  // So many bytes of the ring have been read.
  void read(std::uint32_t size) noexcept { read_ += size; }

  // Returns the number modulo 2 of a ring whose memory can be freed, if it has some: the one before
  // the current one, when it has been read.
  [[nodiscard]] std::optional<bool> unused_ring() const noexcept
  {
    return offered_ == 0 && is_old_ring_read() ? std::optional(!in_odd_) : std::nullopt;
  }
  [[nodiscard]] bool peer_has_finished() const noexcept { return peer_finished_; }

private:
  // A ring, as both ends see it.
  struct ring_state
  {
    std::uint32_t size = 0;
    std::uint32_t position = 0; // of the next byte
    std::uint32_t base = 0;     // total of the bytes that went to earlier rings, or were read since

    // `written`, `read`: totals.
    [[nodiscard]] range free(std::uint32_t written, std::uint32_t read) const noexcept;
    [[nodiscard]] std::uint32_t unread(std::uint32_t written, std::uint32_t read) const noexcept;
    void advance(std::uint32_t bytes) noexcept { position = (position + bytes) % size; }
    // Keeps `base` close to the totals, which are compared modulo 2^32.
    void follow(std::uint32_t read) noexcept
    {
      if (static_cast<std::int32_t>(read - base) > 0)
        base = read;
    }
  };

  [[nodiscard]] std::uint32_t room() const noexcept
  {
    return greeted_ && peer_greeted_ ? peer_receives_ - (sent_ - peer_received_) : 0;
  }
  [[nodiscard]] bool is_old_ring_read() const noexcept
  {
    return static_cast<std::int32_t>(read_ - in_.base) >= 0;
  }
  // Returns true if a message without bytes may be sent. The peer's last receive is only for one
  // that makes room for the peer: otherwise both ends could run out of receives at once.
  [[nodiscard]] bool can_tell() const noexcept
  {
    return room() > 1 || (room() == 1 && untold() >= untold_min);
  }
  // Messages of the peer whose receives were posted again since the last message of this end.
  [[nodiscard]] std::uint32_t untold() const noexcept { return reposted_ - told_reposted_; }
  stream_message next(stream_message_type type) noexcept;
  bool take_totals(const stream_message& m) noexcept;
  bool take_ring(const stream_message& m) noexcept;
  bool take_ring_in_use(bool is_odd) noexcept;
  void begin_watching() noexcept;
  arrival take_written(const stream_message& m) noexcept;

  static constexpr std::uint32_t untold_min = 2; // fewer: two ends would answer each other forever

  const std::uint32_t receives_;
  const order order_;

  // This end's messages and bytes.
  bool greeted_ = false;
  bool finished_ = false;
  std::uint32_t sent_ = 0;
  std::uint32_t written_ = 0;
  std::uint32_t peer_receives_ = 0;
  std::uint32_t peer_received_ = 0;
  std::uint32_t peer_read_ = 0;
  ring_state out_;
  bool out_odd_ = false;
  remote_buffer peer_ring_;

  // The peer's.
  bool peer_greeted_ = false;
  bool peer_finished_ = false;
  std::uint32_t arrived_count_ = 0; // messages
  std::uint32_t arrived_bytes_ = 0; // in rings
  std::uint32_t reposted_ = 0;
  std::uint32_t read_ = 0;
  std::uint32_t told_reposted_ = 0;
  std::uint32_t told_read_ = 0;
  ring_state in_;
  bool in_odd_ = false;
  std::uint32_t offered_ = 0;    // size of a ring that the peer does not use yet
  std::uint32_t peak_ = 0;       // most bytes that the peer had written and not been told as read
  std::uint32_t largest_ = 0;    // bytes of one message
  std::uint32_t peak_since_ = 0; // arrived_count_ when both were 0
  place arrived_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_STREAM_STREAM_FSM_HPP

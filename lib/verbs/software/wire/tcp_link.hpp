//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_TCP_LINK_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_TCP_LINK_HPP

#include "verbs/software/protocol/hello.hpp"
#include "verbs/software/protocol/requester.hpp"
#include "verbs/software/protocol/responder.hpp"
#include "verbs/software/wire/local_link.hpp"
#include "verbs/software/wire/socket.hpp"
#include "verbs/software/wire/staging.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace rdma::software::wire {

class engine;
struct pending_hello;

/// The connection of one queue pair to its peer: carries the frames of its requester and responder.
/** One thread at a time: the queue pair's progress lock is held for every call. */
class tcp_link
{
public:
  /// Payload of a full frame: large, as TCP does the cutting; small enough to share a connection.
  static constexpr std::uint32_t segment_bytes = 256 * 1024;

  tcp_link(engine& by, protocol::parameters& with, protocol::requester& requests,
    protocol::responder& responses, grant_table& grants) noexcept
    : engine_(by)
    , with_(with)
    , requester_(requests)
    , responder_(responses)
    , local_(with, requests, responses, grants)
  {
  }
  ~tcp_link();

  // --- coming into being ---

  /// RTR: begins to connect, or to wait for the peer. Of two ends exactly one connects.
  void open(const protocol::hello& mine, bool connects, std::int64_t now);

  /// After it was lost: connects or waits anew, as it did before.
  void reopen(std::int64_t now) { open(protocol::hello(mine_), connects_, now); }

  /// RTS: what is told to the peer from now on.
  void tell_first_psn(std::uint32_t psn) noexcept { mine_.first_psn = psn; }

  /// Looks into the waiting room: whom this waits for is taken over, others are refused.
  void meet();

  /// When timer() and receive() want to be called; 0: not at all.
  std::int64_t retry_at() const noexcept
  {
    return held_ ? held_until_ : local_.held() ? local_.held_until() : retry_at_;
  }
  void timer(std::int64_t now);

  // --- carrying ---

  /// Reads what has arrived and gives it to requester and responder. `told`: the socket has
  /// something.
  void receive(std::int64_t now, bool told);

  /// A message waits for a receive to be posted; tell receive() when one was.
  bool held() const noexcept { return held_ || local_.held(); }

  /// Another one for each message that is held.
  std::uint32_t hold_number() const noexcept { return hold_number_ + local_.hold_number(); }

  /// Sends what there is to send; a pure acknowledgement only when `acknowledge`.
  void transmit(bool acknowledge);

  /// The socket has room again.
  void writable();

  /// A call has ended at its bound, and nobody else says that there is more to do.
  bool unfinished() const noexcept { return local_.unfinished(); }

  bool established() const noexcept { return state_ == state::established; }

  /// The connection is no more, and will not come back.
  bool lost() const noexcept { return state_ == state::lost; }

  /// The peer sent what this protocol does not know.
  bool malformed() const noexcept { return malformed_; }

  /// Sending has failed: what the peer said before it left is to be read.
  bool deaf() const noexcept { return deaf_ && state_ == state::established; }

  /// Changes whenever bytes move.
  std::uint64_t moved() const noexcept { return moved_ + local_.moved(); }

  // --- looking, on the local wire; from any thread ---

  /// "local" or "tcp", or "" while there is no connection.
  const char* wire_name() const noexcept { return wire_name_.load(std::memory_order_relaxed); }

  const char* why_not_local() const noexcept;

  /// Whether the peer is on this host and reached by shared memory.
  bool is_local() const noexcept { return local_established_.load(std::memory_order_acquire); }

  const local_link& local() const noexcept { return local_; }

  /// Whether somebody looks at its memory all the time. What local_link::ready() tells is not
  /// missed then.
  bool is_looked_at() const noexcept
  {
    return is_local() && looked_at_.load(std::memory_order_seq_cst);
  }

  /// Somebody looks at the memory all the time, or not any more. Under the engine's lock.
  void look(bool on) noexcept
  {
    looked_at_.store(on, std::memory_order_seq_cst);
    if (on)
      local_.disarm();
    else
      local_.arm();
  }

  // --- ending ---

  /// Says what must still be said (answers to what was carried out) and ends the connection.
  void close() noexcept;

private:
  enum class state
  {
    closed,
    connecting, ///< connect() is under way, or the next attempt waits for retry_at_
    greeting,   ///< hello sent, the answer is awaited
    waiting,    ///< for the peer to connect
    confirming, ///< the peer has connected; whether it has heard our hello is awaited
    established,
    lost,
  };

  // While a large payload goes straight to its place, so much of what follows it comes along: the
  // next headers, but little of a next payload that could go straight to its own place.
  static constexpr std::size_t lookahead = 512;
  static constexpr std::size_t outbox_size = 32;
  static constexpr std::size_t batch_bytes = 1024 * 1024;

  void connect(std::int64_t now);
  bool connect_locally(std::int64_t now);
  void retry(std::int64_t now) noexcept;
  void say_hello(std::int64_t now, bool watched);
  bool adopt(pending_hello& who);
  bool hear() noexcept;
  void read_greeting(std::int64_t now);
  void read_confirmation();
  bool say(const protocol::hello_bytes& bytes, bool more_follows = false) noexcept;
  void push() noexcept;
  void hang_up() noexcept;
  void establish();
  void end_local() noexcept;
  void read_local(std::int64_t now, bool told);
  void lose() noexcept;
  void abandon_malformed() noexcept;

  void read_arrived(std::int64_t now);
  void read_frames();
  bool read_some();
  bool take(ssize_t n, std::size_t placed);
  void parse();
  void hold() noexcept;
  bool still_held(std::int64_t now);
  void read_behind_held();
  void take_answers_behind_held();
  bool begin_frame();
  void end_frame();
  bool place_staged(std::uint32_t size);
  void unplaceable(protocol::detail why);

  void fill(bool acknowledge);
  bool fill_one();
  void drop_superseded() noexcept;
  bool send_batch();
  std::size_t gather_batch(pinned_buffers& to, std::size_t limit, bool& blocked_by_key);
  void consume(std::size_t n) noexcept;
  void unreadable(protocol::detail why);
  bool find_fault();
  protocol::frame& box(std::size_t i) noexcept
  {
    return outbox_[(outbox_first_ + i) % outbox_size];
  }
  bool append(protocol::frame& from, std::vector<std::byte>& to);

  engine& engine_;
  protocol::parameters& with_;
  protocol::requester& requester_;
  protocol::responder& responder_;

  local_link local_;
  std::atomic<bool> local_established_{false};
  std::atomic<bool> looked_at_{false};
  std::atomic<const char*> wire_name_{""};
  std::shared_ptr<segment> segment_; // of the local wire, until it is established
  descriptor segment_fd_;
  std::atomic<bool> peer_is_here_{false}; // on this host
  bool connects_ = false;
  unsigned attempts_ = 0;

  state state_ = state::closed;
  descriptor fd_;
  protocol::hello mine_;
  std::int64_t retry_at_ = 0;
  std::int64_t backoff_ = 0;
  protocol::hello_bytes heard_{}; // of the peer's hello or confirmation
  std::size_t heard_size_ = 0;
  bool malformed_ = false;
  bool deaf_ = false;
  std::uint64_t moved_ = 0;

  // A message that met no posted receive is at the beginning of the staging buffer.
  bool held_ = false;
  bool unwatched_ = false; // so much arrived meanwhile that it has to stay in the socket
  std::int64_t held_until_ = 0;
  std::uint64_t frames_ = 0;              // begun, ever
  std::uint64_t held_frame_ = UINT64_MAX; // frames_ when it was held first
  std::uint32_t hold_number_ = 0;

  // Receiving. Staged bytes are [begin_, end_); where there are none, there is no buffer.
  staging staging_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  bool in_frame_ = false;
  bool placing_ = false; // of the frame's payload; else it is skipped
  bool request_ = false; // the frame is for the responder
  std::uint32_t payload_done_ = 0;
  std::uint32_t payload_left_ = 0;

  // Sending.
  std::array<protocol::frame, outbox_size> outbox_;
  std::size_t outbox_first_ = 0;
  std::size_t outbox_count_ = 0;
  bool blocked_ = false; // the socket is full; EPOLLOUT is asked for
  bool turn_ = false;    // responses and requests take turns
};

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_TCP_LINK_HPP

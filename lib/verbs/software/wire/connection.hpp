//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_CONNECTION_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_CONNECTION_HPP

#include "verbs/software/protocol/hello.hpp"
#include "verbs/software/protocol/requester.hpp"
#include "verbs/software/protocol/responder.hpp"
#include "verbs/software/wire/lanes.hpp"
#include "verbs/software/wire/link.hpp"
#include "verbs/software/wire/local_wire.hpp"
#include "verbs/software/wire/loopback_wire.hpp"
#include "verbs/software/wire/socket.hpp"
#include "verbs/software/wire/tcp_wire.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace rdma::software::wire {

class engine;
struct pending_hello;

/// Called with the number of a queue pair whose connection was lost or is not made within a second,
/// by the thread that holds its progress lock; null: no connection manager is in use.
inline std::atomic<void (*)(std::uint32_t queue_pair) noexcept> lost_peer_hook{nullptr};

/// Connects one queue pair to its peer, exchanges the hellos, and selects the wire.
/**
 * A queue pair that is its own peer needs neither. On both wires the two ends exchange hellos
 * through the link between their contexts, in which the queue pair has a lane. Not thread-safe: the
 * caller holds the queue pair's progress lock in every call.
 */
class connection
{
public:
  connection(engine& by, protocol::parameters& with, protocol::requester& requests,
    protocol::responder& responses, grant_table& grants) noexcept
    : engine_(by)
    , with_(with)
    , requester_(requests)
    , local_(with, requests, responses, grants)
    , tcp_(with, requests, responses)
    , loopback_(requests, responses)
  {
  }
  ~connection();

  // --- connecting ---

  /// Sets the route of later connections over TCP.
  void choose_route(const route& by) noexcept { route_ = by; }

  /// Begins to connect, or to wait for the peer, on the transition to RTR. Exactly one of the two
  /// ends connects.
  /** A peer that does not prove the secret is refused. Zero: there is no secret. */
  void open(
    const protocol::hello& mine, const connection_secret& secret, bool connects, std::int64_t now);

  /// Connects or waits again after the connection was lost.
  void reopen(std::int64_t now)
  {
    open(protocol::hello(mine_), connection_secret(secret_), connects_, now);
  }

  /// Sets the first PSN that later hellos contain, on the transition to RTS.
  /** A queue pair that is its own peer is connected now, unless it expects another PSN. */
  void tell_first_psn(std::uint32_t psn) noexcept;

  /// Takes the pending hellos for this queue pair: adopts the peer's and refuses others.
  void meet();

  /// Returns the time for the next timer() and receive(); 0: none.
  std::int64_t retry_at() const noexcept
  {
    return wakes_again() ? local_.wake_again_at() : retry_at_;
  }
  void timer(std::int64_t now);

  // --- carrying ---

  /// Reads the arrived frames and passes them to requester and responder. `from`: a link whose
  /// stream this queue pair may read.
  void receive(std::int64_t now, tcp_link* from = nullptr);

  /// Sends the frames of requester and responder; an acknowledgement alone only if `acknowledge`.
  /** Without a connection, only carries out the requests that need none. */
  void transmit(bool acknowledge);

  /// Local: returns true if transmit(false) would do nothing but send requests that are posted
  /// later.
  bool is_at_rest() const noexcept { return local_.is_at_rest(); }

  /// Local: carries out short writes directly, if the connection is at rest. Returns false if
  /// requests are left, for transmit().
  bool write_at_once() noexcept { return !inherited() && local_.write_at_once(); }

  /// Returns true if a wake-up of the peer has failed: the caller repeats transmit() at retry_at().
  bool wakes_again() const noexcept { return local_.wake_again_at() != 0; }

  /// Returns true if a call has ended at its bound, and no event will report the rest.
  bool unfinished() const noexcept { return local_.unfinished() || loopback_.unfinished(); }

  bool established() const noexcept { return state_ == state::established; }

  /// Returns true if the connection has ended and is not established again.
  bool lost() const noexcept { return state_ == state::lost; }

  /// Returns true if the peer has violated the protocol.
  bool malformed() const noexcept { return malformed_; }

  /// Returns true while the TCP wire is in use.
  bool is_tcp() const noexcept { return tcp_established_.load(std::memory_order_acquire); }

  /// TCP: lets the next poll call transmit(). `poll_is_near`: see engine::defer().
  void defer(bool poll_is_near) noexcept { tcp_.defer(poll_is_near); }

  /// TCP: returns true if the program is likely to post more to the link before it polls.
  bool expects_more() const noexcept { return tcp_.expects_more(); }

  /// Returns a value that changes when bytes of this end's requests, or of answers to them, are
  /// transferred.
  std::uint64_t moved() const noexcept { return tcp_.moved() + local_.moved(); }

  // --- polling the local wire's memory; thread-safe ---

  /// Returns "local" or "tcp", or "" while there is no connection.
  const char* wire_name() const noexcept { return wire_name_.load(std::memory_order_relaxed); }
  const char* why_not_local() const noexcept;

  /// Returns the wire of the link that the context had to the peer's when open() was called.
  const char* linked_by() const noexcept { return linked_by_.load(std::memory_order_relaxed); }

  /// Returns true while the local wire is in use.
  bool is_local() const noexcept { return local_established_.load(std::memory_order_acquire); }

  /// Returns the engine's number of the link that this queue pair is attached to; 0: none.
  std::uint32_t link_number() const noexcept
  {
    return link_number_.load(std::memory_order_relaxed);
  }

  /// Local: returns true if receive() or transmit() would find something to do.
  bool ready() const noexcept { return local_.ready(); }

  /// Returns true if a thread polls ready() continuously.
  bool is_looked_at() const noexcept
  {
    return is_local() && looked_at_.load(std::memory_order_seq_cst);
  }

  /// Records whether a thread polls ready() continuously. The caller holds the engine's lock.
  void look(bool on) noexcept
  {
    looked_at_.store(on, std::memory_order_seq_cst);
    local_.want_bell(!on);
  }

  // --- ending ---

  /// Sends the answers to the requests that were carried out, and ends the connection.
  void close() noexcept;

private:
  // Returns true in a child of fork(), where the connection remains owned by the parent. relaxed: a
  // child begins with one thread.
  bool inherited() const noexcept { return forks.load(std::memory_order_relaxed) != forks_; }

  enum class state
  {
    closed,
    connecting, ///< the next attempt waits for retry_at_
    greeting,   ///< hello sent; the answer is awaited
    waiting,    ///< the peer is to connect
    confirming, ///< hello received and answered; the confirmation is awaited
    established,
    lost,
  };

  void connect(std::int64_t now);
  void send_hello(std::int64_t now);
  bool returns_to_local_wire(std::int64_t now);
  std::shared_ptr<link> attach(bool locally) noexcept;
  void retry(std::int64_t now) noexcept;
  bool adopt(pending_hello& hello);
  bool read_message() noexcept;
  void read_greeting(std::int64_t now);
  void read_confirmation();
  void hang_up() noexcept;
  void establish();
  void end_wires() noexcept;
  void read_local();
  void read_tcp(tcp_link* from);
  void report_lost_peer() const noexcept;
  void lose() noexcept;
  void abandon_malformed() noexcept;

  const unsigned forks_ = forks.load(std::memory_order_relaxed);
  engine& engine_;
  protocol::parameters& with_;
  protocol::requester& requester_;
  local_wire local_;
  tcp_wire tcp_;
  loopback_wire loopback_;

  std::atomic<bool> local_established_{false};
  std::atomic<bool> tcp_established_{false};
  std::atomic<bool> looked_at_{false};
  std::atomic<const char*> wire_name_{""};
  std::atomic<const char*> linked_by_{""};
  std::shared_ptr<link> link_;
  std::atomic<std::uint32_t> link_number_{0};
  lane_use lane_;
  std::atomic<bool> peer_is_here_{false}; // the peer's address is one of this host's
  bool connects_ = false;
  bool is_to_itself_ = false; // the queue pair is its own peer
  unsigned attempts_ = 0;
  route route_;

  state state_ = state::closed;
  protocol::hello mine_;
  connection_secret secret_{};
  std::uint64_t peers_nonce_ = 0;
  std::int64_t retry_at_ = 0;
  std::int64_t suspect_at_ = 0; ///< when to report an unconnected peer as lost
  std::int64_t backoff_ = 0;
  protocol::hello_bytes heard_{}; // the peer's hello or confirmation
  bool has_heard_ = false;
  bool malformed_ = false;
};

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_CONNECTION_HPP

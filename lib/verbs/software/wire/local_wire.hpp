//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_LOCAL_WIRE_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_LOCAL_WIRE_HPP

#include "verbs/software/memory/grant_table.hpp"
#include "verbs/software/protocol/requester.hpp"
#include "verbs/software/protocol/responder.hpp"
#include "verbs/software/wire/direct_access.hpp"
#include "verbs/software/wire/local_link.hpp"
#include "verbs/software/wire/ring.hpp"
#include "verbs/software/wire/segment.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace rdma::software::wire {

/// Carries frames between two processes of one host, through memory that they share.
/**
 * Requests and responses have a ring each way, so that neither waits for the other. An
 * acknowledgement is a word, piggybacked on a request if there is one. A frame's payload follows
 * its headers in one record or several. A short send has a header of its own. All bytes of the
 * other end are copied out of the shared memory, then checked, then used.
 *
 * Not thread-safe except for ready() and want_bell(). If no thread of the other end polls the lane,
 * this end rings its link's bell, see local_link.
 */
class local_wire
{
public:
  /// `waits_from`: see direct_access::large.
  local_wire(protocol::parameters& with, protocol::requester& requests,
    protocol::responder& responses, grant_table& grants,
    std::uint64_t waits_from = direct_access::large) noexcept
    : with_(with)
    , requester_(requests)
    , responder_(responses)
    , grants_(grants)
    , direct_(with, waits_from)
  {
  }

  /// Uses a lane of a link. The link must exist until close().
  void open(local_link& link, lane_use lane) noexcept;

  bool is_open() const noexcept { return link_ != nullptr; }

  /// Sends the answers to the requests that were carried out. The peer can read them after close().
  void say_the_last() noexcept;

  void close() noexcept;

  // --- polling ---

  /// Returns true if receive() or transmit() would find something to do.
  bool ready() const noexcept
  {
    const bool found = requests_in_.ready() || responses_in_.ready()
      || owes_.load(std::memory_order_relaxed)
      || theirs_->acknowledged.load(std::memory_order_relaxed)
        != acknowledged_seen_.load(std::memory_order_relaxed)
      || theirs_->detached.load(std::memory_order_relaxed) != 0
      || blocked_.load(std::memory_order_relaxed) || unfinished_.load(std::memory_order_relaxed);
    if (!found && !idle_.load(std::memory_order_relaxed))
      idle_.store(true, std::memory_order_relaxed); // a hint, neither exact nor ordered
    return found;
  }

  /// Sets if the other end must ring the link's bell from now on. Call ready() once more
  /// afterwards.
  /** Otherwise a thread polls ready(). */
  void want_bell(bool wanted) noexcept { mine_->waits.want_bell(wanted); }

  // --- carrying ---

  /// Takes the records that have arrived. Returns false if the other end has violated the protocol.
  /// `looked_at`: a thread calls ready() again soon.
  bool receive(bool looked_at);

  /// Takes the rest after the peer has gone.
  bool receive_the_rest();

  /// Sends what requester and responder have. Returns false if the payload of a frame that has
  /// begun cannot be read.
  /**
   * An acknowledgement rides along with a request; else it is made when `acknowledge`, and owed
   * when not: ready() tells of that until it has been made.
   */
  bool transmit(bool acknowledge);

  /// Returns true if a call has ended at its bound, so that there may be more to do.
  bool unfinished() const noexcept { return more_to_take_ || more_to_send_; }

  /// Returns the time to call receive() and transmit() again because the socket refused a message,
  /// or because the peer has not answered a question; 0: none.
  std::int64_t wake_again_at() const noexcept
  {
    return note_again_at_ != 0 ? note_again_at_
      : wake_again_at_ != 0    ? wake_again_at_
                               : answer_until_;
  }

  /// Changes when bytes of this end's requests, or of answers to them, move.
  std::uint64_t moved() const noexcept { return moved_ + direct_.moved(); }

private:
  // A frame that is received or sent in several records.
  struct arrival
  {
    bool in_frame = false;
    bool placing = false;
    std::uint32_t done = 0;
    std::uint32_t left = 0;
  };

  struct departure
  {
    protocol::frame frame;
    bool pending = false;
  };

  enum class note_is
  {
    taken,
    early, ///< its answer cannot leave yet: take it with the next call
    none,  ///< not a note, or a malformed one
  };

  bool take_responses();
  std::optional<protocol::header> read_short(std::span<const std::byte> body) noexcept;
  bool take_short(std::span<const std::byte> body) noexcept;
  bool send_short() noexcept;
  bool has_nothing_to_send() const noexcept;
  bool transmit_rest();
  void take_acknowledgement(std::uint32_t word);
  bool take_piggybacked_ack(std::uint32_t piggybacked_ack);
  bool take_requests();
  bool begin_frame(std::span<const std::byte>& body, arrival& of, bool request);
  bool begin_frame(const protocol::header& h, arrival& of, bool request);
  bool take_record(ring::reader& from, arrival& of, bool request);
  void place(std::span<const std::byte> bytes, arrival& of, bool request);
  bool send_record(ring::writer& to, departure& what, bool request, bool& good);
  std::byte* room(ring::writer& to, std::size_t body, bool urgent, bool request) noexcept;
  bool gather(std::byte* to, const protocol::frame& from, std::uint32_t offset, std::uint32_t size,
    protocol::detail& why);
  void acknowledge() noexcept;
  std::uint32_t next_acknowledgement() noexcept;
  void open_page() noexcept;
  void publish_rights() noexcept;
  bool show_key() noexcept;
  void time_the_answer() noexcept;
  note_is take_note(std::span<const std::byte> body, bool request) noexcept;
  note_is take_answer(std::span<const std::byte> body) noexcept;
  note_is answer(const grant_question& what) noexcept;
  bool decline(std::uint32_t key) noexcept;
  enum class grant_is
  {
    sent,
    early, ///< the socket is full
    none,
  };
  grant_is grant(std::uint32_t key) noexcept;
  void take_grants() noexcept;
  void notify() noexcept;

  protocol::parameters& with_;
  protocol::requester& requester_;
  protocol::responder& responder_;
  grant_table& grants_;
  direct_access direct_;
  grant_table::page page_;

  local_link* link_ = nullptr;
  lane_use lane_;
  lane_side* mine_ = nullptr;
  lane_side* theirs_ = nullptr;

  ring::reader requests_in_;
  ring::reader responses_in_;
  ring::writer requests_out_;
  ring::writer responses_out_;
  arrival request_in_;
  arrival response_in_;
  departure request_out_;
  departure response_out_;

  std::atomic<std::uint32_t> acknowledged_seen_{0};
  std::uint32_t piggybacked_ack_seen_ = 0;
  std::atomic<bool> owes_{false}; // an acknowledgement
  std::atomic<bool> blocked_{false};
  std::atomic<bool> unfinished_{false};   // for ready()
  mutable std::atomic<bool> idle_{false}; // ready() has found nothing since the last receive()
  bool one_at_a_time_ = false;
  bool news_ = false; // records or an acknowledgement that notify() has not reported
  bool requests_blocked_ = false;
  bool responses_blocked_ = false;
  bool responses_first_ = false;     // a piggybacked acknowledgement waits for them
  std::uint64_t requests_told_ = 0;  // the rings' bytes that had been taken at the last look for a
  std::uint64_t responses_told_ = 0; // blocked peer
  bool more_to_take_ = false;
  bool more_to_send_ = false;
  bool malformed_ = false;
  bool ending_ = false;
  std::uint64_t moved_ = 0;
  std::uint64_t taken_ = 0; // records and acknowledgements since the start

  std::int64_t wake_again_at_ = 0;
  std::int64_t note_again_at_ = 0; ///< the answer to a note could not leave: take it again
  std::int64_t answer_until_ = 0;  ///< the next request waits for the peer's answer
};

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_LOCAL_WIRE_HPP

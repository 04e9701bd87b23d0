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
 * Each direction has one ring for requests and one for responses, so that neither waits for the
 * other. An acknowledgement is a word. A request carries it as a piggybacked acknowledgement if one
 * is sent. A record has the headers of a frame and its payload. All values from the other end
 * except payload are checked before use. They are copied out of the shared memory before the check,
 * because the other end can change them at any time.
 *
 * Only ready() and want_bell() may be called while another thread uses the object. If no thread of
 * the other end polls the lane, this end rings the bell of its link, see local_link.
 */
class local_wire
{
public:
  /// Payload of a full frame, which is one record.
  static constexpr std::uint32_t segment_bytes = 16 * 1024;

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

  /// Begins to use a lane of a link. The link must exist until close().
  void open(local_link& link, lane_use lane) noexcept;

  bool is_open() const noexcept { return link_ != nullptr; }

  /// Stores the answers to the requests that were carried out, before close(). The peer can read
  /// them after this end has detached.
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
      idle_.store(true, std::memory_order_relaxed); // relaxed: only predicts the next records
    return found;
  }

  /// Sets whether the other end rings the link's bell from now on. Otherwise a thread polls
  /// ready(). The caller calls ready() once more afterwards.
  void want_bell(bool wanted) noexcept { mine_->waits.want_bell(wanted); }

  // --- carrying ---

  /// Takes the records that have arrived. Returns false if the other end violates the protocol.
  /// `looked_at`: a thread polls ready(), so the call may leave records for the next one.
  bool receive(bool looked_at);

  /// Takes the remaining records after the peer has detached, or after the link has ended. Returns
  /// false as receive().
  bool receive_the_rest();

  /// Sends the pending frames.
  /**
   * A request carries a pending acknowledgement. Without a request, the acknowledgement is stored
   * if `acknowledge` is true. Otherwise it remains pending, and ready() returns true until it has
   * been sent.
   */
  void transmit(bool acknowledge);

  /// Returns true if transmit(false) would do nothing but send requests that are posted later.
  bool is_at_rest() const noexcept { return at_rest_; }

  /// Carries out short writes directly, if it is at rest. Returns false if requests are left, for
  /// transmit().
  bool write_at_once() noexcept;

  /// Returns true if a call has ended at its bound: there may be more to do.
  bool unfinished() const noexcept { return more_to_take_ || more_to_send_; }

  /// Returns the time to call receive() and transmit() again; 0: none. The reason is a message that
  /// the socket refused, or a question that the peer has not answered.
  std::int64_t wake_again_at() const noexcept
  {
    return note_again_at_ != 0 ? note_again_at_
      : wake_again_at_ != 0    ? wake_again_at_
                               : answer_until_;
  }

  /// Returns a count that changes when bytes of this end's requests or their answers move.
  std::uint64_t moved() const noexcept { return moved_ + direct_.moved(); }

private:
  struct departure
  {
    protocol::frame frame;
    bool pending = false;
  };

  enum class note_is
  {
    taken,
    early, ///< its answer cannot be sent yet: the next call takes the note
    none,  ///< not a note, or a malformed one
  };

  bool take_responses();
  std::optional<protocol::header> read_short(std::span<const std::byte> body) noexcept;
  bool take_short(std::span<const std::byte> body) noexcept;
  bool send_short() noexcept;
  bool has_nothing_to_send() const noexcept;
  void show_blocked(bool blocked) noexcept;
  void transmit_rest();
  void take_acknowledgement(std::uint32_t word);
  bool take_piggybacked_ack(std::uint32_t piggybacked_ack);
  bool take_requests();
  bool take_frame(std::span<const std::byte> body, bool request);
  bool take_frame(const protocol::header& h, std::span<const std::byte> payload, bool request);
  bool take_record(ring::reader& from, bool request);
  bool place(std::span<const std::byte> bytes, bool request, protocol::detail& why);
  bool send_record(ring::writer& to, departure& what, bool request);
  std::byte* room(ring::writer& to, std::size_t body, bool urgent, bool request) noexcept;
  bool gather(std::byte* to, const protocol::frame& from, protocol::detail& why);
  void acknowledge() noexcept;
  std::uint32_t next_acknowledgement() noexcept;
  void open_page() noexcept;
  void publish_rights() noexcept;
  bool show_keys() noexcept;
  void time_the_answer() noexcept;
  note_is take_note(std::span<const std::byte> body, bool request) noexcept;
  note_is take_answer(std::span<const std::byte> body) noexcept;
  note_is answer(const grant_question& what) noexcept;
  void decline() noexcept;
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
  departure request_out_;
  departure response_out_;
  std::optional<std::uint32_t> declined_; // a key without a grant; the peer has not been told yet
  bool grants_ended_ = false;             // the peer has asked for what it may not access

  std::atomic<std::uint32_t> acknowledged_seen_{0};
  std::uint32_t piggybacked_ack_seen_ = 0;
  std::atomic<bool> owes_{false}; // an acknowledgement is pending
  std::atomic<bool> blocked_{false};
  std::atomic<bool> unfinished_{false};   // for ready()
  mutable std::atomic<bool> idle_{false}; // ready() has found nothing since the last receive()
  bool one_at_a_time_ = false;
  bool at_rest_ = false;
  bool news_ = false; // the peer was not notified yet of stored records or an acknowledgement
  bool requests_blocked_ = false;
  bool responses_blocked_ = false;
  bool responses_first_ = false;     // a piggybacked acknowledgement waits for remaining responses
  std::uint64_t requests_told_ = 0;  // taken() of the two rings when this end last checked if the
  std::uint64_t responses_told_ = 0; // peer was blocked
  bool more_to_take_ = false;
  bool more_to_send_ = false;
  bool malformed_ = false;
  bool ending_ = false;
  std::uint64_t moved_ = 0;
  std::uint64_t taken_ = 0; // the total of records and acknowledgements

  std::int64_t wake_again_at_ = 0;
  std::int64_t note_again_at_ = 0; ///< the time to take a note again whose answer was not sent
  std::int64_t answer_until_ = 0;  ///< until then, the next request waits for the peer's answer
};

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_LOCAL_WIRE_HPP

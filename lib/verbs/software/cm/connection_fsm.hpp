//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_CM_CONNECTION_FSM_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_CM_CONNECTION_FSM_HPP

#include "verbs/software/cm/message.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace rdma::software::cm {

/// Returns the answer to a message for an end that does not exist, if its type has one. An answer
/// is never answered.
std::optional<message> answer_without_end(const message& to) noexcept;

/// One end of a connection, or of a datagram service, as a state machine (IBA 12.9 and 12.11).
/**
 * It performs no I/O and reads no clock: each function is an event at the time `now`, in
 * nanoseconds, and returns a step to perform. Messages that do not belong to the state are ignored.
 */
class connection_fsm
{
public:
  enum class phase
  {
    idle,
    // the requesting end
    request_sent,
    reply_received, ///< the program has not called establish() yet
    // the listening end
    requested, ///< the program has not answered yet
    reply_sent,
    // both ends
    established,
    disconnect_sent,
    disconnect_received, ///< the program has not called disconnect() yet
    time_wait,
    ended,
  };

  enum class report_type
  {
    none,
    response,       ///< REP, or SIDR_REP: the answer has the peer's values
    established,    ///< RTU
    rejected,       ///< REJ: `status` is its reason
    unreachable,    ///< no answer
    disconnected,   ///< DREQ, or the answer to it
    time_wait_exit, ///< the end of time_wait
  };

  /// The consequences of an event: at most one message and one report to the program.
  struct step
  {
    std::optional<message> send;
    report_type report = report_type::none;
    std::uint16_t status = 0;
  };

  /// Time between two transmissions, at first and at most, and number of repetitions (IBA 12.7.27).
  static constexpr std::uint8_t first_timeout = 16; ///< 268 ms
  static constexpr std::uint8_t last_timeout = 19;  ///< 2.1 s
  static constexpr unsigned retries_max = 15;

  explicit connection_fsm(std::uint32_t local_id) noexcept
    : local_id_(local_id)
  {
  }

  phase state() const noexcept { return phase_; }
  std::uint32_t local_id() const noexcept { return local_id_; }
  std::uint32_t remote_id() const noexcept { return remote_id_; }

  /// Returns true at the end that received the request. It does not change afterwards.
  bool is_listening_end() const noexcept { return requested_; }

  /// Returns true for a datagram service (SIDR).
  bool is_datagram() const noexcept { return datagram_; }

  /// Returns the time of the next expire(); 0: none.
  std::int64_t deadline() const noexcept { return deadline_; }

  // --- the program ---

  /// idle: sends a REQ or SIDR_REQ with the fields that do not identify the connection.
  step connect(const message& request, std::uint64_t transaction, std::int64_t now) noexcept;

  /// idle: takes a peer's REQ or SIDR_REQ.
  void take_request(const message& request) noexcept;

  /// requested: sends a REP or SIDR_REP with the fields that do not identify the connection.
  step accept(const message& reply, std::int64_t now) noexcept;

  /// requested, reply_received: sends a REJ, or SIDR_REP with a status.
  step reject(std::span<const std::byte> data) noexcept;

  /// reply_received: sends an RTU.
  step establish() noexcept;

  /// reply_sent: the queue pair has received a message, so that the peer has the REP (IBA 12.9.7).
  step communication_established() noexcept;

  /// established: sends a DREQ. disconnect_received: sends a DREP.
  step disconnect(std::int64_t now) noexcept;

  /// Ends in any state with the message that the peer expects then; it is not repeated.
  step destroy() noexcept;

  // --- the peer and the clock ---

  /// A message of the peer for this communication ID, or a REQ that was received before.
  step receive(const message& m, std::int64_t now) noexcept;

  /// No process receives at the peer's address: its host has sent an ICMP error.
  step refuse(std::int64_t now) noexcept;

  /// The deadline has passed; before it, nothing happens.
  step expire(std::int64_t now) noexcept;

  /// The queue pair has lost its peer. Asks the peer some times as soon as the connection is
  /// established: an MRA that answers neither REQ nor REP is rejected only by an end that does not
  /// have this connection, and refuse() follows if its process has ended.
  step suspect(std::int64_t now) noexcept;

private:
  message make(message_type type) const noexcept;
  step repeat(const message& m, std::int64_t now) noexcept;
  step end(report_type report, std::uint16_t status = 0) noexcept;
  step lose(std::int64_t now) noexcept;
  void wait(std::int64_t now) noexcept;
  void begin_probes() noexcept;
  step answer_request() const noexcept;
  step receive_receipt(const message& m, std::int64_t now) noexcept;
  step receive_reply(const message& m) noexcept;
  step receive_rejection(const message& m, std::int64_t now) noexcept;
  step receive_disconnect(const message& m, std::int64_t now) noexcept;

  const std::uint32_t local_id_;
  std::uint32_t remote_id_ = 0;
  std::uint32_t remote_queue_pair_ = 0;
  std::uint64_t transaction_ = 0; ///< of the REQ, or of the DREQ
  phase phase_ = phase::idle;
  bool datagram_ = false;
  bool requested_ = false; ///< this is the listening end
  std::int64_t deadline_ = 0;
  std::int64_t suspected_ = 0; ///< time of a suspect() before established
  unsigned retries_ = 0;
  message repeated_; ///< the message that is sent again until it is answered, or a rejection
};

} // namespace rdma::software::cm

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_CM_CONNECTION_FSM_HPP

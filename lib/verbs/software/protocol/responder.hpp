//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_PROTOCOL_RESPONDER_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_PROTOCOL_RESPONDER_HPP

#include "verbs/software/memory/pinned_buffers.hpp"
#include "verbs/software/protocol/endpoint.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace rdma::software::protocol {

/// The responder of a reliable connection (IBA 9.7): checks the peer's requests, carries them out
/// and answers.
/**
 * No I/O and no clock; one thread at a time. Everything in a header is untrusted input of the peer,
 * and is checked here. Answers leave in the order of the requests (IBA 9.7.5.1). The answers to
 * reads and atomics wait in a queue of max_dest_rd_atomic entries. An acknowledgement or a refusal
 * leaves when this queue is empty.
 */
class responder
{
public:
  responder(const parameters& with, host& to, std::uint32_t receive_elements)
    : with_(with)
    , host_(to)
  {
    receive_.storage = std::make_unique<ibv_sge[]>(receive_elements != 0 ? receive_elements : 1);
  }

  /// Ready to receive. May throw std::bad_alloc.
  void start();
  void reset() noexcept;

  /// Sets if the next message raises IBV_EVENT_COMM_EST: true in RTR, false from RTS on.
  void announce(bool on) noexcept { announce_ = on; }

  // --- requests ---

  /// Checks a request's header and decides on its payload. Executes atomics.
  verdict receive(const header& h) noexcept;

  /// Receives a send of one frame with its payload. Returns false without an effect if it needs
  /// more than a receive with room for it: then call receive().
  bool receive_short(const header& h, const std::byte* payload) noexcept;

  /// Returns true if receive() would permit a write or a read that the peer will send. Refuses
  /// nothing.
  bool would_permit(const header& h) noexcept;

  /// Adds the memory for payload bytes [offset, offset + size) of the accepted frame, as far as
  /// there is room in `to`; `done` is the number of bytes. Returns false if a key forbids it.
  bool place(
    std::uint32_t offset, std::uint32_t size, pinned_buffers& to, std::uint64_t& done) noexcept;

  /// Returns the object that places the payload of the accepted frame; null without hostile mode,
  /// and for sends.
  hostile_memory* hostile_target() const noexcept
  {
    return with_.hostile != nullptr && message_ == message::write ? with_.hostile : nullptr;
  }

  /// Likewise for the payload of a frame that next() has returned.
  hostile_memory* hostile_source(const frame& of) const noexcept
  {
    return with_.hostile != nullptr && of.source == frame::origin::response ? with_.hostile
                                                                            : nullptr;
  }

  /// The payload of the accepted frame cannot be placed: refuses the request.
  void unplaceable(detail why) noexcept;

  /// The accepted frame has arrived as a whole. The last frame of a message completes the receive
  /// that the message uses, if any.
  verdict finish() noexcept;

  /// Returns true if a message was refused because it found no receive. Call receive_posted() when
  /// there is one.
  bool awaits_receive() const noexcept { return missing_ == missing::receive; }

  /// A receive was posted after a message had been refused: next() tells the requester to repeat
  /// the message.
  void receive_posted() noexcept { missing_ = missing::announcement; }

  /// For XRC: the selected shared receive queue is gone, and the receive of the message that is
  /// arriving with it. The rest of the message is refused.
  void lose_receive() noexcept { has_receive_ = false; }

  /// For an unreliable connection: drops the message whose remaining frames are lost.
  void lose_message() noexcept { message_ = message::none; }

  // --- answers ---

  /// Returns true if next() has something.
  bool has_next() const noexcept
  {
    return job_count_ != 0 || refusal_ == refusal::not_ready || refusal_ == refusal::final_due
      || missing_ == missing::announcement;
  }

  /// Sets `to` to the next read response, atomic response, refusal, or acknowledgement after a
  /// refusal; false when there is none.
  bool next(frame& to) noexcept;

  /// Sets `to` to an acknowledgement of all requests that have been carried out. Returns false if
  /// none is due.
  /**
   * With `wanted`, one is due if the peer requested it; otherwise if a request has not been
   * acknowledged yet, or if receives were posted after the peer was told that there were none. The
   * latter is worth no message of its own: without credits the peer may send the first frame of a
   * message, and the answer brings credits.
   */
  bool next_acknowledgement(frame& to, bool wanted) noexcept;

  /// As next_acknowledgement() without `wanted`, but returns only the PSN to acknowledge, with the
  /// credit code in the five bits above it.
  std::optional<std::uint32_t> take_acknowledgement() noexcept;

  /// Returns true if the peer requested an acknowledgement and no answer precedes it.
  bool acknowledgement_wanted() const noexcept { return ack_wanted_ && job_count_ == 0; }

  /// As place(), for the memory that a read response is sent from.
  bool gather(const frame& from, std::uint32_t offset, std::uint32_t size, pinned_buffers& to,
    std::uint64_t& done) noexcept;

  /// The memory of a read response cannot be read: refuses the read. The caller drops its unsent
  /// frames.
  void unreadable(const frame& which, detail why) noexcept;

  /// Returns the peer's rights to access memory without this responder. There are none while the
  /// first message must still raise IBV_EVENT_COMM_EST.
  unsigned direct_rights() const noexcept
  {
    constexpr unsigned remote =
      IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    return running_ && !announce_ && refusal_ == refusal::none ? with_.access & remote : 0;
  }

  /// Returns the key of the last write, read or atomic that was accepted; zero if there was none.
  std::uint32_t accepted_key() const noexcept { return accepted_key_; }

  /// Returns the number of completed receives. After a new one the program may soon send an answer,
  /// which can carry the acknowledgement.
  std::uint32_t receives() const noexcept { return receives_; }

  // --- errors ---

  /// Returns true if the queue pair must enter the error state: next() has returned a final
  /// refusal, or a receive of an unreliable connection has failed.
  bool failed() const noexcept { return refusal_ == refusal::final_sent; }

  /// Returns true if next() has not returned a final refusal yet. If the connection is lost, the
  /// refusal cannot be sent, and the queue pair must enter the error state at once.
  bool refusing() const noexcept { return refusal_ == refusal::final_due; }

  /// Returns the event of a final refusal, once. The caller raises it after the queue pair has
  /// entered the error state.
  std::optional<ibv_event_type> take_event() noexcept
  {
    return std::exchange(event_, std::nullopt);
  }

  /// For the error state: drops all answers, and flushes the receive of the message that was
  /// arriving.
  void flush() noexcept;

private:
  bool pin(std::uint32_t key, std::uint64_t address, std::uint32_t size, unsigned right,
    pinned_buffers& to, std::uint64_t& done) const noexcept;

  enum class message : std::uint8_t
  {
    none,
    send,
    write,
  };

  enum class refusal : std::uint8_t
  {
    none,
    not_ready,  ///< RNR: the requester repeats the request
    final_due,  ///< ends the connection; next() returns it after the answers to earlier requests
    final_sent, ///< next() has returned it
  };

  /// The receive that a refused message did not find.
  enum class missing : std::uint8_t
  {
    none,
    receive,
    announcement, ///< it was posted since; next() announces it
  };

  /// The answer to a read or to an atomic.
  struct job
  {
    bool read;             ///< false: an atomic
    std::uint32_t psn;     ///< of the request
    std::uint32_t frames;  ///< of the answer
    std::uint32_t frame;   ///< the next one to send
    std::uint32_t key;     ///< reads
    std::uint32_t srq;     ///< reads, XRC
    std::uint32_t length;  ///< reads
    std::uint64_t address; ///< reads: of the memory; atomics: not an address, the original value
  };

  verdict receive_unreliable(const header& h) noexcept;
  verdict drop() noexcept;
  verdict begin_send(const header& h, unsigned traits) noexcept;
  verdict begin_write(const header& h, unsigned traits) noexcept;
  verdict not_ready() noexcept;
  verdict take_read(const header& h) noexcept;
  verdict take_atomic(const header& h) noexcept;
  bool have_receive() noexcept;
  void complete_receive(ibv_wc_status status, detail why, const header* h) noexcept;
  std::uint8_t credits() noexcept;
  bool acknowledgement_due() noexcept;
  verdict refuse(std::uint8_t syndrome) noexcept;
  verdict refuse(std::uint8_t syndrome, ibv_event_type event) noexcept;
  void refuse_access(opcode op, std::uint8_t syndrome, ibv_event_type event, detail why) noexcept;
  void push(const job& j) noexcept;
  void encode_answer(header& h, frame& to) noexcept;
  void announce() noexcept;
  bool allowed(const header& h, unsigned flag) noexcept;
  bool permits(const header& h, unsigned right) noexcept;

  const parameters& with_;
  host& host_;

  std::uint32_t expected_psn_ = 0;
  std::uint32_t msn_ = 0;
  std::uint32_t srq_ = 0; // XRC: the queue of the last request
  bool running_ = false;
  bool announce_ = false;
  message message_ = message::none;
  header arriving_{};

  // The message that is arriving.
  receive_work receive_;
  bool has_receive_ = false;
  std::uint64_t done_ = 0; // bytes placed
  std::uint64_t write_address_ = 0;
  std::uint32_t write_key_ = 0;
  std::uint32_t write_length_ = 0;

  // Answers to send.
  std::unique_ptr<job[]> jobs_;
  std::uint32_t job_first_ = 0;
  std::uint32_t job_count_ = 0;
  bool ack_due_ = false;
  bool ack_wanted_ = false;
  bool announced_none_ = false; // the last acknowledgement announced no receives
  missing missing_ = missing::none;
  refusal refusal_ = refusal::none;
  std::uint8_t refusal_syndrome_ = 0;
  std::uint32_t refusal_psn_ = 0;
  std::optional<ibv_event_type> event_;
  std::uint32_t receives_ = 0;
  std::uint32_t accepted_key_ = 0;
};

} // namespace rdma::software::protocol

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_PROTOCOL_RESPONDER_HPP

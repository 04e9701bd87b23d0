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
 * No I/O and no clock; one thread at a time. Everything in a header is the peer's word and is
 * checked here. Answers leave in the order of the requests (IBA 9.7.5.1): reads and atomics wait in
 * a queue of max_dest_rd_atomic, and an acknowledgement or a refusal waits for those before it.
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

  /// Returns the time for which a message without a posted receive is held before it is refused
  /// (RNR).
  /**
   * A program that posts its receive when its own send has completed is a moment late: its
   * completion and the message may have arrived together. Refusing at once would cost it the RNR
   * timer.
   */
  std::int64_t patience() const noexcept;

  /// Refuses the message that is held, or the next one that would be, without holding it.
  void lose_patience() noexcept { patient_ = false; }

  /// RTR: the first message raises IBV_EVENT_COMM_EST.
  void announce(bool on) noexcept { announce_ = on; }

  // --- requests ---

  verdict receive(const header& h) noexcept;
  bool place(
    std::uint32_t offset, std::uint32_t size, pinned_buffers& to, std::uint64_t& done) noexcept;
  void unplaceable(detail why) noexcept;
  verdict finish() noexcept;

  /// Unreliable: forgets a message whose rest is lost.
  void lose_message() noexcept { message_ = message::none; }

  // --- answers ---

  /// Returns true if next() has something.
  bool has_next() const noexcept
  {
    return job_count_ != 0 || refusal_ == refusal::not_ready || refusal_ == refusal::final_due;
  }

  /// Sets `to` to the next read response, atomic response or refusal; false when there is none.
  bool next(frame& to) noexcept;

  /// Sets `to` to an acknowledgement of all that has been carried out; false when none is due.
  /** `wanted`: only if the peer requested it; otherwise whenever it is news to the peer. */
  bool next_acknowledgement(frame& to, bool wanted) noexcept;

  /// The same without a frame: returns the last PSN that has been carried out, if it is news to the
  /// peer.
  std::optional<std::uint32_t> take_acknowledgement() noexcept;

  bool acknowledgement_wanted() const noexcept { return ack_wanted_ && job_count_ == 0; }

  /// Adds the memory of a read response.
  bool gather(const frame& from, std::uint32_t offset, std::uint32_t size, pinned_buffers& to,
    std::uint64_t& done) noexcept;

  /// A read response's memory is gone; the read is refused. Its unsent frames are the caller's to
  /// drop.
  void unreadable(const frame& which, detail why) noexcept;

  /// Returns the peer's rights to use this queue pair's memory directly: none before the first
  /// message was announced.
  unsigned direct_rights() const noexcept
  {
    constexpr unsigned remote =
      IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    return running_ && !announce_ && refusal_ == refusal::none ? with_.access & remote : 0;
  }

  /// The count of completed receives, which shows that the program has something to react to.
  std::uint32_t receives() const noexcept { return receives_; }

  // --- errors ---

  /// The queue pair must go to the error state; next() has returned the refusal.
  bool failed() const noexcept { return refusal_ == refusal::final_sent; }

  /// As failed(), for a refusal that next() has not returned. A lost connection cannot carry it.
  bool refusing() const noexcept { return refusal_ == refusal::final_due; }

  /// Returns the event of a refusal, once. It is raised when the queue pair is in the error state.
  std::optional<ibv_event_type> take_event() noexcept
  {
    return std::exchange(event_, std::nullopt);
  }

  /// Completes the receive that a message had begun to fill, for the error state.
  void flush() noexcept;

private:
  enum class message : std::uint8_t
  {
    none,
    send,
    write,
  };

  enum class refusal : std::uint8_t
  {
    none,
    not_ready, ///< RNR; the requester will come again
    final_due, ///< the end, when the answers before it have left
    final_sent,
  };

  /// A read to answer, or an atomic's result.
  struct job
  {
    bool read;
    std::uint32_t psn;
    std::uint32_t frames;
    std::uint32_t frame;
    std::uint32_t key;
    std::uint32_t length;
    std::uint64_t address; ///< atomics: the original value
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
  verdict refuse(std::uint8_t syndrome) noexcept;
  verdict refuse(std::uint8_t syndrome, ibv_event_type event) noexcept;
  void push(const job& j) noexcept;
  void encode_answer(const header& h, frame& to) noexcept;
  bool allowed(const header& h, unsigned flag) noexcept;

  const parameters& with_;
  host& host_;

  std::uint32_t expected_psn_ = 0;
  std::uint32_t msn_ = 0;
  bool running_ = false;
  bool announce_ = false;
  bool patient_ = true;
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
  refusal refusal_ = refusal::none;
  std::uint8_t refusal_syndrome_ = 0;
  std::uint32_t refusal_psn_ = 0;
  std::optional<ibv_event_type> event_;
  std::uint32_t receives_ = 0;
};

} // namespace rdma::software::protocol

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_PROTOCOL_RESPONDER_HPP

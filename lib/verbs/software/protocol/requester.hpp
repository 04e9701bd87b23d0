//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_PROTOCOL_REQUESTER_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_PROTOCOL_REQUESTER_HPP

#include "verbs/software/memory/pinned_buffers.hpp"
#include "verbs/software/protocol/direct_path.hpp"
#include "verbs/software/protocol/endpoint.hpp"
#include "verbs/software/protocol/work_queue.hpp"

#include <atomic>
#include <cstdint>

namespace rdma::software::protocol {

/// The requester of a reliable connection (IBA 9.7): turns send work requests into frames and what
/// the peer answers into completions.
/**
 * No I/O and no clock: the caller carries frames, and tells when a wait that this asked for is
 * over. One thread at a time, except that send_queue is filled by others.
 */
class requester
{
public:
  requester(send_queue& queue, const parameters& with, host& to) noexcept
    : queue_(queue)
    , with_(with)
    , host_(to)
  {
  }

  /// Ready to send, from RTS on.
  void start() noexcept;

  /// Back to the beginning, for RESET. The send queue is reset by the caller.
  void reset() noexcept;

  // --- sending ---

  /// Returns false if next() would find nothing.
  bool has_next() const noexcept
  {
    return running_ && !waiting_ && !stopped_ && !failed_
      && sending_ != queue_.posted.load(std::memory_order_acquire);
  }

  /// Sets `to` to the next frame; false when none may be sent now.
  bool next(frame& to) noexcept;

  /// Adds the payload of a frame from `done` on; false when local protection forbids it.
  bool gather(const frame& from, std::uint32_t offset, std::uint32_t size, pinned_buffers& to,
    std::uint64_t& done) noexcept;

  /// A frame's headers have left: the peer may refuse it, while its payload is still on its way.
  void begun(const frame& which) noexcept;

  /// A frame has left as a whole. Only from now on can the peer have carried it out.
  void sent(const frame& which) noexcept;

  /// A frame's payload could not be read. Its request fails when those before it have completed.
  void unreadable(const frame& which, detail why) noexcept;

  /// Frames of an older generation must not be started: the requester went back (RNR).
  std::uint32_t generation() const noexcept { return generation_; }

  /// Sets the direct path, or null when the wire has none.
  void set_direct_path(direct_path* way) noexcept
  {
    direct_ = way;
    unfinished_ = unfinished_ && way != nullptr;
  }

  /// A request has been carried out in part; another call of next() does the rest.
  bool unfinished() const noexcept { return unfinished_; }

  /// SQD: begin no further request.
  void drain(bool on) noexcept;

  /// Draining, and all requests that had begun before have completed.
  bool drained() const noexcept { return draining_ && acked_ >= drain_end_; }

  /// The error state: begins no further frame. flush() completes the requests.
  void halt() noexcept;

  /// Requests are waiting for the peer, or for a connection to it.
  bool outstanding() const noexcept
  {
    return acked_ != queue_.posted.load(std::memory_order_acquire);
  }

  /// Slots below this one have begun to leave, or have completed.
  std::uint64_t begun_below() const noexcept { return sending_ + (frame_ != 0 ? 1 : 0); }

  /// Slots below this one have completed.
  std::uint64_t through_below() const noexcept { return acked_; }

  /// Requests are waiting for the peer, except those that a drain holds back.
  bool expecting() const noexcept { return outstanding() && !drained(); }

  // --- responses: acknowledge, atomic_acknowledge, read_response_* ---

  verdict receive(const header& h) noexcept;
  bool place(
    std::uint32_t offset, std::uint32_t size, pinned_buffers& to, std::uint64_t& done) noexcept;
  void unplaceable(detail why) noexcept;
  verdict finish() noexcept;

  /// Changes with every response, so that a timer can see that the peer is alive.
  std::uint32_t responses() const noexcept { return responses_; }

  /// Returns the wait of an RNR NAK, in nanoseconds, once; 0 when there is none.
  std::int64_t take_wait() noexcept
  {
    const std::int64_t wait = wait_;
    wait_ = 0;
    return wait;
  }

  /// From an RNR NAK until resume().
  bool waiting() const noexcept { return waiting_; }

  /// The wait is over: send again.
  void resume() noexcept { waiting_ = false; }

  /// The peer had no receive for the oldest request, and has acknowledged nothing since. Any
  /// thread.
  bool receiver_not_ready() const noexcept
  {
    return receiver_not_ready_.load(std::memory_order_relaxed);
  }

  // --- errors ---

  /// The queue pair must go to the error state.
  bool failed() const noexcept { return failed_; }

  /// Fails the oldest request for a reason of the caller.
  /** flush() completes it, when no part of it is being sent and its slot is free. */
  void fail(ibv_wc_status status, detail why) noexcept;

  // --- unreliable connections (IBA 9.8): nobody answers, a request is through when it has left ---

  /// The connection is gone or never existed: requests that have begun complete, and are lost.
  void vanish() noexcept;

  /// Completes all waiting requests as if they had left.
  void discard() noexcept;

  /// Send queue error to ready to send: continues with later requests.
  void recover() noexcept;

  /// Completes all requests, in order: the one that failed with its status, the others with
  /// IBV_WC_WR_FLUSH_ERR.
  void flush() noexcept;

private:
  enum class beginning
  {
    send,
    wait,
    again,
  };

  beginning begin(send_request& r) noexcept;
  beginning run_local(send_request& r) noexcept;
  beginning run_direct(send_request& r) noexcept;
  void encode_frame(send_request& r, frame& to) noexcept;
  void describe_fetch(const send_request& r, header& h) const noexcept;
  void describe_message(const send_request& r, std::uint64_t offset, header& h) const noexcept;
  void stop_at(std::uint64_t slot, ibv_wc_status status, detail why) noexcept;
  void advance() noexcept;
  void complete(send_request& r, ibv_wc_status status, detail why) noexcept;
  bool acknowledged_up_to(std::uint32_t psn) noexcept;
  verdict refused(const header& h) noexcept;
  verdict not_ready(const header& h) noexcept;
  verdict response(const header& h) noexcept;
  verdict bad_response() noexcept;

  send_queue& queue_;
  const parameters& with_;
  host& host_;
  direct_path* direct_ = nullptr;

  // Slots: completed < acked_ <= under way < sending_ <= to be sent < posted.
  std::uint64_t acked_ = 0;
  std::uint64_t sending_ = 0;
  std::uint32_t frame_ = 0; // next frame of the request at sending_
  std::uint32_t next_psn_ = 0;
  std::uint32_t acked_psn_ = 0; // the last that the peer has acknowledged
  std::uint32_t sent_psn_ = 0;  // the last that the peer can have carried out
  std::uint32_t begun_psn_ = 0; // the last that the peer can have seen the headers of
  std::uint32_t reads_ = 0;     // reads and atomics under way
  std::uint32_t generation_ = 0;
  std::uint32_t responses_ = 0;
  std::uint8_t rnr_left_ = 0;
  bool running_ = false;
  bool draining_ = false;
  bool waiting_ = false;
  std::atomic<bool> receiver_not_ready_{false}; // relaxed: a hint, other data does not depend on it
  bool failed_ = false;
  bool unfinished_ = false;
  bool failure_due_ = false; // to be told by flush()
  ibv_wc_status failure_status_ = IBV_WC_SUCCESS;
  detail failure_detail_ = detail_none;
  std::uint64_t drain_end_ = 0; // what had begun when the drain did is below it
  std::int64_t wait_ = 0;

  // The request that cannot be sent. It fails when those before it have completed.
  bool stopped_ = false;
  std::uint64_t stop_slot_ = 0;
  ibv_wc_status stop_status_ = IBV_WC_SUCCESS;
  detail stop_detail_ = detail_none;

  // The response that is arriving.
  header arriving_{};
};

} // namespace rdma::software::protocol

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_PROTOCOL_REQUESTER_HPP

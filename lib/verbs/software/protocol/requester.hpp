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

/// The requester of a reliable connection (IBA 9.7): turns send work requests into frames, and the
/// peer's answers into completions.
/**
 * No I/O and no clock: the caller sends and receives the frames, and calls resume() when the time
 * of take_wait() is over. One thread at a time, but other threads add requests to the send_queue.
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

  /// Enters RTS: next() may return frames from now on.
  void start() noexcept;

  /// Enters RESET. The caller resets the send queue.
  void reset() noexcept;

  // --- sending ---

  /// Returns false if there is nothing to send. Otherwise next() may still have to wait, e.g. for a
  /// fence.
  bool has_next() const noexcept
  {
    return running_ && rnr_ != rnr::waiting && !probing_ && !stopped_ && !failed_
      && sending_ != queue_.posted.load(std::memory_order_acquire);
  }

  /// Sets `to` to the next frame; false when none may be sent now.
  bool next(frame& to) noexcept;

  /// Carries out the binds and invalidations that are next: without a connection, nothing else can.
  void run_local_requests() noexcept;

  /// Returns true if the next request is a write.
  bool next_is_write() const noexcept
  {
    return has_next() && queue_[sending_].opcode == IBV_WR_RDMA_WRITE;
  }

  /// Carries out requests on the direct path, up to the first one that is not a write of at most
  /// `size_max` bytes, or cannot be carried out there now. Returns false if there is one.
  /// Precondition: has_next().
  bool write_short(std::uint32_t size_max) noexcept;

  /// Calls write_short() if a write is next. Then returns the next request if it is a send of at
  /// most `size_max` bytes that can leave now as one frame. Null: call next().
  send_request* next_short(std::uint32_t size_max) noexcept;

  /// The request of next_short() has been sent as a whole, as a frame with short_psn().
  void short_sent(send_request& r) noexcept;
  std::uint32_t short_psn() const noexcept { return next_psn_; }

  /// Adds the memory of payload bytes [offset, offset + size) of a frame, as far as there is room
  /// in `to`; `done` is the number of bytes. Returns false if a local key forbids it.
  bool gather(const frame& from, std::uint32_t offset, std::uint32_t size, pinned_buffers& to,
    std::uint64_t& done) noexcept;

  /// A frame has been sent. From now on the peer can acknowledge or refuse it.
  void sent(const frame& which) noexcept;

  /// A frame's payload cannot be read. Its request fails when the earlier ones have completed.
  void unreadable(const frame& which, detail why) noexcept;

  /// Changes when frames become invalid, e.g. after an RNR NAK, because the requester repeats them.
  /// The caller must not begin to send frames of an older generation.
  std::uint32_t generation() const noexcept { return generation_; }

  /// Sets the direct path, or null when the wire has none.
  void set_direct_path(direct_path* way) noexcept
  {
    direct_ = way;
    unfinished_ = unfinished_ && way != nullptr;
  }

  /// The direct path has carried out a request in part. The next call of next() continues it.
  bool unfinished() const noexcept { return unfinished_; }

  /// For SQD: if `on`, next() begins no further request.
  void drain(bool on) noexcept;

  /// Returns true after drain(true) when all requests that had begun before it have completed.
  bool drained() const noexcept { return draining_ && acked_ >= drain_end_; }

  /// For the error state: next() returns no further frame. flush() completes the requests.
  void halt() noexcept;

  /// Returns true if requests have not completed.
  bool outstanding() const noexcept
  {
    return acked_ != queue_.posted.load(std::memory_order_acquire);
  }

  /// Returns a slot of the send queue: the requests in all lower slots have begun to be sent.
  std::uint64_t begun_below() const noexcept { return sending_ + (frame_ != 0 ? 1 : 0); }

  /// Returns a slot of the send queue: the requests in all lower slots have completed.
  std::uint64_t through_below() const noexcept { return acked_; }

  /// As outstanding(), but ignores requests that drain(true) holds back.
  bool expecting() const noexcept { return outstanding() && !drained(); }

  // --- responses: acknowledge, atomic_acknowledge, read_response_* ---

  /// Checks a response's header and decides on its payload.
  verdict receive(const header& h) noexcept;

  /// As gather(), for the accepted frame's payload, which is placed in the request's memory.
  bool place(
    std::uint32_t offset, std::uint32_t size, pinned_buffers& to, std::uint64_t& done) noexcept;

  /// The payload of the accepted frame cannot be placed: the request fails.
  void unplaceable(detail why) noexcept;

  /// The accepted frame has arrived as a whole.
  verdict finish() noexcept;

  /// Changes when the peer acknowledges or answers what it had not acknowledged or answered before.
  std::uint32_t progress() const noexcept { return progress_; }

  /// Returns the time to wait after an RNR NAK in ns, once; 0 if there is none.
  std::int64_t take_wait() noexcept
  {
    const std::int64_t wait = wait_;
    wait_ = 0;
    return wait;
  }

  /// Returns true from an RNR NAK until resume(), or until the request has been carried out.
  bool waiting() const noexcept { return rnr_ != rnr::none; }

  /// The time of take_wait() is over: sends again.
  void resume() noexcept { rnr_ = rnr::none; }

  /// Returns true if the peer had no receive for the oldest request and has acknowledged nothing
  /// since. Any thread may call this.
  bool receiver_not_ready() const noexcept
  {
    return receiver_not_ready_.load(std::memory_order_relaxed);
  }

  // --- errors ---

  /// Returns true if a request has failed: the queue pair must enter the error state, or SQE if the
  /// connection is unreliable.
  bool failed() const noexcept { return failed_; }

  /// Fails the oldest request. flush() completes it, which frees its slot: call flush() when no
  /// part of the request is being sent.
  void fail(ibv_wc_status status, detail why) noexcept;

  // --- unreliable connections (IBA 9.8): a request completes when it has been sent ---

  /// The connection is lost: requests that have begun complete as if they had been sent.
  void vanish() noexcept;

  /// Completes all requests as if they had been sent.
  void discard() noexcept;

  /// Returns from SQE to RTS: sends the requests that are posted later.
  void recover() noexcept;

  /// Completes all requests, in order: the one that failed with its status, the others with
  /// IBV_WC_WR_FLUSH_ERR.
  void flush() noexcept;

private:
  /// The wait for the RNR timer of the request that was refused.
  enum class rnr : std::uint8_t
  {
    none,
    waiting,
    early, ///< credit came first: sends again, and another refusal continues the wait
  };

  enum class beginning
  {
    send,  ///< send its frames
    wait,  ///< it cannot be sent now
    again, ///< it needed no frames: begin the next request
  };

  beginning begin(send_request& r) noexcept;
  beginning run_local(send_request& r) noexcept;
  bool read_value(send_request& r) noexcept;
  beginning run_direct(send_request& r) noexcept;
  bool look_ahead() noexcept;
  void end_direct(send_request& r) noexcept;
  void encode_frame(send_request& r, frame& to) noexcept;
  void describe_fetch(const send_request& r, header& h) const noexcept;
  void describe_message(const send_request& r, std::uint64_t offset, header& h) const noexcept;
  void stop_at(std::uint64_t slot, ibv_wc_status status, detail why) noexcept;
  void advance() noexcept;
  void complete(send_request& r, ibv_wc_status status, detail why) noexcept;
  void report(const send_request& r, ibv_wc_status status, detail why) noexcept;
  bool acknowledged_up_to(std::uint32_t psn) noexcept;
  void take_credits(const header& h) noexcept;
  bool has_credit(std::uint32_t message) const noexcept
  {
    return static_cast<std::int32_t>(receives_limit_ - message) > 0;
  }
  verdict refused(const header& h) noexcept;
  verdict not_ready(const header& h) noexcept;
  verdict response(const header& h) noexcept;
  verdict bad_response() noexcept;

  send_queue& queue_;
  const parameters& with_;
  host& host_;
  direct_path* direct_ = nullptr;

  std::uint64_t acked_ = 0;   // slot of the oldest request that has not completed
  std::uint64_t sending_ = 0; // slot of the next request to send, at least acked_
  std::uint32_t frame_ = 0;   // next frame of the request at sending_
  std::uint32_t next_psn_ = 0;
  std::uint32_t acked_psn_ = 0; // the last PSN that the peer has acknowledged
  std::uint32_t sent_psn_ = 0;  // the last PSN that the peer can have carried out
  std::uint32_t reads_ = 0;     // reads and atomics that have been sent and not answered
  std::uint32_t generation_ = 0;
  std::uint32_t progress_ = 0;
  std::uint8_t rnr_left_ = 0;
  rnr rnr_ = rnr::none;
  bool running_ = false;
  bool draining_ = false;

  // Credits (IBA 9.7.7.2): numbers of messages that use a receive, modulo 2^32.
  bool limited_ = false; // the peer announces its receives; unknown before the first answer
  bool probing_ = false; // a frame was sent without credit; nothing follows it before its answer
  std::uint32_t receives_limit_ = 0;   // so many may be sent
  std::uint32_t receives_claimed_ = 0; // so many have been sent
  std::uint32_t receives_used_ = 0;    // so many have been carried out

  std::atomic<bool> receiver_not_ready_{false}; // relaxed: a hint, other data does not depend on it
  bool failed_ = false;
  bool unfinished_ = false;
  bool failure_due_ = false; // flush() has not completed the failed request yet
  ibv_wc_status failure_status_ = IBV_WC_SUCCESS;
  detail failure_detail_ = detail_none;
  std::uint64_t drain_end_ = 0; // requests in lower slots had begun before the drain
  std::int64_t wait_ = 0;       // for take_wait()

  // A request that cannot be sent. It fails when the earlier ones have completed.
  bool stopped_ = false;
  std::uint64_t stop_slot_ = 0;
  ibv_wc_status stop_status_ = IBV_WC_SUCCESS;
  detail stop_detail_ = detail_none;

  // The response that is arriving.
  header arriving_{};
};

} // namespace rdma::software::protocol

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_PROTOCOL_REQUESTER_HPP

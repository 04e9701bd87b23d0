//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/protocol/requester.hpp"

#include "verbs/software/memory/window.hpp"
#include "verbs/software/protocol/bytes.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace rdma::software::protocol {

namespace {

// Far below half of the PSN space, so that "ahead" and "behind" are unambiguous (IBA 9.7.1).
constexpr std::uint32_t max_psns_under_way = 1u << 22;

// The next request and those behind it that the peer is asked about together.
constexpr std::uint64_t looked_ahead_max = 4;
constexpr std::int32_t max_short_psns_under_way = 1 << 21;

constexpr ibv_wc_opcode completed_as[] = {IBV_WC_RDMA_WRITE, IBV_WC_RDMA_WRITE, IBV_WC_SEND,
  IBV_WC_SEND, IBV_WC_RDMA_READ, IBV_WC_COMP_SWAP, IBV_WC_FETCH_ADD, IBV_WC_LOCAL_INV,
  IBV_WC_BIND_MW, IBV_WC_SEND}; // by ibv_wr_opcode, except wr_atomic_write

opcode send_opcode(const send_request& r, bool first, bool last)
{
  if (!last)
    return first ? opcode::send_first : opcode::send_middle;
  switch (r.opcode)
  {
  case IBV_WR_SEND_WITH_IMM:
    return first ? opcode::send_only_immediate : opcode::send_last_immediate;
  case IBV_WR_SEND_WITH_INV:
    return first ? opcode::send_only_invalidate : opcode::send_last_invalidate;
  default:
    return first ? opcode::send_only : opcode::send_last;
  }
}

opcode write_opcode(const send_request& r, bool first, bool last)
{
  if (!last)
    return first ? opcode::write_first : opcode::write_middle;
  if (r.opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
    return first ? opcode::write_only_immediate : opcode::write_last_immediate;
  return first ? opcode::write_only : opcode::write_last;
}

} // namespace

void requester::start() noexcept
{
  next_psn_ = with_.sq_psn;
  acked_psn_ = psn_add(with_.sq_psn, psn_mask); // one before
  sent_psn_ = acked_psn_;
  rnr_left_ = with_.rnr_retry;
  running_ = true;
}

void requester::reset() noexcept
{
  acked_ = sending_ = 0;
  frame_ = 0;
  reads_ = 0;
  direct_ = nullptr;
  unfinished_ = false;
  running_ = draining_ = failed_ = failure_due_ = stopped_ = limited_ = probing_ = false;
  receives_claimed_ = receives_used_;
  rnr_ = rnr::none;
  receiver_not_ready_.store(false, std::memory_order_relaxed);
  wait_ = 0;
  ++generation_;
}

bool requester::next(frame& to) noexcept
{
  while (has_next())
  {
    send_request& r = queue_[sending_];
    if (frame_ == 0)
    {
      switch (begin(r))
      {
      case beginning::wait:
        return false;
      case beginning::again:
        continue;
      case beginning::send:
        break;
      }
    }
    encode_frame(r, to);
    return true;
  }
  return false;
}

void requester::run_local_requests() noexcept
{
  while (has_next() && acked_ == sending_ && queue_[sending_].is_local()
    && begin(queue_[sending_]) == beginning::again)
  {
  }
}

bool requester::write_short(std::uint32_t size_max) noexcept
{
  // No read is outstanding either, for which a fence would wait.
  if (direct_ == nullptr || acked_ != sending_ || frame_ != 0 || draining_ || unfinished_
    || with_.kind != service_rc)
    return false;
  // acquire: the requests have been written
  const std::uint64_t end = queue_.posted.load(std::memory_order_acquire);
  while (sending_ != end)
  {
    send_request& r = queue_[sending_];
    if (r.opcode != IBV_WR_RDMA_WRITE || r.length > size_max || !direct_->write_short(r))
      return false;
    end_direct(r);
  }
  return true;
}

send_request* requester::next_short(std::uint32_t size_max) noexcept
{
  if (!has_next())
    return nullptr;
  if (queue_[sending_].opcode == IBV_WR_RDMA_WRITE && write_short(size_max))
    return nullptr;
  send_request& r = queue_[sending_];
  const bool can_leave = r.is_send() && r.length <= size_max && frame_ == 0 && !draining_
    && with_.kind == service_rc && ((r.flags & IBV_SEND_FENCE) == 0 || reads_ == 0)
    && psn_distance(next_psn_, acked_psn_) < max_short_psns_under_way
    && (!limited_ || has_credit(receives_claimed_));
  return can_leave ? &r : nullptr;
}

void requester::short_sent(send_request& r) noexcept
{
  r.first_psn = next_psn_;
  r.frames = 1;
  sent_psn_ = next_psn_;
  next_psn_ = psn_add(next_psn_, 1);
  ++receives_claimed_;
  ++sending_;
}

requester::beginning requester::begin(send_request& r) noexcept
{
  // A fence waits for the reads and atomics before it (IBA 10.8.3.3). A request that had begun
  // before a drain, and was refused with RNR, is repeated.
  if ((draining_ && sending_ >= drain_end_) || ((r.flags & IBV_SEND_FENCE) != 0 && reads_ != 0))
    return beginning::wait;
  if (r.is_local())
    return run_local(r);
  const bool inlined = (r.flags & IBV_SEND_INLINE) != 0;
  const bool atomic = r.is_read_or_atomic() && r.opcode != IBV_WR_RDMA_READ;
  if (r.is_read_or_atomic() && with_.max_read_atomic == 0)
  {
    stop_at(sending_, IBV_WC_LOC_QP_OP_ERR, detail_no_initiator_depth);
    return beginning::wait;
  }
  if (r.length > max_message || (atomic && r.length != 8))
  {
    stop_at(sending_, IBV_WC_LOC_LEN_ERR, detail_message_length);
    return beginning::wait;
  }
  if (r.opcode == wr_atomic_write && !read_value(r))
  {
    stop_at(sending_, IBV_WC_LOC_PROT_ERR, detail_local_key);
    return beginning::wait;
  }
  if (direct_ != nullptr && with_.kind == service_rc
    && (r.opcode == IBV_WR_RDMA_WRITE || r.is_read_or_atomic()))
  {
    // Only when all before it have completed, because the peer may still refuse those.
    if (acked_ == sending_)
    {
      if (const beginning what = run_direct(r); what != beginning::send)
        return what;
    }
    else if (direct_->prefers(r))
    {
      return beginning::wait;
    }
  }
  const unsigned access = r.fetches() ? IBV_ACCESS_LOCAL_WRITE : 0;
  if (!inlined && !permitted(r.list(), access, *with_.keys, with_.pd))
  {
    stop_at(sending_, IBV_WC_LOC_PROT_ERR, detail_local_key);
    return beginning::wait;
  }
  if (r.is_read_or_atomic() && reads_ >= with_.max_read_atomic)
    return beginning::wait;
  const std::uint32_t frames = atomic ? 1 : frame_count(r.length, with_.segment);
  const auto under_way = static_cast<std::uint32_t>(psn_distance(next_psn_, acked_psn_));
  if (under_way + frames > max_psns_under_way && under_way > 1)
    return beginning::wait;
  r.first_psn = next_psn_;
  r.frames = frames;
  r.received = 0;
  next_psn_ = psn_add(next_psn_, frames);
  return beginning::send;
}

// Copies the bytes of an atomic write, which go into a header. Returns false if the program has not
// registered them.
bool requester::read_value(send_request& r) noexcept
{
  auto* to = reinterpret_cast<std::byte*>(&r.swap);
  const auto put = [&to](const std::byte* from, std::uint64_t size)
  {
    std::memcpy(to, from, size);
    to += size;
  };
  if ((r.flags & IBV_SEND_INLINE) == 0)
    return copy_elements(r.list(), r.length, 0, *with_.keys, with_.pd, put);
  put(r.inline_bytes(), r.length);
  return true;
}

// Returns beginning::send if it must be sent as frames.
requester::beginning requester::run_direct(send_request& r) noexcept
{
  unfinished_ = r.received == 0 && direct_->prefers(r) && look_ahead();
  if (unfinished_)
    return beginning::wait;
  r.first_psn = next_psn_;
  const direct_path::outcome came = direct_->run(r);
  unfinished_ = came == direct_path::outcome::part;
  if (came == direct_path::outcome::no)
    return beginning::send;
  if (came != direct_path::outcome::done)
    return beginning::wait;
  end_direct(r);
  return beginning::again;
}

// The copy of a large request takes longer than the peer's answer to a question. So the questions
// for those behind it are asked before the copy.
bool requester::look_ahead() noexcept
{
  const std::uint64_t end =
    std::min(queue_.posted.load(std::memory_order_acquire), sending_ + looked_ahead_max);
  bool news = false;
  for (std::uint64_t i = sending_; i < end; ++i)
  {
    const send_request& r = queue_[i];
    if (r.opcode != IBV_WR_RDMA_WRITE && r.opcode != IBV_WR_RDMA_READ)
      break;
    news = direct_->look_ahead(r) || news;
  }
  return news;
}

void requester::end_direct(send_request& r) noexcept
{
  ++sending_;
  ++acked_; // the requests before it have completed
  report(r, IBV_WC_SUCCESS, detail_none);
}

requester::beginning requester::run_local(send_request& r) noexcept
{
  if (!r.done)
  {
    // Revoking a key waits for peers that use its memory. Two ends that revoked while using each
    // other's memory would wait for each other.
    if (direct_ != nullptr)
      direct_->let_go();
    r.done = r.opcode == IBV_WR_LOCAL_INV
      ? invalidate_window(*with_.keys, r.immediate, with_.pd, with_.qp)
      : bind_window(*with_.keys, r.bind, r.rkey, with_.pd, with_.qp);
    if (!r.done)
    {
      // IBA 10.6.6.2: a failed invalidation is also reported as a bind error.
      stop_at(sending_, IBV_WC_MW_BIND_ERR, detail_window);
      return beginning::wait;
    }
  }
  r.first_psn = next_psn_;
  r.frames = 0;
  ++sending_;
  advance();
  return beginning::again;
}

void requester::encode_frame(send_request& r, frame& to) noexcept
{
  header h;
  h.kind = with_.kind;
  h.dest_qp = with_.peer_qp;
  h.srq = r.srq;
  h.psn = psn_add(r.first_psn, frame_);
  to.source = frame::origin::none;
  to.response = false;
  to.psn = h.psn;
  to.covered = 1;
  to.generation = generation_;
  to.request = sending_;
  to.offset = 0;
  bool last = true;
  if (r.is_read_or_atomic())
  {
    describe_fetch(r, h);
    to.covered = r.frames;
    ++reads_;
  }
  else
  {
    last = frame_ + 1 == r.frames;
    to.offset = std::uint64_t{frame_} * with_.segment;
    describe_message(r, to.offset, h);
    if (r.is_write() ? last && r.uses_receive() : frame_ == 0)
    {
      probing_ = limited_ && !has_credit(receives_claimed_);
      h.ack_request = h.ack_request || probing_;
      ++receives_claimed_;
    }
    if (h.payload != 0)
      to.source = frame::origin::request;
  }
  to.payload = h.payload;
  to.header_size = static_cast<std::uint8_t>(encode(h, to.bytes));
  if (last)
  {
    ++sending_;
    frame_ = 0;
  }
  else
  {
    ++frame_;
  }
}

void requester::describe_fetch(const send_request& r, header& h) const noexcept
{
  h.address = r.remote;
  h.key = r.rkey;
  h.length = static_cast<std::uint32_t>(r.length);
  h.ack_request = true;
  if (r.opcode == IBV_WR_RDMA_READ)
  {
    h.op = opcode::read_request;
    return;
  }
  if (r.opcode == wr_atomic_write)
  {
    h.op = opcode::atomic_write;
    h.swap_add = byte_reader(reinterpret_cast<const std::byte*>(&r.swap)).get(8);
    return;
  }
  const bool add = r.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
  h.op = add ? opcode::fetch_add : opcode::compare_swap;
  h.swap_add = add ? r.compare_add : r.swap;
  h.compare = add ? 0 : r.compare_add;
}

void requester::describe_message(
  const send_request& r, std::uint64_t offset, header& h) const noexcept
{
  const bool first = frame_ == 0;
  const bool last = frame_ + 1 == r.frames;
  h.payload = static_cast<std::uint32_t>(std::min<std::uint64_t>(with_.segment, r.length - offset));
  h.op = r.is_write() ? write_opcode(r, first, last) : send_opcode(r, first, last);
  if (r.is_write())
  {
    h.address = r.remote;
    h.key = r.rkey;
    h.length = static_cast<std::uint32_t>(r.length);
  }
  else if (r.opcode == IBV_WR_SEND_WITH_INV)
  {
    h.key = r.immediate;
  }
  h.immediate = r.immediate;
  h.solicited = last && (r.flags & IBV_SEND_SOLICITED) != 0;
  // Set for every message: the peer answers once for all that it finds, and a drain or a request
  // that cannot be sent may wait even for a request without a completion.
  h.ack_request = last && with_.kind != service_uc;
}

bool requester::gather(const frame& from, std::uint32_t offset, std::uint32_t size,
  pinned_buffers& to, std::uint64_t& done) noexcept
{
  send_request& r = queue_[from.request];
  if ((r.flags & IBV_SEND_INLINE) == 0)
    return add_elements(to, r.list(), from.offset + offset, size, 0, *with_.keys, with_.pd, done);
  to.add(r.inline_bytes() + from.offset + offset, size);
  done = size;
  return true;
}

// A frame from before a return to an earlier one does not count: the peer ignores it.
void requester::sent(const frame& which) noexcept
{
  if (which.generation == generation_ && which.psn == psn_add(sent_psn_, 1))
    sent_psn_ = psn_add(sent_psn_, which.covered);
  if (with_.kind == service_uc) [[unlikely]]
  {
    acked_psn_ = sent_psn_;
    advance();
  }
}

void requester::unreadable(const frame& which, detail why) noexcept
{
  if (!failed_ && which.generation == generation_ && (!stopped_ || which.request < stop_slot_))
    stop_at(which.request, IBV_WC_LOC_PROT_ERR, why);
}

void requester::stop_at(std::uint64_t slot, ibv_wc_status status, detail why) noexcept
{
  stopped_ = true;
  stop_slot_ = slot;
  stop_status_ = status;
  stop_detail_ = why;
  advance();
}

void requester::complete(send_request& r, ibv_wc_status status, detail why) noexcept
{
  ++acked_;
  if (r.is_read_or_atomic() && reads_ != 0 && status == IBV_WC_SUCCESS)
    --reads_;
  if (r.uses_receive())
    ++receives_used_;
  report(r, status, why);
}

void requester::report(const send_request& r, ibv_wc_status status, detail why) noexcept
{
  if (status == IBV_WC_SUCCESS && !with_.signal_all && (r.flags & IBV_SEND_SIGNALED) == 0)
    return;
  ibv_wc wc{};
  wc.wr_id = r.id;
  wc.status = status;
  wc.vendor_err = why;
  wc.byte_len = static_cast<std::uint32_t>(r.length);
  wc.qp_num = with_.qp;
  wc.src_qp = with_.peer_qp;
  wc.opcode = r.opcode == wr_atomic_write ? wc_atomic_write : completed_as[r.opcode];
  host_.send_completed(wc, acked_);
}

void requester::advance() noexcept
{
  while (!failed_ && acked_ < sending_)
  {
    send_request& r = queue_[acked_];
    const bool through = r.is_local() || r.is_read_or_atomic()
      ? r.done
      : psn_distance(acked_psn_, psn_add(r.first_psn, r.frames - 1)) >= 0;
    if (!through || (stopped_ && acked_ == stop_slot_))
      break;
    complete(r, IBV_WC_SUCCESS, detail_none);
  }
  if (stopped_ && acked_ == stop_slot_)
    fail(stop_status_, stop_detail_);
}

void requester::drain(bool on) noexcept
{
  if (on && !draining_)
    drain_end_ = sending_ + (frame_ != 0 || unfinished_ ? 1 : 0);
  draining_ = on;
}

void requester::halt() noexcept
{
  running_ = unfinished_ = false;
  ++generation_; // what has not begun to leave does not
}

void requester::fail(ibv_wc_status status, detail why) noexcept
{
  if (failed_)
    return;
  failed_ = true;
  failure_due_ = outstanding();
  failure_status_ = status;
  failure_detail_ = why;
}

void requester::flush() noexcept
{
  running_ = unfinished_ = false;
  rnr_ = rnr::none;
  frame_ = 0;
  if (std::exchange(failure_due_, false))
    complete(queue_[acked_], failure_status_, failure_detail_);
  while (acked_ != queue_.posted.load(std::memory_order_acquire))
    complete(queue_[acked_], IBV_WC_WR_FLUSH_ERR, detail_flushed);
  sending_ = acked_;
}

} // namespace rdma::software::protocol

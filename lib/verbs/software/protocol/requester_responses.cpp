//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// The half of the requester that takes what the peer answers: untrusted, every field of it.

#include "verbs/software/protocol/requester.hpp"

#include <algorithm>
#include <cstring>

namespace rdma::software::protocol {

verdict requester::bad_response() noexcept
{
  fail(IBV_WC_BAD_RESP_ERR, detail_response);
  return verdict::discard;
}

verdict requester::receive(const header& h) noexcept
{
  if (!running_ || failed_)
    return verdict::discard;
  // The peer cannot answer a frame that has not left, and accepting such an answer would free
  // memory that is still to be sent.
  if (psn_distance(h.psn, sent_psn_) > 0)
    return bad_response();
  if (h.op != opcode::acknowledge)
    return response(h);
  if (is_ack(h.syndrome))
  {
    if (!acknowledged_up_to(h.psn))
      return bad_response();
    take_credits(h);
    return verdict::discard;
  }
  return is_rnr(h.syndrome) ? not_ready(h) : refused(h);
}

bool requester::acknowledged_up_to(std::uint32_t psn) noexcept
{
  if (psn_distance(psn, acked_psn_) <= 0)
    return true;
  acked_psn_ = psn;
  ++progress_;
  rnr_left_ = with_.rnr_retry;
  rnr_ = rnr::none;
  if (receiver_not_ready())
    receiver_not_ready_.store(false, std::memory_order_relaxed);
  advance();
  // Only its response acknowledges a read or an atomic (IBA 9.7.5.1.2). An acknowledgement of
  // something behind it means that the response is missing.
  if (failed_ || acked_ >= sending_)
    return true;
  const send_request& r = queue_[acked_];
  return !r.is_read_or_atomic() || psn_distance(acked_psn_, r.first_psn) < 0;
}

// The limit never falls: at one PSN, credits become more only. An acknowledgement that another one
// has overtaken counts from an older message.
void requester::take_credits(const header& h) noexcept
{
  if (h.psn != acked_psn_)
    return;
  const std::uint8_t code = h.syndrome & credit_mask;
  const std::uint32_t before = limited_ ? receives_limit_ : receives_used_;
  limited_ = code != no_credits;
  receives_limit_ = receives_used_ + credits_of(code);
  if (limited_ && !has_credit(before))
    receives_limit_ = before;
  probing_ = probing_ && limited_ && receives_claimed_ != receives_used_
    && !has_credit(receives_claimed_ - 1);
  if (rnr_ == rnr::waiting && (!limited_ || has_credit(receives_used_)))
    rnr_ = rnr::early;
}

verdict requester::refused(const header& h) noexcept
{
  if (psn_distance(h.psn, acked_psn_) <= 0 || !acknowledged_up_to(psn_add(h.psn, psn_mask)))
    return bad_response();
  if (failed_)
    return verdict::discard;
  switch (h.syndrome)
  {
  case nak_invalid_request:
    fail(IBV_WC_REM_INV_REQ_ERR, detail_remote_nak);
    break;
  case nak_remote_access:
    fail(IBV_WC_REM_ACCESS_ERR, detail_remote_nak);
    break;
  case nak_remote_operation:
    fail(IBV_WC_REM_OP_ERR, detail_remote_nak);
    break;
  default: // among them "sequence error": nothing is lost on the way, so there can be none
    return bad_response();
  }
  return verdict::discard;
}

verdict requester::not_ready(const header& h) noexcept
{
  if (psn_distance(h.psn, acked_psn_) <= 0 || !acknowledged_up_to(psn_add(h.psn, psn_mask)))
    return bad_response();
  if (failed_ || rnr_ == rnr::waiting)
    return verdict::discard;
  send_request& r = queue_[acked_];
  const std::int32_t frame = psn_distance(h.psn, r.first_psn);
  if (r.is_read_or_atomic() || r.is_local() || frame < 0
    || frame >= static_cast<std::int32_t>(r.frames))
    return bad_response();
  const bool is_early = rnr_ == rnr::early;
  if (with_.rnr_retry != 7 && !is_early) // 7: for ever (IBA 9.7.5.2.8)
  {
    if (rnr_left_ == 0)
    {
      fail(IBV_WC_RNR_RETRY_EXC_ERR, detail_rnr);
      return verdict::discard;
    }
    --rnr_left_;
  }
  // Go back to the frame that was refused. The peer drops all that was sent behind it.
  sending_ = acked_;
  frame_ = static_cast<std::uint32_t>(frame);
  next_psn_ = frame_ == 0 ? r.first_psn : psn_add(r.first_psn, r.frames);
  sent_psn_ = psn_add(h.psn, psn_mask);
  reads_ = 0;
  receives_claimed_ = receives_used_ + (frame != 0 && !r.is_write() ? 1 : 0);
  probing_ = stopped_ = false;
  ++generation_;
  rnr_ = rnr::waiting;
  receiver_not_ready_.store(true, std::memory_order_relaxed);
  if (!is_early)
    wait_ = rnr_wait(h.syndrome & 0x1f);
  return verdict::discard;
}

verdict requester::response(const header& h) noexcept
{
  // It acknowledges everything before it.
  if (acked_ >= sending_ || psn_distance(h.psn, acked_psn_) <= 0)
    return bad_response();
  if (!queue_[acked_].is_read_or_atomic() && !acknowledged_up_to(psn_add(h.psn, psn_mask)))
    return bad_response();
  if (failed_)
    return verdict::discard;
  if (acked_ >= sending_)
    return bad_response();
  send_request& r = queue_[acked_];
  const bool read = r.opcode == IBV_WR_RDMA_READ;
  const auto index = static_cast<std::uint32_t>(r.received / with_.segment);
  if (!r.is_read_or_atomic() || r.done || h.psn != psn_add(r.first_psn, index)
    || read != (h.op != opcode::atomic_acknowledge))
    return bad_response();
  const unsigned traits = traits_of(h.op);
  if ((traits & trait_aeth) != 0 && !is_ack(h.syndrome))
    return bad_response();
  if (read)
  {
    const bool starts = (traits & trait_starts) != 0;
    const bool ends = (traits & trait_ends) != 0;
    const std::uint64_t expected = std::min<std::uint64_t>(with_.segment, r.length - r.received);
    if (starts != (index == 0) || ends != (index + 1 == r.frames) || h.payload != expected)
      return bad_response();
  }
  arriving_ = h;
  ++progress_;
  return verdict::accept;
}

bool requester::place(
  std::uint32_t offset, std::uint32_t size, pinned_buffers& to, std::uint64_t& done) noexcept
{
  send_request& r = queue_[acked_];
  return add_elements(
    to, r.list(), r.received + offset, size, IBV_ACCESS_LOCAL_WRITE, *with_.keys, with_.pd, done);
}

void requester::unplaceable(detail why) noexcept
{
  fail(IBV_WC_LOC_PROT_ERR, why);
}

verdict requester::finish() noexcept
{
  if (failed_)
    return verdict::discard;
  send_request& r = queue_[acked_];
  if (arriving_.op == opcode::atomic_acknowledge && r.fetches())
  {
    pinned_buffers to;
    std::uint64_t done = 0;
    std::uint64_t copied = 0;
    if (!add_elements(to, r.list(), 0, 8, IBV_ACCESS_LOCAL_WRITE, *with_.keys, with_.pd, done))
    {
      unplaceable(detail_local_key);
      return verdict::discard;
    }
    for (const iovec& v : to.view())
    {
      std::memcpy(
        v.iov_base, reinterpret_cast<const std::byte*>(&arriving_.swap_add) + copied, v.iov_len);
      copied += v.iov_len;
    }
  }
  r.received += arriving_.payload;
  if ((traits_of(arriving_.op) & trait_ends) != 0 || arriving_.op == opcode::atomic_acknowledge)
  {
    r.done = true;
    acknowledged_up_to(psn_add(r.first_psn, r.frames - 1));
    take_credits(arriving_);
  }
  return verdict::accept;
}

} // namespace rdma::software::protocol

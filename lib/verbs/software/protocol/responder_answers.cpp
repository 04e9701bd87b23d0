//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// The half of the responder that answers: responses, acknowledgements and refusals.

#include "verbs/software/protocol/responder.hpp"

#include <algorithm>

namespace rdma::software::protocol {

void responder::encode_answer(header& h, frame& to) noexcept
{
  h.kind = with_.kind;
  h.dest_qp = with_.peer_qp;
  h.msn = msn_;
  to.source = frame::origin::none;
  to.response = true;
  to.psn = h.psn;
  to.covered = 0;
  to.payload = h.payload;
  to.header_size = static_cast<std::uint8_t>(encode(h, to.bytes));
}

bool responder::next(frame& to) noexcept
{
  if (!has_next())
    return false;
  header h;
  if (job_count_ != 0)
  {
    job& j = jobs_[job_first_];
    h.psn = psn_add(j.psn, j.frame);
    bool last = true;
    if (j.read)
    {
      const std::uint64_t offset = std::uint64_t{j.frame} * with_.segment;
      const bool first = j.frame == 0;
      last = j.frame + 1 == j.frames;
      h.payload =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(with_.segment, j.length - offset));
      h.op = first ? (last ? opcode::read_response_only : opcode::read_response_first)
                   : (last ? opcode::read_response_last : opcode::read_response_middle);
      if (first || last)
        h.syndrome = credits();
      encode_answer(h, to);
      to.source = h.payload != 0 ? frame::origin::response : frame::origin::none;
      to.key = j.key;
      to.srq = j.srq;
      to.offset = j.address + offset;
      to.request = j.psn;
      ++j.frame;
    }
    else
    {
      h.op = opcode::atomic_acknowledge;
      h.syndrome = credits();
      h.swap_add = j.address;
      encode_answer(h, to);
    }
    if (last)
    {
      job_first_ = (job_first_ + 1) % with_.max_peer_read_atomic;
      --job_count_;
    }
    return true;
  }
  h.op = opcode::acknowledge;
  if (refusal_ == refusal::none)
  {
    h.syndrome = credits();
    h.psn = psn_add(expected_psn_, psn_mask);
    missing_ = missing::none;
  }
  else
  {
    h.syndrome = refusal_syndrome_;
    h.psn = refusal_psn_;
    refusal_ = refusal_ == refusal::not_ready ? refusal::none : refusal::final_sent;
  }
  encode_answer(h, to);
  ack_due_ = ack_wanted_ = false;
  return true;
}

// The receive of a message that has begun is counted until the requester counts the message.
std::uint8_t responder::credits() noexcept
{
  const std::optional<std::uint64_t> posted = host_.posted_receives();
  const std::uint8_t code = posted ? credit_code(*posted + (has_receive_ ? 1 : 0)) : no_credits;
  announced_none_ = code == 0;
  return code;
}

bool responder::acknowledgement_due() noexcept
{
  return ack_due_ || (announced_none_ && host_.posted_receives().value_or(0) != 0);
}

bool responder::next_acknowledgement(frame& to, bool wanted) noexcept
{
  if (has_next() || !(wanted ? ack_wanted_ : acknowledgement_due()))
    return false;
  header h;
  h.op = opcode::acknowledge;
  h.syndrome = credits();
  h.psn = psn_add(expected_psn_, psn_mask);
  encode_answer(h, to);
  ack_due_ = ack_wanted_ = false;
  return true;
}

std::optional<std::uint32_t> responder::take_acknowledgement() noexcept
{
  // A refusal that is to come names a request that has not been carried out.
  if (has_next() || !acknowledgement_due())
    return std::nullopt;
  ack_due_ = ack_wanted_ = false;
  return psn_add(expected_psn_, psn_mask) | std::uint32_t{credits()} << psn_bits;
}

bool responder::gather(const frame& from, std::uint32_t offset, std::uint32_t size,
  pinned_buffers& to, std::uint64_t& done) noexcept
{
  const auto add = [&]
  { return pin(from.key, from.offset + offset, size, IBV_ACCESS_REMOTE_READ, to, done); };
  if (with_.kind != service_xrc)
    return add();
  host_.select_queue(from.srq);
  const bool good = add();
  host_.select_queue(srq_); // of the message that may be arriving
  return good;
}

void responder::unreadable(const frame& which, detail why) noexcept
{
  // The refusal names the read by its first PSN: nothing of it counts.
  if (why == detail_local_key)
    refuse(nak_remote_access, IBV_EVENT_QP_ACCESS_ERR);
  else
    refuse(nak_remote_operation, IBV_EVENT_QP_FATAL);
  refusal_psn_ = static_cast<std::uint32_t>(which.request);
  job_count_ = 0;
}

} // namespace rdma::software::protocol

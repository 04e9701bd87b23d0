//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/protocol/requester.hpp"
#include "verbs/software/protocol/responder.hpp"

// The behaviour of an unreliable connection's state machines (IBA 9.8) that differs from a reliable
// one's.

namespace rdma::software::protocol {

void requester::vanish() noexcept
{
  if (!running_ || failed_)
    return;
  if (frame_ != 0)
  {
    ++sending_; // the rest of the message is not sent, because it is useless
    frame_ = 0;
  }
  ++generation_;
  sent_psn_ = acked_psn_ = psn_add(next_psn_, psn_mask);
  advance();
}

void requester::discard() noexcept
{
  frame lost;
  while (next(lost))
    sent(lost);
}

void requester::recover() noexcept
{
  stopped_ = failed_ = failure_due_ = false;
  sent_psn_ = acked_psn_ = psn_add(next_psn_, psn_mask);
  running_ = true;
}

// A message with a missing part is dropped, and the next one is taken with any PSN (IBA 9.8.2.2).
verdict responder::receive_unreliable(const header& h) noexcept
{
  const unsigned traits = traits_of(h.op);
  const bool starts = (traits & trait_starts) != 0;
  const bool ends = (traits & trait_ends) != 0;
  const message kind = (traits & trait_send) != 0 ? message::send : message::write;
  if (h.psn != expected_psn_)
    message_ = message::none; // a part is missing
  expected_psn_ = h.psn;
  if (h.payload > with_.segment || (!ends && h.payload != with_.segment)
    || (ends && !starts && h.payload == 0) || (starts && message_ != message::none))
    return verdict::malformed;
  if (!starts && message_ != kind)
    return drop(); // the rest of a message that was dropped
  if (announce_)
  {
    announce_ = false;
    host_.raise(IBV_EVENT_COMM_EST);
  }
  return kind == message::send ? begin_send(h, traits) : begin_write(h, traits);
}

verdict responder::drop() noexcept
{
  message_ = message::none;
  expected_psn_ = psn_add(expected_psn_, 1);
  return verdict::discard;
}

} // namespace rdma::software::protocol

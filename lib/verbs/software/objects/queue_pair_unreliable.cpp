//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/objects/context.hpp"
#include "verbs/software/objects/queue_pair.hpp"

// What becomes of an unreliable connection's queue pair (IBA 9.8): nothing that the peer or the
// network does ends it.

namespace rdma::software {

void queue_pair::look_for_the_end_unreliable()
{
  if (broken || responder.failed())
  {
    enter_error(broken);
    return;
  }
  const std::int64_t now = wire::now();
  if (link.lost())
  {
    // The peer may come back under the same name. Until it does all that is sent is lost, as it
    // would be on a wire.
    responder.lose_message();
    requester.vanish();
    link.reopen(now);
    give_up_at = now;
  }
  if (link.established())
  {
    give_up_at = 0;
  }
  else if (requester.outstanding())
  {
    // At the beginning the peer may be late, and its first message is not lost for that.
    if (give_up_at == 0)
      give_up_at = now + std::chrono::nanoseconds(context_of.settings.retry_time_min).count();
    else if (now >= give_up_at)
      requester.discard();
  }
  if (current() == IBV_QPS_SQE)
  {
    requester.flush(); // what has been posted since
  }
  else if (requester.failed())
  {
    enter_send_error();
  }
  else if (draining && requester.drained())
  {
    draining = false;
    if (attributes.en_sqd_async_notify != 0)
      raise(IBV_EVENT_SQ_DRAINED);
  }
}

// A request of its own that cannot be carried out ends the sending of such a queue pair, not its
// receiving (IBA 10.3.1.6); ibv_modify_qp() to RTS takes it up again.
void queue_pair::enter_send_error()
{
  set_state(IBV_QPS_SQE);
  requester.flush();
}

} // namespace rdma::software

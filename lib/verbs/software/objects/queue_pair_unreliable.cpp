//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/objects/context.hpp"
#include "verbs/software/objects/queue_pair.hpp"

// The end of an unreliable connection's queue pair (IBA 9.8): neither the peer nor the network
// causes it.

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
    // The peer may come back under the same name. Until then messages are lost, as on a network.
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
    // At the beginning the peer may be late: the first message waits for it.
    if (give_up_at == 0)
      give_up_at = now + std::chrono::nanoseconds(context_of.settings.retry_time_min).count();
    else if (now >= give_up_at)
      requester.discard();
  }
  if (current() == IBV_QPS_SQE)
  {
    requester.flush(); // requests posted since
  }
  else if (requester.failed())
  {
    enter_send_error();
  }
  else
  {
    report_drained();
  }
}

} // namespace rdma::software

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/objects/shared_receive_queue.hpp"

#include "verbs/software/objects/completion_queue.hpp"
#include "verbs/software/objects/context.hpp"
#include "verbs/software/objects/memory.hpp"
#include "verbs/software/objects/queue_pair.hpp"

#include <algorithm>
#include <cerrno>
#include <new>

namespace rdma::software {

int fill(protocol::receive_queue& queue, std::uint32_t elements_max, ibv_recv_wr* wr,
  ibv_recv_wr** bad) noexcept
{
  const std::lock_guard lock(queue.mutex);
  for (; wr != nullptr; wr = wr->next)
  {
    int error = 0;
    if (wr->num_sge < 0 || static_cast<std::uint32_t>(wr->num_sge) > elements_max)
      error = EINVAL;
    else if (queue.is_full())
      error = ENOMEM;
    const std::uint64_t index = queue.posted.load(std::memory_order_relaxed);
    protocol::receive_request* const place = error == 0 ? queue.enter(index) : nullptr;
    if (error == 0 && place == nullptr)
      error = ENOMEM;
    if (error != 0)
    {
      *bad = wr;
      return error;
    }
    protocol::receive_request& r = *place;
    r.id = wr->wr_id;
    r.elements = static_cast<std::uint32_t>(wr->num_sge);
    r.length = 0;
    std::copy_n(wr->sg_list, r.elements, r.elements_begin());
    for (const ibv_sge& e : r.list())
      r.length += e.length;
    // release: the thread that takes it may not have the mutex
    queue.posted.store(index + 1, std::memory_order_release);
  }
  return 0;
}

bool take_oldest(protocol::receive_queue& queue, protocol::receive_work& to) noexcept
{
  protocol::receive_request* const r = queue.oldest();
  if (r == nullptr)
    return false;
  to.id = r->id;
  to.length = r->length;
  to.elements = r->elements;
  std::copy_n(r->elements_begin(), r->elements, to.storage.get());
  queue.take();
  return true;
}

bool shared_receive_queue::take(protocol::receive_work& to, std::uint32_t waiter) noexcept
{
  bool low = false;
  {
    const std::lock_guard lock(queue.mutex);
    if (!take_oldest(queue, to))
    {
      if (waiter != 0)
        await(waiter);
      return false;
    }
    // Once, until it is armed again (IBA 10.2.9.1).
    low = limit != 0 && queue.size() < limit;
    if (low)
      limit = 0;
  }
  if (low)
  {
    ibv_async_event event{};
    event.element.srq = this;
    event.event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
    device_context::of(context).events.raise(event);
  }
  return true;
}

void shared_receive_queue::await(std::uint32_t waiter) noexcept
{
  const std::uint32_t count = waiting.load(std::memory_order_relaxed);
  auto* const end = waiters.begin() + count;
  if (count == waiters.size() || std::find(waiters.begin(), end, waiter) != end)
    return;
  *end = waiter;
  waiting.store(count + 1, std::memory_order_relaxed);
}

// Relaxed: a waiter that found no receive had the mutex before the thread that posted one.
std::uint32_t shared_receive_queue::take_waiter() noexcept
{
  if (waiting.load(std::memory_order_relaxed) == 0)
    return 0;
  const std::lock_guard lock(queue.mutex);
  const std::uint32_t count = waiting.load(std::memory_order_relaxed);
  if (count == 0)
    return 0;
  const std::uint32_t first = waiters.front();
  std::copy(waiters.begin() + 1, waiters.begin() + count, waiters.begin());
  waiting.store(count - 1, std::memory_order_relaxed);
  return first;
}

ibv_srq* create_srq(ibv_pd* pd, ibv_srq_init_attr* with)
{
  device_context& owner = device_context::of(pd->context);
  if (owner.removed)
    return fail(EIO);
  if (with->attr.max_wr < 1 || with->attr.max_wr > owner.settings.max_work_requests
    || with->attr.max_sge > owner.settings.max_sge)
    return fail(EINVAL);
  object_place place(owner.shared_receive_queues);
  if (!place)
    return fail(ENOMEM);
  try
  {
    auto* made = new shared_receive_queue(with->attr.max_wr, std::max(with->attr.max_sge, 1u),
      static_cast<protection_domain*>(pd)->queues());
    made->context = pd->context;
    made->pd = pd;
    made->srq_context = with->srq_context;
    with->attr.max_sge = made->elements_max;
    static_cast<protection_domain*>(pd)->users.fetch_add(1, std::memory_order_relaxed);
    place.keep();
    return made;
  }
  catch (const std::bad_alloc&)
  {
    return fail(ENOMEM);
  }
}

int modify_srq(ibv_srq* srq, ibv_srq_attr* to, int mask)
{
  auto* queue = static_cast<shared_receive_queue*>(srq);
  const bool resizes = (mask & IBV_SRQ_MAX_WR) != 0;
  const bool arms = (mask & IBV_SRQ_LIMIT) != 0;
  const std::lock_guard lock(queue->queue.mutex);
  const std::uint32_t depth = resizes ? to->max_wr : queue->queue.depth();
  const std::uint32_t limit = arms ? to->srq_limit : queue->limit;
  if ((mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) != 0 || depth < 1
    || depth > device_context::of(srq->context).settings.max_work_requests || limit > depth
    || depth < queue->queue.size())
    return EINVAL;
  if (resizes && !queue->queue.resize(depth))
    return ENOMEM;
  queue->limit = limit;
  return 0;
}

int query_srq(ibv_srq* srq, ibv_srq_attr* to)
{
  auto* queue = static_cast<shared_receive_queue*>(srq);
  const std::lock_guard lock(queue->queue.mutex);
  to->max_wr = queue->queue.depth();
  to->max_sge = queue->elements_max;
  to->srq_limit = queue->limit;
  return 0;
}

int join_domain(ibv_srq& queue, ibv_xrcd& xrcd, ibv_cq& completions) noexcept
{
  auto& joining = static_cast<shared_receive_queue&>(queue);
  auto& domain = static_cast<xrc_domain&>(xrcd);
  joining.xrcd = &domain;
  joining.cq = &completions;
  domain.targets.users.fetch_add(1, std::memory_order_relaxed);
  static_cast<completion_queue&>(completions).users.fetch_add(1, std::memory_order_relaxed);
  return device_context::of(queue.context).xrc.add(joining);
}

namespace {

// No message reaches the queue any more. Returns 0 or an errno.
int leave_domain(shared_receive_queue& queue)
{
  device_context& owner = device_context::of(queue.context);
  owner.xrc.remove(queue);
  try
  {
    owner.engine.visit_all(
      [&](wire::progress_target& each)
      {
        auto* const target = dynamic_cast<queue_pair*>(&each);
        if (target != nullptr && target->qp_type == IBV_QPT_XRC_RECV)
          target->forget_queue(queue);
      });
  }
  catch (const std::bad_alloc&)
  {
    return ENOMEM;
  }
  queue.xrcd->targets.users.fetch_sub(1, std::memory_order_release);
  static_cast<completion_queue*>(queue.cq)->users.fetch_sub(1, std::memory_order_release);
  return 0;
}

} // namespace

int destroy_srq(ibv_srq* srq)
{
  auto* gone = static_cast<shared_receive_queue*>(srq);
  if (gone->users.load(std::memory_order_acquire) != 0)
    return EBUSY;
  device_context& owner = device_context::of(srq->context);
  if (gone->xrcd != nullptr)
    if (const int error = leave_domain(*gone); error != 0)
      return error;
  owner.events.forget(srq, gone->events);
  owner.shared_receive_queues.give_back();
  static_cast<protection_domain*>(srq->pd)->users.fetch_sub(1, std::memory_order_release);
  delete gone;
  return 0;
}

int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad)
{
  auto* queue = static_cast<shared_receive_queue*>(srq);
  const int error = fill(queue->queue, queue->elements_max, wr, bad);
  // One queue pair for each receive. Each then requests a repetition from its peer.
  for (const ibv_recv_wr* const end = error != 0 ? *bad : nullptr; wr != end; wr = wr->next)
  {
    // A queue pair that has been destroyed meanwhile does not count.
    std::uint32_t waiter = 0;
    do
      waiter = queue->take_waiter();
    while (
      waiter != 0 && !device_context::of(srq->context).engine.serve(waiter, wire::mover::poller));
    if (waiter == 0)
      break;
  }
  return error;
}

} // namespace rdma::software

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/objects/events.hpp"

#include "verbs/software/objects/completion_queue.hpp"
#include "verbs/software/objects/queue_pair_base.hpp"
#include "verbs/software/objects/shared_receive_queue.hpp"

#include <cerrno>
#include <sys/eventfd.h>
#include <sys/uio.h>

namespace rdma::software {
namespace {

struct subject
{
  const void* object = nullptr;
  event_count* count = nullptr;
  std::uint32_t* completed = nullptr; // as libibverbs counts
};

subject subject_of(const ibv_async_event& event)
{
  switch (event.event_type)
  {
  case IBV_EVENT_CQ_ERR:
    return {event.element.cq, &static_cast<completion_queue*>(event.element.cq)->events,
      &event.element.cq->async_events_completed};
  case IBV_EVENT_SRQ_ERR:
  case IBV_EVENT_SRQ_LIMIT_REACHED:
    return {event.element.srq, &static_cast<shared_receive_queue*>(event.element.srq)->events,
      &event.element.srq->events_completed};
  case IBV_EVENT_QP_FATAL:
  case IBV_EVENT_QP_REQ_ERR:
  case IBV_EVENT_QP_ACCESS_ERR:
  case IBV_EVENT_COMM_EST:
  case IBV_EVENT_SQ_DRAINED:
  case IBV_EVENT_QP_LAST_WQE_REACHED:
    return {event.element.qp, &static_cast<queue_pair_base*>(event.element.qp)->events,
      &event.element.qp->events_completed};
  default:
    return {};
  }
}

} // namespace

event_queue::event_queue()
  : fd_(::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC))
{
}

void event_queue::raise(const ibv_async_event& event) noexcept
{
  try
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(event);
  }
  catch (const std::bad_alloc&)
  {
    return; // completions report the error as well
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(fd_.get(), &one, sizeof one);
}

int event_queue::get(ibv_async_event& to)
{
  for (;;)
  {
    std::uint64_t one;
    if (::read(fd_.get(), &one, sizeof one) != sizeof one)
      return -1;
    const std::lock_guard lock(mutex_);
    if (waiting_.empty())
      continue; // its object has been destroyed
    to = waiting_.front();
    waiting_.pop_front();
    if (const subject s = subject_of(to); s.count != nullptr)
      ++s.count->given;
    return 0;
  }
}

void event_queue::acknowledge(const ibv_async_event& event)
{
  const std::lock_guard lock(mutex_);
  if (const subject s = subject_of(event); s.count != nullptr)
  {
    ++s.count->acknowledged;
    ++*s.completed;
  }
  acknowledged_.notify_all();
}

void event_queue::forget(const void* object, event_count& count)
{
  std::unique_lock lock(mutex_);
  auto forgotten = std::erase_if(waiting_,
    [object](const ibv_async_event& event) { return subject_of(event).object == object; });
  // Otherwise the descriptor would announce events that are gone. RWF_NOWAIT, because another
  // thread in get() may have taken the count; it then finds no event and waits again.
  for (; forgotten != 0; --forgotten)
  {
    std::uint64_t one;
    const iovec to{&one, sizeof one};
    if (::preadv2(fd_.get(), &to, 1, -1, RWF_NOWAIT) != sizeof one)
      break;
  }
  acknowledged_.wait(lock, [&] { return count.given == count.acknowledged; });
}

} // namespace rdma::software

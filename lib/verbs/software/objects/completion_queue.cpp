//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/objects/completion_queue.hpp"

#include "verbs/software/objects/context.hpp"
#include "verbs/software/objects/queue_pair_base.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <new>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

namespace rdma::software {

namespace {

// The channel that this thread is reading: events that it adds itself need no signal.
thread_local const completion_channel* looking_into = nullptr;

// A call of ibv_poll_cq() that makes progress. Completions that it finds itself go to its caller
// without a detour over the queue.
struct poll_call
{
  const completion_queue* queue;
  ibv_wc* to;
  int room;
};
thread_local poll_call* polling = nullptr;

// The sockets wake threads that wait for one of the first channels, and those threads do the work;
// for the others the engine does it. Linux permits a file in at most 500 epoll sets of sets, 100 if
// those are in sets again (path_limits in fs/eventpoll.c), and refuses to watch another socket
// beyond.
constexpr std::uint32_t channels_on_sockets_max = 32;

// A program with so many empty polls in a row spins; fewer may be one that empties a queue before
// it waits.
constexpr std::uint32_t spins_min = 16;

constexpr std::uint32_t look_although_busy_every = 256;

// A bound on one call. The next call, or the engine, continues.
constexpr unsigned scans_max = 64;

} // namespace

void completion_channel::notify(completion_queue& queue) noexcept
{
  {
    const std::lock_guard lock(mutex);
    if (queue.in_channel)
      return; // queued before, and not taken yet
    queue.in_channel = true;
    queue.next_in_channel = nullptr;
    (last != nullptr ? last->next_in_channel : first) = &queue;
    last = &queue;
    some.store(true, std::memory_order_relaxed);
    if (looking_into != this)
      raise();
  }
}

// The mutex is held, as for lower(). The descriptor is readable exactly while there are events for
// other threads than the one that is taking one. Each event is written, because an edge-triggered
// watch reports each.
void completion_channel::raise() noexcept
{
  const std::uint64_t one = 1;
  raised = true;
  [[maybe_unused]] const ssize_t n = ::write(signal.get(), &one, sizeof one);
}

void completion_channel::lower() noexcept
{
  std::uint64_t count;
  if (std::exchange(raised, false)) [[maybe_unused]]
    const ssize_t n = ::read(signal.get(), &count, sizeof count);
}

completion_queue* completion_channel::take() noexcept
{
  const std::lock_guard lock(mutex);
  completion_queue* found = first;
  if (found == nullptr)
    return nullptr;
  first = found->next_in_channel;
  if (first == nullptr)
  {
    last = nullptr;
    some.store(false, std::memory_order_relaxed);
    lower();
  }
  else if (!raised)
  {
    raise(); // this thread has added it, in get_cq_event()
  }
  found->in_channel = false;
  ++found->given;
  return found;
}

bool completion_queue::push(const ibv_wc& wc, std::uint32_t carrier, queue_pair_base* owner,
  bool sent, std::uint64_t next, bool solicited)
{
  // An empty queue contains no older completion of this queue pair, whose progress lock is held.
  if (poll_call* const by = polling; by != nullptr && by->queue == this && by->room != 0
      && held.load(std::memory_order_acquire) == 0 && !overrun.load(std::memory_order_relaxed)
      && armed.load(std::memory_order_relaxed) == arming::off)
  {
    *by->to++ = wc;
    --by->room;
    hint.store(carrier, std::memory_order_relaxed);
    if (sent)
      owner->sends.retired.store(next, std::memory_order_release);
    return true;
  }
  bool tell = false;
  {
    const std::lock_guard lock(guard);
    const std::size_t count = held.load(std::memory_order_relaxed);
    if (overrun.load(std::memory_order_relaxed) || count == depth)
    {
      if (overrun.exchange(true, std::memory_order_relaxed))
        return false;
      ibv_async_event event{};
      event.element.cq = this;
      event.event_type = IBV_EVENT_CQ_ERR;
      device_context::of(context).events.raise(event);
      return false;
    }
    const std::size_t end = head + count < depth
      ? head + count
      : head + count - depth; // a division costs more than the rest
    entry& to = entries[end];
    to.wc = wc;
    to.sender = sent ? owner : nullptr;
    to.next = next;
    if (stamps != nullptr)
      stamps[end] = wire::now();
    held.store(count + 1, std::memory_order_release);
    hint.store(carrier, std::memory_order_relaxed);
    // An unsuccessful completion counts as solicited (ibv_req_notify_cq(3)).
    const bool counts_as_solicited = solicited || wc.status != IBV_WC_SUCCESS;
    const arming now = armed.load(std::memory_order_relaxed);
    if (now == arming::any || (now == arming::solicited && counts_as_solicited))
    {
      disarm();
      tell = true;
    }
    else
    {
      unreported = count + 1;
      if (counts_as_solicited)
        unreported_solicited = count + 1;
    }
  }
  if (tell && channel != nullptr)
    static_cast<completion_channel*>(channel)->notify(*this);
  return true;
}

// The guard is held. An event reports all completions that the queue holds.
void completion_queue::disarm() noexcept
{
  armed.store(arming::off, std::memory_order_relaxed);
  if (std::exchange(depends, false))
    device_context::of(context).engine.depend(-1);
  unreported = unreported_solicited = 0;
}

void completion_queue::clean(const queue_pair_base& owner) noexcept
{
  const std::lock_guard lock(guard);
  const std::size_t count = held.load(std::memory_order_relaxed);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count; ++i)
  {
    const entry& e = entries[(head + i) % depth];
    if (e.wc.qp_num == owner.qp_num)
      continue;
    entries[(head + kept) % depth] = e;
    if (stamps != nullptr)
      stamps[(head + kept) % depth] = stamps[(head + i) % depth];
    ++kept;
  }
  held.store(kept, std::memory_order_release);
  // Possibly an event too many, but none too few.
  unreported = std::min(unreported, kept);
  unreported_solicited = std::min(unreported_solicited, kept);
}

int completion_queue::poll(int count, ibv_wc* to, std::int64_t* stamp)
{
  device_context& owner = device_context::of(context);
  if (owner.removed.load(std::memory_order_relaxed)) // relaxed: sooner or later is soon enough
    return 0;
  owner.engine.attend();
  // Neither count needs to be exact.
  const std::uint32_t look = turn.load(std::memory_order_relaxed);
  turn.store(look + 1, std::memory_order_relaxed);
  if (held.load(std::memory_order_acquire) == 0)
  {
    const std::uint32_t idle = spins.load(std::memory_order_relaxed);
    if (idle != spins_min)
      spins.store(idle + 1, std::memory_order_relaxed);
    poll_call call{this, to, has_stamps ? 0 : std::max(count, 0)};
    polling = &call;
    const bool several =
      owner.engine.poll(hint.load(std::memory_order_relaxed), look, idle == spins_min);
    polling = nullptr;
    if (several)
      turn.store(0, std::memory_order_relaxed); // everywhere again: see engine::poll()
    const auto found = static_cast<int>(call.to - to);
    return found + take(count - found, call.to, stamp);
  }
  else if (look % look_although_busy_every == 0)
  {
    // A program whose requests all complete directly, in the memory of a peer on this host, must
    // also detect the peer's end.
    owner.engine.poll_although_busy();
  }
  return take(count, to, stamp);
}

int completion_queue::take(int count, ibv_wc* to, std::int64_t* stamp) noexcept
{
  if (held.load(std::memory_order_acquire) == 0)
    return 0;
  const std::lock_guard lock(guard);
  const std::size_t have = held.load(std::memory_order_relaxed);
  if (stamp != nullptr && stamps != nullptr && have != 0)
    *stamp = stamps[head]; // extended polling takes one at a time
  const std::size_t n = std::min(have, static_cast<std::size_t>(std::max(count, 0)));
  for (std::size_t i = 0; i < n; ++i)
  {
    const entry& e = entries[head];
    to[i] = e.wc;
    if (e.sender != nullptr)
      e.sender->sends.retired.store(e.next, std::memory_order_release);
    head = head + 1 == depth ? 0 : head + 1;
  }
  if (n == have)
    head = 0; // a deep queue that is rarely full uses little memory
  unreported -= std::min(unreported, n);
  unreported_solicited -= std::min(unreported_solicited, n);
  held.store(have - n, std::memory_order_release);
  return static_cast<int>(n);
}

int completion_queue::arm(bool solicited_only)
{
  wire::engine& engine = device_context::of(context).engine;
  const bool has_channel = channel != nullptr;
  const bool on_sockets = has_channel
    && static_cast<completion_channel*>(channel)->on_sockets.load(std::memory_order_relaxed);
  bool missed = false;
  {
    const std::lock_guard lock(guard);
    if (!solicited_only)
      armed.store(arming::any, std::memory_order_relaxed);
    else if (armed.load(std::memory_order_relaxed) == arming::off)
      armed.store(arming::solicited, std::memory_order_relaxed);
    if (on_sockets && !std::exchange(stands_by, true))
      engine.stand_by(1);
    else if (has_channel && !on_sockets && !std::exchange(depends, true))
      engine.depend(1);
    // As mlx5 does: programs may wait for the event without another poll, which would find these.
    if (has_channel && (solicited_only ? unreported_solicited : unreported) != 0)
    {
      disarm();
      missed = true;
    }
  }
  if (missed)
    static_cast<completion_channel*>(channel)->notify(*this);
  spins.store(0, std::memory_order_relaxed);
  engine.look_away(); // after it is armed: what it finds is an event
  if (has_channel && !on_sockets)
    engine.take_over();
  return 0;
}

void completion_queue::rest() noexcept
{
  wire::engine& engine = device_context::of(context).engine;
  {
    const std::lock_guard lock(guard);
    armed.store(arming::off, std::memory_order_relaxed);
    if (std::exchange(stands_by, false))
      engine.stand_by(-1);
    if (std::exchange(depends, false))
      engine.depend(-1);
  }
  engine.polling_ended();
}

int completion_queue::resize(std::uint32_t wanted)
{
  const std::lock_guard lock(guard);
  const std::size_t count = held.load(std::memory_order_relaxed);
  if (wanted < count)
    return EINVAL; // ibv_resize_cq(3)
  std::unique_ptr<entry[]> larger(new (std::nothrow) entry[wanted]);
  std::unique_ptr<std::int64_t[]> larger_stamps(
    stamps != nullptr ? new (std::nothrow) std::int64_t[wanted] : nullptr);
  if (!larger || (stamps != nullptr && !larger_stamps))
    return ENOMEM;
  for (std::size_t i = 0; i < count; ++i)
  {
    larger[i] = entries[(head + i) % depth];
    if (stamps != nullptr)
      larger_stamps[i] = stamps[(head + i) % depth];
  }
  entries = std::move(larger);
  stamps = std::move(larger_stamps);
  depth = wanted;
  head = 0;
  cqe = static_cast<int>(wanted);
  return 0;
}

int completion_channel::wait_descriptor() noexcept
{
  const std::lock_guard lock(mutex);
  if (!set)
    watch_sockets();
  return set ? set.get() : fd;
}

void completion_channel::watch_sockets() noexcept
{
  device_context& owner = device_context::of(context);
  if (owner.channels_on_sockets.fetch_add(1, std::memory_order_relaxed) < channels_on_sockets_max)
  {
    wire::descriptor made(::epoll_create1(EPOLL_CLOEXEC));
    epoll_event event{};
    event.events = EPOLLIN;
    if (made && ::epoll_ctl(made.get(), EPOLL_CTL_ADD, fd, &event) == 0
      && ::epoll_ctl(made.get(), EPOLL_CTL_ADD, owner.engine.sockets(), &event) == 0)
    {
      set = std::move(made);
      on_sockets.store(true, std::memory_order_relaxed);
      return;
    }
  }
  owner.channels_on_sockets.fetch_sub(1, std::memory_order_relaxed);
}

ibv_comp_channel* create_comp_channel(ibv_context* context)
{
  std::unique_ptr<completion_channel> made(new (std::nothrow) completion_channel);
  if (!made)
    return fail(ENOMEM);
  made->signal = wire::descriptor(::eventfd(0, EFD_CLOEXEC));
  if (!made->signal)
    return nullptr;
  made->context = context;
  made->fd = made->signal.get();
  made->refcnt = 0;
  device_context::of(context).children.fetch_add(1, std::memory_order_relaxed);
  return made.release();
}

int destroy_comp_channel(ibv_comp_channel* channel)
{
  auto* gone = static_cast<completion_channel*>(channel);
  {
    const std::lock_guard lock(gone->mutex);
    if (gone->refcnt != 0)
      return EBUSY;
  }
  device_context& owner = device_context::of(channel->context);
  if (gone->set)
    owner.channels_on_sockets.fetch_sub(1, std::memory_order_relaxed);
  owner.children.fetch_sub(1, std::memory_order_release);
  delete gone;
  return 0;
}

ibv_cq* create_cq(
  ibv_context* context, int depth, void* user, ibv_comp_channel* channel, int vector)
{
  device_context& owner = device_context::of(context);
  if (owner.removed)
    return fail(EIO);
  if (depth < 1 || static_cast<std::uint32_t>(depth) > owner.settings.max_completions || vector < 0
    || vector >= context->num_comp_vectors)
    return fail(EINVAL);
  object_place place(owner.completion_queues);
  std::unique_ptr<completion_queue> made(new (std::nothrow) completion_queue);
  if (!place || !made
    || (made->entries.reset(
          new (std::nothrow) completion_queue::entry[static_cast<std::size_t>(depth)]),
      !made->entries))
    return fail(ENOMEM);
  place.keep();
  made->context = context;
  made->channel = channel;
  made->cq_context = user;
  made->handle = 0;
  made->cqe = depth;
  made->depth = static_cast<std::size_t>(depth);
  made->comp_events_completed = made->async_events_completed = 0;
  if (channel != nullptr)
  {
    auto* shared = static_cast<completion_channel*>(channel);
    const std::lock_guard lock(shared->mutex);
    ++shared->refcnt;
  }
  owner.children.fetch_add(1, std::memory_order_relaxed);
  return made.release();
}

int resize_cq(ibv_cq* cq, int depth)
{
  if (depth < 1
    || static_cast<std::uint32_t>(depth) > device_context::of(cq->context).settings.max_completions)
    return EINVAL;
  return static_cast<completion_queue*>(cq)->resize(static_cast<std::uint32_t>(depth));
}

int destroy_cq(ibv_cq* cq)
{
  auto* gone = static_cast<completion_queue*>(cq);
  if (gone->users.load(std::memory_order_acquire) != 0)
    return EBUSY;
  device_context& owner = device_context::of(cq->context);
  gone->rest();
  owner.events.forget(cq, gone->events);
  if (auto* channel = static_cast<completion_channel*>(cq->channel))
  {
    std::unique_lock lock(channel->mutex);
    if (gone->in_channel)
    {
      completion_queue** link = &channel->first;
      channel->last = nullptr;
      while (*link != nullptr)
      {
        if (*link == gone)
        {
          *link = gone->next_in_channel;
          continue;
        }
        channel->last = *link;
        link = &(*link)->next_in_channel;
      }
      if (channel->first == nullptr)
      {
        channel->some.store(false, std::memory_order_relaxed);
        channel->lower();
      }
    }
    channel->acknowledged.wait(lock, [&] { return gone->given == gone->acknowledged; });
    --channel->refcnt;
  }
  owner.completion_queues.give_back();
  owner.children.fetch_sub(1, std::memory_order_release);
  delete gone;
  return 0;
}

int poll_cq(ibv_cq* cq, int count, ibv_wc* to)
{
  return static_cast<completion_queue*>(cq)->poll(count, to);
}

int wait_descriptor(ibv_comp_channel* channel)
{
  return static_cast<completion_channel*>(channel)->wait_descriptor();
}

bool found_work(const ibv_comp_channel* channel)
{
  return static_cast<const completion_channel*>(channel)->found.load(std::memory_order_relaxed);
}

void rest(ibv_cq* cq)
{
  static_cast<completion_queue*>(cq)->rest();
}

int req_notify_cq(ibv_cq* cq, int solicited_only)
{
  return static_cast<completion_queue*>(cq)->arm(solicited_only != 0);
}

int get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** user)
{
  auto* from = static_cast<completion_channel*>(channel);
  wire::engine& engine = device_context::of(channel->context).engine;
  for (;;)
  {
    completion_queue* found = from->take();
    if (found == nullptr)
    {
      // Reads all: an edge-triggered watch reports the sockets only once.
      engine.attend();
      looking_into = from;
      unsigned scans = 0;
      while (scans != scans_max && !from->some.load(std::memory_order_relaxed) && engine.scan())
        ++scans;
      looking_into = nullptr;
      from->found.store(scans != 0, std::memory_order_relaxed);
      found = from->take();
    }
    if (found != nullptr)
    {
      *cq = found;
      *user = found->cq_context;
      return 0;
    }
    const int flags = ::fcntl(channel->fd, F_GETFL);
    if (flags < 0)
      return -1;
    if ((flags & O_NONBLOCK) != 0)
      return fail_call(EAGAIN);
    pollfd readable{from->wait_descriptor(), POLLIN, 0};
    if (::poll(&readable, 1, -1) < 0)
      return -1;
  }
}

void ack_cq_events(ibv_cq* cq, unsigned count)
{
  auto* channel = static_cast<completion_channel*>(cq->channel);
  if (channel == nullptr || count == 0)
    return;
  const std::lock_guard lock(channel->mutex);
  static_cast<completion_queue*>(cq)->acknowledged += count;
  cq->comp_events_completed += count;
  channel->acknowledged.notify_all();
}

} // namespace rdma::software

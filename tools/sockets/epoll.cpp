//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "sockets/epoll.hpp"

#include "sockets/progress.hpp"
#include "sockets/table.hpp"

#include <algorithm>
#include <cstdint>
#include <new>
#include <utility>

#include <sys/eventfd.h>

namespace rdma::sockets {
namespace {

// The bits of epoll_event::events that are not events.
constexpr std::uint32_t not_events =
  EPOLLET | EPOLLONESHOT | EPOLLWAKEUP | static_cast<std::uint32_t>(EPOLLEXCLUSIVE);

// The kernel's set is looked at in every so many waits while there are other events.
constexpr unsigned kernel_turn = 8;

// The data of the descriptor that wakes threads in the kernel: no program's, by chance.
constexpr std::uint64_t wake_up_data = 0x9bc1'6a3f'e07d'52c4;

int wake_up_descriptor() noexcept
{
  static const int fd = ::eventfd(1, EFD_CLOEXEC); // always readable
  return fd;
}

} // namespace

class epoll_set::member final : public watcher
{
public:
  member(epoll_set& set, int number, std::shared_ptr<description> what, const epoll_event& event)
    : fd(number)
    , target(std::move(what))
    , wanted(event)
    , set_(set)
  {
  }
  member(const member&) = delete;
  member& operator=(const member&) = delete;
  ~member() { unwatch(); }

  void changed() noexcept override { set_.queue(*this, wakes::watchers); }

  void watch()
  {
    const source now{.connection = target->connection.get(), .set = target->polled.get()};
    now.watch(*this);
    watched_ = now;
  }
  void unwatch() noexcept
  {
    watched_.unwatch(*this);
    watched_ = {};
  }

  [[nodiscard]] std::uint32_t ready_events() const noexcept
  {
    const short now = target->connection ? target->connection->events() : target->polled->events();
    if (target->connection && target->connection->current() == socket::state::kernel)
      return 0; // since a moment ago
    return static_cast<std::uint16_t>(with_normal_band(now))
      & ((wanted.events & ~not_events) | EPOLLERR | EPOLLHUP);
  }

  /// With EPOLLET. Something has changed, but room that was reported and not used up is no news.
  bool is_edge(std::uint32_t events, unsigned times_full) noexcept
  {
    const bool has_room = (events & EPOLLOUT) != 0;
    const bool is_room_only = (events & ~std::uint32_t{EPOLLOUT | EPOLLWRNORM}) == 0;
    if (is_room_only && reported_room_ == times_full)
      return false;
    if (has_room)
      reported_room_ = times_full;
    return true;
  }
  void forget_edges() noexcept { reported_room_.reset(); }

  // With mutex_:
  const int fd;
  std::shared_ptr<description> target;
  epoll_event wanted;
  bool in_kernel = false;
  bool is_disabled = false; // EPOLLONESHOT

  // With ready_mutex_:
  bool is_queued = false;
  member* previous = nullptr;
  member* next = nullptr;

private:
  epoll_set& set_;
  source watched_;
  std::optional<unsigned> reported_room_; // description::times_full when room was reported
};

epoll_set::epoll_set(std::weak_ptr<description> self) noexcept
  : self_(std::move(self))
{
}

epoll_set::~epoll_set() = default;

// --- the ready list ---

void epoll_set::queue(member& which, wakes whom) noexcept
{
  const std::lock_guard lock(ready_mutex_);
  if (!which.is_queued)
  {
    which.is_queued = true;
    which.previous = std::exchange(last_, &which);
    which.next = nullptr;
    (which.previous != nullptr ? which.previous->next : first_) = &which;
    ++count_;
  }
  if (whom == wakes::watchers)
    for (watcher* const each : watchers_)
      each->changed();
}

void epoll_set::unqueue(member& which) noexcept
{
  if (!which.is_queued)
    return;
  which.is_queued = false;
  (which.previous != nullptr ? which.previous->next : first_) = which.next;
  (which.next != nullptr ? which.next->previous : last_) = which.previous;
  --count_;
}

epoll_set::member* epoll_set::next_ready() noexcept
{
  const std::lock_guard lock(ready_mutex_);
  member* const found = first_;
  if (found != nullptr)
    unqueue(*found);
  return found;
}

std::size_t epoll_set::ready_count() noexcept
{
  const std::lock_guard lock(ready_mutex_);
  return count_;
}

void epoll_set::watch(watcher& by)
{
  const std::lock_guard lock(ready_mutex_);
  watchers_.push_back(&by);
}

void epoll_set::unwatch(watcher& by) noexcept
{
  const std::lock_guard lock(ready_mutex_);
  std::erase(watchers_, &by);
}

// --- members ---

epoll_set::member* epoll_set::find(int fd, const description* target) noexcept
{
  const auto at = members_.find(fd);
  if (at == members_.end())
    return nullptr;
  if (at->second->target.get() == target)
    return at->second.get();
  // The descriptor belongs to another socket now; a duplicate of the former one remains open.
  erase(*at->second);
  return nullptr;
}

void epoll_set::erase(member& which) noexcept
{
  which.unwatch(); // afterwards nobody queues it
  {
    const std::lock_guard lock(ready_mutex_);
    unqueue(which);
  }
  members_.erase(which.fd);
}

// Moves the member between the kernel's set and this one, as its connection's state demands.
// Returns true if it belongs here.
bool epoll_set::settle(int fd_of_set, member& which) noexcept
{
  if (which.target->polled)
    return true;
  const bool is_open = table::find_any(which.fd) == which.target;
  const int fd = is_open ? which.fd : table::descriptor_of(*which.target);
  if (which.target->connection && takes(*which.target, fd))
  {
    if (which.in_kernel)
      original::epoll_ctl(fd_of_set, EPOLL_CTL_DEL, fd, nullptr);
    which.in_kernel = false;
    begin_use(fd_of_set);
    return true;
  }
  if (!which.in_kernel)
  {
    epoll_event event = which.wanted;
    if (which.is_disabled)
      event.events &= not_events;
    which.in_kernel = original::epoll_ctl(fd_of_set, EPOLL_CTL_ADD, fd, &event) == 0;
  }
  return false;
}

int epoll_set::control(int fd_of_set, int operation, int fd, epoll_event* event,
  const std::shared_ptr<description>& target)
{
  const std::lock_guard lock(mutex_);
  member* const found = find(fd, target.get());
  if (event == nullptr && operation != EPOLL_CTL_DEL)
    return fail(EFAULT);
  if (operation == EPOLL_CTL_ADD)
    return found != nullptr ? fail(EEXIST) : add(fd_of_set, fd, *event, target);
  if (found != nullptr && operation == EPOLL_CTL_MOD)
    return modify(fd_of_set, *found, *event);
  if (found != nullptr && operation == EPOLL_CTL_DEL)
    return remove(fd_of_set, *found);
  return original::epoll_ctl(fd_of_set, operation, fd, event);
}

int epoll_set::add(
  int fd_of_set, int fd, const epoll_event& event, std::shared_ptr<description> target)
{
  if (target && target->listening)
    target->listening->use();
  const bool is_set = target && target->polled;
  const bool is_ours = target && target->connection && takes(*target, fd);
  if (is_ours && (event.events & EPOLLEXCLUSIVE) != 0 && (event.events & EPOLLONESHOT) != 0)
    return fail(EINVAL);
  if (!is_ours)
  {
    // The kernel finds errors, also loops of sets.
    epoll_event copy = event;
    if (original::epoll_ctl(fd_of_set, EPOLL_CTL_ADD, fd, &copy) != 0)
      return -1;
    // Boost.Asio adds sockets before it connects them.
    if (!target && is_unconnected_tcp(fd))
    {
      target = std::make_shared<description>();
      table::enter(fd, target, table::kind::direct);
    }
    const bool may_become_ours = target
      && (!target->connection || target->connection->current() != socket::state::kernel)
      && !target->listening;
    if (!may_become_ours)
      return 0;
  }
  auto made = std::make_unique<member>(*this, fd, target, event);
  member& m = *made;
  m.in_kernel = !is_ours;
  m.watch();
  members_.emplace(fd, std::move(made));
  table::add_set(*target, self_);
  if (is_ours || is_set || target->connection) // which may be the library's when it is read
    begin_use(fd_of_set);
  if (is_ours || is_set)
  {
    queue(m, wakes::watchers); // it may be ready already
  }
  return 0;
}

int epoll_set::modify(int fd_of_set, member& which, epoll_event& event)
{
  if (!which.in_kernel && ((event.events | which.wanted.events) & EPOLLEXCLUSIVE) != 0)
    return fail(EINVAL);
  if (which.in_kernel && original::epoll_ctl(fd_of_set, EPOLL_CTL_MOD, which.fd, &event) != 0)
    return -1;
  which.wanted = event;
  which.is_disabled = false;
  which.forget_edges();
  queue(which, wakes::watchers);
  return 0;
}

int epoll_set::remove(int fd_of_set, member& which)
{
  const bool in_kernel = which.in_kernel;
  const int fd = which.fd;
  erase(which);
  return in_kernel ? original::epoll_ctl(fd_of_set, EPOLL_CTL_DEL, fd, nullptr) : 0;
}

void epoll_set::replace(
  int fd_of_set, const description& before, const std::shared_ptr<description>& now) noexcept
{
  const std::lock_guard lock(mutex_);
  for (auto& [fd, m] : members_)
    if (m->target.get() == &before)
    {
      m->unwatch();
      m->target = now;
      m->watch();
      table::add_set(*now, self_);
      if (settle(fd_of_set, *m))
        queue(*m, wakes::watchers);
    }
}

void epoll_set::forget(int fd_of_set, const description& what, int fd) noexcept
{
  const std::lock_guard lock(mutex_);
  for (auto at = members_.begin(); at != members_.end();)
  {
    member& m = *at->second;
    ++at;
    if (m.target.get() == &what)
      erase(m);
  }
  // The library may have a duplicate of the descriptor, so the kernel does not remove it.
  // A child of fork(2) shares the kernel's set with its parent, which keeps the descriptor.
  const kept_errno kept;
  if (what.connection && fd_of_set != -1 && made_in_ == table::generation())
    original::epoll_ctl(fd_of_set, EPOLL_CTL_DEL, fd, nullptr);
}

short epoll_set::events() noexcept
{
  const std::lock_guard lock(mutex_);
  for (std::size_t left = ready_count(); left != 0; --left)
    if (member* const m = next_ready(); m != nullptr)
    {
      // A member that leaves for the kernel stays queued until the next wait, which moves it.
      const bool leaves = m->target->connection && !m->in_kernel
        && m->target->connection->current() == socket::state::kernel;
      const bool is_kernels = m->target->connection && m->in_kernel;
      if (m->is_disabled || is_kernels || (!leaves && m->ready_events() == 0))
        continue;
      queue(*m, wakes::nobody);
      return POLLIN;
    }
  return 0;
}

// --- waiting ---

int epoll_set::take_ours(int fd_of_set, epoll_event* to, int max)
{
  int count = 0;
  const std::lock_guard lock(mutex_);
  for (std::size_t left = ready_count(); left != 0 && count < max; --left)
  {
    member* const m = next_ready();
    if (m == nullptr)
      break;
    if (!settle(fd_of_set, *m))
    {
      if (m->target->connection && m->target->connection->current() == socket::state::kernel)
        erase(*m);
      continue;
    }
    const unsigned times_full = m->target->times_full; // before the events, as a send counts it
    const std::uint32_t events = m->is_disabled ? 0 : m->ready_events();
    const bool is_edge_triggered = (m->wanted.events & EPOLLET) != 0;
    if (events == 0 || (is_edge_triggered && !m->is_edge(events, times_full)))
      continue;
    to[count++] = {.events = events, .data = m->wanted.data};
    if ((m->wanted.events & EPOLLONESHOT) != 0)
      m->is_disabled = true;
    else if (!is_edge_triggered)
      queue(*m, wakes::nobody); // level triggered: looked at again, after the others
  }
  return count;
}

int epoll_set::take(int fd_of_set, epoll_event* to, int max)
{
  const auto take_kernels = [&](int from, int up_to)
  {
    return without_wake_up(
      to + from, original::epoll_pwait(fd_of_set, to + from, up_to, 0, nullptr));
  };
  if (turns_.fetch_add(1, std::memory_order_relaxed) % kernel_turn == 0)
  {
    const int first = take_kernels(0, std::max(max / 2, 1));
    if (first == -1)
      return -1;
    return first + (first < max ? take_ours(fd_of_set, to + first, max - first) : 0);
  }
  const int first = take_ours(fd_of_set, to, max);
  return first != 0 ? first : take_kernels(0, max);
}

// The sleep of a thread in a set: until a member may be ready, or the kernel's set has events.
class epoll_set::sleep final : public sockets::wait
{
public:
  sleep(epoll_set& set, int fd)
    : set_(set)
    , source_{.set = &set}
  {
    kernel_.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  }

private:
  bool ready() override { return kernel_[0].revents != 0 || set_.ready_count() != 0; }
  std::span<const source> sources() override { return {&source_, 1}; }

  epoll_set& set_;
  const source source_;
};

int epoll_set::wait(
  int fd_of_set, epoll_event* to, int max, std::optional<time_point> deadline, const sigset_t* mask)
{
  for (;;)
  {
    progress::poll();
    const int count = take(fd_of_set, to, max);
    if (count != 0 || (deadline && std::chrono::steady_clock::now() >= *deadline))
      return count;
    sleep here(*this, fd_of_set);
    switch (here.run(deadline, mask))
    {
    case sleep::outcome::interrupted:
      return fail(EINTR);
    case sleep::outcome::timed_out:
      return take(fd_of_set, to, max);
    case sleep::outcome::ready:
      break;
    }
  }
}

// Wakes the threads that sleep in the kernel only.
void epoll_set::begin_use(int fd_of_set) noexcept
{
  if (is_used_.exchange(true) || in_kernel_ == 0)
    return;
  epoll_event event{.events = EPOLLIN, .data = {.u64 = wake_up_data}};
  if (original::epoll_ctl(fd_of_set, EPOLL_CTL_ADD, wake_up_descriptor(), &event) != 0)
    return;
  has_wake_up_ = true;
  remove_wake_up(fd_of_set);
}

void epoll_set::remove_wake_up(int fd_of_set) noexcept
{
  const kept_errno kept;
  if (in_kernel_ == 0 && has_wake_up_.exchange(false))
    original::epoll_ctl(fd_of_set, EPOLL_CTL_DEL, wake_up_descriptor(), nullptr);
}

int epoll_set::without_wake_up(epoll_event* events, int count) noexcept
{
  if (count <= 0)
    return count;
  epoll_event* const end = std::remove_if(
    events, events + count, [](const epoll_event& each) { return each.data.u64 == wake_up_data; });
  return static_cast<int>(end - events);
}

void epoll_set::after_fork() noexcept
{
  const bool was_free = mutex_.try_lock();
  new (&mutex_) std::mutex();
  new (&ready_mutex_) std::mutex();
  new (&watchers_) std::vector<watcher*>(); // of threads of the parent; the old one may be invalid
  first_ = last_ = nullptr;
  count_ = 0;
  in_kernel_ = 0;
  if (!was_free)
  {
    new (&members_) decltype(members_)(); // the old one may be invalid
    return;
  }
  for (auto& [fd, m] : members_)
  {
    m->is_queued = false;
    queue(*m, wakes::nobody);
  }
}

// --- the C library's functions ---

namespace {

template <class Wait>
int wait_in_set(int fd, epoll_event* to, int max, std::optional<time_point> deadline,
  const sigset_t* mask, Wait&& in_kernel)
{
  if (is_internal() || !table::has(fd) || to == nullptr || max <= 0)
    return in_kernel();
  const std::shared_ptr<description> d = table::find(fd);
  if (!d || !d->polled)
    return in_kernel();
  {
    const internal_call here;
    make_progress();
  }
  if (const std::optional<int> count = d->polled->wait_in_kernel(fd, to, in_kernel))
    return *count;
  const internal_call here;
  return guarded<int>([&] { return d->polled->wait(fd, to, max, deadline, mask); });
}

int new_set(int fd)
{
  if (fd == -1 || is_internal())
    return fd;
  const internal_call here;
  const int result = guarded<int>(
    [&]
    {
      auto d = std::make_shared<description>();
      d->polled = std::make_shared<epoll_set>(d);
      table::enter(fd, d, table::kind::ours);
      return fd;
    });
  if (result == -1)
    original::close(fd);
  return result;
}

} // namespace

BOOST_RDMA_SOCKETS_EXPORT(int, epoll_create, (int size))
{
  return new_set(original::epoll_create(size));
}

BOOST_RDMA_SOCKETS_EXPORT(int, epoll_create1, (int flags))
{
  return new_set(original::epoll_create1(flags));
}

BOOST_RDMA_SOCKETS_EXPORT(int, epoll_ctl, (int set, int operation, int fd, epoll_event* event))
{
  if (is_internal() || !table::has(set))
    return original::epoll_ctl(set, operation, fd, event);
  const std::shared_ptr<description> d = table::find(set);
  if (!d || !d->polled)
    return original::epoll_ctl(set, operation, fd, event);
  const internal_call here;
  return guarded<int>(
    [&] { return d->polled->control(set, operation, fd, event, table::find_any(fd)); });
}

BOOST_RDMA_SOCKETS_EXPORT(int, epoll_wait, (int set, epoll_event* to, int max, int timeout))
{
  return wait_in_set(set, to, max, deadline_after(timeout), nullptr,
    [=] { return original::epoll_wait(set, to, max, timeout); });
}

BOOST_RDMA_SOCKETS_EXPORT(
  int, epoll_pwait, (int set, epoll_event* to, int max, int timeout, const sigset_t* mask))
{
  return wait_in_set(set, to, max, deadline_after(timeout), mask,
    [=] { return original::epoll_pwait(set, to, max, timeout, mask); });
}

BOOST_RDMA_SOCKETS_EXPORT(int, epoll_pwait2,
  (int set, epoll_event* to, int max, const timespec* timeout, const sigset_t* mask))
{
  return wait_in_set(set, to, max, deadline_after(timeout), mask,
    [=] { return original::epoll_pwait2(set, to, max, timeout, mask); });
}

} // namespace rdma::sockets

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "sockets/table.hpp"

#include "sockets/epoll.hpp"
#include "sockets/report.hpp"
#include "sockets/system.hpp"

#include <algorithm>
#include <mutex>
#include <new>

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

namespace rdma::sockets {
namespace table {

constinit std::array<std::atomic<block*>, blocks_max> blocks{};

namespace {

// Protects all changes. No function of a socket or set is called while it is locked. It must exist
// before constructors run and after destructors.
constinit std::mutex changes;
constinit std::atomic<int> connections{0}; // descriptors of them
constinit std::atomic<pid_t> owner{0};
constinit std::atomic<unsigned> forks{0};

class entry_lock
{
public:
  explicit entry_lock(entry& e) noexcept
    : entry_(e)
  {
    // A holder copies or moves a pointer, and makes no system call.
    while (entry_.locked.test_and_set(std::memory_order_acquire))
      ::sched_yield();
  }
  entry_lock(const entry_lock&) = delete;
  entry_lock& operator=(const entry_lock&) = delete;
  ~entry_lock() { entry_.locked.clear(std::memory_order_release); }

private:
  entry& entry_;
};

std::shared_ptr<description> copy(entry& e) noexcept
{
  const entry_lock lock(e);
  return e.holds;
}

// With the mutex `changes`.
entry& make(int fd)
{
  const auto number = static_cast<unsigned>(fd);
  if (number >= block_size * blocks_max)
    throw std::bad_alloc();
  std::atomic<block*>& at = blocks[number / block_size];
  if (at.load(std::memory_order_relaxed) == nullptr)
    at.store(new block(), std::memory_order_release); // never deleted: other threads look it up
  return (*at.load(std::memory_order_relaxed))[number % block_size];
}

void put(int fd, const std::shared_ptr<description>& what, kind is, bool close_on_exec)
{
  entry& e = make(fd);
  what->descriptors.push_back(fd);
  {
    const entry_lock lock(e);
    e.holds = what;
    e.close_on_exec = close_on_exec;
  }
  e.is.store(is, std::memory_order_release);
  if (what->connection)
    connections.fetch_add(1, std::memory_order_relaxed);
}

// With the mutex `changes`. Returns what the descriptor had.
std::shared_ptr<description> take(int fd, entry& e) noexcept
{
  std::shared_ptr<description> taken;
  e.is.store(kind::none, std::memory_order_relaxed);
  {
    const entry_lock lock(e);
    taken.swap(e.holds);
  }
  if (taken)
  {
    std::erase(taken->descriptors, fd);
    if (taken->connection)
      connections.fetch_sub(1, std::memory_order_relaxed);
  }
  return taken;
}

bool resets_when_closed(int fd) noexcept
{
  linger value{};
  socklen_t size = sizeof value;
  return original::getsockopt(fd, SOL_SOCKET, SO_LINGER, &value, &size) == 0 && value.l_onoff != 0
    && value.l_linger == 0;
}

// The program has closed the last descriptor of it, `fd`, which the kernel still has.
void end(const std::shared_ptr<description>& d, int fd) noexcept
{
  std::vector<std::weak_ptr<description>> sets;
  {
    const std::lock_guard lock(changes);
    sets.swap(d->sets);
  }
  for (const std::weak_ptr<description>& weak : sets)
    if (const std::shared_ptr<description> set = weak.lock())
      set->polled->forget(table::descriptor_of(*set), *d, fd);
  if (d->connection)
  {
    report::closing(*d, fd);
    d->connection->close(resets_when_closed(fd));
  }
  if (d->listening)
    d->listening->close();
}

// fork(2): the mutex is free in the child, and no entry is being changed.
void before_fork() noexcept
{
  changes.lock();
}
void after_fork() noexcept
{
  changes.unlock();
}
void after_fork_in_child() noexcept
{
  changes.unlock();
  owner.store(::getpid(), std::memory_order_relaxed);
  forks.fetch_add(1, std::memory_order_relaxed);
  // Threads that do not exist in the child may have been reading entries.
  for (const std::atomic<block*>& each : blocks)
    if (block* const b = each.load(std::memory_order_relaxed))
      for (entry& e : *b)
      {
        e.locked.clear(std::memory_order_relaxed);
        if (e.holds && e.holds->polled)
          e.holds->polled->after_fork();
        if (e.holds && e.holds->connection)
          e.holds->connection->after_fork();
      }
  report::after_fork();
}

[[gnu::constructor]] void begin()
{
  owner.store(::getpid(), std::memory_order_relaxed);
  ::pthread_atfork(&before_fork, &after_fork, &after_fork_in_child);
}

} // namespace

std::shared_ptr<description> find(int fd) noexcept
{
  entry* const e = look_up(fd);
  return e != nullptr && e->is.load(std::memory_order_acquire) == kind::ours ? copy(*e) : nullptr;
}

std::shared_ptr<description> find_any(int fd) noexcept
{
  entry* const e = look_up(fd);
  return e != nullptr ? copy(*e) : nullptr;
}

void enter(int fd, const std::shared_ptr<description>& to, kind is)
{
  std::shared_ptr<description> before; // destroyed after the mutex is unlocked
  std::vector<std::weak_ptr<description>> sets;
  {
    const std::lock_guard lock(changes);
    before = copy(make(fd));
    std::vector<int> descriptors{fd};
    if (before)
    {
      descriptors = before->descriptors;
      sets.swap(before->sets);
    }
    to->number = fd;
    for (const int each : descriptors)
    {
      take(each, make(each));
      put(each, to, is, false);
    }
  }
  for (const std::weak_ptr<description>& weak : sets)
    if (const std::shared_ptr<description> set = weak.lock())
      set->polled->replace(table::descriptor_of(*set), *before, to);
  if (to->listening && !sets.empty())
    to->listening->use();
}

int descriptor_of(const description& d) noexcept
{
  const std::lock_guard lock(changes);
  return d.descriptors.empty() ? -1 : d.descriptors.front();
}

void add_set(description& d, std::weak_ptr<description> set)
{
  const std::lock_guard lock(changes);
  for (const std::weak_ptr<description>& each : d.sets)
    if (!each.owner_before(set) && !set.owner_before(each))
      return;
  d.sets.push_back(std::move(set));
}

void share(int from, int to, bool close_on_exec)
{
  const std::lock_guard lock(changes);
  entry* const e = look_up(from);
  if (e == nullptr)
    return;
  const std::shared_ptr<description> d = copy(*e);
  if (!d)
    return;
  put(to, d, e->is.load(std::memory_order_relaxed), close_on_exec);
  if (d->noted != socket::state::undecided && d->noted != socket::state::kernel)
    original::fcntl(to, F_SETFD, FD_CLOEXEC);
}

void close(int fd) noexcept
{
  if (look_up(fd) == nullptr || is_borrowed())
    return;
  std::shared_ptr<description> last;
  {
    const std::lock_guard lock(changes);
    entry* const e = look_up(fd);
    if (e == nullptr)
      return;
    last = take(fd, *e);
    if (!last || !last->descriptors.empty())
      return;
  }
  end(last, fd);
}

void close(unsigned first, unsigned last) noexcept
{
  if (is_borrowed())
    return;
  last = std::min(last, block_size * blocks_max - 1);
  while (first <= last)
  {
    const block* const b = blocks[first / block_size].load(std::memory_order_acquire);
    const unsigned next = (first / block_size + 1) * block_size;
    if (b != nullptr)
      for (unsigned fd = first; fd <= last && fd < next; ++fd)
        close(static_cast<int>(fd));
    first = next;
  }
}

bool close_on_exec(int fd) noexcept
{
  const std::lock_guard lock(changes);
  const entry* const e = look_up(fd);
  return e != nullptr && e->close_on_exec;
}

void set_close_on_exec(int fd, bool to) noexcept
{
  const std::lock_guard lock(changes);
  if (entry* const e = look_up(fd))
    e->close_on_exec = to;
}

bool has_connections() noexcept
{
  return connections.load(std::memory_order_relaxed) != 0;
}

std::vector<std::shared_ptr<description>> all()
{
  std::vector<std::shared_ptr<description>> found;
  const std::lock_guard lock(changes);
  for (const std::atomic<block*>& each : blocks)
    if (block* const b = each.load(std::memory_order_relaxed))
      for (entry& e : *b)
        if (e.holds && std::find(found.begin(), found.end(), e.holds) == found.end())
          found.push_back(e.holds);
  return found;
}

void hide(description& d) noexcept
{
  const std::lock_guard lock(changes);
  for (const int fd : d.descriptors)
    if (entry* const e = look_up(fd))
    {
      e->close_on_exec = (original::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0;
      original::fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
}

void release(description& d) noexcept
{
  const std::lock_guard lock(changes);
  const bool is_hidden = d.noted != socket::state::undecided;
  for (const int fd : d.descriptors)
    if (entry* const e = look_up(fd))
    {
      if (is_hidden)
        original::fcntl(fd, F_SETFD, e->close_on_exec ? FD_CLOEXEC : 0);
      e->is.store(kind::direct, std::memory_order_relaxed);
    }
}

bool is_borrowed() noexcept
{
  return ::getpid() != owner.load(std::memory_order_relaxed);
}

unsigned generation() noexcept
{
  return forks.load(std::memory_order_relaxed);
}

} // namespace table

namespace {

// The state has changed since the last call.
void note(description& d, socket::state now) noexcept
{
  const kept_errno kept;
  if (now == socket::state::kernel)
    table::release(d);
  else if (d.noted == socket::state::undecided)
    table::hide(d);
  if (d.noted == socket::state::undecided)
    d.used_by = ::getpid();
  d.noted = now;
  report::changed(d);
}

} // namespace

bool takes(description& d, int fd) noexcept
{
  socket::state now = d.connection->current();
  if (now == socket::state::undecided)
    now = d.connection->use(fd);
  if (now == socket::state::undecided)
    return false;
  if (d.noted.load(std::memory_order_relaxed) != now)
    note(d, now);
  return now != socket::state::kernel;
}

} // namespace rdma::sockets

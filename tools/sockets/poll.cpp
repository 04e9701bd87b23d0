//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "sockets/epoll.hpp"
#include "sockets/system.hpp"
#include "sockets/table.hpp"
#include "sockets/waiting.hpp"

#include <memory>
#include <vector>

namespace rdma::sockets {
namespace {

constexpr short always = POLLERR | POLLHUP | POLLNVAL;

// The descriptors of one call of poll(2).
class poll_wait final : public wait
{
public:
  poll_wait(pollfd* fds, nfds_t count)
    : fds_(fds)
  {
    kernel_.assign(fds, fds + count);
    for (nfds_t i = 0; i != count; ++i)
    {
      kernel_[i].revents = 0;
      std::shared_ptr<description> d = table::find(fds[i].fd);
      if (d)
        add(i, std::move(d));
    }
    // A descriptor that poll(2) ignores.
    for (const item& each : items_)
      if (each.what->connection)
        kernel_[each.index].fd = -1;
    look_at_kernel();
  }

  /// Sets the revents of the call. Returns the number of those that are not 0.
  int result() noexcept
  {
    int ready = 0;
    for (std::size_t i = 0; i != kernel_.size(); ++i)
      fds_[i].revents = kernel_[i].revents;
    for (const item& each : items_)
      fds_[each.index].revents |= events_of(each);
    for (std::size_t i = 0; i != kernel_.size(); ++i)
      ready += fds_[i].revents != 0 ? 1 : 0;
    return ready;
  }

private:
  struct item
  {
    std::size_t index;
    std::shared_ptr<description> what;
  };

  void add(std::size_t index, std::shared_ptr<description> d)
  {
    if (d->listening)
      d->listening->use();
    if (d->connection && takes(*d, fds_[index].fd))
      sources_.push_back({.connection = d->connection.get()});
    else if (d->polled)
      sources_.push_back({.set = d->polled.get()});
    else
      return;
    items_.push_back({index, std::move(d)});
  }

  [[nodiscard]] short events_of(const item& of) const noexcept
  {
    const pollfd& asked = fds_[of.index];
    const short now =
      of.what->connection ? of.what->connection->events() : of.what->polled->events();
    if (of.what->connection && of.what->connection->current() == socket::state::kernel)
      return 0;
    return static_cast<short>(with_normal_band(now) & (asked.events | always));
  }

  void look_at_kernel()
  {
    for (const pollfd& each : kernel_)
      if (each.fd >= 0)
      {
        original::poll(kernel_.data(), kernel_.size(), 0);
        return;
      }
  }

  bool ready() override
  {
    bool has_left = false;
    for (std::size_t i = 0; i != items_.size();)
    {
      const item& each = items_[i];
      if (each.what->connection && !takes(*each.what, fds_[each.index].fd))
      {
        kernel_[each.index].fd = fds_[each.index].fd;
        // Still watched, and owned by the source list's owner until the end of the call.
        left_.push_back(each.what);
        items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(i));
        has_left = true;
        continue;
      }
      if (events_of(each) != 0)
        return true;
      ++i;
    }
    if (has_left)
      look_at_kernel();
    for (const pollfd& each : kernel_)
      if (each.revents != 0)
        return true;
    return false;
  }

  std::span<const source> sources() override { return sources_; }

  pollfd* const fds_;
  std::vector<item> items_;
  std::vector<source> sources_;
  std::vector<std::shared_ptr<description>> left_; // are the kernel's since the call began
};

bool has_ours(const pollfd* fds, nfds_t count) noexcept
{
  for (nfds_t i = 0; i != count; ++i)
    if (table::has(fds[i].fd))
      return true;
  return false;
}

// The sets of a call of select(2). A program may have allocated more than FD_SETSIZE bits.
class descriptor_set
{
public:
  explicit descriptor_set(fd_set* set) noexcept
    : words_(reinterpret_cast<unsigned long*>(set))
  {
  }
  [[nodiscard]] bool has(int fd) const noexcept
  {
    return words_ != nullptr && (words_[word(fd)] & bit(fd)) != 0;
  }
  void assign(int fd, bool to) noexcept
  {
    if (words_ != nullptr)
      words_[word(fd)] = to ? words_[word(fd)] | bit(fd) : words_[word(fd)] & ~bit(fd);
  }

private:
  static constexpr int width = 8 * sizeof(unsigned long);
  static std::size_t word(int fd) noexcept { return static_cast<std::size_t>(fd / width); }
  static unsigned long bit(int fd) noexcept { return 1UL << (fd % width); }

  unsigned long* words_;
};

// The kernel's POLLIN_SET, POLLOUT_SET and POLLEX_SET (fs/select.c).
constexpr short readable = POLLRDNORM | POLLRDBAND | POLLIN | POLLHUP | POLLERR;
constexpr short writable = POLLWRBAND | POLLWRNORM | POLLOUT | POLLERR;
constexpr short exceptional = POLLPRI;

class selection
{
public:
  selection(int count, fd_set* in, fd_set* out, fd_set* except) noexcept
    : count_(count)
    , in_(in)
    , out_(out)
    , except_(except)
  {
  }

  [[nodiscard]] bool has_ours() const noexcept
  {
    for (int fd = 0; fd < count_; ++fd)
      if (table::has(fd) && (in_.has(fd) || out_.has(fd) || except_.has(fd)))
        return true;
    return false;
  }

  int run(std::optional<time_point> deadline, const sigset_t* mask)
  {
    std::vector<pollfd> fds;
    for (int fd = 0; fd < count_; ++fd)
    {
      const int events = (in_.has(fd) ? POLLIN | POLLRDNORM | POLLRDBAND : 0)
        | (out_.has(fd) ? POLLOUT | POLLWRNORM | POLLWRBAND : 0) | (except_.has(fd) ? POLLPRI : 0);
      if (events != 0)
        fds.push_back({.fd = fd, .events = static_cast<short>(events), .revents = 0});
    }
    const int polled = poll_all(fds.data(), fds.size(), deadline, mask);
    if (polled == -1)
      return -1;
    for (const pollfd& each : fds)
      if ((each.revents & POLLNVAL) != 0)
        return fail(EBADF);
    int bits = 0;
    for (const pollfd& each : fds)
    {
      bits += keep(in_, each, readable);
      bits += keep(out_, each, writable);
      bits += keep(except_, each, exceptional);
    }
    return bits;
  }

private:
  static int keep(descriptor_set& set, const pollfd& polled, short events) noexcept
  {
    const bool is_set = set.has(polled.fd) && (polled.revents & events) != 0;
    set.assign(polled.fd, is_set);
    return is_set ? 1 : 0;
  }

  const int count_;
  descriptor_set in_;
  descriptor_set out_;
  descriptor_set except_;
};

bool is_valid(const timespec* timeout) noexcept
{
  return timeout == nullptr
    || (timeout->tv_sec >= 0 && timeout->tv_nsec >= 0 && timeout->tv_nsec < 1'000'000'000);
}

// Calls of the kernel only, between which other connections of this process go on.
bool belongs_to_kernel(const pollfd* fds, nfds_t count) noexcept
{
  if (is_internal())
    return true;
  if (fds != nullptr && has_ours(fds, count))
    return false;
  const internal_call here;
  make_progress();
  return true;
}

int poll_or_fail(
  pollfd* fds, nfds_t count, std::optional<time_point> deadline, const sigset_t* mask)
{
  const internal_call here;
  return guarded<int>([&] { return poll_all(fds, count, deadline, mask); });
}

} // namespace

short with_normal_band(short events) noexcept
{
  return static_cast<short>(events | ((events & POLLIN) != 0 ? POLLRDNORM : 0)
    | ((events & POLLOUT) != 0 ? POLLWRNORM : 0));
}

int poll_all(pollfd* fds, nfds_t count, std::optional<time_point> deadline, const sigset_t* mask)
{
  poll_wait call(fds, count);
  for (;;)
  {
    const wait::outcome how = call.run(deadline, mask);
    if (how == wait::outcome::interrupted)
      return fail(EINTR);
    // A connection that is the kernel's since the last look has no events here.
    if (const int ready = call.result(); ready != 0 || how == wait::outcome::timed_out)
      return ready;
  }
}

BOOST_RDMA_SOCKETS_EXPORT(int, poll, (pollfd * fds, nfds_t count, int timeout))
{
  if (belongs_to_kernel(fds, count))
    return original::poll(fds, count, timeout);
  return poll_or_fail(fds, count, deadline_after(timeout), nullptr);
}

BOOST_RDMA_SOCKETS_EXPORT(
  int, __poll_chk, (pollfd * fds, nfds_t count, int timeout, std::size_t size))
{
  if (size / sizeof(pollfd) < count || belongs_to_kernel(fds, count))
    return original::__poll_chk(fds, count, timeout, size);
  return poll_or_fail(fds, count, deadline_after(timeout), nullptr);
}

BOOST_RDMA_SOCKETS_EXPORT(
  int, ppoll, (pollfd * fds, nfds_t count, const timespec* timeout, const sigset_t* mask))
{
  if (!is_valid(timeout) || belongs_to_kernel(fds, count))
    return original::ppoll(fds, count, timeout, mask);
  return poll_or_fail(fds, count, deadline_after(timeout), mask);
}

BOOST_RDMA_SOCKETS_EXPORT(int, __ppoll_chk,
  (pollfd * fds, nfds_t count, const timespec* timeout, const sigset_t* mask, std::size_t size))
{
  if (size / sizeof(pollfd) < count || !is_valid(timeout) || belongs_to_kernel(fds, count))
    return original::__ppoll_chk(fds, count, timeout, mask, size);
  return poll_or_fail(fds, count, deadline_after(timeout), mask);
}

BOOST_RDMA_SOCKETS_EXPORT(
  int, select, (int count, fd_set* in, fd_set* out, fd_set* except, timeval* timeout))
{
  selection call(count, in, out, except);
  if (is_internal() || !call.has_ours() || (timeout != nullptr && timeout->tv_sec < 0))
  {
    belongs_to_kernel(nullptr, 0);
    return original::select(count, in, out, except, timeout);
  }
  const internal_call here;
  timespec limit{};
  if (timeout != nullptr)
    limit = {.tv_sec = timeout->tv_sec + timeout->tv_usec / 1'000'000,
      .tv_nsec = timeout->tv_usec % 1'000'000 * 1000};
  const std::optional<time_point> deadline = deadline_after(timeout != nullptr ? &limit : nullptr);
  const int result = guarded<int>([&] { return call.run(deadline, nullptr); });
  if (timeout != nullptr && deadline)
  {
    const timespec left = time_until(*deadline);
    *timeout = {.tv_sec = left.tv_sec, .tv_usec = left.tv_nsec / 1000};
  }
  return result;
}

BOOST_RDMA_SOCKETS_EXPORT(int, pselect,
  (int count, fd_set* in, fd_set* out, fd_set* except, const timespec* timeout,
    const sigset_t* mask))
{
  selection call(count, in, out, except);
  if (is_internal() || !call.has_ours() || !is_valid(timeout))
  {
    belongs_to_kernel(nullptr, 0);
    return original::pselect(count, in, out, except, timeout, mask);
  }
  const internal_call here;
  return guarded<int>([&] { return call.run(deadline_after(timeout), mask); });
}

} // namespace rdma::sockets

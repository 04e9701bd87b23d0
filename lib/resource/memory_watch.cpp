//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "resource/memory_watch.hpp"

#include "verbs/signals_blocked.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace rdma::detail {
namespace {

#ifndef UFFD_USER_MODE_ONLY // Linux 5.11
constexpr int user_mode_only = 1;
#else
constexpr int user_mode_only = UFFD_USER_MODE_ONLY;
#endif

constexpr std::uint64_t wanted_features = UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMOVE
  | UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_PAGEFAULT_FLAG_WP;

error_code last_error()
{
  return {errno, boost::system::system_category()};
}

// The userfaultfd that a child of fork() must close. While the child's copy is open, an unmap in
// the parent waits for an event that no thread reads.
std::atomic<int> inherited{-1};

// Locked during fork(), so that no child finds it locked by a thread that the child does not have.
std::mutex current_mutex;
std::weak_ptr<memory_watch> current;

[[maybe_unused]] const int watch_fork_handlers =
  ::pthread_atfork([] { current_mutex.lock(); }, [] { current_mutex.unlock(); },
    []
    {
      if (const int fd = inherited.exchange(-1, std::memory_order_relaxed);
          fd >= 0) // the child has one thread
        ::close(fd);
      current_mutex.unlock();
    });

// Does not request events for faults in kernel mode: these require a privilege
// (vm.unprivileged_userfaultfd).
int open_userfaultfd()
{
  const long fd = ::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | user_mode_only);
  if (fd >= 0 || errno != EINVAL)
    return static_cast<int>(fd);
  return static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK)); // before Linux 5.11
}

std::runtime_error cannot_start_thread(const std::exception& reason)
{
  return std::runtime_error(std::string("cannot start a thread to watch memory: ") + reason.what());
}

int check_watching(int fd)
{
  if (fd < 0)
    throw system_error(last_error(), "this process may not watch its memory: userfaultfd(2)");
  return fd;
}

} // namespace

std::shared_ptr<memory_watch> memory_watch::of_process(std::string& why_not)
{
  const std::lock_guard lock(current_mutex);
  auto found = current.lock();
  if (found && !found->process_.foreign())
    return found;
  try
  {
    current = found = std::make_shared<memory_watch>();
    return found;
  }
  catch (const std::exception& e)
  {
    why_not = e.what();
    return nullptr;
  }
}

memory_watch::memory_watch()
  : faults_(check_watching(open_userfaultfd()))
  , stop_(check_watching(::eventfd(0, EFD_CLOEXEC)))
{
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = wanted_features;
  if (::ioctl(faults_.get(), UFFDIO_API, &api) != 0)
    throw system_error(last_error(), "this kernel does not report unmapped memory: UFFDIO_API");
  try_out();
  const signals_blocked blocked;
  try
  {
    reader_ = std::make_unique<std::thread>([this] { read_events(); });
    ender_ = std::make_unique<std::thread>([this] { end_registrations(); });
  }
  catch (const std::exception& e) // of std::thread, or std::bad_alloc
  {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t n =
      ::write(stop_.get(), &one, sizeof one); // the counter cannot overflow
    if (reader_)
      reader_->join();
    throw cannot_start_thread(e);
  }
  inherited.store(
    faults_.get(), std::memory_order_relaxed); // relaxed: only children of fork() read it
}

memory_watch::~memory_watch()
{
  if (process_.foreign())
  {
    static_cast<void>(reader_.release()); // a child of fork() does not have these threads
    static_cast<void>(ender_.release());
    static_cast<void>(has_.release()); // the destructor would wait for threads that do not exist
    faults_.release();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    assert(clients_.empty());
    stopping_ = true;
  }
  has_->retired.notify_all();
  ender_->join(); // first: it may unmap watched memory, which the reader must handle
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n =
    ::write(stop_.get(), &one, sizeof one); // the counter cannot overflow
  reader_->join();
  const std::lock_guard lock(current_mutex); // no fork() from here on
  int own = faults_.get(); // the value may belong to the next watch, which may have started
  inherited.compare_exchange_strong(own, -1, std::memory_order_relaxed);
  faults_.reset();
}

// Checks that the kernel delivers events as this class requires: a thread that unmaps waits, and
// until the event is read the kernel reports that the mapping is changing. Runs before the reader
// starts.
void memory_watch::try_out()
{
  const std::size_t page = pages_of(nullptr, 1).size();
  void* memory = ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw system_error(last_error(), "mmap");
  const page_range range = pages_of(memory, page);
  if (!start(range))
  {
    const error_code ec = last_error();
    ::munmap(memory, page);
    throw system_error(ec, "this kernel has no userfaultfd write protection: UFFDIO_REGISTER");
  }
  const descriptor done(check_watching(::eventfd(0, EFD_CLOEXEC)));
  std::unique_ptr<std::thread> unmapper;
  try
  {
    const signals_blocked blocked;
    unmapper = std::make_unique<std::thread>(
      [&]
      {
        ::munmap(memory, page);
        const std::uint64_t one = 1;
        [[maybe_unused]] const ssize_t n = ::write(done.get(), &one, sizeof one);
      });
  }
  catch (const std::exception& e)
  {
    stop_one(range);
    ::munmap(memory, page);
    throw cannot_start_thread(e);
  }
  std::array<pollfd, 2> ready{{{faults_.get(), POLLIN, 0}, {done.get(), POLLIN, 0}}};
  while (::poll(ready.data(), ready.size(), -1) < 0 && errno == EINTR)
    ;
  const bool waits = (ready[0].revents & POLLIN) != 0 && changing();
  uffd_msg message{};
  const bool told = ::read(faults_.get(), &message, sizeof message) == sizeof message
    && message.event == UFFD_EVENT_UNMAP && message.arg.remove.start == range.begin
    && message.arg.remove.end == range.end;
  unmapper->join();
  if (!waits || !told || changing())
    throw system_error(error_code(ENOSYS, boost::system::system_category()),
      "this kernel's userfaultfd does not report unmapped memory reliably");
}

// The kernel refuses every change to watched memory with EAGAIN before it checks the argument, from
// the moment that a mapping is removed until its event is read. The argument is invalid, so that
// the call never has an effect.
bool memory_watch::changing() const noexcept
{
  uffdio_writeprotect nothing{};
  nothing.mode = ~std::uint64_t{0};
  return ::ioctl(faults_.get(), UFFDIO_WRITEPROTECT, &nothing) != 0 && errno == EAGAIN;
}

bool memory_watch::is_current() noexcept
{
  if (!changing())
    return true;
  return drain() && !changing();
}

bool memory_watch::start(const page_range& range) noexcept
{
  uffdio_register request{};
  request.range = {range.begin, range.size()};
  request.mode = UFFDIO_REGISTER_MODE_WP;
  return ::ioctl(faults_.get(), UFFDIO_REGISTER, &request) == 0;
}

// On failure a part of the range is mapped differently by now. The rest remains watched, and its
// events match no client.
void memory_watch::stop_one(const page_range& range) const noexcept
{
  uffdio_range request{range.begin, range.size()};
  static_cast<void>(::ioctl(faults_.get(), UFFDIO_UNREGISTER, &request));
}

void memory_watch::stop(const page_range& range) noexcept
{
  for (std::uintptr_t at = range.begin; at < range.end;)
  {
    std::uintptr_t covered = at;
    std::uintptr_t next = range.end;
    for (const watch_client& each : clients_)
    {
      covered = std::max(covered, each.covered_until(at));
      next = std::min(next, each.next_begin(at));
    }
    if (covered > at)
    {
      at = covered;
      continue;
    }
    stop_one({at, next});
    at = next;
  }
}

void memory_watch::retire_later(watched_registration& registration) noexcept
{
  retired_.push_back(registration);
  has_->retired.notify_one();
}

// Returns true if there was any event. Precondition: the mutex is held.
bool memory_watch::drain() noexcept
{
  std::array<uffd_msg, 8> messages;
  bool any = false;
  for (;;)
  {
    const ssize_t n = ::read(faults_.get(), messages.data(), sizeof messages);
    if (n <= 0)
      return any;
    any = true;
    for (std::size_t i = 0; i < static_cast<std::size_t>(n) / sizeof(uffd_msg); ++i)
    {
      const uffd_msg& message = messages[i];
      const auto notify = [this](const page_range& range, bool gone)
      {
        for (watch_client& each : clients_)
          each.forget(range, gone);
      };
      if (message.event == UFFD_EVENT_UNMAP || message.event == UFFD_EVENT_REMOVE)
        notify(
          {message.arg.remove.start, message.arg.remove.end}, message.event == UFFD_EVENT_UNMAP);
      else if (message.event == UFFD_EVENT_REMAP)
      {
        const auto& moved = message.arg.remap;
        notify({moved.from, moved.from + moved.len}, true);
        // The kernel moves the registration with the memory (UFFD_EVENT_REMAP).
        notify({moved.to, moved.to + moved.len}, false);
        stop({moved.to, moved.to + moved.len});
      }
    }
  }
}

void memory_watch::attach(watch_client& client) noexcept
{
  const std::lock_guard lock(mutex_);
  clients_.push_back(client);
}

void memory_watch::detach(watch_client& client) noexcept
{
  registration_list own;
  {
    std::unique_lock lock(mutex_);
    clients_.erase(clients_.iterator_to(client));
    for (auto each = retired_.begin(); each != retired_.end();)
    {
      watched_registration& registration = *each++;
      if (registration.client != &client)
        continue;
      retired_.erase(retired_.iterator_to(registration));
      own.push_back(registration);
    }
    has_->ended.wait(lock, [&] { return client.ending_ == 0; });
  }
  while (!own.empty())
  {
    registration& last = own.front();
    own.pop_front();
    last.release();
  }
}

void memory_watch::read_events() noexcept
{
  std::array<pollfd, 2> ready{{{faults_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}}};
  for (;;)
  {
    if (::poll(ready.data(), ready.size(), -1) < 0)
      continue; // EINTR: a debugger
    const std::lock_guard lock(mutex_);
    drain();
    // No range is watched any more at this point. An unmap that began earlier must not be left
    // waiting.
    if ((ready[1].revents & POLLIN) != 0 && !changing())
      return;
  }
}

void memory_watch::end_registrations() noexcept
{
  std::unique_lock lock(mutex_);
  for (;;)
  {
    has_->retired.wait(lock, [this] { return stopping_ || !retired_.empty(); });
    if (retired_.empty())
      return;
    ++retired_.front().client->ending_;
    end_first(retired_, lock);
  }
}

// Precondition: the client's ending_ counts this registration. The client exists until the count is
// decreased.
void memory_watch::end_first(registration_list& of, std::unique_lock<std::mutex>& lock) noexcept
{
  watched_registration& next = of.front();
  watch_client& client = *next.client;
  of.pop_front();
  lock.unlock();
  next.release(); // may unmap watched memory, and then waits for the reader
  lock.lock();
  --client.ending_;
  has_->ended.notify_all();
}

bool memory_watch::end_unused() noexcept
{
  registration_list unused;
  std::unique_lock lock(mutex_);
  for (watch_client& each : clients_)
    each.give_up_unused(unused);
  for (const watched_registration& each : unused)
    ++each.client->ending_;
  const bool any = !unused.empty();
  while (!unused.empty())
    end_first(unused, lock);
  return any;
}

} // namespace rdma::detail

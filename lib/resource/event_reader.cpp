//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "resource/event_reader.hpp"

#include "boost_rdma/error.hpp"
#include "verbs/descriptor.hpp"
#include "verbs/signals_blocked.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <fcntl.h>
#include <new>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace rdma::detail {
namespace {

// Held while events are delivered. Closing a device waits for it. fork() waits for it as well,
// because a child must not find a mutex that is locked by a thread that the child does not have.
std::mutex dispatch_mutex;

[[maybe_unused]] const int dispatch_fork_handlers = ::pthread_atfork(
  [] { dispatch_mutex.lock(); }, [] { dispatch_mutex.unlock(); }, [] { dispatch_mutex.unlock(); });

// Throws the error in errno if the result of a system call is negative.
int check_reading(int result)
{
  if (result < 0)
    throw system_error(
      error_code(errno, boost::system::system_category()), "cannot read device events");
  return result;
}

struct subject
{
  const void* object = nullptr;
  std::uint8_t port = 0;
  std::uint32_t queue_pair_number = 0;
};

// The object exists at least until the event is acknowledged.
subject subject_of(const ibv_async_event& event)
{
  switch (event.event_type)
  {
  case IBV_EVENT_CQ_ERR:
    return {event.element.cq, 0, 0};
  case IBV_EVENT_SRQ_ERR:
  case IBV_EVENT_SRQ_LIMIT_REACHED:
    return {event.element.srq, 0, 0};
  case IBV_EVENT_QP_FATAL:
  case IBV_EVENT_QP_REQ_ERR:
  case IBV_EVENT_QP_ACCESS_ERR:
  case IBV_EVENT_COMM_EST:
  case IBV_EVENT_SQ_DRAINED:
  case IBV_EVENT_PATH_MIG:
  case IBV_EVENT_PATH_MIG_ERR:
  case IBV_EVENT_QP_LAST_WQE_REACHED:
    return {event.element.qp, 0, event.element.qp->qp_num};
  case IBV_EVENT_PORT_ACTIVE:
  case IBV_EVENT_PORT_ERR:
  case IBV_EVENT_LID_CHANGE:
  case IBV_EVENT_PKEY_CHANGE:
  case IBV_EVENT_SM_CHANGE:
  case IBV_EVENT_CLIENT_REREGISTER:
  case IBV_EVENT_GID_CHANGE:
    return {nullptr, static_cast<std::uint8_t>(event.element.port_num), 0};
  default:
    return {}; // events of the device, or of a WQ, which this library does not create
  }
}

} // namespace

// The thread that reads the events of all devices of the process. It exists while at least one
// device is watched.
class event_reader
{
public:
  static std::shared_ptr<event_reader> of_process();

  event_reader();
  ~event_reader();
  event_reader(const event_reader&) = delete;
  event_reader& operator=(const event_reader&) = delete;

  void add(int fd, std::shared_ptr<event_hub> hub);
  void remove(int fd) noexcept;

private:
  // Outlives the reader if the thread itself releases the last device.
  struct shared
  {
    descriptor epoll{check_reading(::epoll_create1(EPOLL_CLOEXEC))};
    descriptor stop{check_reading(::eventfd(0, EFD_CLOEXEC))};
    std::mutex mutex;
    std::unordered_map<int, std::shared_ptr<event_hub>> hubs; // by descriptor
  };

  static void run(const std::shared_ptr<shared>& state) noexcept;

  const process_mark process_;
  std::shared_ptr<shared> state_;
  std::unique_ptr<std::thread> thread_;
};

std::shared_ptr<event_reader> event_reader::of_process()
{
  static std::mutex mutex;
  static std::weak_ptr<event_reader> current;
  const std::lock_guard lock(mutex);
  auto found = current.lock();
  if (!found || found->process_.foreign())
    current = found = std::make_shared<event_reader>();
  return found;
}

event_reader::event_reader()
  : state_(std::make_shared<shared>())
{
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = state_->stop.get();
  check_reading(::epoll_ctl(state_->epoll.get(), EPOLL_CTL_ADD, state_->stop.get(), &event));
  const signals_blocked blocked;
  try
  {
    thread_ = std::make_unique<std::thread>([state = state_] { run(state); });
  }
  catch (const std::system_error& e)
  {
    throw system_error(error_code(e.code().value(), boost::system::system_category()),
      "cannot start a thread to read device events");
  }
}

event_reader::~event_reader()
{
  if (process_.foreign())
  {
    static_cast<void>(thread_.release()); // a child of fork() does not have this thread
    return;
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n =
    ::write(state_->stop.get(), &one, sizeof one); // the counter cannot overflow
  if (thread_->get_id() == std::this_thread::get_id())
    thread_->detach();
  else
    thread_->join();
}

void event_reader::add(int fd, std::shared_ptr<event_hub> hub)
{
  const std::lock_guard lock(state_->mutex);
  state_->hubs[fd] = std::move(hub);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (::epoll_ctl(state_->epoll.get(), EPOLL_CTL_ADD, fd, &event) == 0)
    return;
  const error_code ec(errno, boost::system::system_category());
  state_->hubs.erase(fd);
  throw system_error(ec, "cannot read device events");
}

void event_reader::remove(int fd) noexcept
{
  std::shared_ptr<event_hub> removed; // destroyed after the mutex is released
  {
    const std::lock_guard lock(state_->mutex);
    ::epoll_ctl(
      state_->epoll.get(), EPOLL_CTL_DEL, fd, nullptr); // ENOENT if drain() returned false
    if (const auto found = state_->hubs.find(fd); found != state_->hubs.end())
    {
      removed = std::move(found->second);
      state_->hubs.erase(found);
    }
  }
  if (thread_->get_id() != std::this_thread::get_id())
    wait_for_listeners();
}

void event_reader::run(const std::shared_ptr<shared>& state) noexcept
{
  for (;;)
  {
    std::array<epoll_event, 16> ready;
    const int count =
      ::epoll_wait(state->epoll.get(), ready.data(), static_cast<int>(ready.size()), -1);
    for (int i = 0; i < count; ++i)
    {
      const int fd = ready[static_cast<std::size_t>(i)].data.fd;
      if (fd == state->stop.get())
        return;
      const std::lock_guard dispatching(dispatch_mutex);
      std::shared_ptr<event_hub> hub;
      {
        const std::lock_guard lock(state->mutex);
        if (const auto found = state->hubs.find(fd); found != state->hubs.end())
          hub = found->second;
      }
      if (!hub || hub->drain())
        continue;
      const std::lock_guard lock(state->mutex);
      if (const auto found = state->hubs.find(fd);
          found != state->hubs.end() && found->second == hub)
        ::epoll_ctl(
          state->epoll.get(), EPOLL_CTL_DEL, fd, nullptr); // a descriptor in error remains readable
    }
  }
}

// Precondition: the mutex is held.
void event_hub::start()
{
  if (reader_)
    return;
  const int fd = context_->async_fd;
  check_reading(::fcntl(fd, F_SETFL, check_reading(::fcntl(fd, F_GETFL)) | O_NONBLOCK));
  auto reader = event_reader::of_process();
  reader->add(fd, shared_from_this());
  reader_ = std::move(reader);
}

void event_hub::watch(const void* native, std::weak_ptr<device_listener> listener)
{
  const std::lock_guard lock(mutex_);
  start();
  watched_[native] = std::move(listener);
}

void event_hub::unwatch(const void* native) noexcept
{
  std::weak_ptr<device_listener> removed; // destroyed after the mutex is released
  const std::lock_guard lock(mutex_);
  if (const auto found = watched_.find(native); found != watched_.end())
  {
    removed = std::move(found->second);
    watched_.erase(found);
  }
}

void event_hub::subscribe(std::weak_ptr<device_listener> listener)
{
  const std::lock_guard lock(mutex_);
  start();
  std::erase_if(subscribers_, [](const auto& each) { return each.expired(); });
  subscribers_.push_back(std::move(listener));
}

void event_hub::close() noexcept
{
  if (process_.foreign())
    return;
  closed_.store(true, std::memory_order_release);
  std::shared_ptr<event_reader> reader;
  {
    const std::lock_guard lock(mutex_);
    reader = std::move(reader_);
  }
  if (reader)
    reader->remove(context_->async_fd);
}

// Collects the listeners of an event. Must run before the event is acknowledged: afterwards the
// object may be destroyed and its address reused.
void event_hub::collect(const ibv_async_event& event, bool fatal) noexcept
{
  for (;;)
    try
    {
      const std::lock_guard lock(mutex_);
      targets_.clear();
      if (fatal)
        for (const auto& [native, listener] : watched_)
          targets_.push_back(listener);
      else if (const void* object = subject_of(event).object; object != nullptr)
        if (const auto found = watched_.find(object); found != watched_.end())
          targets_.push_back(found->second);
      targets_.insert(targets_.end(), subscribers_.begin(), subscribers_.end());
      return;
    }
    catch (const std::bad_alloc&)
    {
      std::this_thread::yield(); // retry: the event must not be lost
    }
}

void event_hub::notify(const async_event& news) noexcept
{
  for (std::weak_ptr<device_listener>& each : targets_)
    if (const auto listener = each.lock())
      listener->on_device_event(news);
}

void wait_for_listeners() noexcept
{
  const std::lock_guard wait(dispatch_mutex);
}

bool event_hub::drain() noexcept
{
  // A listener may release the device here, which calls close().
  while (!closed_.load(std::memory_order_acquire))
  {
    ibv_async_event event{};
    errno = 0;
    if (api_.get_async_event(context_, &event) != 0)
    {
      if (errno == EAGAIN || errno == EINTR)
        return true; // level-triggered: epoll reports later events again
      notify_lost(); // the kernel returns EIO for a removed device, without an event
      return false;
    }
    const subject about = subject_of(event);
    const bool fatal = event.event_type == IBV_EVENT_DEVICE_FATAL;
    if (fatal)
      lost_.store(true, std::memory_order_release); // before collect(): see queue_pair_core::create
    collect(event, fatal);
    api_.ack_async_event(&event);
    notify({static_cast<device_event_type>(event.event_type), about.port, about.queue_pair_number});
  }
  return false;
}

void event_hub::notify_lost() noexcept
{
  if (lost_.exchange(true, std::memory_order_acq_rel))
    return;
  collect({}, true);
  notify({device_event_type::device_fatal, 0, 0});
}

} // namespace rdma::detail

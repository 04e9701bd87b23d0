//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/cm/service.hpp"

#include "verbs/software/cm/device.hpp"
#include "verbs/software/queue_pair_number.hpp"
#include "verbs/software/wire/connection.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <new>
#include <system_error>
#include <utility>

#include <netdb.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

namespace rdma::software::cm {
namespace {

// Ports that the kernel gives to ids without one of their own: its default ephemeral range.
constexpr std::uint16_t ephemeral_first = 32768;
constexpr std::uint16_t ephemeral_last = 60999;

std::mutex registry_mutex;
std::weak_ptr<service>& registry()
{
  static std::weak_ptr<service> one;
  return one;
}

// The reports that the state machine makes, as events.
rdma_cm_event_type event_of(connection_fsm::report_type report, bool datagram) noexcept
{
  using type = connection_fsm::report_type;
  switch (report)
  {
  case type::response:
    return datagram ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_CONNECT_RESPONSE;
  case type::established:
    return RDMA_CM_EVENT_ESTABLISHED;
  case type::rejected:
    return datagram ? RDMA_CM_EVENT_UNREACHABLE : RDMA_CM_EVENT_REJECTED;
  case type::unreachable:
    return RDMA_CM_EVENT_UNREACHABLE;
  case type::disconnected:
    return RDMA_CM_EVENT_DISCONNECTED;
  default:
    return RDMA_CM_EVENT_TIMEWAIT_EXIT;
  }
}

// Private data as the application receives it: of the size that the message type has.
void set_data(channel_event& to, const message& from, bool datagram) noexcept
{
  std::copy_n(from.private_data.begin(), from.private_size, to.data.begin());
  if (datagram)
  {
    to.param.ud.private_data = to.data.data();
    to.param.ud.private_data_len = from.private_size;
  }
  else
  {
    to.param.conn.private_data = to.data.data();
    to.param.conn.private_data_len = from.private_size;
  }
}

// The peer's values of a REQ or REP, from this end's point of view (rdma_get_cm_event(3)).
void set_parameters(rdma_conn_param& to, const message& from) noexcept
{
  to.responder_resources = from.initiator_depth;
  to.initiator_depth = from.responder_resources;
  to.flow_control = from.flow_control;
  to.retry_count = from.retry_count;
  to.rnr_retry_count = from.rnr_retry_count;
  to.srq = from.srq;
  to.qp_num = from.queue_pair;
}

} // namespace

channel_event::channel_event(rdma_cm_event_type type, identifier& of, int with) noexcept
  : rdma_cm_event{}
{
  rdma_cm_event::id = &of;
  event = type;
  status = with;
}

event_channel::event_channel(std::shared_ptr<service> by) noexcept
  : rdma_event_channel{}
  , owner(std::move(by))
  , descriptor(::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC))
{
  fd = descriptor.get();
}

identifier::identifier(event_channel& of, std::uint32_t local_id, void* with, rdma_port_space space)
  : rdma_cm_id{}
  , fsm(local_id)
{
  channel = &of;
  context = with;
  ps = space;
  qp_type = space == RDMA_PS_UDP || space == RDMA_PS_IPOIB ? IBV_QPT_UD : IBV_QPT_RC;
  std::uint32_t random = 0;
  fill_random(&random, sizeof random);
  starting_psn = random & 0xffffff;
  end_event.push_back(std::make_unique<channel_event>(RDMA_CM_EVENT_DISCONNECTED, *this));
}

// --- the service and its thread ---

std::shared_ptr<service> service::get()
{
  const std::lock_guard lock(registry_mutex);
  auto found = registry().lock();
  if (found && !found->is_inherited())
    return found;
  try
  {
    const std::shared_ptr<service> made(new service);
    if (const int error = made->start(); error != 0)
    {
      errno = error;
      return nullptr;
    }
    registry() = made;
    wire::lost_peer_hook.store(&on_lost_peer, std::memory_order_release);
    return made;
  }
  catch (const std::bad_alloc&)
  {
    errno = ENOMEM;
    return nullptr;
  }
}

int service::start()
{
  fill_random(&next_port_, sizeof next_port_);
  epoll_ = wire::descriptor(::epoll_create1(EPOLL_CLOEXEC));
  wake_ = wire::descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  epoll_event wanted{};
  wanted.events = EPOLLIN;
  if (!epoll_ || !wake_ || ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &wanted) != 0)
    return errno;
  // Signals go to the program's threads.
  sigset_t every;
  sigset_t before;
  ::sigfillset(&every);
  ::pthread_sigmask(SIG_SETMASK, &every, &before);
  int error = 0;
  try
  {
    thread_ = std::make_unique<std::thread>([this] { run(); });
  }
  catch (const std::system_error& e)
  {
    error = e.code().value();
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error;
}

service::~service()
{
  if (is_inherited())
  {
    static_cast<void>(thread_.release()); // it exists in the parent only
    return;
  }
  if (!thread_)
    return;
  {
    const std::lock_guard lock(mutex);
    stopping_ = true;
  }
  wake();
  thread_->join();
}

void service::wake() noexcept
{
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(wake_.get(), &one, sizeof one); // fails if it is awake
}

void service::run() noexcept
{
  ::pthread_setname_np(::pthread_self(), "rdma_cm");
  std::unique_lock lock(mutex);
  while (!stopping_)
  {
    const std::int64_t due = timers_.next_alarm();
    int wait_ms = -1;
    if (due != 0)
      wait_ms =
        static_cast<int>(std::clamp<std::int64_t>((due - wire::now()) / 1'000'000 + 1, 0, 60'000));
    lock.unlock();
    std::array<epoll_event, 16> found;
    const int n = ::epoll_wait(epoll_.get(), found.data(), static_cast<int>(found.size()), wait_ms);
    lock.lock();
    for (int i = 0; i < n; ++i)
    {
      const int fd = found[static_cast<unsigned>(i)].data.fd;
      if (fd == 0) // see start(): the eventfd
      {
        std::uint64_t count = 0;
        [[maybe_unused]] const ssize_t read = ::read(wake_.get(), &count, sizeof count);
        continue;
      }
      // By descriptor, because the port may be gone meanwhile.
      std::shared_ptr<shared_port> at;
      if (own_ && own_->fd() == fd)
        at = own_;
      for (const auto& [where, each] : ports_)
        if (const auto candidate = each.lock(); candidate && candidate->fd() == fd)
          at = candidate;
      if (at)
        serve(*at);
    }
    fire(wire::now());
  }
}

int service::watch(shared_port& which) noexcept
{
  epoll_event wanted{};
  wanted.events = EPOLLIN; // EPOLLERR, for the error queue, is always included
  wanted.data.fd = which.fd();
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, which.fd(), &wanted) == 0 ? 0 : errno;
}

void service::serve(shared_port& at) noexcept
{
  constexpr int most = 64; // so that one busy port does not delay the others
  port::arrival what;
  for (int i = 0; i < most && at.receive(what); ++i)
    try
    {
      what.is_error ? refuse(what.peer) : take(at, what);
    }
    catch (const std::bad_alloc&)
    {
      // As if the message was lost: the peer repeats it.
    }
}

void service::fire(std::int64_t now) noexcept
{
  std::array<std::uint32_t, 64> names;
  std::size_t count = 0;
  while ((count = timers_.take(now, names)) != 0)
    for (std::size_t i = 0; i < count; ++i)
      if (const auto found = ids_.find(names[i]); found != ids_.end())
        perform(*found->second, found->second->fsm.expire(now));
}

void service::set_timer(identifier& which) noexcept
{
  const std::int64_t due = which.fsm.deadline();
  if (due == 0)
    return timers_.cancel(which.timer);
  const std::int64_t before = timers_.next_alarm();
  timers_.set(which.timer, due);
  if (before == 0 || due < before)
    wake();
}

// --- ids ---

std::uint32_t service::new_id()
{
  std::uint32_t made = 0;
  do
    fill_random(&made, sizeof made);
  while (made == 0 || ids_.contains(made));
  return made;
}

identifier& service::make_id(event_channel& of, void* with, rdma_port_space space)
{
  auto made = std::make_unique<identifier>(of, new_id(), with, space);
  identifier& which = *made;
  const std::uint32_t name = which.fsm.local_id();
  ids_.emplace(name, std::move(made));
  try
  {
    timers_.add(which.timer, name);
  }
  catch (const std::bad_alloc&)
  {
    ids_.erase(name);
    throw;
  }
  return which;
}

void service::await_acknowledgements(identifier& which, std::unique_lock<std::mutex>& lock)
{
  acknowledged_.wait(lock, [&] { return which.events_given == 0; });
}

void service::acknowledge(const channel_event& what) noexcept
{
  --what.acknowledged_by().events_given;
  acknowledged_.notify_all();
}

// Removes an id from everything by which the thread finds it.
void service::forget(identifier& which) noexcept
{
  timers_.remove(which.timer);
  if (const auto found = requests_.find(key_of(which));
      found != requests_.end() && found->second == &which)
    requests_.erase(found);
  if (const auto found = by_queue_pair_.find(which.queue_pair);
      found != by_queue_pair_.end() && found->second == &which)
    by_queue_pair_.erase(found);
  if (which.port)
    std::erase(which.port->bound, &which);
  if (which.listener != nullptr)
    --which.listener->pending;
}

void service::destroy(identifier& which, std::unique_lock<std::mutex>& lock) noexcept
{
  perform(which, which.fsm.destroy());
  const auto own = ids_.extract(which.fsm.local_id());
  forget(which);
  // Requests that the program has not received are refused together with their listener.
  for (auto each = ids_.begin(); which.pending != 0 && each != ids_.end();)
  {
    identifier& child = *each->second;
    if (child.listener != &which)
    {
      ++each;
      continue;
    }
    perform(child, child.fsm.destroy());
    remove_events(child.events(), child);
    forget(child);
    each = ids_.erase(each);
  }
  remove_events(which.events(), which);
  await_acknowledgements(which, lock);
}

// --- events ---

void service::report(event_list&& what) noexcept
{
  event_channel& to = what.front()->owner().events();
  to.events.splice(to.events.end(), what);
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(to.fd, &one, sizeof one); // at most 2^64 - 2 events
}

// The descriptor's count and the queue change together, so that no read blocks here.
std::unique_ptr<channel_event> service::next_event(event_channel& from) noexcept
{
  if (from.events.empty())
    return nullptr;
  auto taken = std::move(from.events.front());
  from.events.pop_front();
  std::uint64_t one = 0;
  [[maybe_unused]] const ssize_t n = ::read(from.fd, &one, sizeof one);
  ++taken->acknowledged_by().events_given;
  identifier& owner = taken->owner();
  if (taken->event == RDMA_CM_EVENT_CONNECT_REQUEST && owner.listener != nullptr)
    --std::exchange(owner.listener, nullptr)->pending;
  return taken;
}

event_list service::remove_events(event_channel& from, const identifier& which) noexcept
{
  event_list removed;
  for (auto next = from.events.begin(); next != from.events.end();)
    if (const auto each = next++; &(*each)->owner() == &which)
    {
      removed.splice(removed.end(), from.events, each);
      std::uint64_t one = 0;
      [[maybe_unused]] const ssize_t n = ::read(from.fd, &one, sizeof one);
    }
  return removed;
}

void service::move_events(identifier& which, event_channel& to) noexcept
{
  event_list moved = remove_events(which.events(), which);
  which.channel = &to;
  while (!moved.empty())
  {
    event_list first;
    first.splice(first.end(), moved, moved.begin());
    report(std::move(first));
  }
}

void service::perform(
  identifier& which, const connection_fsm::step& step, const message* cause) noexcept
{
  using type = connection_fsm::report_type;
  if (step.send)
    port_of(which).send(*step.send, which.peer, which.local.ip); // a lost message is repeated
  set_timer(which);
  if (step.report == type::none)
    return;
  const bool datagram = which.fsm.is_datagram();
  event_list made;
  if (step.report == type::rejected || step.report == type::unreachable
    || step.report == type::disconnected)
    made.swap(which.end_event);
  try
  {
    if (made.empty())
      made.push_back(std::make_unique<channel_event>(event_of(step.report, datagram), which));
  }
  catch (const std::bad_alloc&)
  {
    return end_without_memory(which);
  }
  channel_event& event = *made.front();
  event.event = event_of(step.report, datagram);
  event.status = step.report == type::unreachable ? -ETIMEDOUT : step.status;
  if (step.report == type::response && cause != nullptr)
  {
    which.reply = *cause;
    if (datagram)
    {
      event.param.ud.ah_attr = address_of(which);
      event.param.ud.qp_num = cause->queue_pair;
      event.param.ud.qkey = cause->qkey;
    }
    else
      set_parameters(event.param.conn, *cause);
  }
  if (cause != nullptr && (step.report == type::response || step.report == type::rejected))
    set_data(event, *cause, datagram);
  report(std::move(made));
}

// Ends a connection on both sides, because the program cannot receive an event of it. It receives
// the last one.
void service::end_without_memory(identifier& which) noexcept
{
  const auto end = which.fsm.destroy();
  if (end.send)
    port_of(which).send(*end.send, which.peer, which.local.ip);
  set_timer(which);
  if (which.end_event.empty())
    return; // it has received it before
  which.end_event.front()->event = RDMA_CM_EVENT_CONNECT_ERROR;
  which.end_event.front()->status = -ENOMEM;
  report(std::move(which.end_event));
}

// --- ports ---

int service::open_own()
{
  if (own_)
    return 0;
  auto made = std::make_shared<shared_port>();
  int error = made->open({v6_any, 0}, {}); // serves IPv4 as well
  if (error != 0)
    error = made->open({v4_any, 0}, {}); // IPv6 is disabled
  if (error == 0)
    error = watch(*made);
  if (error == 0)
    own_ = std::move(made);
  return error;
}

int service::bind(identifier& which, const endpoint& at)
{
  std::erase_if(ports_, [](const auto& each) { return each.second.expired(); });
  std::shared_ptr<shared_port> found;
  if (const auto known = ports_.find(at); known != ports_.end())
    found = known->second.lock();
  if (found)
  {
    for (const identifier* each : found->bound)
      if (each->ps == which.ps && !(each->reuses_address && which.reuses_address))
        return EADDRINUSE;
  }
  else
  {
    found = std::make_shared<shared_port>();
    if (const int error =
          found->open(at, {.only_v6 = which.only_v6, .traffic_class = which.traffic_class});
        error != 0)
      return error;
    if (const int error = watch(*found); error != 0)
      return error;
    ports_[found->local()] = found;
  }
  if (!at.is_unspecified() && !find_gid(at.ip, which.gid_index))
    return ENODEV; // an address of this host, but not of the device
  found->bound.push_back(&which);
  which.local = {at.ip, found->local().port};
  which.port = std::move(found);
  which.at = identifier::stage::bound;
  return 0;
}

int service::bind_implicitly(identifier& which, const address_bytes& source)
{
  if (const int error = open_own(); error != 0)
    return error;
  const endpoint local{source, 0};
  if (!local.is_v4() && own_->local().is_v4())
    return EAFNOSUPPORT;
  constexpr std::uint16_t count = ephemeral_last - ephemeral_first + 1;
  which.local = {source, static_cast<std::uint16_t>(ephemeral_first + next_port_++ % count)};
  return 0;
}

int service::listen(identifier& which, int backlog)
{
  constexpr int backlog_max = 1024; // as the kernel's rdma_ucm
  if (which.at == identifier::stage::idle)
    if (const int error = bind(which, {v4_any, 0}); error != 0)
      return error;
  if (which.at != identifier::stage::bound || !which.port)
    return EINVAL;
  for (const identifier* each : which.port->bound)
    if (each->at == identifier::stage::listening && each->ps == which.ps)
      return EADDRINUSE;
  which.at = identifier::stage::listening;
  which.backlog = backlog > 0 && backlog < backlog_max ? backlog : backlog_max;
  return 0;
}

void service::set_queue_pair(identifier& which, std::uint32_t number)
{
  by_queue_pair_[number] = &which;
  which.queue_pair = number;
}

// --- messages ---

void service::take(shared_port& at, const port::arrival& what)
{
  const message& m = what.what;
  if (m.type == message_type::request || m.type == message_type::datagram_request)
    return take_request(at, what);
  identifier* to = nullptr;
  // A SIDR_REP has the ID of the request.
  const std::uint32_t name = m.type == message_type::datagram_reply ? m.local_id : m.remote_id;
  if (const auto found = ids_.find(name); found != ids_.end())
    to = found->second.get();
  else if (m.type == message_type::reject && m.remote_id == 0)
  {
    // The requesting end gave up before it received an answer.
    if (const auto request = requests_.find({what.peer, m.local_id, false});
        request != requests_.end())
      to = request->second;
  }
  if (to == nullptr || to->peer != what.peer || &port_of(*to) != &at)
    return answer_unknown(at, what);
  perform(*to, to->fsm.receive(m, wire::now()), &m);
}

// A message for a connection that does not exist.
void service::answer_unknown(shared_port& at, const port::arrival& what) noexcept
{
  if (const auto answer = answer_without_end(what.what))
    at.send(*answer, what.peer, what.local);
}

void service::refuse_request(shared_port& at, const port::arrival& what, reject_reason why) noexcept
{
  message answer;
  answer.transaction = what.what.transaction;
  if (what.what.type == message_type::request)
  {
    answer.type = message_type::reject;
    answer.remote_id = what.what.local_id;
    answer.status = static_cast<std::uint16_t>(why);
  }
  else
  {
    answer.type = message_type::datagram_reply;
    answer.local_id = what.what.local_id;
    answer.status = static_cast<std::uint16_t>(why == reject_reason::invalid_service_id
        ? datagram_status::no_service
        : datagram_status::rejected);
  }
  at.send(answer, what.peer, what.local);
}

void service::take_request(shared_port& at, const port::arrival& what)
{
  const message& m = what.what;
  const bool datagram = m.type == message_type::datagram_request;
  if (const auto known = requests_.find({what.peer, m.local_id, datagram});
      known != requests_.end())
    return perform(*known->second, known->second->fsm.receive(m, wire::now()), &m);
  identifier* listener = nullptr;
  for (identifier* each : at.bound)
    if (each->at == identifier::stage::listening && service_id_of(*each) == m.service_id)
      listener = each;
  // Programs destroy a listener and listen again at once (perftest -R). Connecting takes longer on
  // a NIC than here, so that only here a request arrives in between. It is refused when it is
  // repeated.
  const auto last_unheard = at.unheard;
  if (listener == nullptr)
    at.unheard = {what.peer, m.local_id};
  if (at.unheard != last_unheard)
    return;
  std::size_t gid_index = 0;
  const bool usable = listener != nullptr && m.local_id != 0 && find_gid(what.local, gid_index)
    && datagram == (listener->qp_type == IBV_QPT_UD)
    && (datagram
      || (m.service_type == 0 && is_usual_number(m.queue_pair) && m.path_mtu >= IBV_MTU_256
        && m.path_mtu <= IBV_MTU_4096));
  if (!usable)
    return refuse_request(at, what, reject_reason::invalid_service_id);
  if (listener->pending == listener->backlog)
    return refuse_request(at, what, reject_reason::consumer);

  identifier& child = make_id(listener->events(), listener->context, listener->ps);
  try
  {
    child.qp_type = listener->qp_type;
    child.port = listener->port;
    child.peer = what.peer;
    child.local = {what.local, listener->local.port};
    child.gid_index = gid_index;
    child.request = m;
    child.at = identifier::stage::connection;
    child.responder_resources = m.initiator_depth; // until the program accepts with its own
    child.initiator_depth = m.responder_resources;
    child.fsm.take_request(m);
    attach_device(child);
    write_route(child, {what.peer.ip, m.source_port});
    requests_.emplace(key_of(child), &child);
    event_list made;
    made.push_back(std::make_unique<channel_event>(RDMA_CM_EVENT_CONNECT_REQUEST, child));
    channel_event& event = *made.front();
    event.listen_id = listener;
    if (!datagram)
      set_parameters(event.param.conn, m);
    set_data(event, m, datagram);
    child.listener = listener;
    ++listener->pending;
    report(std::move(made));
  }
  catch (const std::bad_alloc&)
  {
    forget(child);
    ids_.erase(child.fsm.local_id());
    throw;
  }
}

// No process receives at this address: its connections are gone.
void service::refuse(const endpoint& peer) noexcept
{
  for (const auto& [name, each] : ids_)
    if (each->at == identifier::stage::connection && each->peer == peer)
      perform(*each, each->fsm.refuse(wire::now()));
}

void service::on_lost_peer(std::uint32_t queue_pair) noexcept
{
  std::shared_ptr<service> one;
  {
    const std::lock_guard lock(registry_mutex);
    one = registry().lock();
  }
  if (!one || one->is_inherited())
    return;
  const std::lock_guard lock(one->mutex);
  if (const auto found = one->by_queue_pair_.find(queue_pair); found != one->by_queue_pair_.end())
    one->perform(*found->second, found->second->fsm.suspect(wire::now()));
}

} // namespace rdma::software::cm

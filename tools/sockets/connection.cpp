//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "sockets/connection.hpp"

#include "sockets/endpoints.hpp"
#include "sockets/listening.hpp"
#include "sockets/rules.hpp"
#include "sockets/system.hpp"

#include "connect/accepted_socket.hpp"

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/error.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

namespace rdma::sockets {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

// The open connections of this process, for its end.
struct connections
{
  std::mutex mutex;
  std::vector<std::weak_ptr<connection>> all;
  std::size_t at_sweep = 0;

  static connections& of_process()
  {
    static auto* const made = new connections; // other threads may use it at exit
    return *made;
  }

  void add(std::weak_ptr<connection> what)
  {
    const std::lock_guard lock(mutex);
    if (all.size() >= 2 * at_sweep)
    {
      std::erase_if(all, [](const auto& each) { return each.expired(); });
      at_sweep = all.size() + 16;
    }
    all.push_back(std::move(what));
  }
};

// These are declared in <linux/tcp.h>, which cannot be included together with <netinet/tcp.h>.
struct long_tcp_info
{
  tcp_info beginning;
  std::uint64_t pacing_rate;
  std::uint64_t max_pacing_rate;
  std::uint64_t bytes_acked;
  std::uint64_t bytes_received;
};
static_assert(offsetof(long_tcp_info, bytes_received) == 128);

bool is_stream_socket(int fd) noexcept
{
  int type = 0;
  socklen_t size = sizeof type;
  return ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

} // namespace

// --- the beginning ---

std::shared_ptr<socket> socket::connecting(int fd, const sockaddr* server, socklen_t size) noexcept
try
{
  const internal_call internal;
  const auto to = to_endpoint(server, size);
  if (!to || to->port() == 0 || !is_stream_socket(fd) || !rules::allow(false, server))
    return nullptr;
  const auto from = local_endpoint(fd);
  return std::make_shared<connection>(*to, from ? from->address() : asio::ip::address());
}
catch (const std::exception&)
{
  return nullptr; // TCP
}

std::shared_ptr<socket> socket::accepted(
  const sockaddr* client, socklen_t size, listener& from) noexcept
try
{
  const internal_call internal;
  const auto peer = to_endpoint(client, size);
  if (!peer)
    return nullptr;
  auto& by = static_cast<listening&>(from);
  return std::make_shared<connection>(by.shared_from_this(), *peer);
}
catch (const std::exception&)
{
  return nullptr;
}

std::shared_ptr<socket> socket::inherited(int fd) noexcept
try
{
  const internal_call internal;
  const auto client = remote_endpoint(fd);
  const auto local = local_endpoint(fd);
  if (!client || !local || !rules::allow(true, local->data()))
    return nullptr;
  return std::make_shared<connection>(std::make_shared<listening>(), *client);
}
catch (const std::exception&)
{
  return nullptr;
}

connection::connection(const tcp::endpoint& server, const asio::ip::address& from)
  : made_in_(runtime::generation())
  , peer_(server)
{
  runtime& library = runtime::of_process();
  const asio::any_io_executor executor = library.io().get_executor();
  attempt_ = std::make_shared<detail::stream_connect>(detail::stream_client{
    executor, executor, [&library] { return library.queue_pairs(); }, true, true});
  attempt_->ask(server, from);
}

connection::connection(std::shared_ptr<listening> by, const tcp::endpoint& client)
  : made_in_(runtime::generation())
  , accepted_by_(std::move(by))
  , peer_(client)
  , is_connected_(true)
{
}

socket::state connection::current() const noexcept
{
  const state now = state_.load(std::memory_order_acquire);
  const bool of_parent = (now == state::deciding || now == state::rdma) && is_foreign();
  return of_parent ? state::ended : now;
}

socket::state connection::use(int fd) noexcept
{
  if (state_.load(std::memory_order_acquire) != state::undecided)
    return current();
  const internal_call internal;
  try
  {
    const lock_type lock(mutex_);
    if (state_.load(std::memory_order_relaxed) == state::undecided)
      begin(fd, lock);
  }
  catch (const std::exception& e)
  {
    if (!accepted_by_ && state_.load(std::memory_order_relaxed) == state::undecided)
      go_on_with_kernel(std::string("tcp ") + e.what()); // the server has received nothing
    else
      end_with(e.what());
  }
  return current();
}

// The first bytes of a client decide if it has not asked before, or its question was lost.
bool connection::is_decided_by_bytes(int fd, const lock_type& lock)
{
  const auto asked = accepted_by_->discovery();
  if (asked && asked->expects(peer_.address()))
    return false;
  const detail::first_bytes found = detail::look_at_first_bytes(fd);
  if (found == detail::first_bytes::none)
    return true; // later
  if (found == detail::first_bytes::other)
  {
    ending_ = "tcp the client has not asked for RDMA";
    become(state::kernel, lock);
    return true;
  }
  if (!asked)
    throw std::bad_alloc(); // it cannot be answered, and the program must not read it
  return false;
}

void connection::begin(int fd, const lock_type& lock)
{
  if (accepted_by_ && is_decided_by_bytes(fd, lock))
    return;
  if (!accepted_by_ && is_foreign())
  {
    ending_ = "tcp another process has connected it";
    return become(state::kernel, lock);
  }
  made_in_ = runtime::generation();
  is_connected_ = is_connected_ || remote_endpoint(fd).has_value();
  copy_ = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  const int other_copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (other_copy < 0)
  {
    if (copy_ >= 0)
      ::close(std::exchange(copy_, -1));
    throw system_error(error_code(errno, boost::system::system_category()), "no descriptor");
  }
  auto handler = [self = shared_from_this()](const error_code& ec, detail::connected_peer peer)
  { self->decided(ec, std::move(peer)); };
  connections::of_process().add(weak_from_this());
  become(state::deciding, lock);
  if (!accepted_by_)
    return attempt_->decide(peer_.protocol(), other_copy, std::move(handler));
  runtime& library = runtime::of_process();
  // A server that sends first goes on without the client.
  auto goes_on = [self = shared_from_this()]
  {
    const lock_type here(self->mutex_);
    return self->closed_ || !self->pending_.empty();
  };
  detail::decide_accepted(
    peer_.protocol(), other_copy, accepted_by_->discovery(), library.io().get_executor(),
    [&library] { return library.queue_pairs(); }, std::move(goes_on), std::move(handler));
}

// --- the decision ---

// On the thread of the runtime.
void connection::decided(const error_code& ec, detail::connected_peer peer) noexcept
try
{
  if (ec)
  {
    // As with TCP: the program gets a reset only if it has sent bytes.
    lock_type lock(mutex_);
    ended_unused_ = pending_.empty() && is_unused_by_server();
    lock.unlock();
    return end_with(ec.message());
  }
  if (!peer.queue_pair)
    return go_on_with_kernel((peer.remote.port() != 0 ? "tcp " : "none ") + std::move(peer.why));
  auto made = std::static_pointer_cast<detail::stream_impl>(
    detail::stream_core::make(std::move(peer), stream_options()));
  made->observe(weak_from_this());
  lock_type lock(mutex_);
  attempt_ = nullptr;
  stream_ = std::move(made);
  ::close(std::exchange(copy_, -1));
  is_connected_ = true;
  become(state::rdma, lock);
  const bool is_flushed = flush_and_end(lock);
  lock.unlock(); // flush() is called with the mutex of the list held
  if (!is_flushed)
    runtime::of_process().flush_later(shared_from_this());
}
catch (const std::exception& e)
{
  end_with(e.what());
}

void connection::go_on_with_kernel(std::string ending) noexcept
{
  lock_type lock(mutex_);
  while (!pending_.empty())
  {
    lock.unlock();
    if (!send_pending_to_kernel())
      return end_with("TCP has failed");
    lock.lock();
  }
  attempt_ = nullptr;
  ending_ = std::move(ending);
  if (copy_ >= 0)
  {
    const int flags = ::fcntl(copy_, F_GETFL);
    const int wanted = non_blocking ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
    if (flags >= 0 && flags != wanted)
      ::fcntl(copy_, F_SETFL, wanted);
    if (writes_nothing_)
      ::shutdown(copy_, SHUT_WR);
    ::close(std::exchange(copy_, -1));
  }
  become(state::kernel, lock);
}

// Returns false if that is not possible.
bool connection::send_pending_to_kernel() noexcept
{
  constexpr int limit_ms = 30'000; // the kernel has room for more bytes than these
  std::vector<char> bytes;
  {
    const lock_type lock(mutex_);
    bytes.swap(pending_);
  }
  for (std::size_t sent = 0; sent != bytes.size();)
  {
    const ssize_t n =
      ::send(copy_, bytes.data() + sent, bytes.size() - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    pollfd room{copy_, POLLOUT, 0};
    if (n >= 0)
      sent += static_cast<std::size_t>(n);
    else if (errno != EAGAIN || ::poll(&room, 1, limit_ms) != 1)
      return false;
  }
  return true;
}

// Returns true if the server has closed the connection without reading the bytes of the attempt,
// which has not shut down the socket.
bool connection::is_unused_by_server() const noexcept
{
  long_tcp_info info{};
  socklen_t size = sizeof info;
  if (accepted_by_ || copy_ < 0 || ::getsockopt(copy_, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
    return false;
  const bool was_reset = info.beginning.tcpi_state == TCP_CLOSE;
  const bool will_be_reset =
    info.beginning.tcpi_state == TCP_CLOSE_WAIT && info.beginning.tcpi_unacked != 0;
  return info.bytes_received <= 1 // the end counts as a byte
    && (was_reset || will_be_reset);
}

void connection::end_with(std::string why) noexcept
{
  const lock_type lock(mutex_);
  attempt_ = nullptr;
  ending_ = "none " + std::move(why);
  error_ = ended_unused_ ? 0 : ECONNRESET;
  if (copy_ >= 0)
    ::close(std::exchange(copy_, -1));
  become(state::ended, lock);
}

void connection::become(state next, const lock_type&) noexcept
{
  state_.store(next, std::memory_order_release);
  changed();
}

// --- other calls ---

short connection::events() const noexcept
{
  constexpr short in = POLLIN | POLLRDNORM;
  constexpr short out = POLLOUT | POLLWRNORM;
  constexpr short ended = in | out | POLLRDHUP | POLLHUP;
  switch (current())
  {
  case state::rdma:
    break;
  case state::deciding:
    return is_connected_ && unsent() < static_cast<int>(pending_max) ? out : 0;
  default:
    if (ended_unused_)
      return writes_nothing_ ? ended : in | out | POLLRDHUP;
    return ended | POLLERR;
  }
  const auto now = stream_->look();
  if (now.failure && !now.peer_has_finished)
    return has_failed_ ? ended : ended | POLLERR;
  short result = 0;
  if (now.readable != 0 || now.peer_has_finished || reads_nothing_)
    result |= in;
  if (now.writable || writes_nothing_ || now.failure)
    result |= out;
  if (now.peer_has_finished || reads_nothing_)
    result |= POLLRDHUP;
  if ((now.peer_has_finished || reads_nothing_) && writes_nothing_)
    result |= POLLHUP;
  return result;
}

int connection::unread() const noexcept
{
  return current() == state::rdma ? static_cast<int>(stream_->look().readable) : 0;
}

int connection::unsent() const noexcept
{
  const lock_type lock(mutex_);
  return static_cast<int>(pending_.size());
}

int connection::take_error() noexcept
{
  if (current() != state::rdma)
    return error_.exchange(0);
  const auto now = stream_->look();
  const bool is_new = now.failure && !now.peer_has_finished && !has_failed_.exchange(true);
  return is_new ? ECONNRESET : 0;
}

int connection::shut_down(int how) noexcept
{
  const internal_call internal;
  const state now = current();
  if ((now == state::ended && !ended_unused_) || !is_connected_)
  {
    errno = ENOTCONN;
    return -1;
  }
  if (how == SHUT_RD || how == SHUT_RDWR)
    reads_nothing_ = true;
  if (how == SHUT_WR || how == SHUT_RDWR)
  {
    const lock_type lock(mutex_);
    writes_nothing_ = true;
    if (now == state::rdma && flush(lock))
    {
      error_code ignored; // it has ended
      stream_->shut_down(ignored);
    }
  }
  changed();
  return 0;
}

// The stream sends what it has, and the end.
void connection::finish(const lock_type&) noexcept
{
  if (!stream_ || is_foreign())
    return;
  stream_->close(resets_);
  try
  {
    runtime::of_process().finish_later(stream_);
  }
  catch (const std::exception&)
  {
    // The program's threads finish it.
  }
}

void connection::close(bool resets) noexcept
{
  const internal_call internal;
  if (is_foreign() && current() == state::ended)
    return; // the parent's
  const lock_type lock(mutex_);
  if (std::exchange(closed_, true))
    return;
  resets_ = resets;
  if (current() == state::rdma && flush(lock))
    finish(lock);
  else if (attempt_ && (current() == state::undecided || resets))
    attempt_->cancel();
  else if (current() == state::deciding)
    writes_nothing_ = true;
}

void connection::end() noexcept
{
  close(false);
}

bool connection::is_over() const noexcept
{
  if (current() == state::deciding)
    return false;
  const lock_type lock(mutex_);
  return pending_.empty() || current() != state::rdma;
}

// go_on_with_kernel() gives the kernel's flag this value.
void connection::set_non_blocking(bool to) noexcept
{
  if (is_foreign())
    return;
  const lock_type lock(mutex_);
  non_blocking = to;
}

// Threads of the parent may have held the mutexes, and watchers are on their stacks.
void connection::after_fork() noexcept
{
  ::new (&mutex_) std::mutex;
  ::new (&watch_mutex_) std::mutex;
  ::new (&watchers_) std::vector<watcher*>;
}

void connection::watch(watcher& by) noexcept
{
  const std::lock_guard lock(watch_mutex_);
  watchers_.push_back(&by);
}

void connection::unwatch(watcher& by) noexcept
{
  const std::lock_guard lock(watch_mutex_);
  if (const auto found = std::find(watchers_.begin(), watchers_.end(), &by);
      found != watchers_.end())
    watchers_.erase(found);
}

void connection::changed() noexcept
{
  const std::lock_guard lock(watch_mutex_);
  for (watcher* const each : watchers_)
    each->changed();
}

std::string connection::describe() const
{
  switch (current())
  {
  case state::rdma:
    return "rdma " + stream_->transport().text();
  case state::undecided:
    return "none it was not used";
  case state::deciding:
    return "none the peers had not agreed before its end";
  case state::kernel:
  case state::ended:
    break;
  }
  if (is_foreign())
    return "none it belongs to the parent process";
  const lock_type lock(mutex_);
  return ending_;
}

namespace progress {

void finish() noexcept
{
  runtime* const made = runtime::existing();
  if (made == nullptr)
    return;
  const internal_call internal;
  std::vector<std::weak_ptr<connection>> all;
  {
    connections& known = connections::of_process();
    const std::lock_guard lock(known.mutex);
    all.swap(known.all);
  }
  std::vector<std::shared_ptr<connection>> open;
  for (const auto& each : all)
    if (auto alive = each.lock())
    {
      alive->end();
      open.push_back(std::move(alive));
    }
  made->finish(
    [&]
    {
      return std::all_of(
        open.begin(), open.end(), [](const auto& each) { return each->is_over(); });
    });
}

} // namespace progress
} // namespace rdma::sockets

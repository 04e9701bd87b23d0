//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/discovery.hpp"

#include "connect/log.hpp"

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>

#include <algorithm>
#include <cerrno>
#include <map>
#include <new>
#include <utility>

#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>

namespace rdma::detail {

namespace asio = boost::asio;
using asio::ip::tcp;
using asio::ip::udp;

namespace {

constexpr std::chrono::milliseconds answer_max{20}; // for an answer, after TCP has connected
constexpr std::chrono::seconds own_answer_max{1};   // of this host: it is only slow, not filtered
constexpr std::chrono::seconds preamble_max{1};     // for a preamble, after TCP has connected

// Servers that do not answer, for instance because datagrams are filtered.
class silent_servers
{
public:
  static silent_servers& of_process()
  {
    static silent_servers servers;
    return servers;
  }

  // Both do nothing while the mutex is held: in a child process it may be held for ever.
  void add(const tcp::endpoint& server)
  {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock)
      return;
    if (until_.size() >= size_max)
      until_.clear();
    until_[server] = clock::now() + memory;
  }

  [[nodiscard]] bool contains(const tcp::endpoint& server)
  {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock)
      return false;
    const auto found = until_.find(server);
    return found != until_.end() && clock::now() < found->second;
  }

private:
  using clock = std::chrono::steady_clock;
  static constexpr std::size_t size_max = 1024;
  static constexpr std::chrono::seconds memory{60};

  std::mutex mutex_;
  std::map<tcp::endpoint, clock::time_point> until_;
};

error_code last_error()
{
  return {errno, boost::system::system_category()};
}

void set(int fd, int level, int option, error_code& ec, int on = 1)
{
  if (!ec && ::setsockopt(fd, level, option, &on, sizeof on) != 0)
    ec = last_error();
}

int get(int fd, int level, int option)
{
  int value = 0;
  socklen_t size = sizeof value;
  return ::getsockopt(fd, level, option, &value, &size) == 0 ? value : 0;
}

} // namespace

// --- the server ---

void discovery_server::open(const tcp::endpoint& at, int listener, error_code& ec)
{
  const lock_type lock(mutex_);
  const udp::endpoint local(at.address(), at.port());
  open_socket(local, listener, ec);
  if (ec)
  {
    error_code ignored;
    socket_->close(ignored);
    return;
  }
  always_ = get(listener, SOL_SOCKET, SO_REUSEPORT) != 0;
  wait(lock);
}

void discovery_server::assign(const tcp& protocol, int native, error_code& ec)
{
  const lock_type lock(mutex_);
  socket_->assign(protocol == tcp::v6() ? udp::v6() : udp::v4(), native, ec);
  if (ec)
    return;
  always_ = get(native, SOL_SOCKET, SO_REUSEPORT) != 0;
  wait(lock);
}

void discovery_server::open_socket(const udp::endpoint& local, int listener, error_code& ec)
{
  socket_->open(local.protocol(), ec);
  if (ec)
    return;
  close_on_exec(*socket_);
  // Each datagram brings its destination, from which the answer is sent.
  const int fd = socket_->native_handle();
  if (local.address().is_v6())
  {
    set(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, ec);
    set(fd, IPPROTO_IPV6, IPV6_V6ONLY, ec, get(listener, IPPROTO_IPV6, IPV6_V6ONLY));
  }
  else
    set(fd, IPPROTO_IP, IP_PKTINFO, ec);
  if (get(listener, SOL_SOCKET, SO_REUSEPORT) != 0)
    set(fd, SOL_SOCKET, SO_REUSEPORT, ec);
  if (!ec)
    socket_->non_blocking(true, ec);
  if (!ec)
    socket_->bind(local, ec);
}

void discovery_server::close() noexcept
{
  const lock_type lock(mutex_);
  socket_.reset();
}

void discovery_server::wait(const lock_type&)
{
  // With memory of its own, so that a lack of memory does not end it.
  socket_->async_wait(udp::socket::wait_read,
    asio::bind_allocator(slot_allocator<void>(wait_slot_),
      [self = shared_from_this()](const error_code& ec)
      {
        const lock_type lock(self->mutex_);
        if (ec || !self->socket_)
          return;
        self->answer_all(lock);
        self->wait(lock);
      }));
}

void discovery_server::answer_all(const lock_type& lock)
{
  constexpr int most = 64; // the thread also has other work; the next wait ends at once
  for (int i = 0; i != most && answer_next(lock); ++i)
    ;
}

// Returns false if there is no datagram.
bool discovery_server::answer_next(const lock_type&)
{
  discovery_message::bytes_type bytes;
  udp::endpoint from;
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(in6_pktinfo))> control;
  iovec vector{bytes.data(), bytes.size()};
  msghdr header{};
  header.msg_name = from.data();
  header.msg_namelen = static_cast<socklen_t>(from.capacity());
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const int fd = socket_->native_handle();
  const ssize_t n = ::recvmsg(fd, &header, MSG_DONTWAIT | MSG_TRUNC);
  if (n < 0)
    return errno != EAGAIN;
  auto m = discovery_message::decode({bytes.data(), std::min<std::size_t>(n, bytes.size())});
  if (static_cast<std::size_t>(n) != bytes.size() || !m || m->type != discovery_type::question)
    return true;
  from.resize(header.msg_namelen);
  questions_->add(m->token, from.address());
  m->type = discovery_type::answer;
  bytes = m->encode();
  static_cast<void>(::sendmsg(fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL)); // may be lost, as all
  return true;
}

bool discovery_server::expects(const asio::ip::address& from)
{
  const lock_type lock(mutex_);
  if (socket_ && socket_->is_open())
    answer_all(lock);
  return always_ || questions_->contains(from);
}

void discovery_server::arrived(const discovery_message::token_type& token)
{
  const lock_type lock(mutex_);
  if (socket_ && socket_->is_open())
    answer_all(lock); // the question may have been repeated
  questions_->remove(token);
}

namespace {

first_bytes look_at(int socket, discovery_message& found) noexcept
{
  // recv(2) would take the error of a reset, which is the program's.
  pollfd ready{socket, POLLIN, 0};
  int unread = 0;
  if (::poll(&ready, 1, 0) == 1 && (ready.revents & POLLERR) != 0
    && (::ioctl(socket, FIONREAD, &unread) != 0 || unread == 0))
    return first_bytes::other;
  discovery_message::bytes_type bytes;
  const ssize_t n = ::recv(socket, bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
  if (n < 0)
    return errno == EAGAIN ? first_bytes::none : first_bytes::other;
  const std::span got(bytes.data(), static_cast<std::size_t>(n));
  if (n == 0 || !discovery_message::is_beginning(got))
    return first_bytes::other;
  if (got.size() != bytes.size())
    return first_bytes::part;
  const auto m = discovery_message::decode(got);
  if (!m || m->type != discovery_type::preamble)
    return first_bytes::other;
  found = *m;
  return first_bytes::preamble;
}

} // namespace

service_awaitable<bool> takes_preamble(
  connection& link, discovery_server& discovery, bool expected, std::chrono::milliseconds most)
{
  using namespace asio::experimental::awaitable_operators;
  auto& socket = static_cast<tcp_control_stream&>(link.stream()).socket;
  const int fd = socket.native_handle();
  asio::steady_timer timer(link.io());
  const bool waits = expected || discovery.expects(link.stream().remote_endpoint().address());
  timer.expires_after(waits ? std::min<std::chrono::milliseconds>(preamble_max, most)
                            : std::chrono::milliseconds::zero());
  const auto wait_for = [fd](int bytes)
  { static_cast<void>(::setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes)); };
  bool is_part = false;
  bool has_preamble = false;
  for (discovery_message m; !link.stopped();)
  {
    const first_bytes found = look_at(fd, m);
    has_preamble = found == first_bytes::preamble;
    if (has_preamble)
    {
      discovery_message::bytes_type taken;
      static_cast<void>(::recv(fd, taken.data(), taken.size(), MSG_DONTWAIT)); // as it was seen
      discovery.arrived(m.token);
      break;
    }
    if (found == first_bytes::other || std::chrono::steady_clock::now() >= timer.expiry()
      || (found == first_bytes::part && is_part)) // it ends there
      break;
    if (found == first_bytes::part)
    {
      is_part = true;
      wait_for(discovery_message::size); // otherwise the wait would end at once
    }
    error_code ready;
    error_code expired;
    co_await (
      socket.async_wait(tcp::socket::wait_read, into(ready)) || timer.async_wait(into(expired)));
  }
  if (is_part && !link.stopped())
    wait_for(1);
  co_return has_preamble;
}

first_bytes look_at_first_bytes(int socket) noexcept
{
  discovery_message ignored;
  return look_at(socket, ignored);
}

// --- the client ---

discovery_client::discovery_client(asio::io_context& io)
  : socket_(io)
  , timer_(io)
{
  if (::getrandom(token_.data(), token_.size(), 0) < 0) // up to 256 bytes at once
    throw system_error(last_error(), "no random numbers");
}

void discovery_client::ask(const tcp::endpoint& server, bool again, const asio::ip::address& from)
{
  server_ = server;
  if (!again && silent_servers::of_process().contains(server))
    return end("the server does not answer UDP");
  error_code ec;
  const udp::endpoint to(server.address(), server.port());
  socket_.open(to.protocol(), ec);
  if (!ec)
    close_on_exec(socket_);
  if (!ec && !from.is_unspecified())
    socket_.bind({from, 0}, ec);
  if (!ec)
    socket_.connect(to, ec);
  if (!ec)
    send(ec);
  if (ec)
    return end("the server cannot be asked: " + ec.message());
  receive();
}

void discovery_client::send(error_code& ec)
{
  socket_.send(asio::buffer(discovery_message{discovery_type::question, token_}.encode()), 0, ec);
}

void discovery_client::receive()
{
  socket_.async_receive(asio::buffer(received_),
    [self = shared_from_this()](const error_code& ec, std::size_t size)
    { self->on_received(ec, size); });
}

void discovery_client::on_received(const error_code& ec, std::size_t size)
{
  if (ec == asio::error::operation_aborted || result_)
    return;
  if (ec) // an ICMP error
    return end("the server does not accept RDMA: " + ec.message());
  const auto m = discovery_message::decode(std::span(received_).first(size));
  if (!m || m->type != discovery_type::answer || m->token != token_)
    return receive();
  end({});
}

void discovery_client::end(std::string why)
{
  result_ = std::move(why);
  error_code ignored;
  socket_.close(ignored);
  timer_.cancel();
}

service_awaitable<std::string> discovery_client::answer(bool is_same_host, bool repeats)
{
  if (!result_ && repeats)
  {
    error_code ec;
    send(ec); // the first question may have been lost
    if (ec)
      end("the server does not accept RDMA: " + ec.message()); // an ICMP error for the first one
  }
  if (!result_)
  {
    error_code ec;
    timer_.expires_after(is_same_host ? own_answer_max : answer_max);
    const auto start = [this](auto handler)
    {
      auto slot = asio::get_associated_cancellation_slot(handler);
      try
      {
        timer_.async_wait(std::move(handler));
      }
      catch (const std::bad_alloc&)
      {
        slot.clear(); // Boost 1.81 leaves a reference to the timer there, which may end first
        throw;
      }
    };
    auto token = into(ec);
    co_await asio::async_initiate<decltype(token), void(error_code)>(start, token);
    if (!result_)
    {
      if (!ec) // otherwise the operation was cancelled
        silent_servers::of_process().add(server_);
      end("the server does not answer UDP");
    }
  }
  co_return *result_;
}

} // namespace rdma::detail

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/wire/connection.hpp"

#include "verbs/software/queue_pair_number.hpp"
#include "verbs/software/wire/engine.hpp"
#include "verbs/software/wire/local_socket.hpp"
#include "verbs/software/wire/served_link.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

namespace rdma::software::wire {

namespace {

constexpr std::int64_t backoff_min = 1'000'000;
constexpr std::int64_t backoff_max = 100'000'000;
constexpr std::int64_t greeting_wait = 2'000'000'000;
constexpr std::uint32_t segment_min = 1024;

ibv_gid gid_of(const protocol::endpoint_name& name)
{
  ibv_gid gid;
  std::copy(name.gid.begin(), name.gid.end(), gid.raw);
  return gid;
}

} // namespace

connection::~connection()
{
  hang_up();
}

// Closing alone is not enough: a child of fork() may have the socket, too. The child only closes
// it, and leaves the lane to its parent.
void connection::hang_up() noexcept
{
  end_wires();
  if (link_ && !inherited())
    link_->release(lane_);
  link_.reset();
  link_number_.store(0, std::memory_order_relaxed);
  if (inherited())
    fd_.reset();
  if (!fd_)
    return;
  engine_.unwatch(fd_.get());
  ::shutdown(fd_.get(), SHUT_RDWR);
  fd_.reset();
}

void connection::open(
  const protocol::hello& mine, const connection_secret& secret, bool connects, std::int64_t now)
{
  secret_ = secret;
  wire_name_.store("", std::memory_order_relaxed);
  mine_ = mine;
  connects_ = connects;
  mine_.segment = segment_bytes;
  with_.segment = segment_bytes;
  malformed_ = false;
  peer_is_here_ = engine_.has_local_wire() && is_of_this_host(gid_of(mine_.to));
  attempts_ = 0;
  if (connects)
  {
    state_ = state::connecting;
    backoff_ = backoff_min;
    connect(now);
  }
  else
  {
    state_ = state::waiting;
    meet();
  }
}

void connection::meet()
{
  while (auto pending_hello = engine_.room().take(with_.qp))
  {
    if (!adopt(*pending_hello))
      engine::refuse(*pending_hello);
  }
}

void connection::connect(std::int64_t now)
{
  retry_at_ = 0;
  state_ = state::connecting;
  ++attempts_;
  if (connect_locally(now))
    return;
  if (!engine_.has_tcp_wire())
  {
    retry(now);
    return;
  }
  const address local = to_address(gid_of(mine_.from), 0);
  const address remote = to_address(gid_of(mine_.to), port_of(mine_.to.qp));
  fd_ = make_socket(remote.storage.ss_family);
  const int on = 1;
  if (fd_)
    ::setsockopt(fd_.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
  if (fd_ && (peer_is_here_ || mine_.from.gid == mine_.to.gid))
    set_no_pacing(fd_.get());
  if (fd_)
    set_route(fd_.get(), route_);
  // From the address that the GID names: the peer admits no other.
  if (!fd_ || local.storage.ss_family != remote.storage.ss_family
    || ::bind(fd_.get(), local.get(), local.size) != 0
    || (::connect(fd_.get(), remote.get(), remote.size) != 0 && errno != EINPROGRESS))
  {
    retry(now);
    return;
  }
  say_hello(now, false); // within a host the connection is there already
}

// Returns false if the peer's context is not on this host.
bool connection::connect_locally(std::int64_t now)
{
  // Now and then the other wire: whatever is in the way of this one, the two may still reach each
  // other.
  constexpr unsigned other_wire_every = 8;
  if (!peer_is_here_ || (attempts_ % other_wire_every == 0 && engine_.has_tcp_wire()))
    return false;
  link_ = engine_.attach(with_.qp, gid_of(mine_.to), mine_.to.qp, lane_);
  if (!link_)
    return false;
  say_hello(now, false);
  return true;
}

void connection::retry(std::int64_t now) noexcept
{
  hang_up();
  state_ = state::connecting;
  retry_at_ = now + backoff_;
  backoff_ = std::min(backoff_ * 2, backoff_max);
}

void connection::timer(std::int64_t now)
{
  if (retry_at_ == 0 || now < retry_at_ || inherited())
    return;
  // It may have been us who did not look in time.
  if (state_ == state::greeting)
    read_greeting(now);
  if (state_ != state::connecting && state_ != state::greeting)
    return;
  if (fd_ || link_)
    retry(now); // neither accepted nor answered in time
  else if (now >= retry_at_)
    connect(now);
}

// Sending the hello shows if there is a connection.
void connection::say_hello(std::int64_t now, bool watched)
{
  if (!fd_ && !link_)
    return;
  protocol::sign(mine_, secret_, 0);
  protocol::hello_bytes mine;
  encode(mine_, mine);
  const bool said = say(mine);
  if (!said && (link_ || errno != EAGAIN))
  {
    retry(now);
    return;
  }
  state_ = said ? state::greeting : state::connecting;
  heard_size_ = 0;
  retry_at_ = now + greeting_wait;
  if (link_)
    return; // which reports the answer
  const std::uint32_t events = said ? EPOLLIN : EPOLLOUT;
  if (watched ? said && !engine_.rewatch(fd_.get(), with_.qp, events)
              : !engine_.watch(fd_.get(), with_.qp, events))
    retry(now);
}

bool connection::say(const protocol::hello_bytes& bytes, bool more_follows) noexcept
{
  if (link_)
    return link_->link().send(lane_, bytes);
  // A fresh socket has room for this.
  const ssize_t n =
    ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | (more_follows ? MSG_MORE : 0));
  if (n >= 0 && n != static_cast<ssize_t>(bytes.size()))
    errno = ENOBUFS;
  return n == static_cast<ssize_t>(bytes.size());
}

// Returns true if a whole message or the end has arrived.
bool connection::hear() noexcept
{
  if (link_)
  {
    if (link_->link().take_message(lane_, heard_))
      heard_size_ = heard_.size();
    return heard_size_ == heard_.size() || link_->link().is_over(lane_);
  }
  const ssize_t n =
    ::recv(fd_.get(), heard_.data() + heard_size_, heard_.size() - heard_size_, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return false;
  if (n > 0)
    heard_size_ += static_cast<std::size_t>(n);
  return n <= 0 || heard_size_ == heard_.size();
}

void connection::read_greeting(std::int64_t now)
{
  if (!hear())
    return;
  const auto theirs = heard_size_ == heard_.size() ? protocol::decode_hello(heard_) : std::nullopt;
  const bool more_follows = !link_ && requester_.outstanding();
  if (!theirs || theirs->from != mine_.to || theirs->to != mine_.from
    || !protocol::is_signed(*theirs, secret_, mine_.nonce) || theirs->segment < segment_min
    || theirs->segment > mine_.segment || !protocol::agree_on_psns(mine_, *theirs)
    || !say(protocol::confirmation(secret_, mine_.nonce, theirs->nonce), more_follows))
  {
    // Not ready yet, or not the one: the peer may be about to leave RESET, so go on trying. What is
    // waiting for it is bounded by the retry timer of the queue pair.
    retry(now);
    return;
  }
  with_.segment = theirs->segment;
  establish();
  if (!more_follows)
    return;
  // The waiting frames leave in one segment with the confirmation: transmit() comes next. If there
  // are none, the confirmation leaves alone.
  if (!tcp_.fill(false))
    push();
}

// Sends the bytes that MSG_MORE held back (tcp(7), TCP_NODELAY).
void connection::push() noexcept
{
  constexpr int on = 1;
  ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void connection::read_confirmation()
{
  if (!hear())
    return;
  if (heard_size_ != heard_.size()
    || !protocol::is_confirmation(heard_, secret_, peers_nonce_, mine_.nonce))
  {
    // The peer gave this connection up, for we were slow to answer, and tries another.
    hang_up();
    state_ = state::waiting;
    return;
  }
  establish();
}

bool connection::adopt(pending_hello& who)
{
  const protocol::hello& theirs = who.theirs;
  if (state_ == state::confirming)
    read_confirmation(); // which may be there
  // All that is known must agree; the PSNs are known to this end when it is in RTS.
  if ((state_ != state::waiting && state_ != state::confirming) || theirs.from != mine_.to
    || theirs.to != mine_.from || !protocol::is_signed(theirs, secret_, 0)
    || theirs.segment < segment_min || !protocol::agree_on_psns(mine_, theirs))
    return false;
  if (who.link && (!peer_is_here_ || !who.link->link().adopt(who.lane, with_.qp)))
    return false;
  hang_up(); // of an attempt that the peer has given up
  fd_ = std::move(who.fd);
  link_ = std::move(who.link);
  lane_ = who.lane;
  if (fd_ && (peer_is_here_ || mine_.from.gid == mine_.to.gid))
    set_no_pacing(fd_.get());
  if (fd_)
    set_route(fd_.get(), route_);
  mine_.segment = std::min(mine_.segment, theirs.segment);
  with_.segment = mine_.segment;
  heard_size_ = 0;
  peers_nonce_ = theirs.nonce;
  protocol::sign(mine_, secret_, peers_nonce_);
  protocol::hello_bytes mine;
  encode(mine_, mine);
  // Watched before the hello leaves: the peer uses a connection from its arrival on, and tries
  // another one if this one ends before.
  if ((fd_ && !engine_.watch(fd_.get(), with_.qp, EPOLLIN)) || !say(mine))
  {
    hang_up();
    state_ = state::waiting;
    return true;
  }
  // It may have given this connection up already, for we were slow: nothing is sent before it is
  // sure.
  state_ = state::confirming;
  return true;
}

void connection::establish()
{
  retry_at_ = 0;
  state_ = state::established;
  wire_name_.store(link_ ? "local" : "tcp", std::memory_order_relaxed);
  if (!link_)
    return tcp_.open(fd_.get());
  local_.open(link_->link(), lane_);
  link_number_.store(link_->number(), std::memory_order_relaxed);
  local_established_.store(true, std::memory_order_release);
}

const char* connection::why_not_local() const noexcept
{
  if (std::string_view(wire_name()) == "local")
    return "";
  if (!engine_.has_local_wire())
    return "device_settings::wires or BOOST_RDMA_WIRES leaves it out";
  if (!peer_is_here_)
    return "the peer is on another host, or in another network namespace";
  return "the peer's device does not offer it, or its process is another user's";
}

// No thread polls the local wire's memory any more when this returns.
void connection::end_wires() noexcept
{
  tcp_.close();
  if (!local_established_.load(std::memory_order_relaxed))
    return;
  local_established_.store(false, std::memory_order_release);
  engine_.look_away(with_.qp);
  local_.close();
}

void connection::receive(std::int64_t now)
{
  if (inherited()) [[unlikely]]
    return;
  switch (state_)
  {
  case state::connecting:
    say_hello(now, true);
    break;
  case state::greeting:
    read_greeting(now);
    break;
  case state::confirming:
    read_confirmation();
    if (state_ == state::established)
      receive(now);
    break;
  case state::established:
    if (local_.is_open())
      read_local();
    else
      settle(tcp_.receive());
    break;
  default:
    break;
  }
}

void connection::read_local()
{
  // Before the rings are read: what the peer wrote last is there.
  const bool ended = link_->link().is_over(lane_);
  const bool good =
    ended ? local_.receive_the_rest() : local_.receive(looked_at_.load(std::memory_order_seq_cst));
  if (!good)
    abandon_malformed();
  else if (ended)
    lose();
}

void connection::transmit(bool acknowledge)
{
  if (state_ != state::established || inherited())
    return;
  if (!local_.is_open())
    settle(tcp_.transmit(acknowledge));
  else if (!local_.transmit(acknowledge))
    lose();
}

void connection::settle(tcp_wire::condition after) noexcept
{
  if (after == tcp_wire::condition::malformed)
    abandon_malformed();
  else if (after == tcp_wire::condition::ended)
    lose();
}

void connection::lose() noexcept
{
  state_ = state::lost;
  retry_at_ = 0;
  hang_up();
}

void connection::abandon_malformed() noexcept
{
  malformed_ = true;
  lose();
}

void connection::close() noexcept
{
  const bool established = state_ == state::established && !inherited();
  state_ = state::closed;
  retry_at_ = 0;
  if (established && fd_)
  {
    engine_.unwatch(fd_.get());
    try
    {
      // The peer has a right to the completion of what was carried out.
      if (auto rest = tcp_.take_rest())
        engine_.linger(std::move(fd_), std::move(*rest));
    }
    catch (const std::bad_alloc&)
    {
      // The peer finds the connection gone, as if this host had crashed.
    }
  }
  else if (established)
  {
    local_.say_the_last(); // the peer finds it in the memory when it finds this end detached
  }
  hang_up();
}

} // namespace rdma::software::wire

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/wire/connection.hpp"

#include "verbs/software/wire/engine.hpp"
#include "verbs/software/wire/local_socket.hpp"
#include "verbs/software/wire/served_link.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace rdma::software::wire {

namespace {

constexpr std::int64_t backoff_min = 1'000'000;
constexpr std::int64_t backoff_max = 100'000'000;
constexpr std::int64_t greeting_wait = 3'000'000'000;  // a refusal comes after 2 s
constexpr std::int64_t suspicion_wait = 1'000'000'000; // a live peer connects much earlier
constexpr std::uint32_t segment_min = 1024;

// Every eighth attempt uses the other wire, in case only that one reaches the peer.
constexpr unsigned other_wire_every = 8;

} // namespace

connection::~connection()
{
  hang_up();
}

// A child of fork() does not release the lane, which remains owned by its parent.
void connection::hang_up() noexcept
{
  end_wires();
  if (link_ && !inherited())
    link_->release(lane_);
  link_.reset();
  link_number_.store(0, std::memory_order_relaxed);
}

void connection::open(
  const protocol::hello& mine, const connection_secret& secret, bool connects, std::int64_t now)
{
  secret_ = secret;
  wire_name_.store("", std::memory_order_relaxed);
  mine_ = mine;
  connects_ = connects;
  with_.segment = tcp_wire::segment_bytes; // until the two ends agree
  malformed_ = false;
  peer_is_here_ = engine_.has_local_wire() && is_of_this_host(to_gid(mine_.to.gid));
  linked_by_.store(engine_.linked_by(mine_.to), std::memory_order_relaxed);
  attempts_ = 0;
  is_to_itself_ = mine_.from == mine_.to;
  suspect_at_ = now + suspicion_wait;
  if (is_to_itself_)
  {
    with_.segment = loopback_wire::segment_bytes;
    state_ = state::waiting; // for tell_first_psn()
  }
  else if (connects)
  {
    state_ = state::connecting;
    backoff_ = backoff_min;
    connect(now);
  }
  else
  {
    state_ = state::waiting;
    if (lost_peer_hook.load(std::memory_order_acquire) != nullptr)
      retry_at_ = suspect_at_;
    meet();
  }
}

void connection::tell_first_psn(std::uint32_t psn) noexcept
{
  mine_.first_psn = psn;
  if (!is_to_itself_ || psn != mine_.expected_psn)
    return;
  state_ = state::established;
  wire_name_.store("local", std::memory_order_relaxed);
}

void connection::meet()
{
  while (auto pending = engine_.hellos().take(with_.qp))
  {
    if (!adopt(*pending))
      engine::refuse(*pending);
  }
}

void connection::connect(std::int64_t now)
{
  retry_at_ = 0;
  state_ = state::connecting;
  const bool locally =
    peer_is_here_ && !(++attempts_ % other_wire_every == 0 && engine_.has_tcp_wire());
  link_ = locally ? attach(true) : nullptr;
  if (!link_ && engine_.has_tcp_wire())
    link_ = attach(false);
  send_hello(now);
}

void connection::send_hello(std::int64_t now)
{
  mine_.segment = link_ && link_->is_local() ? local_wire::segment_bytes : tcp_wire::segment_bytes;
  protocol::sign(mine_, secret_, 0);
  protocol::hello_bytes mine;
  encode(mine_, mine);
  if (!link_ || !link_->send(lane_, mine))
  {
    retry(now);
    return;
  }
  state_ = state::greeting;
  has_heard_ = false;
  retry_at_ = now + greeting_wait;
}

// Attaches to a link to the peer's context. Returns null if that fails.
std::shared_ptr<link> connection::attach(bool locally) noexcept
{
  path there = path_to(mine_.to, locally);
  if (!locally)
  {
    there.from = mine_.from.gid;
    there.by = route_;
  }
  return engine_.attach(with_.qp, there, lane_);
}

void connection::retry(std::int64_t now) noexcept
{
  hang_up();
  state_ = state::connecting;
  // No pause precedes an attempt on the other wire, so a peer that becomes ready later is found on
  // the local one.
  const bool other_wire_is_next =
    peer_is_here_ && engine_.has_tcp_wire() && (attempts_ + 1) % other_wire_every == 0;
  retry_at_ = other_wire_is_next ? now : now + backoff_;
  backoff_ = std::min(backoff_ * 2, backoff_max);
}

void connection::timer(std::int64_t now)
{
  if (retry_at_ == 0 || now < retry_at_ || inherited())
    return;
  // The answer may have arrived in time without having been read.
  if (state_ == state::greeting)
    read_greeting(now);
  if (state_ == state::established)
    return;
  if (now >= suspect_at_)
  {
    // The peer's process may have ended before it connected, of which no socket tells.
    report_lost_peer();
    suspect_at_ = now + suspicion_wait;
  }
  if (state_ == state::greeting && now >= retry_at_)
  {
    // The peer has not even refused, as it does for a queue pair that is not ready.
    link_->avoid();
    retry(now);
  }
  else if (state_ == state::connecting && now >= retry_at_)
    connect(now);
  else if (state_ == state::waiting || state_ == state::confirming)
    retry_at_ = suspect_at_;
}

// Returns true if a message has arrived or the lane has ended.
bool connection::read_message() noexcept
{
  has_heard_ = link_->take_message(lane_, heard_);
  return has_heard_ || link_->is_over(lane_);
}

// Begins again on the local wire if the peer answers over TCP although the attempt on the local
// wire has failed. A peer listens on the local wire before it listens on TCP, so it has begun to
// listen in between. Returns true if this end has begun again.
bool connection::returns_to_local_wire(std::int64_t now)
{
  if (!peer_is_here_ || link_->is_local() || attempts_ % other_wire_every == 0)
    return false;
  const lane_use before = lane_;
  std::shared_ptr<link> local = attach(true);
  const lane_use after = std::exchange(lane_, before);
  if (!local)
    return false;
  hang_up();
  link_ = std::move(local);
  lane_ = after;
  send_hello(now);
  return true;
}

void connection::read_greeting(std::int64_t now)
{
  if (!read_message())
    return;
  if (has_heard_ && returns_to_local_wire(now))
    return;
  const auto theirs = has_heard_ ? protocol::decode_hello(heard_) : std::nullopt;
  if (!theirs || theirs->from != mine_.to || theirs->to != mine_.from
    || !protocol::is_signed(*theirs, secret_, mine_.nonce) || theirs->segment < segment_min
    || theirs->segment > mine_.segment || !protocol::agree_on_psns(mine_, *theirs)
    || !link_->send(lane_, protocol::confirmation(secret_, mine_.nonce, theirs->nonce)))
  {
    // The peer is not ready, or is not the expected one. The attempts go on, because the peer may
    // be about to leave RESET. The retry timer of the queue pair limits the wait of posted
    // requests.
    retry(now);
    return;
  }
  with_.segment = theirs->segment;
  establish();
}

void connection::read_confirmation()
{
  if (!read_message())
    return;
  if (!has_heard_ || !protocol::is_confirmation(heard_, secret_, peers_nonce_, mine_.nonce))
  {
    // The peer has given up this connection because the answer was late, and makes another one.
    hang_up();
    state_ = state::waiting;
    return;
  }
  establish();
}

bool connection::adopt(pending_hello& hello)
{
  const protocol::hello& theirs = hello.theirs;
  if (state_ == state::confirming)
    read_confirmation(); // the confirmation may have arrived
  // All known values must match. This end has its own first PSN from RTS on.
  if ((state_ != state::waiting && state_ != state::confirming) || is_to_itself_
    || theirs.from != mine_.to || theirs.to != mine_.from
    || !protocol::is_signed(theirs, secret_, 0) || theirs.segment < segment_min
    || !protocol::agree_on_psns(mine_, theirs))
    return false;
  if ((hello.link->is_local() && !peer_is_here_)
    || !hello.link->adopt(hello.lane, with_.qp, route_))
    return false;
  hang_up(); // ends an attempt that the peer has given up
  link_ = std::move(hello.link);
  lane_ = hello.lane;
  mine_.segment = with_.segment = std::min(
    theirs.segment, link_->is_local() ? local_wire::segment_bytes : tcp_wire::segment_bytes);
  has_heard_ = false;
  peers_nonce_ = theirs.nonce;
  protocol::sign(mine_, secret_, peers_nonce_);
  protocol::hello_bytes mine;
  encode(mine_, mine);
  if (!link_->send(lane_, mine))
  {
    hang_up();
    state_ = state::waiting;
    return true;
  }
  // The peer may have given up this connection because the answer was late. Nothing is sent before
  // it confirms.
  state_ = state::confirming;
  return true;
}

void connection::establish()
{
  retry_at_ = 0;
  state_ = state::established;
  const bool locally = link_->is_local();
  link_->prove(path_to(mine_.to, locally));
  wire_name_.store(locally ? "local" : "tcp", std::memory_order_relaxed);
  if (locally)
    local_.open(static_cast<served_link&>(*link_).local(), lane_);
  else
    tcp_.open(static_cast<tcp_link&>(*link_), lane_.lane);
  link_number_.store(link_->number(), std::memory_order_relaxed);
  (locally ? local_established_ : tcp_established_).store(true, std::memory_order_release);
}

const char* connection::why_not_local() const noexcept
{
  const std::string_view by = wire_name();
  if (by == "local" || (by.empty() && linked_by() == std::string_view("local")))
    return "";
  if (!engine_.has_local_wire())
    return "device_settings::wires or BOOST_RDMA_WIRES leaves it out";
  if (!peer_is_here_)
    return "the peer is on another host, or in another network namespace";
  return "the peer's device does not offer it, or its process is another user's";
}

// Ends the use of either wire. No thread polls the local wire's memory when this returns.
void connection::end_wires() noexcept
{
  tcp_established_.store(false, std::memory_order_relaxed);
  tcp_.close();
  if (!local_established_.load(std::memory_order_relaxed))
    return;
  local_established_.store(false, std::memory_order_release);
  engine_.look_away(with_.qp);
  local_.close();
}

void connection::receive(std::int64_t now, tcp_link* from)
{
  if (inherited()) [[unlikely]]
    return;
  if (state_ == state::greeting)
    read_greeting(now);
  else if (state_ == state::confirming)
    read_confirmation();
  if (state_ != state::established)
    return;
  if (local_.is_open())
    read_local();
  else if (!is_to_itself_)
    read_tcp(from);
}

void connection::read_tcp(tcp_link* from)
{
  const auto& by = static_cast<const tcp_link&>(*link_);
  // Before the stream is read, because the peer's last frames precede its end.
  const bool ended = by.is_over(lane_);
  if (from == &by && !tcp_.receive())
    abandon_malformed();
  if (ended && established())
    by.malformed() ? abandon_malformed() : lose();
}

void connection::read_local()
{
  // Before the rings are read, so that the peer's last records are found.
  const bool ended = link_->is_over(lane_);
  const bool good =
    ended ? local_.receive_the_rest() : local_.receive(looked_at_.load(std::memory_order_seq_cst));
  if (!good)
    abandon_malformed();
  else if (ended)
    lose();
}

void connection::transmit(bool acknowledge)
{
  if (state_ != state::established || inherited()) [[unlikely]]
  {
    if (!inherited())
      requester_.run_local_requests();
    return;
  }
  if (local_.is_open())
  {
    local_.transmit(acknowledge);
  }
  else if (is_to_itself_)
  {
    loopback_.transmit();
  }
  else
  {
    tcp_.transmit(acknowledge);
  }
}

void connection::report_lost_peer() const noexcept
{
  if (const auto hook = lost_peer_hook.load(std::memory_order_acquire); hook != nullptr)
    hook(with_.qp);
}

void connection::lose() noexcept
{
  report_lost_peer();
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
  // The peer gets the completions of the requests that were carried out.
  if (established && local_.is_open())
    local_.say_the_last(); // the peer reads the memory when it finds this end detached
  else if (established)
    tcp_.finish();
  hang_up();
}

} // namespace rdma::software::wire

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/wire/tcp_link.hpp"

#include "verbs/software/protocol/bytes.hpp"
#include "verbs/software/protocol/packet.hpp"
#include "verbs/software/wire/engine.hpp"
#include "verbs/software/wire/unordered_access.hpp"

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include <sys/epoll.h>
#include <sys/socket.h>

namespace rdma::software::wire {
namespace {

constexpr std::uint8_t op_attach = 0xc0;
constexpr auto op_detach = static_cast<std::uint8_t>(tcp_detach);

// The fields' sizes in bytes: opcode 1, lane 1, zero 2, number 4.
void put_head(protocol::byte_writer& out, std::uint8_t op, lane_use lane) noexcept
{
  out.put(op, 1);
  out.put(lane.lane, 1);
  out.put(0, 2);
  out.put(lane.number, 4);
}

std::optional<lane_use> get_head(protocol::byte_reader& in, std::uint8_t op) noexcept
{
  constexpr std::uint32_t number_max = (1u << 24) - 1;
  const bool matches = in.get(1) == op;
  lane_use lane;
  lane.lane = in.get32(1) & (lanes_max - 1);
  const bool zero = in.get(2) == 0;
  const std::uint32_t number = in.get32();
  lane.number = number & number_max;
  return matches && zero && number <= number_max ? std::optional(lane) : std::nullopt;
}

} // namespace

void encode(const attach_message& from, tcp_attach_bytes& to) noexcept
{
  protocol::byte_writer out(to.data());
  put_head(out, op_attach, from.lane);
  std::copy(from.bytes.begin(), from.bytes.end(), to.begin() + tcp_message_size);
}

std::optional<attach_message> decode_attach(
  std::span<const std::byte, tcp_attach_size> from) noexcept
{
  protocol::byte_reader in(from.data());
  const auto lane = get_head(in, op_attach);
  if (!lane)
    return std::nullopt;
  attach_message message;
  message.lane = *lane;
  std::copy(from.begin() + tcp_message_size, from.end(), message.bytes.begin());
  return message;
}

tcp_link::tcp_link(engine& by, descriptor socket, const path& to, bool made_here)
  : link(by, to, made_here)
  , socket_(std::move(socket))
  , lanes_(made_here ? 0 : 1)
  , stream_(socket_.get())
{
}

// A peer must connect from the address that it names. (Within the host only the secret prevents a
// process from using another of the host's addresses: processes of the same user are trusted.)
bool tcp_link::may_name(const protocol::endpoint_name& peer) const noexcept
{
  return peer.gid == path_.to;
}

// --- lanes ---

std::optional<lane_use> tcp_link::take(std::uint32_t qp) noexcept
{
  return lanes_.take(
    qp, [this](unsigned lane) { return lanes_.has_left(lane); }, [](unsigned) {});
}

bool tcp_link::adopt(lane_use which, std::uint32_t qp, const route& by) noexcept
{
  if (!lanes_.adopt(which, qp))
    return false;
  set_route(socket_.get(), by); // the last one wins where they differ
  return true;
}

void tcp_link::release(lane_use which) noexcept
{
  std::array<std::byte, tcp_message_size> detach;
  protocol::byte_writer out(detach.data());
  put_head(out, op_detach, which);
  // A peer that has refused the queue pair does not use the lane, and ignores this message.
  if (lanes_.release(which, [](unsigned) {}))
    put(detach, tcp_output::stored_broken);
  released();
}

bool tcp_link::send(lane_use to, const protocol::hello_bytes& bytes) noexcept
{
  tcp_attach_bytes message;
  encode({to, bytes}, message);
  // A peer that does not read gets no refusal.
  return put(
    message, protocol::is_not_ready(bytes) ? tcp_output::stored_max : tcp_output::stored_broken);
}

// --- sending ---

std::ptrdiff_t tcp_link::send(unsigned lane, std::span<const iovec> what,
  std::span<const std::size_t> ends, bool unordered) noexcept
{
  const unordered_access overlooked(unordered);
  return output_.send(lane, what, ends);
}

std::ptrdiff_t tcp_link::write(std::span<const iovec> what) noexcept
{
  constexpr int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(what.data());
  message.msg_iovlen = what.size();
  std::ptrdiff_t n = 0;
  do
    n = what.size() == 1 ? ::send(socket_.get(), what.front().iov_base, what.front().iov_len, flags)
                         : ::sendmsg(socket_.get(), &message, flags);
  while (n < 0 && errno == EINTR);
  return n;
}

void tcp_link::watch_for_room(bool on) noexcept
{
  if (socket_)
    engine_.rewatch(
      socket_.get(), number(), std::uint32_t{EPOLLIN} | (on ? std::uint32_t{EPOLLOUT} : 0u));
}

void tcp_link::shut_down() noexcept
{
  ::shutdown(socket_.get(), SHUT_RDWR);
}

void tcp_link::break_off(bool malformed) noexcept
{
  if (malformed)
    malformed_.store(true, std::memory_order_release);
  output_.abandon();
  lanes_.end();
}

void tcp_link::end() noexcept
{
  lanes_.end();
  if (inherited())
    return;
  auto rest = output_.end();
  try
  {
    engine_.linger(std::move(socket_), std::move(rest), !is_proven());
  }
  catch (const std::bad_alloc&)
  {
    // The peer sees a closed connection, as after a crash of this host.
  }
}

// --- serving ---

void tcp_link::serve(mover by, std::uint32_t events)
{
  if (by != mover::poster)
    readable_.store(true, std::memory_order_relaxed);
  link::serve(by, events);
}

bool tcp_link::come_due(std::int64_t now)
{
  end_if_unused(now);
  const std::uint32_t serial = deferrals_.load(std::memory_order_relaxed);
  const bool is_left = deferred_.load(std::memory_order_relaxed);
  // A new deferral is left to a polling thread for one more tick.
  const bool is_new = is_left && std::exchange(seen_, serial) != serial;
  if (is_new)
    engine_.owe(*this);
  else if (is_left || readable_.load(std::memory_order_relaxed))
    serve(mover::engine);
  else
    return false;
  return true;
}

void tcp_link::defer(unsigned lane, bool poll_is_near) noexcept
{
  deferring_.add(lane, std::memory_order_seq_cst);
  if (deferred_.exchange(true, std::memory_order_seq_cst))
    return;
  deferrals_.fetch_add(1, std::memory_order_relaxed);
  engine_.defer(*this, poll_is_near);
}

// A call for a poster, by engine::serve_deferred(), may do the work of concurrent calls, which want
// to receive.
void tcp_link::work(mover caller)
{
  const mover by = caller == mover::engine ? caller : mover::poller;
  if (caller == mover::poster) // a poll has found no completion: all messages have been answered
    expected_.store(0, std::memory_order_relaxed);
  const auto serve_lane = [&](unsigned lane)
  {
    if (const std::uint32_t qp = lanes_.user_of(lane); qp != 0)
      engine_.serve(qp, by);
  };
  output_.begin_turn();
  if (writable_.load(std::memory_order_relaxed)
    && writable_.exchange(false, std::memory_order_relaxed))
    output_.use_room(serve_lane);
  // Before reading: acknowledgements of the messages read below wait for their answers.
  if (deferred_.load(std::memory_order_relaxed)
    && deferred_.exchange(false, std::memory_order_seq_cst))
    deferring_.take(serve_lane);
  if (readable_.load(std::memory_order_relaxed)
    && readable_.exchange(false, std::memory_order_relaxed))
    read(by);
  output_.end_turn();
  report_end(by);
}

void tcp_link::read(mover by)
{
  if (ended())
    return;
  received_ = 0;
  if (!stream_.begin())
    return break_off(false); // memory is short
  while (take_next(by) || stream_.read())
  {
  }
  stream_.end();
  if (stream_.ended())
    lanes_.end();
  // With two or more, the answers are sent together.
  const int left = expected_.load(std::memory_order_relaxed);
  if (by == mover::poller && (received_ >= 2 || left > 0))
    expected_.store(std::max(left, 0) + static_cast<int>(received_), std::memory_order_relaxed);
}

// Takes a message or a frame, or the available part of its payload. Returns false if more bytes are
// needed.
bool tcp_link::take_next(mover by)
{
  const auto staged = stream_.staged();
  if (stream_.left() != 0 && !stream_.skips())
    return take_frame(by, stream_.qp());
  if (stream_.left() != 0)
  {
    const auto part =
      static_cast<std::uint32_t>(std::min<std::size_t>(staged.size(), stream_.left()));
    stream_.use(part);
    stream_.use_payload(part);
    return part != 0;
  }
  if (staged.empty() || ended())
    return false;
  const auto op = static_cast<std::uint8_t>(staged.front());
  if (op == op_attach || op == op_detach)
    return take_message(by);
  const std::size_t size = protocol::header_size(op);
  if (size != 0 && staged.size() < size)
    return false;
  const auto header = size != 0 ? protocol::decode(staged.first(size)) : std::nullopt;
  if (!header)
  {
    break_off(true);
    return false;
  }
  return take_frame(by, header->dest_qp);
}

// Passes the stream to a queue pair.
bool tcp_link::take_frame(mover by, std::uint32_t qp)
{
  const std::uint64_t before = stream_.used();
  claimed_ = false;
  engine_.deliver(qp, *this, by);
  if (claimed_)
    return stream_.used() != before;
  if (stream_.left() != 0)
  {
    stream_.skip();
    return true;
  }
  // Frames may still arrive for a queue pair that has detached, but for no other.
  if (!lanes_.expects(qp))
  {
    break_off(true);
    return false;
  }
  const auto header = protocol::decode(stream_.staged());
  stream_.use(protocol::header_size(static_cast<std::uint8_t>(stream_.staged().front())));
  stream_.begin_payload(qp, header ? header->payload : 0, true);
  return true;
}

bool tcp_link::take_message(mover by)
{
  const auto staged = stream_.staged();
  const bool attaches = static_cast<std::uint8_t>(staged.front()) == op_attach;
  const std::size_t size = attaches ? tcp_attach_size : tcp_message_size;
  if (staged.size() < size)
    return false;
  protocol::byte_reader in(staged.data());
  const auto message = attaches ? decode_attach(staged.first<tcp_attach_size>()) : std::nullopt;
  const auto lane = attaches ? std::nullopt : get_head(in, op_detach);
  if (!message && !lane)
  {
    break_off(true);
    return false;
  }
  stream_.use(size);
  if (lane)
  {
    if (const std::uint32_t qp = lanes_.leave(*lane); qp != 0)
      engine_.serve(qp, by);
    return true;
  }
  try
  {
    const auto purpose = lanes_.receive(*message);
    if (purpose == lane_table::purpose::hello)
      introduce(*message);
    else if (const std::uint32_t qp = lanes_.user_of(message->lane.lane);
             qp != 0 && purpose == lane_table::purpose::user)
      engine_.serve(qp, by);
  }
  catch (const std::bad_alloc&)
  {
    // The handshake has a time limit.
  }
  return true;
}

} // namespace rdma::software::wire

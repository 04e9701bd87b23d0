//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "stream/stream_impl.hpp"

#include "boost_rdma/access.hpp"
#include "boost_rdma/detail/initiate.hpp"
#include "completion/completion_queue_impl.hpp"
#include "resource/domain_impl.hpp"
#include "resource/pool_impl.hpp"

#include <boost/asio/error.hpp>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

// The messages and the bytes of a stream.

namespace rdma::detail {

namespace asio = boost::asio;

namespace {

// Larger writes are not copied by this end: the copy would cost more than waiting for the device.
constexpr std::size_t copy_max = 64 * 1024;

// Such a write moves at most so much: its memory is registered at once.
constexpr std::size_t direct_max = 16 * 1024 * 1024;

// Less than the largest message of any device.
constexpr std::size_t part_max = 1024 * 1024;

// The ends of a connection that a program of sockets knows.
error_code as_stream_error(const error_code& ec)
{
  return ec == asio::error::operation_aborted || ec == error::forked || ec == error::device_lost
    ? ec
    : make_error_code(asio::error::connection_reset);
}

} // namespace

struct stream_impl::received
{
  using is_called_at_once = void;
  void operator()(const error_code& ec, std::size_t size, bool in_poll = false)
  {
    stream->on_received(index, ec, size, in_poll);
  }

  std::shared_ptr<stream_impl> stream;
  std::uint32_t index;
};

struct stream_impl::sent
{
  using is_called_at_once = void;
  void operator()(const error_code& ec, std::size_t, bool in_poll = false)
  {
    stream->on_sent(*this, ec, in_poll);
  }

  std::shared_ptr<stream_impl> stream;
  std::uint64_t write; // the number of the operation whose memory is read; any_number: none
  std::size_t copied;  // bytes of the program that the device reads from the pool
};

// --- receiving ---

// This receive completes after those that were posted before.
void stream_impl::expect(std::uint32_t index) noexcept
{
  posted_[(first_posted_ + posted_count_++) % posted_.size()] = index;
}

// Without memory for the next step, the stream ends.
template <class Step>
void stream_impl::or_fail(Step step)
try
{
  step();
}
catch (const std::bad_alloc&)
{
  fail(make_error_code(asio::error::no_memory));
}

void stream_impl::post_receive(std::uint32_t index)
{
  expect(index);
  or_fail(
    [&]
    {
      start_operation<receive_result>(core_.get())(executor_, received{shared_from_this(), index},
        request{.kind = request_kind::receive}, const_buffer(receive_at(index)));
    });
}

void stream_impl::on_received(
  std::uint32_t index, const error_code& ec, std::size_t size, bool in_poll)
{
  if (core_->forked())
    return; // a thread of the parent may hold the mutex
  lock_type lock(mutex_);
  results_[index] = {true, ec, size};
  // Threads of the io_context may call the handlers in another order than that of the messages.
  while (posted_count_ != 0 && results_[posted_[first_posted_]].ended)
  {
    const std::uint32_t next = posted_[first_posted_];
    first_posted_ = (first_posted_ + 1) % posted_.size();
    --posted_count_;
    const result got = std::exchange(results_[next], {});
    if (got.ec)
      fail(as_stream_error(got.ec));
    else if (!failure_)
      or_fail([&] { take(next, got.size); });
  }
  transfer_list ended;
  advance(ended);
  complete(std::move(lock), ended, in_poll);
}

void stream_impl::take(std::uint32_t index, std::size_t size)
{
  const mutable_buffer buffer = receive_at(index);
  const auto* const bytes = static_cast<const std::byte*>(buffer.data());
  const auto m = stream_message::decode({bytes, std::min(size, buffer.size())});
  switch (m ? fsm_.receive(*m) : stream_fsm::arrival::violation)
  {
  case stream_fsm::arrival::reset:
    return fail(make_error_code(asio::error::connection_reset));
  case stream_fsm::arrival::violation:
    return fail(make_error_code(boost::system::errc::protocol_error));
  case stream_fsm::arrival::data:
    available_ += m->count;
    add_unread({bytes + stream_message::header_size, m->count, index});
    return;
  case stream_fsm::arrival::written:
  {
    const std::byte* const at = ring_at(fsm_.arrived());
    available_ += m->count;
    // One entry for adjacent bytes: the receives then bound the number of entries.
    if (unread* const last = first_unread_ != unread_.size() ? &unread_.back() : nullptr;
        last != nullptr && !last->receive && last->at + last->size == at)
      last->size += m->count;
    else
      add_unread({at, m->count, std::nullopt});
    break;
  }
  case stream_fsm::arrival::nothing:
  case stream_fsm::arrival::finished:
    break;
  }
  post_receive(index);
  fsm_.reposted();
}

void stream_impl::add_unread(const unread& what)
{
  if (unread_.size() == unread_.capacity())
  {
    unread_.erase(unread_.begin(), unread_.begin() + static_cast<std::ptrdiff_t>(first_unread_));
    first_unread_ = 0;
  }
  unread_.push_back(what);
}

// Moves unread bytes to the program's memory, or only ends their use. Returns their number.
std::size_t stream_impl::take_unread(std::byte* to, std::size_t size)
{
  std::size_t done = 0;
  while (done != size && first_unread_ != unread_.size())
  {
    unread& from = unread_[first_unread_];
    const auto part = static_cast<std::uint32_t>(std::min<std::size_t>(size - done, from.size));
    if (to != nullptr)
      std::memcpy(to + done, from.at, part);
    done += part;
    from.at += part;
    from.size -= part;
    if (!from.receive)
      fsm_.read(part);
    if (from.size != 0)
      continue;
    if (from.receive && !failure_)
    {
      post_receive(*from.receive);
      fsm_.reposted();
    }
    ++first_unread_;
  }
  if (first_unread_ == unread_.size())
  {
    unread_.clear();
    first_unread_ = 0;
  }
  available_ -= done;
  return done;
}

std::size_t stream_impl::fill(const targets& to)
{
  std::size_t done = 0;
  for (const asio::mutable_buffer& each : to)
    done += take_unread(static_cast<std::byte*>(each.data()), each.size());
  return done;
}

void stream_impl::advance_reads(transfer_list& ended)
{
  auto next = reads_.begin();
  for (; next != reads_.end(); ++next)
  {
    next->bytes = fill(std::get<targets>(next->buffers));
    if (next->bytes == 0 && fsm_.peer_has_finished())
      next->ec = asio::error::eof;
    else if (next->bytes == 0 && failure_)
      next->ec = failure_;
    else if (next->bytes == 0)
      break;
  }
  ended.splice(ended.end(), reads_, reads_.begin(), next);
}

// --- sending ---

// Returns memory for the device with this message, and after it bytes of these buffers; empty: it
// has failed.
// Returns an empty buffer after a failure.
registered_buffer stream_impl::allocate(std::size_t size)
{
  registered_buffer made;
  or_fail(
    [&]
    {
      error_code ec;
      made = context_.allocate(size, ec);
      if (ec)
        fail(ec);
    });
  return made;
}

registered_buffer stream_impl::store(
  const stream_message& m, std::span<const asio::const_buffer> data)
{
  const std::size_t size = m.size() + (data.empty() ? 0 : m.count);
  registered_buffer buffer = allocate(size);
  if (buffer.size() == 0)
    return {};
  auto* const to = static_cast<std::byte*>(buffer.data());
  m.encode({to, m.size()});
  asio::buffer_copy(asio::buffer(to + m.size(), size - m.size()), data);
  return buffer;
}

// `what` are the arguments of the operation that follow the handler.
template <class... What>
void stream_impl::post(std::uint64_t write, std::size_t copied, const What&... what)
{
  start_operation<bytes_result>(core_.get())(
    executor_, sent{shared_from_this(), write, copied}, what...);
  ++sending_; // its handler waits for the mutex
  copied_ += copied;
  // If this fails, the peer must be told, although the program may wait for nothing.
  core_->completions().work_started();
  core_->completions().kick();
}

void stream_impl::send(const stream_message& m, std::span<const asio::const_buffer> data)
{
  if (const registered_buffer buffer = store(m, data); buffer.size() != 0)
    or_fail(
      [&] { post(any_number, 0, request{.kind = request_kind::send}, const_buffer(buffer)); });
}

// Writes to the peer's ring, and tells the peer. Both are one batch, so that the peer is not told
// of a write that the device refuses.
bool stream_impl::write_to_ring(const const_buffer& from, std::uint64_t write, std::size_t copied)
{
  const remote_buffer to = fsm_.peer_ring().slice(fsm_.writable().offset, from.size());
  const registered_buffer notice = store(fsm_.written(static_cast<std::uint32_t>(from.size())));
  if (notice.size() != 0)
    or_fail(
      [&]
      {
        batch_.clear();
        batch_.write(from, to).send(notice);
        post(write, copied, request{.kind = request_kind::batch}, batch_);
      });
  return !failure_;
}

// Writes what there is room for. Returns true if the operation has ended.
bool stream_impl::write(transfer& op)
{
  const auto list = std::get<sources>(op.buffers).list();
  const std::size_t size = asio::buffer_size(list);
  if (size <= stream_message::data_max)
    return write_message(op, list);
  if (list.front().size() <= copy_max)
    return write_copy(op, list);
  if (op.bytes == 0 && fsm_.writable().size == 0)
    return false;
  const auto from = asio::buffer(list.front(), direct_max);
  if (!register_memory(op, from))
    return write_copy(op, list);
  write_parts(op, from);
  return op.bytes != 0 && op.pending == 0;
}

bool stream_impl::write_message(transfer& op, std::span<const asio::const_buffer> list)
{
  if (!fsm_.can_send_bytes())
    return false;
  op.bytes = asio::buffer_size(list);
  send(fsm_.data(op.bytes), list);
  return true;
}

// Before the peer is told of bytes, they must be certain to arrive: a write of plain memory could
// be refused because the memory cannot be registered.
bool stream_impl::register_memory(transfer& op, asio::const_buffer from)
{
  if (op.memory || op.refused)
    return !op.refused;
  domain_impl& domain = *context_.impl();
  op.memory.reset(domain.pool().find(from.data(), from.size()));
  error_code ec;
  if (!op.memory)
    op.memory.reset(domain.cache().acquire(from.data(), from.size(), false, ec));
  op.refused = !op.memory;
  return !op.refused;
}

bool stream_impl::write_copy(transfer& op, std::span<const asio::const_buffer> list)
{
  const stream_fsm::range room = fsm_.writable();
  const std::size_t size = std::min<std::size_t>({asio::buffer_size(list), copy_max, room.size});
  // The peer decides on the room: a large ring that it does not serve must not use up the pool.
  if (size == 0 || (copied_ != 0 && copied_ + size > options_.ring_max))
    return false;
  op.bytes = size;
  const registered_buffer copy = allocate(size);
  if (copy.size() == 0)
    return true;
  asio::buffer_copy(asio::buffer(copy.data(), size), list);
  write_to_ring(copy, any_number, size);
  return true;
}

// From the program's memory. The peer can read one part while this end writes the next.
void stream_impl::write_parts(transfer& op, asio::const_buffer from)
{
  while (op.bytes != from.size() && !closed_ && !write_failure())
  {
    const stream_fsm::range room = fsm_.writable();
    if (room.size == 0)
      return;
    const std::size_t size = std::min<std::size_t>({from.size() - op.bytes, room.size, part_max,
      std::max<std::size_t>(fsm_.peer_ring().size() / 4, 1)});
    const auto* const at = static_cast<const std::byte*>(from.data()) + op.bytes;
    if (!write_to_ring(const_buffer(at, size, op.memory.get()), op.number, 0))
      return;
    ++op.pending; // its handler waits for the mutex
    op.bytes += size;
  }
}

void stream_impl::advance_writes(transfer_list& ended)
{
  auto next = writes_.begin();
  for (; next != writes_.end(); ++next)
  {
    if (next->bytes == 0 && next->number > last_write_)
      next->ec = asio::error::broken_pipe;
    else if (next->bytes == 0 && write_failure())
      next->ec = write_failure();
    else if (!write(*next))
      break;
    else
      next->ec = write_failure();
    if (next->ec)
      next->bytes = 0;
    next->memory.reset();
  }
  ended.splice(ended.end(), writes_, writes_.begin(), next);
}

void stream_impl::on_sent(const sent& what, const error_code& ec, bool in_poll)
{
  const counted_work counted{core_->completions()};
  if (core_->forked())
    return; // a thread of the parent may hold the mutex
  lock_type lock(mutex_);
  --sending_;
  copied_ -= what.copied;
  bool is_over =
    ec || closed_ || (what.copied != 0 && (!writes_.empty() || !waits_.empty() || is_observed_));
  for (transfer& each : writes_)
    if (each.number == what.write)
      is_over = --each.pending == 0 || is_over;
  if (!is_over)
    return; // nothing waits for this
  // Messages that arrived before the failure may be waiting for on_received(). The queue pair also
  // ends the receives, after them.
  // siw refuses to post when the peer has closed, before the receives are flushed (siw_verbs.c,
  // siw_post_send).
  const bool has_left = is_iwarp_ && ec.category() == boost::system::system_category();
  if (ec && core_->is_connected() && !has_left)
    fail(ec); // this end refused it
  else if (ec && !send_failure_)
    send_failure_ = as_stream_error(ec);
  transfer_list ended;
  advance(ended);
  complete(std::move(lock), ended, in_poll);
}

void stream_impl::greet()
{
  if (fsm_.hello_due())
    send(fsm_.hello(rings_[0].remote()));
}

// An iWARP device completes a send when TCP has it. If the queue pair were closed then, the next
// message of the peer would make TCP drop what has not left. A read of the peer's ring completes
// when the peer's device has taken all messages before.
void stream_impl::send_end()
{
  const stream_message m = fsm_.finish(resets_);
  if (!is_iwarp_)
    return send(m);
  const registered_buffer notice = store(m);
  if (notice.size() == 0)
    return;
  or_fail(
    [&]
    {
      batch_.clear();
      batch_.send(notice).read(notice.first(1), fsm_.peer_ring().first(1));
      post(any_number, 0, request{.kind = request_kind::batch}, batch_);
    });
}

// Sends the messages without bytes that are due.
void stream_impl::tell()
{
  if (last_write_ != UINT64_MAX && writes_.empty() && fsm_.can_finish())
    send_end();
  if (const auto unused = fsm_.unused_ring())
    rings_[*unused ? 1 : 0] = memory_region();
  if (!closed_)
    offer_ring();
  if (fsm_.credit_due())
    send(fsm_.credit());
}

void stream_impl::offer_ring()
{
  const std::uint32_t size = fsm_.wanted_ring(options_.ring_min, options_.ring_max);
  if (size == 0 || keeps_ring_)
    return;
  error_code ec;
  memory_region made;
  try
  {
    made = memory_region(protection_domain(context_), size, ring_rights(), ec);
  }
  catch (const std::bad_alloc&)
  {
    ec = asio::error::no_memory;
  }
  keeps_ring_ = static_cast<bool>(ec); // a second attempt would cost as much and fail as well
  if (ec)
    return;
  const stream_message m = fsm_.ring(made.remote());
  rings_[m.odd_ring ? 1 : 0] = std::move(made);
  send(m);
}

} // namespace rdma::detail

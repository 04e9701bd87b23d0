//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "stream/stream_impl.hpp"

#include "boost_rdma/access.hpp"
#include "boost_rdma/detail/mapped_handler.hpp"
#include "completion/completion_service.hpp"
#include "stream/tcp_stream.hpp"

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/error.hpp>

#include <algorithm>
#include <utility>

namespace rdma::detail {

namespace asio = boost::asio;

namespace {

constexpr std::uint32_t receives_max = 1024;

bool in_range(const stream_options& options)
{
  return options.receives >= stream_fsm::receives_min && options.receives <= receives_max
    && options.ring_min >= stream_fsm::ring_min && options.ring_min <= options.ring_max
    && options.ring_max <= stream_fsm::ring_max;
}

stream_options limited(stream_options options, const queue_pair_core& core)
{
  options.receives = std::min(options.receives, core.options().receive_depth);
  return options;
}

} // namespace

std::shared_ptr<stream_core> stream_core::make(
  std::shared_ptr<queue_pair_core> over, const stream_options& options)
{
  connected_peer peer;
  peer.queue_pair = std::move(over);
  return make(std::move(peer), options);
}

std::shared_ptr<stream_core> stream_core::make(connected_peer peer, const stream_options& options)
{
  if (peer.socket)
    return std::make_shared<tcp_stream>(std::move(peer));
  const std::shared_ptr<queue_pair_core> over = std::move(peer.queue_pair);
  error_code ec;
  if (!over || !over->is_connected())
    ec = error::not_connected;
  else if (!in_range(options) || over->options().receive_depth < stream_fsm::receives_min)
    ec = asio::error::invalid_argument;
  else if (over->transport().wire == wire::iwarp)
    ec = asio::error::operation_not_supported;
  try
  {
    if (ec)
      throw system_error(ec, "cannot make a stream");
    const auto made =
      std::make_shared<stream_impl>(over, limited(options, *over), peer.local, peer.remote);
    made->open();
    return made;
  }
  catch (...)
  {
    if (over)
      over->close();
    throw;
  }
}

stream_impl::stream_impl(std::shared_ptr<queue_pair_core> over, const stream_options& options,
  const endpoint_type& local, const endpoint_type& remote)
  : core_(std::move(over))
  , executor_(core_->io_executor())
  , options_(options)
  , local_(local)
  , remote_(remote)
  , context_(core_->context())
  , receives_(context_.allocate(options.receives * stream_message::size_max))
  , fsm_(options.receives, options.ring_min)
  , posted_(options.receives)
  , results_(options.receives)
  , close_timer_(executor_)
{
  rings_[0] = memory_region(context_, options.ring_min, access::local_write | access::remote_write);
  unread_.reserve(2 * options.receives + 8); // see take()
}

void stream_impl::open()
{
  completion_service::of(executor_).add(std::weak_ptr<abandonable>(shared_from_this()));
  core_->count_as_work(false);
  const lock_type lock(mutex_);
  for (std::uint32_t i = 0; i != options_.receives; ++i)
    post_receive(i);
  send(fsm_.hello(rings_[0].remote()));
}

mutable_buffer stream_impl::receive_at(std::uint32_t index) const noexcept
{
  return receives_.slice(index * stream_message::size_max, stream_message::size_max);
}

std::byte* stream_impl::ring_at(const stream_fsm::place& where) const noexcept
{
  return static_cast<std::byte*>(rings_[where.odd_ring ? 1 : 0].data()) + where.bytes.offset;
}

// --- operations ---

template <class Buffers>
void stream_impl::start(operation_list& among, const io_executor& executor, const Buffers& buffers,
  size_handler handler, std::optional<wait_type> waits_for)
{
  auto slot = asio::get_associated_cancellation_slot(handler);
  waiting_handler<std::size_t> waiting(executor, std::move(handler));
  if (core_->forked())
    return std::move(waiting).complete(error::forked, 0);
  lock_type lock(mutex_);
  if (closed_ || (buffers.empty() && !waits_for))
  {
    const error_code ec = closed_ ? make_error_code(error::closed) : error_code();
    lock.unlock();
    return std::move(waiting).complete(ec, 0);
  }
  if (spare_.empty())
    spare_.emplace_back();
  operation& op = spare_.front();
  op.buffers = buffers;
  op.waits_for = waits_for;
  op.handler.emplace(std::move(waiting));
  op.number = ++last_number_;
  op.bytes = 0;
  op.pending = 0;
  op.ec = {};
  among.splice(among.end(), spare_, spare_.begin());
  operation_list ended;
  advance(ended);
  if (!among.empty() && &among.back() == &op)
    on_cancellation(slot, weak_from_this(),
      [number = op.number](stream_impl& self)
      {
        if (self.core_->forked())
          return;
        lock_type held(self.mutex_);
        operation_list withdrawn;
        self.end_unstarted(withdrawn, number);
        self.complete(std::move(held), std::move(withdrawn), false);
      });
  complete(std::move(lock), std::move(ended), false);
}

void stream_impl::read_some(const io_executor& executor, const targets& to, size_handler handler)
{
  start(reads_, executor, to, std::move(handler));
}

void stream_impl::write_some(const io_executor& executor, const sources& from, size_handler handler)
{
  start(writes_, executor, from, std::move(handler));
}

void stream_impl::wait(const io_executor& executor, wait_type what, plain_handler handler)
{
  start(waits_, executor, targets(),
    map_handler(
      [](auto own, const error_code& ec, std::size_t) { std::move(own)(ec); }, std::move(handler)),
    what);
}

// Moves what can be moved, and takes the operations that have ended.
void stream_impl::advance(operation_list& ended)
{
  advance_reads(ended);
  advance_writes(ended);
  advance_waits(ended);
  if (!failure_)
    tell();
  // Closing waits until the end has left, and not for the peer's program.
  if (closed_ && !failure_ && sending_ == 0 && !fsm_.can_finish())
    fail(asio::error::operation_aborted);
  core_->count_as_work(
    !reads_.empty() || !writes_.empty() || !waits_.empty() || closed_ || failure_);
}

void stream_impl::complete(lock_type lock, operation_list ended, bool on_executor)
{
  if (ended.empty())
    return;
  lock.unlock();
  for (operation& each : ended)
  {
    waiting_handler<std::size_t> handler(std::move(*each.handler));
    each.handler.reset();
    if (on_executor)
      std::move(handler).complete_here(each.ec, each.bytes);
    else
      std::move(handler).complete(each.ec, each.bytes);
  }
  if (core_->forked())
    return; // a handler called fork(): a thread of the parent may hold the mutex
  lock.lock();
  spare_.splice(spare_.end(), ended);
}

// The operations end in advance(). Those of writes whose memory the device still reads end later.
void stream_impl::fail(const error_code& ec)
{
  if (failure_)
    return;
  failure_ = ec;
  close_timer_.cancel();
  core_->close();
}

void stream_impl::end(const error_code& ec)
{
  lock_type lock(mutex_);
  fail(ec);
  operation_list ended;
  advance(ended);
  complete(std::move(lock), std::move(ended), true);
}

// Ends operations that have moved no bytes: that with this number, or all.
void stream_impl::end_unstarted(operation_list& ended, std::uint64_t number)
{
  for (operation_list* among : {&reads_, &writes_, &waits_})
    for (auto next = among->begin(); next != among->end();)
    {
      const auto each = next++;
      if (each->bytes != 0 || (number != any_number && each->number != number))
        continue;
      each->ec = asio::error::operation_aborted;
      ended.splice(ended.end(), *among, each);
    }
}

void stream_impl::abandon() noexcept
{
  operation_list reads; // destroyed without the mutex
  operation_list writes;
  operation_list waits;
  const lock_type lock(mutex_);
  closed_ = true; // the queue pair ends with the io_context
  reads.swap(reads_);
  writes.swap(writes_);
  waits.swap(waits_);
}

void stream_impl::end_in_child()
{
  // A thread of the parent may have held the mutex. The operations then end with the io_context.
  lock_type lock(mutex_, std::try_to_lock);
  if (!lock)
    return;
  operation_list ended;
  ended.splice(ended.end(), reads_);
  ended.splice(ended.end(), writes_);
  ended.splice(ended.end(), waits_);
  for (operation& each : ended)
    each.ec = error::forked;
  complete(std::move(lock), std::move(ended), false);
}

// --- the program's other calls ---

std::size_t stream_impl::available() const
{
  const std::lock_guard lock(mutex_);
  return available_;
}

bool stream_impl::is_open() const
{
  const std::lock_guard lock(mutex_);
  return !closed_;
}

void stream_impl::shut_down(error_code& ec)
{
  if (core_->forked())
    ec = error::forked;
  if (ec)
    return;
  lock_type lock(mutex_);
  if (closed_)
    ec = error::closed;
  last_write_ = std::min(last_write_, last_number_);
  operation_list ended;
  advance(ended);
  complete(std::move(lock), std::move(ended), false);
}

void stream_impl::cancel()
{
  if (core_->forked())
    return;
  lock_type lock(mutex_);
  operation_list ended;
  end_unstarted(ended);
  advance(ended);
  complete(std::move(lock), std::move(ended), false);
}

void stream_impl::close()
{
  if (core_->forked())
    return; // it belongs to the parent
  lock_type lock(mutex_);
  if (std::exchange(closed_, true))
    return;
  operation_list ended;
  end_unstarted(ended);
  last_write_ = std::min(last_write_, last_number_);
  resets_ = available_ != 0; // as TCP does
  advance(ended);
  if (!failure_)
  {
    close_timer_.expires_after(options_.close_limit);
    close_timer_.async_wait(
      [weak = weak_from_this()](const error_code& ec)
      {
        const auto self = weak.lock();
        if (!ec && self && !self->core_->forked())
          self->end(asio::error::timed_out);
      });
  }
  complete(std::move(lock), std::move(ended), false);
}

} // namespace rdma::detail

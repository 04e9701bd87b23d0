//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "stream/stream_impl.hpp"

#include "boost_rdma/access.hpp"
#include "completion/completion_queue_impl.hpp"
#include "completion/completion_service.hpp"
#include "completion/waiting_handler.hpp"
#include "resource/device_impl.hpp"
#include "stream/tcp_stream.hpp"

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/error.hpp>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace rdma::detail {

namespace asio = boost::asio;

namespace {

stream_options limited(stream_options options, const queue_pair_core& core)
{
  options.receives = std::min(options.receives, core.options().receive_depth);
  return options;
}

bool is_iwarp(const queue_pair_core& core)
{
  return core.device().traits().only_wire == wire::iwarp;
}

} // namespace

error_code stream_core::check(const stream_options& options, const queue_pair_options& queue_pair)
{
  const bool good = options.receives >= stream_fsm::receives_min
    && options.receives <= stream_fsm::receives_max && options.ring_min >= stream_fsm::ring_min
    && options.ring_min <= options.ring_max && options.ring_max <= stream_fsm::ring_max
    && queue_pair.receive_depth >= stream_fsm::receives_min && !queue_pair.receives;
  return good ? error_code() : make_error_code(asio::error::invalid_argument);
}

std::shared_ptr<stream_core> stream_core::make(
  std::shared_ptr<queue_pair_core> over, const stream_options& options)
{
  connected_peer peer;
  peer.queue_pair = std::move(over);
  return make(std::move(peer), options, nullptr);
}

std::shared_ptr<stream_core> stream_core::make(
  connected_peer peer, const stream_options& options, std::shared_ptr<device_set> devices)
{
  if (peer.socket)
    return std::make_shared<tcp_stream>(std::move(peer), std::move(devices));
  const std::shared_ptr<queue_pair_core> over = std::move(peer.queue_pair);
  const auto early = over ? over->take_early_receive() : nullptr;
  error_code ec;
  if (!over || !over->is_connected())
    ec = error::not_connected;
  else
    ec = check(options, over->options());
  try
  {
    if (ec)
      throw system_error(ec, "cannot make a stream");
    if (!early && over->sends_second())
      throw system_error(asio::error::operation_not_supported,
        "cannot make a stream of a queue pair that was accepted on iWARP. Create it with "
        "queue_pair_options::for_stream");
    const auto made =
      std::make_shared<stream_impl>(over, limited(options, *over), peer.local, peer.remote);
    made->open(early);
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
  , is_iwarp_(is_iwarp(*core_))
  , fsm_(options.receives, options.ring_min,
      !is_iwarp_                ? stream_fsm::order::none
        : core_->sends_second() ? stream_fsm::order::second
                                : stream_fsm::order::first)
  , posted_(options.receives)
  , results_(options.receives)
  , close_timer_(executor_)
{
  rings_[0] = memory_region(context_, options.ring_min, ring_rights());
  unread_.reserve(2 * options.receives + 8); // see take()
}

void stream_impl::open(const std::shared_ptr<early_receive>& early)
{
  static_assert(early_receive::size_max == stream_message::size_max);
  completion_service::of(executor_).add(std::weak_ptr<abandonable>(shared_from_this()));
  core_->count_as_work(false);
  core_->completions().allow_at_once();
  {
    const lock_type lock(mutex_);
    if (early)
      expect(0);
    for (std::uint32_t i = early ? 1 : 0; i != options_.receives; ++i)
      post_receive(i);
    greet();
  }
  if (early)
    early->hand_over(
      [self = shared_from_this()](const error_code& ec, const const_buffer& message)
      {
        std::memcpy(self->receive_at(0).data(), message.data(), message.size());
        self->on_received(0, ec, message.size(), false);
      });
}

access stream_impl::ring_rights() const noexcept
{
  constexpr access rights = access::local_write | access::remote_write;
  return is_iwarp_ ? rights | access::remote_read : rights; // see send_end()
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

namespace {

template <class... Results>
using direct_handler = asio::any_completion_handler<void(error_code, Results...)>;

// Calls the handler of a slot of the queue pair, or destroys it. In the slot is a direct_handler
// whose executor is the queue pair's, or otherwise a waiting_handler.
template <class Handler, class... Results>
void complete_slot(operation* op, bool invoke, bool on_executor)
{
  // Also while the handler starts another one.
  const counted_work counted{op->source->completions()};
  constexpr bool is_direct = std::is_same_v<Handler, direct_handler<Results...>>;
  auto* const stored = static_cast<Handler*>(op->handler);
  Handler handler(std::move(*stored));
  stored->~Handler();
  const error_code ec = op->result.ec;
  const std::size_t bytes = op->result.received.size;
  if constexpr (is_direct)
    if (invoke && on_executor)
    {
      const work_source::spare_slot spare(op);
      return std::move(handler)(ec, Results(bytes)...);
    }
  std::optional<waiting_handler<Results...>> waiting;
  if constexpr (is_direct)
  {
    if (invoke)
      waiting.emplace(op->source->io_executor(), std::move(handler));
  }
  else
    waiting.emplace(std::move(handler));
  op->source->release(op); // may destroy the queue pair
  if (!invoke)
    return;
  if (on_executor)
    std::move(*waiting).complete_here(ec, Results(bytes)...);
  else
    std::move(*waiting).complete(ec, Results(bytes)...);
}

template <class... Results, class Handler>
void place(operation* op, Handler&& handler)
{
  static_assert(sizeof(Handler) <= operation::storage_size);
  op->handler = ::new (static_cast<void*>(op->storage)) Handler(std::move(handler));
  op->complete = &complete_slot<Handler, Results...>;
}

} // namespace

// Returns null if the queue pair has too many operations; the handler is then unchanged.
template <class... Results>
operation* stream_impl::claim(
  const io_executor& executor, handler_of<Results...>& handler, bool on_executor)
{
  operation* const op = core_->claim();
  if (op == nullptr)
    return nullptr;
  // The completion queue then keeps the handler's context running, and calls it on its executor.
  if (on_executor && core_->executor() == executor_relation::same_executor && executor == executor_)
    place<Results...>(op, std::move(handler));
  else
    place<Results...>(op, waiting_handler<Results...>(executor, std::move(handler)));
  return op;
}

template <class Buffers, class... Results>
void stream_impl::start(transfer_list& among, const io_executor& executor, const Buffers& buffers,
  handler_of<Results...> handler, bool on_executor, std::optional<wait_type> waits_for)
{
  auto slot = asio::get_associated_cancellation_slot(handler);
  const auto refuse = [&](const error_code& ec)
  { waiting_handler<Results...>(executor, std::move(handler)).complete(ec, Results()...); };
  if (core_->forked())
    return refuse(error::forked);
  lingers_.store(false, std::memory_order_relaxed);
  lock_type lock(mutex_);
  if (spare_.empty())
    spare_.emplace_back(); // before the claim, as it may throw
  operation* op = nullptr;
  error_code ec;
  if (closed_)
    ec = error::closed;
  else if ((!buffers.empty() || waits_for)
    && (op = claim(executor, handler, on_executor)) == nullptr)
    ec = error::queue_too_deep;
  if (op == nullptr)
  {
    lock.unlock();
    return refuse(ec);
  }
  transfer& made = spare_.front();
  made.buffers = buffers;
  made.waits_for = waits_for;
  made.slot = op;
  made.number = ++last_number_;
  made.bytes = 0;
  made.pending = 0;
  made.refused = false;
  made.ec = {};
  core_->completions().work_started();
  core_->completions().kick();
  among.splice(among.end(), spare_, spare_.begin());
  transfer_list ended;
  advance(ended);
  if (!among.empty() && &among.back() == &made)
    on_cancellation(slot, weak_from_this(),
      [number = made.number](stream_impl& self)
      {
        if (self.core_->forked())
          return;
        lock_type held(self.mutex_);
        transfer_list withdrawn;
        self.end_unstarted(withdrawn, number);
        self.advance(withdrawn); // others may have waited for it
        self.complete(std::move(held), withdrawn, false);
      });
  complete(std::move(lock), ended, false);
}

void stream_impl::read_some(
  const io_executor& executor, const targets& to, size_handler handler, bool on_executor)
{
  start(reads_, executor, to, std::move(handler), on_executor);
}

void stream_impl::write_some(
  const io_executor& executor, const sources& from, size_handler handler, bool on_executor)
{
  start(writes_, executor, from, std::move(handler), on_executor);
}

void stream_impl::wait(
  const io_executor& executor, wait_type what, plain_handler handler, bool on_executor)
{
  start(waits_, executor, targets(), std::move(handler), on_executor, what);
}

// Moves what can be moved, and takes the operations that have ended.
void stream_impl::advance(transfer_list& ended)
{
  if (!failure_ && !send_failure_)
    greet(); // before the writes, which may have waited for it
  advance_reads(ended);
  advance_writes(ended);
  advance_waits(ended);
  if (!failure_ && !send_failure_)
    tell();
  // Closing waits until the end has left, and not for the peer's program.
  if (closed_ && !failure_ && sending_ == 0 && (fsm_.has_finished() || send_failure_))
    fail(asio::error::operation_aborted);
  count_as_work(closed_ || failure_); // until the device has ended all operations
  if (is_observed_)
    if (const auto observer = observer_.lock())
      observer->changed();
}

void stream_impl::count_as_work(bool counts)
{
  if (std::exchange(counts_as_work_, counts) != counts)
    core_->count_as_work(counts);
}

// Has the completion queue call the handlers, at the end of poll() or later.
void stream_impl::complete(lock_type lock, transfer_list& ended, bool in_poll)
{
  if (ended.empty())
    return;
  operation_list done;
  for (transfer& each : ended)
  {
    each.memory.reset();
    each.slot->stage(operation::state::done);
    each.slot->result.ec = each.ec;
    each.slot->result.received.size = each.bytes;
    done.push_back(each.slot);
  }
  spare_.splice(spare_.end(), ended);
  lock.unlock();
  while (operation* const op = done.pop_front())
    if (in_poll)
      core_->completions().call_next(op);
    else
      core_->completions().defer(op);
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
  transfer_list ended;
  advance(ended);
  complete(std::move(lock), ended, false);
  core_->completions().wake_sleepers();
}

// Ends operations that have moved no bytes: that with this number, or all.
void stream_impl::end_unstarted(transfer_list& ended, std::uint64_t number)
{
  for (transfer_list* among : {&reads_, &writes_, &waits_})
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
  const lock_type lock(mutex_);
  closed_ = true; // the queue pair ends with the io_context
  // The completion queue destroys the handlers, when the device does not use their memory any more.
  take_all();
}

stream_impl::transfer_list stream_impl::take_all() noexcept
{
  transfer_list all;
  for (transfer_list* const each : {&reads_, &writes_, &waits_})
    all.splice(all.end(), *each);
  return all;
}

void stream_impl::end_in_child()
{
  // A thread of the parent may have held the mutex. The operations then end with the io_context.
  lock_type lock(mutex_, std::try_to_lock);
  if (!lock)
    return;
  transfer_list ended = take_all();
  for (transfer& each : ended)
    each.ec = error::forked;
  complete(std::move(lock), ended, false);
}

// --- the program's other calls ---

std::size_t stream_impl::available() const
{
  if (core_->forked())
    return 0;
  const auto now = [this]
  {
    const lock_type lock(mutex_);
    return available_;
  };
  if (const std::size_t size = now())
    return size;
  core_->completions().poll_here();
  return now();
}

bool stream_impl::is_open() const
{
  if (core_->forked())
    return true; // a thread of the parent may hold the mutex
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
  transfer_list ended;
  advance(ended);
  complete(std::move(lock), ended, false);
}

void stream_impl::cancel()
{
  if (core_->forked())
    return;
  lock_type lock(mutex_);
  transfer_list ended;
  end_unstarted(ended);
  advance(ended);
  complete(std::move(lock), ended, false);
}

void stream_impl::close(bool resets)
{
  if (core_->forked())
    return; // it belongs to the parent
  lock_type lock(mutex_);
  if (std::exchange(closed_, true))
    return;
  transfer_list ended;
  end_unstarted(ended);
  last_write_ = std::min(last_write_, last_number_);
  resets_ = resets || available_ != 0; // unread bytes: as TCP does
  advance(ended);
  if (!failure_)
    try
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
    catch (const std::bad_alloc&)
    {
      fail(asio::error::no_memory); // nothing would limit the time
      advance(ended);
    }
  const bool lingers = !failure_ && lingers_.load(std::memory_order_relaxed);
  complete(std::move(lock), ended, false);
  core_->completions().wake_sleepers(); // a thread may wait for bytes
  if (lingers)
    linger();
}

void stream_impl::abort()
{
  if (core_->forked())
    return;
  {
    const lock_type lock(mutex_);
    closed_ = true;
  }
  end(asio::error::operation_aborted);
}

} // namespace rdma::detail

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "completion/queue_pair_core.hpp"
#include "completion/queue_pair_endings.hpp"

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/error.hpp>

#include <utility>

// How a connection ends in an orderly way, and who is told that it has ended.
//
// A completed send has arrived: that is what the acknowledgement of a reliable connection means
// (IBA 9.7.5.1.2). So when all sends of a side have completed it can say that all has arrived; when
// both have said so the connection ends, and nothing is lost but receives that nothing came for.

namespace rdma::detail {

namespace asio = boost::asio;

void queue_pair_core::assign_slot(end_handler& handler, std::uint64_t number)
{
  auto slot = asio::get_associated_cancellation_slot(handler);
  if (slot.is_connected())
    slot.assign(
      [weak = weak_from_this(), number](asio::cancellation_type type)
      {
        if (const auto self = weak.lock(); self && type != asio::cancellation_type::none)
          static_cast<queue_pair_core&>(*self).withdraw_waiter(number);
      });
}

void queue_pair_core::withdraw_waiter(std::uint64_t number)
{
  waiting_list<>::list_type ended;
  {
    const std::lock_guard lock(mutex_);
    if (!endings_)
      return;
    ended = endings_->closes.take(number);
    ended.splice(ended.end(), endings_->shutdowns.take(number));
  }
  for (auto& each : ended)
    std::move(each.handler).complete(asio::error::operation_aborted);
}

void queue_pair_core::wait_close(const asio::any_io_executor& executor, end_handler handler)
{
  if (forked()) // before the mutex: the parent's thread may have held it
    return waiting_handler<>(executor, std::move(handler)).complete(error::forked);
  std::unique_lock lock(mutex_);
  if (ended_)
  {
    const error_code ec = *ended_;
    lock.unlock();
    return waiting_handler<>(executor, std::move(handler)).complete(ec);
  }
  if (!endings_)
    endings_ = std::make_unique<endings>();
  const std::uint64_t number = ++endings_->last_number;
  assign_slot(
    handler, number); // before anybody else can see it: slots are for the thread that initiates
  endings_->closes.add(number, waiting_handler<>(executor, std::move(handler)));
}

void queue_pair_core::shut_down(const asio::any_io_executor& executor, end_handler handler)
{
  if (forked())
    return waiting_handler<>(executor, std::move(handler)).complete(error::forked);
  std::unique_lock lock(mutex_);
  error_code ec;
  if (ended_)
    // The peer may have been the first to shut down: all has arrived then, as this side wants it to
    // have.
    ec = lifecycle_ == lifecycle::closed ? error_code(error::closed)
      : orderly_                         ? error_code()
                                         : *ended_;
  else if (lifecycle_ != lifecycle::connected)
    ec = error::not_connected;
  else if (error_state_)
    ec = device_reason_ ? device_reason_ : flush_reason();
  else if (!guard_)
    ec = asio::error::operation_not_supported; // by connect() with a description: there is nobody
                                               // to tell
  if (ec || ended_)
  {
    lock.unlock();
    return waiting_handler<>(executor, std::move(handler)).complete(ec);
  }
  if (!endings_)
    endings_ = std::make_unique<endings>();
  const std::uint64_t number = ++endings_->last_number;
  assign_slot(handler, number);
  endings_->shutdowns.add(number, waiting_handler<>(executor, std::move(handler)));
  shut_down_here_ = true;
  if (!refused_sends_)
    refused_sends_ = asio::error::shut_down;
  tell_if_finished();
}

void queue_pair_core::peer_finished()
{
  const std::lock_guard lock(mutex_);
  if (lifecycle_ != lifecycle::connected)
    return;
  if (error_state_ && guard_)
    return guard_->close(); // it cannot say so any more: the peer is not to wait for it
  if (!refused_sends_)
    refused_sends_ = error::peer_closed;
  tell_if_finished();
}

// The mutex is held.
void queue_pair_core::tell_if_finished()
{
  if (!refused_sends_ || told_finished_ || error_state_ || lifecycle_ != lifecycle::connected
    || sends_posted_ != 0 || partial_ != nullptr || !waiting_sends_.empty())
    return;
  told_finished_ = true;
  guard_->finish();
}

void queue_pair_core::end_orderly()
{
  const std::lock_guard lock(mutex_);
  if (lifecycle_ != lifecycle::connected)
    return;
  orderly_ = true;
  enter(lifecycle::broken,
    shut_down_here_ ? error_code(asio::error::operation_aborted) : error::peer_closed);
}

// The mutex is held. What follows the first end is of no interest.
void queue_pair_core::note_end(const error_code& reason)
{
  if (ended_)
    return;
  ended_ = orderly_ && shut_down_here_ ? error_code() : reason;
  if (attachment_)
    attachment_->on_end(reason);
  if (!endings_)
    return;
  const std::unique_ptr<endings> waiting = std::move(endings_);
  for (auto& each : waiting->closes.take_all())
    std::move(each.handler).complete(*ended_);
  for (auto& each : waiting->shutdowns.take_all())
    std::move(each.handler).complete(orderly_ ? error_code() : reason);
}

void queue_pair_core::end_in_child() noexcept
{
  work_source::end_in_child();
  const std::lock_guard lock(mutex_);
  partial_ = nullptr; // has ended like all that is posted
  note_end(error::forked);
}

} // namespace rdma::detail

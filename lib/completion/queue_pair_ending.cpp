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

// The orderly end of a connection, and the handlers that wait for an end.
//
// A completed send has arrived: a reliable connection acknowledges it (IBA 9.7.5.1.2). When all
// sends of a side have completed, it notifies the peer. After both notifications the connection
// ends, and only receives without a message are lost.

namespace rdma::detail {

namespace asio = boost::asio;

// Returns the number by which the handler can be withdrawn. Cancellation slots belong to the
// initiating thread: the slot is assigned before another thread can see the handler.
std::uint64_t queue_pair_core::add_waiter(end_handler& handler)
{
  if (!endings_)
    endings_ = std::make_unique<endings>();
  const std::uint64_t number = ++endings_->last_number;
  on_cancellation(asio::get_associated_cancellation_slot(handler), weak_from_this(),
    [number](work_source& self) { static_cast<queue_pair_core&>(self).withdraw_waiter(number); });
  return number;
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
  waiting_list<>::fail(std::move(ended), asio::error::operation_aborted);
}

void queue_pair_core::wait_close(const asio::any_io_executor& executor, end_handler handler)
{
  if (forked()) // before the mutex, which a thread of the parent may have locked
    return waiting_handler<>(executor, std::move(handler)).complete(error::forked);
  std::unique_lock lock(mutex_);
  if (const auto& end = connection_.end())
  {
    const error_code ec = end->of_close;
    lock.unlock();
    return waiting_handler<>(executor, std::move(handler)).complete(ec);
  }
  const std::uint64_t number = add_waiter(handler);
  endings_->closes.add(number, waiting_handler<>(executor, std::move(handler)));
}

void queue_pair_core::shut_down(const asio::any_io_executor& executor, end_handler handler)
{
  if (forked())
    return waiting_handler<>(executor, std::move(handler)).complete(error::forked);
  std::unique_lock lock(mutex_);
  error_code ec;
  const auto& end = connection_.end();
  if (end) // without error if the peer shut down first: all data has arrived
    ec = connection_.is_open() ? end->of_shutdown : error_code(error::closed);
  else
    ec = connection_.use_error();
  if (!ec && !end && !guard_)
    ec = asio::error::operation_not_supported; // connect() with a description has no channel
  if (ec || end)
  {
    lock.unlock();
    return waiting_handler<>(executor, std::move(handler)).complete(ec);
  }
  const std::uint64_t number = add_waiter(handler);
  endings_->shutdowns.add(number, waiting_handler<>(executor, std::move(handler)));
  apply(connection_event::shut_down, lock);
  note_if_drained(lock);
}

void queue_pair_core::peer_finished()
{
  const std::lock_guard lock(mutex_);
  apply(connection_event::peer_finished, lock);
  note_if_drained(lock);
}

void queue_pair_core::note_if_drained(mutex_held held)
{
  if (connection_.state() == connection_state::draining && posting_.sends_idle())
    apply(connection_event::drained, held);
}

void queue_pair_core::end_orderly()
{
  const std::lock_guard lock(mutex_);
  apply(connection_event::ended, lock);
}

void queue_pair_core::report_end()
{
  const connection_fsm::end_result& end = *connection_.end();
  if (attachment_)
    attachment_->on_end(end.reason);
  if (!endings_)
    return;
  const std::unique_ptr<endings> waiting = std::move(endings_);
  waiting_list<>::fail(waiting->closes.take_all(), end.of_close);
  waiting_list<>::fail(waiting->shutdowns.take_all(), end.of_shutdown);
}

void queue_pair_core::end_in_child() noexcept
{
  work_source::end_in_child();
  const std::lock_guard lock(mutex_);
  posting_.drop_rest(); // ended like all posted operations
  apply(connection_event::forked, lock, error::forked);
}

} // namespace rdma::detail

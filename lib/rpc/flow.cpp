//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/flow.hpp"

#include "rpc/message.hpp"

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/error.hpp>

#include <utility>

namespace rdma::detail::rpc {

namespace asio = boost::asio;

flow::flow(std::shared_ptr<connection> by, std::uint32_t number, std::uint32_t window)
  : by_(std::move(by))
  , number_(number)
  , fsm_(window)
{
}

template <class... Results>
void flow::start(const lock_type&, member<Results...> which, waiting_handler<Results...> handler,
  asio::cancellation_slot slot)
{
  operation<Results...>& started = this->*which;
  on_cancellation(std::move(slot), weak_from_this(),
    [which, use = ++started.uses](flow& self)
    {
      if (self.by_->forked())
        return;
      const lock_type lock(self.by_->mutex_);
      if ((self.*which).uses == use)
        self.cancel(lock, which);
    });
  started.handler.emplace(std::move(handler));
}

template <class... Results>
void flow::cancel(const lock_type& lock, member<Results...> which)
{
  if (!(this->*which).handler)
    return;
  complete(this->*which, asio::error::operation_aborted, Results()...);
  if constexpr (sizeof...(Results) == 0)
    end_write(lock);
}

// Posts the handler: this thread has the mutex.
template <class... Results>
void flow::complete(operation<Results...>& which, const error_code& ec, Results... results)
{
  std::move(*std::exchange(which.handler, std::nullopt)).complete(ec, std::move(results)...);
}

void flow::open(const lock_type& lock, std::uint32_t first_credit)
{
  static_cast<void>(fsm_.take_credit(first_credit)); // the first one fits
  give(lock, fsm_.window());
}

// --- reads ---

void flow::read(const io_executor& executor, bytes_handler handler)
{
  auto slot = asio::get_associated_cancellation_slot(handler);
  waiting_handler<std::optional<bytes>> waiting(executor, std::move(handler));
  if (by_->forked())
    return std::move(waiting).complete(error::forked, std::nullopt);
  const lock_type lock(by_->mutex_);
  if (reading_.handler)
    return std::move(waiting).complete(asio::error::already_started, std::nullopt);
  switch (fsm_.next_read())
  {
  case flow_fsm::next::item:
  {
    bytes item = std::move(arrived_.front());
    arrived_.pop_front();
    give(lock, fsm_.read(item.size()));
    return std::move(waiting).complete({}, std::move(item));
  }
  case flow_fsm::next::end:
    return std::move(waiting).complete(fsm_.read_error(), std::nullopt);
  case flow_fsm::next::nothing_yet:
    start(lock, &flow::reading_, std::move(waiting), std::move(slot));
  }
}

bool flow::take(const lock_type& lock, const message& m, std::vector<std::byte>& content)
{
  switch (m.type)
  {
  case message_type::item:
    if (!fsm_.take_item(content.size()))
      return false;
    if (fsm_.discards())
      give(lock, fsm_.discard());
    else if (reading_.handler)
    {
      give(lock, fsm_.read(content.size()));
      complete(reading_, {}, std::optional(std::move(content)));
    }
    else
      arrived_.emplace_back(content.begin(), content.end()); // without its unused capacity
    return true;
  case message_type::credit:
    if (!fsm_.take_credit(m.detail))
      return false;
    advance(lock);
    return true;
  default:
    if (!fsm_.take_end())
      return false;
    if (reading_.handler)
      complete(reading_, fsm_.read_error(), std::optional<bytes>());
    return true;
  }
}

void flow::give(const lock_type& lock, std::uint32_t credit)
{
  if (credit == 0)
    return;
  message m;
  m.type = message_type::credit;
  m.number = number_;
  m.detail = credit;
  by_->add_messages(lock, [&](auto& to) { begin_message(to, m); });
  by_->flush(lock);
}

// --- writes ---

void flow::write(const io_executor& executor, const item_source& what, plain_handler handler)
{
  auto slot = asio::get_associated_cancellation_slot(handler);
  waiting_handler<> waiting(executor, std::move(handler));
  if (by_->forked())
    return std::move(waiting).complete(error::forked);
  const lock_type lock(by_->mutex_);
  if (writing_.handler)
    return std::move(waiting).complete(asio::error::already_started);
  // Encoded behind the messages that leave next; taken back if it must wait.
  std::vector<std::byte>& to = by_->messages(lock);
  const bool has_room = by_->unsent(lock) < unsent_max;
  message m;
  m.type = message_type::item;
  m.number = number_;
  const std::size_t at = begin_message(to, m);
  try
  {
    rdma::rpc::output content(to);
    what.encode(what.value, content);
    const std::size_t size = to.size() - at - message::header_size;
    const error_code ec =
      size > message::size_max ? error::message_too_large : fsm_.write_error(size);
    if (ec)
    {
      to.resize(at);
      return std::move(waiting).complete(ec);
    }
    end_message(to, at);
    if (has_room && fsm_.may_write(size))
    {
      fsm_.write(size);
      std::move(waiting).complete({});
      return by_->flush(lock);
    }
    unwritten_.assign(to.begin() + static_cast<std::ptrdiff_t>(at), to.end());
    to.resize(at);
    if (fsm_.may_write(size))
      wait_for_room(lock);
    start(lock, &flow::writing_, std::move(waiting), std::move(slot));
  }
  catch (...)
  {
    to.resize(at);
    throw;
  }
}

void flow::wait_for_room(const lock_type&)
{
  if (!waits_for_room_)
    by_->waiting_.push_back(weak_from_this());
  waits_for_room_ = true;
}

void flow::on_room(const lock_type& lock)
{
  waits_for_room_ = false;
  advance(lock);
}

// The write that waits may have credit and room now, or has failed.
void flow::advance(const lock_type& lock)
{
  if (!writing_.handler)
    return;
  const std::size_t size = unwritten_.size() - message::header_size;
  const error_code ec = fsm_.write_error(size);
  if (!ec)
  {
    if (!fsm_.may_write(size))
      return;
    if (by_->unsent(lock) >= unsent_max)
      return wait_for_room(lock);
    std::vector<std::byte>& to = by_->messages(lock);
    to.insert(to.end(), unwritten_.begin(), unwritten_.end());
    fsm_.write(size);
  }
  complete(writing_, ec);
  end_write(lock);
}

void flow::end_write(const lock_type& lock)
{
  unwritten_ = {};
  if (std::exchange(ends_after_write_, false))
    end_writing(lock);
}

void flow::end_writing()
{
  if (by_->forked())
    return;
  const lock_type lock(by_->mutex_);
  end_writing(lock);
  by_->flush(lock);
}

void flow::end_writing(const lock_type& lock)
{
  if (writing_.handler)
    ends_after_write_ = true;
  else if (fsm_.end_writing())
  {
    message m;
    m.type = message_type::end_of_items;
    m.number = number_;
    by_->add_messages(lock, [&](auto&) { begin_message(messages(lock), m); });
  }
}

// --- the end ---

void flow::finish(const io_executor& executor, bytes_handler handler)
{
  auto slot = asio::get_associated_cancellation_slot(handler);
  waiting_handler<std::optional<bytes>> waiting(executor, std::move(handler));
  if (by_->forked())
    return std::move(waiting).complete(error::forked, std::nullopt);
  const lock_type lock(by_->mutex_);
  if (finishing_.handler)
    return std::move(waiting).complete(asio::error::already_started, std::nullopt);
  end_writing(lock);
  arrived_.clear();
  give(lock, fsm_.discard());
  cancel(lock, &flow::reading_);
  start(lock, &flow::finishing_, std::move(waiting), std::move(slot));
  if (settled_)
    settle(lock);
  by_->flush(lock);
}

void flow::settle(const lock_type& lock)
{
  settled_ = true;
  if (reading_.handler)
    complete(reading_, fsm_.read_error(), std::optional<bytes>());
  advance(lock);
  if (!finishing_.handler)
    return;
  std::optional<bytes> reply;
  if (!fsm_.close_error())
    reply = std::move(reply_);
  complete(finishing_, fsm_.close_error(), std::move(reply));
}

void flow::abort(const lock_type& lock)
{
  fsm_.close(asio::error::operation_aborted);
  drop(lock);
  settle(lock);
}

void flow::drop(const lock_type& lock)
{
  closed_ = true;
  arrived_.clear();
  static_cast<void>(fsm_.discard()); // the call takes no more items
  cancel(lock, &flow::reading_);
}

void flow::cancel()
{
  if (by_->forked())
    return;
  const lock_type lock(by_->mutex_);
  cancel(lock, &flow::reading_);
  cancel(lock, &flow::writing_);
  cancel(lock, &flow::finishing_);
  by_->flush(lock);
}

void flow::close()
{
  if (by_->forked())
    return;
  const lock_type lock(by_->mutex_);
  abort(lock);
}

bool flow::is_open() const
{
  if (by_->forked())
    return false;
  const lock_type lock(by_->mutex_);
  return !closed_;
}

void connection::give_room(const lock_type& lock)
{
  for (std::size_t count = waiting_.size(); count != 0 && unsent(lock) < flow::unsent_max; --count)
  {
    const auto next = waiting_.front().lock();
    waiting_.pop_front();
    if (next)
      next->on_room(lock);
  }
}

void start_read(
  const flow_core::io_executor& executor, flow_core* core, flow_core::bytes_handler handler)
{
  start_or_refuse(core, executor, std::move(handler), &flow_core::read);
}

void start_write(const flow_core::io_executor& executor, flow_core* core, const item_source& what,
  flow_core::plain_handler handler)
{
  if (core != nullptr)
    core->write(executor, what, std::move(handler));
  else
    waiting_handler<>(executor, std::move(handler)).complete(error::closed);
}

void start_finish(
  const flow_core::io_executor& executor, flow_core* core, flow_core::bytes_handler handler)
{
  start_or_refuse(core, executor, std::move(handler), &flow_core::finish);
}

} // namespace rdma::detail::rpc

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "agent/agent_impl.hpp"

#include "connect/log.hpp"
#include "resource/device_impl.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <exception>

// Lifetime of an agent: its agent_channel, its timer, its end.

namespace rdma::detail {

namespace asio = boost::asio;

namespace {

// When the agent_channel fails, the connection usually fails as well and reports the reason soon.
constexpr std::chrono::milliseconds verdict_time{500};

// For queue pairs without a lessor.
class plain_source final : public agent_attachment_source
{
public:
  std::shared_ptr<agent_attachment> make(const std::shared_ptr<queue_pair_core>& beside) override
  {
    return std::make_shared<agent_impl>(beside, nullptr);
  }
};

} // namespace

std::shared_ptr<agent_core> agent_core::of(
  const std::shared_ptr<queue_pair_core>& core, error_code& ec)
{
  if (!core)
    ec = error::closed;
  else if (core->forked())
    ec = error::forked;
  if (ec)
    return nullptr;
  plain_source plain;
  agent_attachment_source& source = core->options().lessor ? *core->options().lessor : plain;
  // agent_impl is the only kind of agent_attachment.
  return std::static_pointer_cast<agent_impl>(core->attachment_by(source, ec));
}

template <class... Results>
void refuse_request(const agent_core::io_executor& executor, const error_code& ec,
  agent_core::handler_of<Results...> handler)
{
  waiting_handler<Results...>(executor, std::move(handler)).complete(ec, Results()...);
}
template void refuse_request(
  const agent_core::io_executor&, const error_code&, agent_core::handler_of<>);
template void refuse_request(
  const agent_core::io_executor&, const error_code&, agent_core::handler_of<remote_memory>);
template void refuse_request(
  const agent_core::io_executor&, const error_code&, agent_core::handler_of<loan>);
template void refuse_request(
  const agent_core::io_executor&, const error_code&, agent_core::handler_of<registered_buffer>);

agent_impl::agent_impl(
  const std::shared_ptr<queue_pair_core>& beside, std::shared_ptr<lessor_core> lessor)
  : core_(beside)
  , context_(beside->context())
  , executor_(beside->io_executor())
  , device_index_(beside->device_index())
  , has_windows_(beside->device().has_sound_windows())
  , lessor_(std::move(lessor))
{
  timer_.emplace(executor_);
}

agent_impl::~agent_impl()
{
  if (channel_)
    channel_->close();
  mark_ended(held_, owned_);
}

// Marks the program's handles to leases of both sides as ended.
void agent_impl::mark_ended(const held_leases& held, const owned_leases& owned) noexcept
{
  for (const auto& [id, each] : held)
    if (const auto lease = each.lock())
      lease->ended = true;
  for (const auto& [id, each] : owned)
    if (const auto lent = each.loan.lock())
      lent->out = false;
}

// Returns the error that prevents requests. Precondition: the mutex is held.
error_code agent_impl::obstacle() const
{
  return ended_ ? *ended_ : error_code();
}

// Precondition: the mutex is held. May throw.
void agent_impl::open_channel()
{
  if (channel_)
    return;
  const auto core = core_.lock();
  if (!core)
    throw system_error(error::closed);
  channel_ = agent_channel::open(*core, weak_from_this());
  update();
}

// Precondition: the mutex is held. Throws operation_not_supported if there is no control channel.
void agent_impl::offer_channel()
{
  if (offered_)
    return;
  open_channel();
  const auto core = core_.lock();
  if (!core || !core->send_agent_channel(agent_channel_event::offer, channel_->description()))
  {
    std::exchange(channel_, nullptr)->close();
    throw system_error(asio::error::operation_not_supported);
  }
  offered_ = true;
}

void agent_impl::on_agent_channel(agent_channel_event event, const std::string& text)
{
  lock_type lock(mutex_);
  if (ended_)
    return;
  if (event == agent_channel_event::over)
  {
    log_line(spdlog::level::info, "the peer's agent has ended: {}",
      untrusted(text, untrusted_reason_size_max));
    lock.unlock();
    return end(error::agent_ended);
  }
  if (ready_)
    return;
  error_code ec;
  bool astray = false; // a peer must not make this process connect to any other address
  try
  {
    const endpoint_description remote = endpoint_description::parse(text, ec);
    const auto core = core_.lock();
    astray = !ec && (!core || !core->is_at_peer(remote));
    if (!ec && !astray)
    {
      open_channel();
      channel_->connect(*core, remote, ec);
    }
    if (!ec && !astray)
      offer_channel(); // connect first, so that the peer's first message finds a queue pair
  }
  catch (const system_error& e)
  {
    ec = e.code();
  }
  catch (const std::bad_alloc&)
  {
    ec = asio::error::no_memory;
  }
  if (astray)
    return break_off(lock, "the peer described a queue pair at an address that is not its own");
  if (ec)
    return break_off(lock, "cannot connect the agents' queue pair: " + ec.message());
  ready_ = true;
  ask_next();
}

// Precondition: the mutex is held. Releases it.
void agent_impl::break_off(lock_type& lock, const std::string& why)
{
  log_line(spdlog::level::info, "an agent ends: {}", why);
  lock.unlock();
  if (const auto core = core_.lock())
    core->send_agent_channel(agent_channel_event::over, why);
  end(error::agent_ended);
}

void agent_impl::on_malformed()
{
  if (process_.foreign())
    return;
  lock_type lock(mutex_);
  if (!ended_)
    break_off(lock, "the peer sent a malformed message");
}

void agent_impl::on_channel_failed(const agent_channel& which, const error_code& ec)
{
  if (process_.foreign())
    return;
  const std::lock_guard lock(mutex_);
  if (ended_ || channel_.get() != &which)
    return;
  log_line(spdlog::level::debug, "the agents' queue pair failed: {}", ec.message());
  broken_off_at_ = clock::now() + verdict_time;
  update();
}

void agent_impl::on_message(const agent_message& message, std::uint32_t receive_index)
{
  if (process_.foreign())
    return;
  lock_type lock(mutex_);
  if (ended_)
    return;
  switch (message.type)
  {
  case message_type::allocate:
    return on_allocate(lock, message, receive_index);
  case message_type::renew:
    return on_renew(lock, message, receive_index);
  case message_type::release:
    return on_release(lock, message, receive_index);
  case message_type::hand_over:
    return on_hand_over(lock, message, receive_index);
  case message_type::lend:
    return on_lend(lock, message, receive_index);
  case message_type::recall:
    return on_recall(lock, message, receive_index);
  case message_type::done:
  case message_type::granted:
  case message_type::refused:
    return on_answer(lock, message, receive_index);
  }
}

// Precondition: the mutex is held.
void agent_impl::answer(
  const agent_message& question, std::uint32_t receive_index, refusal_status status)
{
  channel_->send(
    {.type = status == refusal_status::none ? message_type::done : message_type::refused,
      .status = status,
      .id = question.id},
    receive_index);
}

// Returns the time of the next action, or max(). Precondition: the mutex is held.
agent_impl::clock::time_point agent_impl::next_time() const noexcept
{
  clock::time_point next = broken_off_at_;
  if (!deadlines_.empty())
    next = std::min(next, deadlines_.begin()->first);
  if (!lease_ends_.empty())
    next = std::min(next, lease_ends_.begin()->first);
  return next;
}

// Updates the timer, and whether the agent_channel keeps the execution context running.
// Precondition: the mutex is held.
void agent_impl::update()
{
  if (ended_ || !timer_)
    return;
  if (channel_)
    channel_->count_as_work(lessor_ || !deadlines_.empty() || !owned_.empty()
      || !waits_remote_.empty() || !waits_local_.empty());
  const clock::time_point next = next_time();
  if (next >= timer_at_ && timer_at_ != clock::time_point::max()
    && next != clock::time_point::max())
    return; // the timer expires earlier and updates itself
  if (next == timer_at_)
    return;
  if (next == clock::time_point::max())
    return stop_timer();
  timer_at_ = clock::time_point::max(); // in case that no memory is left for the wait
  timer_->expires_at(next);
  timer_->async_wait(
    [weak = weak_from_this()](const error_code& ec)
    {
      if (const auto self = weak.lock(); self && !ec)
        self->on_timer();
    });
  timer_at_ = next;
}

// Stops the timer, which would keep the execution context running, but not immediately: usually the
// next request follows from the current handler, and setting the timer again is a system call.
// Precondition: the mutex is held.
void agent_impl::stop_timer()
{
  if (timer_stops_)
    return;
  try
  {
    asio::post(executor_,
      [weak = weak_from_this()]
      {
        if (const auto self = weak.lock())
          self->on_timer_stops();
      });
    timer_stops_ = true;
  }
  catch (const std::bad_alloc&)
  {
    timer_at_ = clock::time_point::max();
    timer_->cancel();
  }
}

void agent_impl::on_timer_stops()
{
  if (process_.foreign())
    return;
  const std::lock_guard lock(mutex_);
  timer_stops_ = false;
  if (ended_ || !timer_ || next_time() != clock::time_point::max())
    return;
  timer_at_ = clock::time_point::max();
  timer_->cancel();
}

void agent_impl::on_timer()
{
  if (process_.foreign())
    return;
  for (;;)
  {
    lock_type lock(mutex_);
    if (ended_)
      return;
    const clock::time_point now = clock::now();
    if (broken_off_at_ <= now)
      return break_off(lock, "the agents' queue pair failed");
    if (!deadlines_.empty() && deadlines_.begin()->first <= now)
    {
      give_up(lock, deadlines_.begin()->second, asio::error::timed_out);
      continue;
    }
    if (lease_ends_.empty() || lease_ends_.begin()->first > now)
    {
      timer_at_ = clock::time_point::max();
      return update();
    }
    const std::uint64_t id = lease_ends_.begin()->second;
    std::optional<owned_lease> over = take(id);
    if (over)
      recall(id, *over);
    lock.unlock();
    if (!over)
      continue;
    conclude(*std::move(over), {});
  }
}

void agent_impl::on_end(const error_code& reason) noexcept
{
  try
  {
    // Retries because a handler that itself runs the io_context blocks the delivery.
    constexpr int attempts = 8;
    asio::post(
      executor_, [self = shared_from_this(), reason] { self->end_in_turn(reason, attempts); });
  }
  catch (const std::exception& e)
  {
    log_line(spdlog::level::err, "cannot end an agent: {}", e.what());
  }
}

// Delivers the messages that arrived before the end of the connection, such as an answer after
// which the peer closed, and then ends the agent.
void agent_impl::end_in_turn(const error_code& reason, int attempts)
{
  std::shared_ptr<agent_channel> open;
  if (!process_.foreign())
  {
    const std::lock_guard lock(mutex_);
    open = channel_;
  }
  try
  {
    if (open && !open->deliver_received() && attempts != 0)
    {
      asio::post(executor_,
        [self = shared_from_this(), reason, attempts] { self->end_in_turn(reason, attempts - 1); });
      return;
    }
  }
  catch (...) // thrown by a handler, and meant for the caller of io_context::run()
  {
    end(reason);
    throw;
  }
  end(reason);
}

void agent_impl::end(const error_code& reason)
{
  lock_type lock(mutex_, std::defer_lock);
  if (!process_.foreign())
    lock.lock();
  else if (!lock.try_lock())
    return; // a thread of the parent held it; these requests end with the io_context
  if (ended_)
    return;
  ended_ = reason;
  if (timer_)
    timer_->cancel();
  const auto ended_channel = std::exchange(channel_, nullptr);
  auto exchanges = std::exchange(exchanges_, {});
  unsent_.clear();
  deadlines_.clear();
  auto held = std::exchange(held_, {});
  const auto lent_to_us = std::exchange(lent_to_us_, {});
  auto owned = std::exchange(owned_, {});
  for (auto& [id, each] : owned)
    close(each); // before any handler is notified
  lease_ends_.clear();
  // The memory belongs to the program already, whatever the reason for the end.
  for (auto& [receive_index, each] : std::exchange(handing_over_, {}))
    handed_to_us_.push_back(std::move(each));
  auto remote = waits_remote_.take_all();
  auto local = waits_local_.take_all();
  std::deque<leased_memory> taken; // by the operations that waited longest
  while (taken.size() < local.size() && !handed_to_us_.empty())
  {
    taken.push_back(std::move(handed_to_us_.front()));
    handed_to_us_.pop_front();
  }
  for (auto& [id, each] : exchanges)
    if (!each.given_up)
    {
      each.done(lock, reason, agent_message());
      if (!lock)
        lock.lock();
    }
  lock.unlock();

  mark_ended(held, {});
  if (ended_channel)
    ended_channel->close();
  const error_code outcome = reason;
  for (auto& [id, each] : owned)
    conclude(std::move(each), outcome);
  waiting_list<remote_memory>::fail(std::move(remote), outcome);
  for (auto& each : local)
    if (taken.empty())
      std::move(each.handler).complete(outcome, registered_buffer());
    else
    {
      std::move(each.handler).complete({}, std::move(taken.front().block));
      taken.pop_front();
    }
}

void agent_impl::abandon() noexcept
{
  lock_type lock(mutex_, std::defer_lock);
  if (process_.foreign() && !lock.try_lock())
    return;
  if (!lock)
    lock.lock();
  ended_ = asio::error::operation_aborted;
  timer_.reset();
  const auto ended_channel = std::exchange(channel_, nullptr);
  const auto exchanges = std::exchange(exchanges_, {});
  unsent_.clear();
  deadlines_.clear();
  auto held = std::exchange(held_, {});
  const auto lent_to_us = std::exchange(lent_to_us_, {});
  const auto owned = std::exchange(owned_, {});
  lease_ends_.clear();
  const auto handing_over = std::exchange(handing_over_, {});
  const auto handed_to_us = std::exchange(handed_to_us_, {});
  const auto remote = waits_remote_.take_all();
  const auto local = waits_local_.take_all();
  lock.unlock();
  mark_ended(held, owned);
}

} // namespace rdma::detail

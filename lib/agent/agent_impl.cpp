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

// An agent's life: its agent_channel, its timer, its end.

namespace rdma::detail {

namespace asio = boost::asio;

namespace {

// When the agent_channel fails, the connection mostly has, too, and is about to say so.
constexpr std::chrono::milliseconds verdict_time{500};

// Soft-RoCE, which its vendor id tells, keeps a peer to the bounds of a window's region rather than
// to the window's (rxe_resp.c, check_rkey), and waits 50 s for windows when their queue pair goes
// first (rxe_pool.c, __rxe_cleanup).
bool keeps_to_regions_only(const device_impl& device)
{
  constexpr std::uint32_t soft_roce_vendor = 0xffffff;
  return device.attributes().vendor_id == soft_roce_vendor;
}

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
  // The only kind of agent_attachment that there is.
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
  , has_windows_(beside->device().has_windows() && !keeps_to_regions_only(beside->device()))
  , lessor_(std::move(lessor))
{
  timer_.emplace(executor_);
}

agent_impl::~agent_impl()
{
  if (channel_)
    channel_->close();
  tell_ended(held_, owned_);
}

// The peer's leases and ours, to the program's handles.
void agent_impl::tell_ended(const held_leases& held, const owned_leases& owned) noexcept
{
  for (const auto& [id, each] : held)
    if (const auto lease = each.lock())
      lease->ended = true;
  for (const auto& [id, each] : owned)
    if (const auto lent = each.loan.lock())
      lent->out = false;
}

// What stands in the way of a request. The mutex is held.
error_code agent_impl::obstacle() const
{
  return ended_ ? *ended_ : error_code();
}

// The mutex is held. May throw.
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

// The mutex is held. May throw: operation_not_supported where there is no control channel.
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

void agent_impl::on_agent_channel(agent_channel_event word, const std::string& text)
{
  lock_type lock(mutex_);
  if (ended_)
    return;
  if (word == agent_channel_event::over)
  {
    log_line(spdlog::level::info, "the peer's agent has ended: {}",
      untrusted(text, untrusted_reason_size_max));
    lock.unlock();
    return end(error::agent_ended);
  }
  if (ready_)
    return;
  error_code ec;
  try
  {
    open_channel();
    channel_->connect(text, ec);
    if (!ec)
      offer_channel(); // connected first: what the peer sends at once is to find a queue pair
  }
  catch (const system_error& e)
  {
    ec = e.code();
  }
  catch (const std::bad_alloc&)
  {
    ec = asio::error::no_memory;
  }
  if (ec)
    return break_off(lock, "no queue pair for the agents: " + ec.message());
  channel_ready();
}

// The mutex is held.
void agent_impl::channel_ready()
{
  ready_ = true;
  ask_next();
}

// The mutex is held, and freed.
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
    break_off(lock, "the peer sent what is no message");
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

// The mutex is held.
void agent_impl::answer(
  const agent_message& question, std::uint32_t receive_index, refusal_status status)
{
  agent_message said;
  said.type = status == refusal_status::none ? message_type::done : message_type::refused;
  said.status = status;
  said.id = question.id;
  channel_->send(said, receive_index);
}

// When something is to be done next; max() when nothing waits for a time. The mutex is held.
agent_impl::clock::time_point agent_impl::next_time() const noexcept
{
  clock::time_point next = broken_off_at_;
  if (!deadlines_.empty())
    next = std::min(next, deadlines_.begin()->first);
  if (!lease_ends_.empty())
    next = std::min(next, lease_ends_.begin()->first);
  return next;
}

// Whether the agent_channel keeps the execution context running, and what the timer waits for. The
// mutex is held.
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
    return; // it goes off in time, and looks again
  if (next == timer_at_)
    return;
  if (next == clock::time_point::max())
    return stop_timer();
  timer_at_ = next;
  timer_->expires_at(next);
  timer_->async_wait(
    [weak = weak_from_this()](const error_code& ec)
    {
      if (const auto self = weak.lock(); self && !ec)
        self->on_timer();
    });
}

// The timer has nothing to wait for, and would keep the execution context running. Not at once:
// mostly the next request follows from the handler of the one before, and setting the timer anew is
// a system call. The mutex is held.
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
      return break_off(lock, "its queue pair failed");
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
    constexpr int attempts =
      8; // a handler that runs the io_context itself is in the way for as long as it does
    asio::post(
      executor_, [self = shared_from_this(), reason] { self->end_in_turn(reason, attempts); });
  }
  catch (const std::exception& e)
  {
    log_line(spdlog::level::err, "an agent cannot be ended: {}", e.what());
  }
}

// What has arrived before the connection's end is heard of before it, such as the answer after
// which the peer closed.
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
  catch (...) // of a handler's, which is for whoever runs the io_context
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
    return; // a thread of the parent's had it; those requests end with the io_context
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
    close(each); // before anybody hears of it
  lease_ends_.clear();
  // The program's already, whatever the connection's end.
  for (auto& [receive_index, each] : std::exchange(handing_over_, {}))
    handed_to_us_.push_back(std::move(each));
  auto remote = waits_remote_.take_all();
  auto local = waits_local_.take_all();
  std::deque<handed_over> taken; // by those who waited first
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

  tell_ended(held, {});
  if (ended_channel)
    ended_channel->close();
  const error_code outcome = reason;
  for (auto& [id, each] : owned)
    conclude(std::move(each), outcome);
  for (auto& each : remote)
    std::move(each.handler).complete(outcome, remote_memory());
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
  tell_ended(held, owned);
}

} // namespace rdma::detail

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

// Lifetime of an agent: its agent_channel, its alarm, its end.

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
    return agent_impl::make(beside, nullptr);
  }
};

// Called before any handler is notified.
void close_all(owned_leases<owned_lease>::leases_type& owned) noexcept
{
  for (auto& [id, each] : owned)
    each.close();
}

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

std::shared_ptr<agent_impl> agent_impl::make(
  const std::shared_ptr<queue_pair_core>& beside, std::shared_ptr<lessor_core> lessor)
{
  auto made = std::make_shared<agent_impl>(beside, std::move(lessor));
  made->late_end_->of = made->late_news_->of = made;
  return made;
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
  , alarm_(connection_service::of(executor_))
  , late_end_(std::make_shared<late_call<agent_impl>>(&agent_impl::post_end))
  , late_news_(std::make_shared<late_call<agent_impl>>(&agent_impl::tell_late_end))
  , owned_(lessor_ ? lessor_->options().lifetime_max : std::chrono::milliseconds::max())
{
}

agent_impl::~agent_impl()
{
  if (channel_)
    channel_->close();
  held_.end_all();
  close_all(owned_.all());
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
  or_end(lock,
    [&]
    {
      if (ended_)
        return;
      if (event == agent_channel_event::over)
      {
        log_line(spdlog::level::info, "the peer's agent has ended: {}",
          untrusted(text, untrusted_reason_size_max));
        lock.unlock();
        return end(error::agent_ended);
      }
      if (!ready_)
        connect_channel(lock, text);
    });
}

// Precondition: the mutex is held. May release it.
void agent_impl::connect_channel(lock_type& lock, const std::string& text)
{
  error_code ec;
  const endpoint_description remote = endpoint_description::parse(text, ec);
  const auto core = core_.lock();
  // A peer must not make this process connect to any other address.
  if (!ec && (!core || !core->is_at_peer(remote)))
    return break_off(lock, "the peer described a queue pair at an address that is not its own");
  try
  {
    if (!ec)
    {
      open_channel();
      channel_->connect(*core, remote, ec);
    }
    if (!ec)
      offer_channel(); // connect first, so that the peer's first message finds a queue pair
  }
  catch (const system_error& e)
  {
    ec = e.code();
  }
  if (ec)
    return break_off(lock, "cannot connect the agents' queue pair: " + ec.message());
  ready_ = true;
  ask_next();
}

// Precondition: the mutex is held. Releases it.
void agent_impl::break_off(lock_type& lock, std::string_view why, const error_code& outcome)
{
  log_line(spdlog::level::info, "an agent ends: {}", why);
  lock.unlock();
  tell_end(why);
  end(outcome);
}

// Tells the peer, as soon as there is memory.
void agent_impl::tell_end(std::string_view why)
{
  if (const auto core = core_.lock())
    try
    {
      core->send_agent_channel(agent_channel_event::over, std::string(why));
    }
    catch (const std::bad_alloc&)
    {
      static_cast<void>(run_later(executor_, late_news_)); // there is a thread: of the alarm
    }
}

void agent_impl::tell_late_end()
{
  if (const auto core = core_.lock())
    core->send_agent_channel(agent_channel_event::over, "there was no memory");
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
  log_if_possible(
    [&] { log_line(spdlog::level::debug, "the agents' queue pair failed: {}", ec.message()); });
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
  const auto step = [&](void (agent_impl::*by)(lock_type&, const agent_message&, std::uint32_t))
  { or_end(lock, [&] { (this->*by)(lock, message, receive_index); }); };
  switch (message.type)
  {
  case message_type::allocate:
    return step(&agent_impl::on_allocate);
  case message_type::renew:
    return step(&agent_impl::on_renew);
  case message_type::release:
    return step(&agent_impl::on_release);
  case message_type::hand_over:
    return step(&agent_impl::on_hand_over);
  case message_type::recall:
    return step(&agent_impl::on_recall);
  case message_type::lend:
    return on_lend(lock, message, receive_index);
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
  channel_->send(answer_to(question, status), receive_index);
}

// Returns the time of the next action, or max(). Precondition: the mutex is held.
agent_impl::clock::time_point agent_impl::next_time() const noexcept
{
  return std::min({broken_off_at_, requests_.next_deadline(), owned_.next_end()});
}

// Sets the alarm, and whether the agent_channel keeps the execution context running. Precondition:
// the mutex is held.
void agent_impl::update() noexcept
{
  if (ended_)
    return;
  if (channel_)
    channel_->count_as_work(lessor_ || requests_.is_waiting() || !owned_.empty()
      || !waits_remote_.empty() || !waits_local_.empty());
  const clock::time_point next = next_time();
  if (next >= alarm_at_)
    return; // on_alarm() sets it again
  alarm_at_ = next;
  alarm_.set(next, weak_from_this());
}

// On the thread of connections.
void agent_impl::on_alarm()
{
  if (process_.foreign())
    return;
  lock_type lock(mutex_);
  alarm_at_ = clock::time_point::max();
  const clock::time_point now = clock::now();
  while (!ended_)
    if (broken_off_at_ <= now)
      return break_off(lock, "the agents' queue pair failed");
    else if (const auto request = requests_.overdue(now))
    {
      give_up(lock, *request, asio::error::timed_out);
      if (!lock)
        lock.lock();
    }
    else if (const auto id = owned_.overdue(now))
    {
      owned_lease over = *take(*id);
      recall(*id, over);
      lock.unlock();
      conclude(std::move(over), {});
      lock.lock();
    }
    else
      return update();
}

void agent_impl::on_end(const error_code& reason) noexcept
{
  reason_ = reason;
  try
  {
    post_end();
  }
  catch (const std::bad_alloc&)
  {
    // Keeps this object, whose queue pair may be destroyed before there is memory.
    const auto end = std::exchange(late_end_, nullptr);
    end->kept = shared_from_this();
    static_cast<void>(run_later(executor_, end));
  }
}

void agent_impl::post_end()
{
  // Retries because a handler that itself runs the io_context blocks the delivery.
  constexpr int attempts = 8;
  asio::post(executor_,
    [self = shared_from_this(), reason = reason_] { self->end_in_turn(reason, attempts); });
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
  bool busy = false;
  try
  {
    busy = open && !open->deliver_received();
  }
  catch (...) // thrown by a handler, and meant for the caller of io_context::run()
  {
    end(reason);
    throw;
  }
  if (busy && attempts != 0)
    try
    {
      asio::post(executor_,
        [self = shared_from_this(), reason, attempts] { self->end_in_turn(reason, attempts - 1); });
      return;
    }
    catch (const std::bad_alloc&)
    {
      // The messages that have arrived are lost.
    }
  // The agent has not ended. Nothing else tells the peer while the program keeps the queue pair.
  if (open)
    tell_end("the queue pair has failed");
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
  const auto ended_channel = std::exchange(channel_, nullptr);
  auto requests = requests_.take_all();
  auto held = std::exchange(held_, {});
  auto owned = owned_.take_all();
  close_all(owned);
  // The memory belongs to the program already, whatever the reason for the end.
  handed_to_us_.splice(handed_to_us_.end(), handing_over_);
  auto remote = waits_remote_.take_all();
  auto local = waits_local_.take_all();
  inbox_list taken; // by the operations that waited longest
  while (taken.size() < local.size() && !handed_to_us_.empty())
    taken.splice(taken.end(), handed_to_us_, handed_to_us_.begin());
  for (auto& [id, each] : requests)
    if (each.waiting)
    {
      (*std::move(each.waiting))(lock, reason, agent_message());
      if (!lock)
        lock.lock();
    }
  lock.unlock();

  held.end_all();
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
      std::move(each.handler).complete({}, std::move(taken.front().second.block));
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
  const auto ended_channel = std::exchange(channel_, nullptr);
  const auto requests = requests_.take_all();
  auto held = std::exchange(held_, {});
  auto owned = owned_.take_all();
  const auto handing_over = std::exchange(handing_over_, {});
  const auto handed_to_us = std::exchange(handed_to_us_, {});
  const auto remote = waits_remote_.take_all();
  const auto local = waits_local_.take_all();
  lock.unlock();
  held.end_all();
  close_all(owned);
}

} // namespace rdma::detail

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "agent/agent_impl.hpp"

#include <boost/asio/error.hpp>

#include <bit>

// The requests of this side, and its leases of the peer's memory.

namespace rdma::detail {

namespace asio = boost::asio;

namespace {

constexpr std::uint32_t in_flight_max = 16; // the peer has as many receives for requests
constexpr std::size_t lent_to_us_max = 64;  // lent leases that the program has not accepted yet

} // namespace

// Precondition: the mutex is held.
std::uint32_t agent_impl::next_id() noexcept
{
  do
    ++last_id_;
  while (last_id_ == 0 || exchanges_.contains(last_id_));
  return last_id_;
}

// Registers a handler for an answer. The request may be sent later. Precondition: the mutex is
// held.
void agent_impl::expect(std::uint32_t id, clock::time_point deadline, answer_handler done)
{
  exchanges_.emplace(id, exchange{{}, std::move(done), deadline});
  deadlines_.emplace(deadline, id);
  update();
}

// Precondition: the mutex is held.
void agent_impl::ask(std::uint32_t id, agent_message question)
{
  question.id = id;
  exchanges_.at(id).question = question;
  unsent_.push_back(id);
  ask_next();
}

// Precondition: the mutex is held.
void agent_impl::ask_next()
{
  while (ready_ && channel_ && in_flight_ != in_flight_max && !unsent_.empty())
  {
    const auto found = exchanges_.find(unsent_.front());
    if (found == exchanges_.end())
    {
      unsent_.pop_front(); // given up before it was sent
      continue;
    }
    const agent_message& question = found->second.question;
    if (const auto lent = owned_.find(question.lease);
        question.type == message_type::lend && lent != owned_.end())
    {
      lent->second.exposed = true;
      start_lifetime(lent->first, lent->second, lent->second.lifetime);
    }
    channel_->send(question);
    found->second.sent = true;
    ++in_flight_;
    unsent_.pop_front();
  }
  update();
}

// Ends the wait for an answer: the handler receives ec. Precondition: the mutex is held. May
// release it.
void agent_impl::give_up(lock_type& lock, std::uint32_t id, const error_code& ec)
{
  const auto found = exchanges_.find(id);
  if (found == exchanges_.end() || found->second.given_up)
    return;
  deadlines_.erase({found->second.deadline, id});
  answer_handler done = std::move(found->second.done);
  // Memory that is granted later must still be given back, and a release must still be sent.
  const message_type what = found->second.question.type;
  if (found->second.sent || what == message_type::release || what == message_type::hand_over)
    found->second.given_up = true;
  else
    exchanges_.erase(found);
  update();
  std::move(done)(lock, ec, agent_message());
}

// Called by a cancellation slot. All waiting operations share one number space.
void agent_impl::withdraw(std::uint32_t id)
{
  if (process_.foreign())
    return;
  lock_type lock(mutex_);
  auto remote = waits_remote_.take(id);
  auto local = waits_local_.take(id);
  waiting_list<>::list_type returned;
  for (auto& [number, each] : owned_)
    returned.splice(returned.end(), each.returns.take(id));
  give_up(lock, id, asio::error::operation_aborted);
  if (!lock)
    lock.lock();
  update();
  lock.unlock();
  waiting_list<remote_memory>::fail(std::move(remote), asio::error::operation_aborted);
  waiting_list<registered_buffer>::fail(std::move(local), asio::error::operation_aborted);
  waiting_list<>::fail(std::move(returned), asio::error::operation_aborted);
}

// Precondition: the mutex is held. Releases it.
void agent_impl::on_answer(
  lock_type& lock, const agent_message& answer, std::uint32_t receive_index)
{
  decltype(exchanges_)::node_type over;
  bool valid = true;
  or_end(lock,
    [&]
    {
      channel_->give_back(receive_index);
      const auto found = exchanges_.find(answer.id);
      if (found == exchanges_.end() || !found->second.sent)
        return break_off(lock, "the peer sent an answer without a request");
      const exchange& asked = found->second;
      valid = is_answer_to(asked.question, answer);
      if (valid)
      {
        if (asked.given_up && answer.type == message_type::granted)
          channel_->send({.type = message_type::release, .lease = answer.lease});
        --in_flight_;
        ask_next();
      }
      if (!asked.given_up)
        deadlines_.erase({asked.deadline, answer.id});
      over = exchanges_.extract(found); // last: until here the end of the agent ends it
      update();
    });
  if (over && !over.mapped().given_up)
    std::move(over.mapped().done)(
      lock, valid ? error_of(answer.status) : error_code(error::agent_ended), answer);
  if (valid)
    return;
  if (!lock)
    lock.lock();
  if (!ended_)
    break_off(lock, "the peer sent an invalid answer");
}

// Precondition: the mutex is held.
bool agent_impl::is_answer_to(const agent_message& question, const agent_message& answer) const
{
  if (answer.type == message_type::refused)
    return true;
  if ((answer.type == message_type::granted) != (question.type == message_type::allocate))
    return false;
  if (answer.type == message_type::done)
    return answer.lifetime <= (question.type == message_type::renew ? question.lifetime : 0);
  // A grant must match the request and must be usable.
  return answer.memory.size() == question.memory.size()
    && answer.memory.rights() == question.memory.rights() && answer.memory.key(device_index_) != 0
    && answer.memory.address() % question.alignment == 0 && answer.lifetime <= question.lifetime
    && !held_.contains(answer.lease);
}

// Precondition: the mutex is held.
std::shared_ptr<held_lease> agent_impl::hold(const agent_message& told, clock::time_point since)
{
  // First: a lease that is destroyed here would lock the mutex.
  std::weak_ptr<held_lease>& place = held_[told.lease];
  auto lease = std::make_shared<held_lease>(
    weak_from_this(), told.lease, told.memory, end_of(since, from_wire(told.lifetime)));
  place = lease;
  return lease;
}

void agent_impl::allocate(const io_executor& executor, std::size_t size,
  const allocation_options& options, handler_of<remote_memory> handler)
{
  error_code ec;
  if (size == 0)
    ec = error::empty_buffer;
  else if (!std::has_single_bit(options.alignment)
    || options.alignment > memory_pool::alignment_max)
    ec = error::bad_alignment;
  else if (options.rights == access::local_read || !permits(remote_access, options.rights))
    ec = error::bad_access;
  if (ec)
    return refuse_request<remote_memory>(executor, ec, std::move(handler));
  agent_message question;
  question.type = message_type::allocate;
  question.alignment = options.alignment;
  question.lifetime = to_wire(options.lifetime);
  question.memory = remote_buffer(0, size, {}, options.rights);
  begin<remote_memory>(executor, options.time_limit, std::move(handler),
    [&](lock_type&, std::uint32_t id, clock::time_point deadline,
      waiting_handler<remote_memory> waiting)
    {
      expect(id, deadline,
        [this, since = clock::now(), waiting = std::move(waiting)](
          lock_type& lock, const error_code& outcome, const agent_message& answer) mutable
        {
          if (outcome)
            return std::move(waiting).complete(outcome, remote_memory());
          std::shared_ptr<held_lease> lease;
          or_end(lock, [&] { lease = hold(answer, since); });
          if (!lease)
            return std::move(waiting).complete(asio::error::no_memory, remote_memory());
          lock.unlock();
          std::move(waiting).complete_here({}, remote_memory(std::move(lease)));
        });
      ask(id, question);
    });
}

void agent_impl::ask_about(const std::shared_ptr<held_lease>& lease, agent_message question,
  const io_executor& executor, std::chrono::milliseconds time_limit, handler_of<> handler)
{
  const bool ends = question.type != message_type::renew;
  if (!lease || lease->agent.lock().get() != this
    || (ends ? lease->ended.exchange(true) : lease->ended.load()))
    return refuse_request<>(executor, error::lease_ended, std::move(handler));
  question.lease = lease->id;
  begin<>(executor, time_limit, std::move(handler),
    [&](lock_type&, std::uint32_t id, clock::time_point deadline, waiting_handler<> waiting)
    {
      if (ends)
        held_.erase(lease->id);
      expect(id, deadline,
        [renewed = ends ? nullptr : lease, since = clock::now(), waiting = std::move(waiting)](
          lock_type& lock, const error_code& outcome, const agent_message& answer) mutable
        {
          if (renewed && !outcome)
            renewed->expires = end_of(since, from_wire(answer.lifetime)).time_since_epoch();
          lock.unlock(); // its destructor may release the lease, which takes the mutex
          renewed.reset();
          if (outcome)
            std::move(waiting).complete(outcome);
          else
            std::move(waiting).complete_here(outcome);
        });
      ask(id, question);
    });
}

void agent_impl::renew(const io_executor& executor, const std::shared_ptr<held_lease>& lease,
  std::chrono::milliseconds lifetime, std::chrono::milliseconds time_limit, handler_of<> handler)
{
  ask_about(lease, {.type = message_type::renew, .lifetime = to_wire(lifetime)}, executor,
    time_limit, std::move(handler));
}

void agent_impl::release(const io_executor& executor, std::shared_ptr<held_lease> lease,
  std::chrono::milliseconds time_limit, handler_of<> handler)
{
  ask_about(lease, {.type = message_type::release}, executor, time_limit, std::move(handler));
}

void agent_impl::hand_over(const io_executor& executor, std::shared_ptr<held_lease> lease,
  std::chrono::milliseconds time_limit, handler_of<> handler)
{
  ask_about(lease, {.type = message_type::hand_over}, executor, time_limit, std::move(handler));
}

// Releases a lease without waiting for the answer. If there is no memory for the message, the lease
// ends with the connection.
void agent_impl::drop(held_lease& lease) noexcept
{
  if (process_.foreign())
    return;
  try
  {
    const std::lock_guard lock(mutex_);
    give_back(lease);
  }
  catch (const std::bad_alloc&)
  {
  }
}

// Precondition: the mutex is held.
void agent_impl::give_back(held_lease& lease)
{
  if (ended_ || lease.ended.exchange(true))
    return;
  held_.erase(lease.id);
  channel_->send({.type = message_type::release, .lease = lease.id});
}

void agent_impl::receive_remote(const io_executor& executor, handler_of<remote_memory> handler)
{
  begin<remote_memory>(executor, std::chrono::milliseconds::max(), std::move(handler),
    [&](
      lock_type& lock, std::uint32_t id, clock::time_point, waiting_handler<remote_memory> waiting)
    {
      while (!lent_to_us_.empty())
      {
        const std::shared_ptr<held_lease> next = std::move(lent_to_us_.front());
        lent_to_us_.pop_front();
        if (lease_clock::time_point(next->expires.load()) <= clock::now())
        {
          give_back(*next); // expired; released here because its destructor takes the mutex
          continue;
        }
        lock.unlock();
        return std::move(waiting).complete({}, remote_memory(next));
      }
      waits_remote_.add(id, std::move(waiting));
      update();
    });
}

// Precondition: the mutex is held. May release it.
void agent_impl::on_lend(lock_type& lock, const agent_message& message, std::uint32_t receive_index)
{
  if (held_.contains(message.lease) || message.memory.key(device_index_) == 0)
    return break_off(lock, "the peer lent invalid memory");
  std::shared_ptr<held_lease> lease; // destroyed without the mutex
  bool is_kept = false;
  or_end(lock,
    [&]
    {
      if (waits_remote_.empty() && lent_to_us_.size() >= lent_to_us_max)
        return answer(message, receive_index, refusal_status::inbox_full);
      lease = hold(message, clock::now());
      if (waits_remote_.empty())
        lent_to_us_.push_back(lease);
      answer(message, receive_index, refusal_status::none);
      is_kept = true;
    });
  auto waiting = is_kept ? waits_remote_.take_front() : waiting_list<remote_memory>::list_type();
  if (waiting.empty())
    return;
  update();
  lock.unlock();
  std::move(waiting.front().handler).complete_here({}, remote_memory(std::move(lease)));
}

// The peer has ended a lease of its memory. Precondition: the mutex is held.
void agent_impl::on_recall(
  lock_type& lock, const agent_message& message, std::uint32_t receive_index)
{
  channel_->give_back(receive_index);
  const auto found = held_.find(message.lease);
  if (found == held_.end())
    return; // the recall crossed this side's release
  const auto lease = found->second.lock();
  held_.erase(found);
  if (!lease)
    return; // it is being dropped concurrently
  lease->ended = true;
  std::erase(lent_to_us_, lease);
  lock.unlock(); // this may be the last reference
}

} // namespace rdma::detail

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

// Registers a handler for an answer. The request may be sent later. Precondition: the mutex is
// held.
void agent_impl::expect(std::uint32_t id, clock::time_point deadline, answer_handler done)
{
  requests_.add(id, clock::now(), deadline, std::move(done));
  update();
}

// Precondition: the mutex is held.
void agent_impl::ask(std::uint32_t id, agent_message question)
{
  requests_.ask(id, question);
  ask_next();
}

// Precondition: the mutex is held.
void agent_impl::ask_next()
{
  while (ready_ && channel_)
  {
    const agent_message* const question = requests_.next();
    if (!question)
      break;
    if (question->type == message_type::lend)
      owned_.expose(question->lease, clock::now()); // it exists: only give_up() removes it
    channel_->send(*question);
    requests_.on_sent();
  }
  update();
}

// Ends the wait for an answer: the handler receives ec. Precondition: the mutex is held. May
// release it.
void agent_impl::give_up(lock_type& lock, std::uint32_t id, const error_code& ec)
{
  std::optional<answer_handler> done = requests_.give_up(id);
  update();
  if (done)
    (*std::move(done))(lock, ec, agent_message());
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
  for (auto& [number, each] : owned_.all())
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
  std::optional<answer_handler> done;
  std::shared_ptr<held_lease> renewed; // destroyed without the mutex
  bool valid = true;
  or_end(lock,
    [&]
    {
      channel_->give_back(receive_index);
      const auto* const asked = requests_.asked(answer.id);
      if (!asked)
        return break_off(lock, "the peer sent an answer without a request");
      valid = is_answer_to(asked->question, answer, device_index_) && !held_.contains(answer.lease);
      if (valid)
      {
        if (const auto release = requests_.give_back(*asked, answer))
          channel_->send(*release);
        renewed = held_.on_answer(*asked, answer);
        requests_.on_answered();
        ask_next();
      }
      done = requests_.finish(answer.id); // last: until here the end of the agent ends it
      update();
    });
  if (renewed)
  {
    if (lock)
      lock.unlock();
    renewed.reset();
    lock.lock();
  }
  if (done)
    (*std::move(done))(
      lock, valid ? error_of(answer.status) : error_code(error::agent_ended), answer);
  if (valid)
    return;
  if (!lock)
    lock.lock();
  if (!ended_)
    break_off(lock, "the peer sent an invalid answer");
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
          or_end(lock, [&] { lease = held_.hold(answer, since, weak_from_this()); });
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
        held_.forget(lease->id);
      expect(id, deadline,
        [renewed = ends ? nullptr : lease, waiting = std::move(waiting)](
          lock_type& lock, const error_code& outcome, const agent_message&) mutable
        {
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
  if (ended_)
    return;
  if (const auto release = held_.give_back(lease))
    channel_->send(*release);
}

void agent_impl::receive_remote(const io_executor& executor, handler_of<remote_memory> handler)
{
  begin<remote_memory>(executor, std::chrono::milliseconds::max(), std::move(handler),
    [&](
      lock_type& lock, std::uint32_t id, clock::time_point, waiting_handler<remote_memory> waiting)
    {
      while (const std::shared_ptr<held_lease> next = held_.take_lent())
      {
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
      if (waits_remote_.empty() && !held_.has_room_for_lent())
        return answer(message, receive_index, refusal_status::inbox_full);
      lease = held_.hold(message, clock::now(), weak_from_this());
      if (waits_remote_.empty())
        held_.keep_lent(lease);
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
  if (const auto lease = held_.recall(message.lease))
    lock.unlock(); // this may be the last reference
}

} // namespace rdma::detail

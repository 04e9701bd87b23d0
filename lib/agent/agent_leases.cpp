//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "agent/agent_impl.hpp"
#include "agent/lease_worker.hpp"

#include "boost_rdma/detail/initiate.hpp"
#include "connect/log.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

// Leases of this side's memory that the peer has: granted by a lessor, or lent by the program.

namespace rdma::detail {

namespace asio = boost::asio;

// Exposes the memory to the peer. Calls the handler on the I/O executor, or within this function if
// registering is sufficient. If the lease has ended in the meantime, its window or registration is
// destroyed. Precondition: the mutex is not held.
void agent_impl::expose(std::uint64_t id, owned_lease lease, exposed_handler handler)
{
  try
  {
    if (has_windows_)
      expose_by_window(id, std::move(lease), handler);
    else
      expose_by_registration(id, std::move(lease), handler);
  }
  catch (const system_error& e)
  {
    std::move(handler)(e.code(), remote_buffer());
  }
  catch (const std::bad_alloc&)
  {
    std::move(handler)(asio::error::no_memory, remote_buffer());
  }
}

struct agent_impl::bound
{
  void operator()(const error_code& ec, const remote_buffer& exposed)
  {
    std::move(told)(ec, exposed);
  }

  // The device completes the bind first, even if the lease ends earlier.
  kept_registration kept;
  exposed_handler told;
};

void agent_impl::expose_by_window(std::uint64_t id, owned_lease lease, exposed_handler& handler)
{
  const auto core = core_.lock();
  if (!core)
    throw system_error(error::closed);
  lease.window = std::make_shared<window_impl>(context_.impl(), core->device().name());
  const request bind{.kind = request_kind::bind_window, .window_rights = lease.rights};
  std::shared_ptr<window_impl> window = lease.window;
  const const_buffer range = lease.range;
  {
    const std::lock_guard lock(mutex_);
    if (ended_)
      throw system_error(*ended_);
    owned_.add(id, std::move(lease));
  }
  bound done{kept_registration(range.registration()), std::move(handler)};
  try
  {
    start_operation<window_result>(core.get())(
      executor_, std::move(done), bind, range, std::move(window));
  }
  catch (const std::bad_alloc&)
  {
    handler.swap(done.told); // an operation that cannot be made leaves its handler alone
    throw;
  }
}

void agent_impl::register_range(owned_lease& lease) const
{
  lease.registered = memory_region(protection_domain(context_), lease.range.data(),
    lease.range.size(), lease.rights | access::local_write);
}

void agent_impl::expose_by_registration(
  std::uint64_t id, owned_lease lease, exposed_handler& handler)
{
  if (lease.registered.size() == 0)
    register_range(lease);
  const remote_buffer all = lease.registered.remote();
  const remote_buffer exposed(all.address(), all.size(), all.keys(), lease.rights);
  {
    const std::lock_guard lock(mutex_);
    if (ended_)
      throw system_error(*ended_);
    owned_.add(id, std::move(lease));
  }
  std::move(handler)(error_code(), exposed);
}

refusal_status agent_impl::obstacle_to(const agent_message& message) const
{
  if (!lessor_ || lessor_->domain().impl() != context_.impl())
    return refusal_status::no_lessor;
  if (!std::has_single_bit(message.alignment) || message.alignment > memory_pool::alignment_max)
    return refusal_status::bad_alignment;
  if (!permits(lessor_->options().rights, message.memory.rights()))
    return refusal_status::right_not_granted;
  return refusal_status::none;
}

// Precondition: the mutex is held. Throws std::bad_alloc.
memory_pool& agent_impl::pool_of_leases(bool quick)
{
  std::unique_ptr<memory_pool>& own = quick ? quick_pool_ : large_pool_;
  if (!own)
    own = lessor_->make_peer_pool(quick);
  return own ? *own : lessor_->pool();
}

// Precondition: the mutex is held. Releases it.
void agent_impl::on_allocate(
  lock_type& lock, const agent_message& message, std::uint32_t receive_index)
{
  const std::uint64_t id = owned_.next_number();
  refusal_status why = obstacle_to(message);
  const bool quick = lessor_core::is_quick(message.memory.size());
  memory_pool* pool = nullptr;
  if (why == refusal_status::none)
    try
    {
      pool = &pool_of_leases(quick);
    }
    catch (const std::bad_alloc&)
    {
      why = refusal_status::pool_exhausted;
    }
  lock.unlock();
  if (why != refusal_status::none)
    return grant(message, id, receive_index, why, {});
  // After the peer's releases that are under way, of which it may need the quota.
  if (!quick || share_->releases != 0)
    return make_elsewhere(*pool, message, id, receive_index);
  owned_lease lease;
  why = make_lease(*pool, message, lease);
  grant(message, id, receive_index, why, std::move(lease));
}

struct agent_impl::lease_making
{
  void grant() { self->grant(message, id, receive_index, why, std::move(lease)); }

  const std::shared_ptr<agent_impl> self;
  const agent_message message;
  const std::uint64_t id;
  const std::uint32_t receive_index;
  const io_executor executor;
  refusal_status why = refusal_status::none;
  owned_lease lease = {};
};

void agent_impl::make_elsewhere(
  memory_pool& from, const agent_message& message, std::uint64_t id, std::uint32_t receive_index)
{
  const std::shared_ptr<lease_making> making(new lease_making{shared_from_this(), message, id,
    receive_index, asio::prefer(executor_, asio::execution::outstanding_work.tracked)});
  lease_worker::run(executor_,
    [making, &from]
    {
      making->why = making->self->make_lease(from, making->message, making->lease);
      try
      {
        asio::post(making->executor, [making] { making->grant(); });
      }
      catch (const std::bad_alloc&)
      {
        making->grant();
      }
    });
}

// Charges, allocates, clears and, if there are no windows, registers the memory of a lease. On any
// thread.
refusal_status agent_impl::make_lease(
  memory_pool& from, const agent_message& message, owned_lease& lease)
try
{
  lessor_charge& charge = lease.granted.charge;
  charge = lessor_charge::take(lessor_, share_, message.memory.size());
  if (!charge)
    return refusal_status::quota_exceeded;
  // The limit of all peers' pools together.
  if (lessor_->statistics().bytes > lessor_->options().pool.size_max)
    return refusal_status::pool_exhausted;
  error_code ec;
  registered_buffer& block = lease.granted.block;
  block = from.make_buffer(message.memory.size(), std::max(message.alignment, 64u), ec);
  if (ec)
    return refusal_status::pool_exhausted;
  // The block may contain data of other peers.
  std::memset(block.data(), 0, block.size());
  lease.range = block;
  lease.rights = message.memory.rights();
  lease.lifetime = from_wire(message.lifetime);
  if (!has_windows_)
    register_range(lease);
  return refusal_status::none;
}
catch (const std::exception& e) // std::bad_alloc, or system_error from registering
{
  log_line(spdlog::level::warn, "cannot make a lease for the peer: {}", e.what());
  return refusal_status::failed;
}

// Exposes the memory of a lease, or refuses it.
void agent_impl::grant(const agent_message& message, std::uint64_t id, std::uint32_t receive_index,
  refusal_status why, owned_lease lease)
{
  if (process_.foreign())
    return;
  lock_type lock(mutex_, std::defer_lock);
  or_end(lock,
    [&]
    {
      if (why == refusal_status::none)
        return expose(id, std::move(lease),
          [self = shared_from_this(), message, id, receive_index](
            const error_code& ec, const remote_buffer& exposed)
          { self->on_granted(message, id, receive_index, ec, exposed); });
      if (lessor_)
        lessor_->count_refusal();
      lock.lock();
      if (!ended_)
        answer(message, receive_index, why);
    });
}

void agent_impl::on_granted(const agent_message& asked, std::uint64_t id,
  std::uint32_t receive_index, const error_code& ec, const remote_buffer& exposed)
{
  if (process_.foreign())
    return;
  std::optional<owned_lease> failed; // destroyed after the mutex is released
  lock_type lock(mutex_);
  if (ended_)
    return;
  or_end(lock,
    [&]
    {
      if (ec)
      {
        log_line(
          spdlog::level::warn, "cannot expose memory for a lease of the peer: {}", ec.message());
        lessor_->count_refusal();
        failed = take(id);
        return answer(asked, receive_index, refusal_status::failed);
      }
      lessor_->count_grant();
      // It exists: only a message of the peer, the end of the agent or the lifetime that starts
      // below removes it.
      const owned_lease& lease = owned_.expose(id, clock::now());
      channel_->send({.type = message_type::granted,
                       .id = asked.id,
                       .lease = id,
                       .lifetime = to_wire(lease.lifetime),
                       .memory = exposed},
        receive_index);
      update();
    });
}

// Removes a lease from the table. The caller destroys it without the mutex. Precondition: the mutex
// is held.
std::optional<owned_lease> agent_impl::take(std::uint64_t id)
{
  std::optional<owned_lease> lease = owned_.take(id);
  if (lease)
    update();
  return lease;
}

// Releases the memory and completes the operations that wait for it. Precondition: the mutex is not
// held.
void agent_impl::conclude(owned_lease over, const error_code& ec)
{
  auto waiting = over.returns.take_all();
  leased_memory granted = std::move(over.granted);
  {
    const owned_lease gone = std::move(over);
  }
  release(std::move(granted));
  waiting_list<>::fail(std::move(waiting), ec);
}

// Precondition: the peer has no access to the memory any more.
void agent_impl::release(leased_memory memory)
{
  if (lessor_core::is_quick(memory.block.size()))
    return;
  const auto share = share_;
  ++share->releases;
  lease_worker::run(executor_,
    [share, memory = std::move(memory)]() mutable
    {
      {
        const leased_memory gone = std::move(memory);
      }
      --share->releases;
    });
}

// Precondition: the mutex is held. Without memory the peer is not notified: its accesses fail.
void agent_impl::recall(std::uint64_t id, const owned_lease& lease) noexcept
try
{
  if (lease.exposed && channel_)
    channel_->send({.type = message_type::recall, .lease = id});
}
catch (const std::bad_alloc&)
{
}

// Precondition: the mutex is held.
void agent_impl::on_renew(lock_type&, const agent_message& message, std::uint32_t receive_index)
{
  channel_->send(owned_.on_renew(message, clock::now()), receive_index);
  update();
}

// Precondition: the mutex is held. Releases it.
void agent_impl::on_release(
  lock_type& lock, const agent_message& message, std::uint32_t receive_index)
{
  std::optional<owned_lease> lease;
  if (owned_.find_exposed(message.lease))
    lease = take(message.lease);
  lock.unlock();
  const bool known = lease.has_value();
  if (lease)
    conclude(*std::move(lease), {});
  lock.lock();
  if (!ended_ && message.id == 0)
    channel_->give_back(receive_index);
  else if (!ended_)
    answer(message, receive_index, known ? refusal_status::none : refusal_status::unknown_lease);
}

// Precondition: the mutex is held.
void agent_impl::on_hand_over(lock_type&, const agent_message& message, std::uint32_t receive_index)
{
  if (!owned_.find_granted(message.lease))
    return answer(message, receive_index, refusal_status::unknown_lease);
  // The program receives the memory only after the peer has received the answer. Otherwise the
  // program might, for example, end the connection before that.
  handing_over_.emplace_back(receive_index, leased_memory());
  handing_over_.back().second = std::move(take(message.lease)->granted);
  answer(message, receive_index, refusal_status::none);
}

void agent_impl::on_answered(std::uint32_t receive_index)
{
  if (process_.foreign())
    return;
  lock_type lock(mutex_);
  const auto found = std::find_if(handing_over_.begin(), handing_over_.end(),
    [receive_index](const auto& each) { return each.first == receive_index; });
  if (found == handing_over_.end())
    return;
  auto waiting = waits_local_.take_front();
  if (waiting.empty())
    return handed_to_us_.splice(handed_to_us_.end(), handing_over_, found);
  leased_memory taken = std::move(found->second);
  handing_over_.erase(found);
  update();
  lock.unlock();
  std::move(waiting.front().handler).complete_here({}, std::move(taken.block));
}

void agent_impl::receive_local(const io_executor& executor, handler_of<registered_buffer> handler)
{
  if (process_.foreign())
    return refuse_request<registered_buffer>(executor, error::forked, std::move(handler));
  lock_type lock(mutex_);
  if (const error_code ec = obstacle(); ec && handed_to_us_.empty())
  {
    lock.unlock();
    return refuse_request<registered_buffer>(executor, ec, std::move(handler));
  }
  const std::uint32_t id = requests_.next_id();
  assign_slot(handler, id);
  waiting_handler<registered_buffer> waiting(executor, std::move(handler));
  if (handed_to_us_.empty())
  {
    waits_local_.add(id, std::move(waiting));
    return update();
  }
  leased_memory taken = std::move(handed_to_us_.front().second);
  handed_to_us_.pop_front();
  lock.unlock();
  std::move(waiting).complete({}, std::move(taken.block));
}

void agent_impl::lend(const io_executor& executor, const mutable_buffer& region,
  const lend_options& options, handler_of<loan> handler)
{
  registration* const owner = region.registration();
  error_code ec;
  if (region.size() == 0)
    ec = error::empty_buffer;
  else if (owner == nullptr)
    ec = error::not_registered;
  else if (owner->domain != context_.impl().get())
    ec = error::wrong_context;
  else if (options.rights == access::local_read || !permits(remote_access, options.rights))
    ec = error::bad_access;
  else if (owner->read_only && options.rights != access::remote_read)
    ec = error::read_only;
  else if (options.rights != access::remote_read && !permits(owner->rights, access::local_write))
    ec = error::bad_access; // required by ibv_bind_mw(3)
  if (ec)
    return refuse_request<loan>(executor, ec, std::move(handler));
  owned_lease lease;
  lease.region = kept_registration(owner);
  lease.range = region;
  lease.rights = options.rights;
  lease.lifetime = options.lifetime;
  lease.is_lent = true;
  std::shared_ptr<lent_lease> lent; // destroyed without the mutex
  begin<loan>(executor, options.time_limit, std::move(handler),
    [&](
      lock_type& lock, std::uint32_t id, clock::time_point deadline, waiting_handler<loan> waiting)
    {
      const std::uint64_t number = owned_.next_number();
      lent = std::make_shared<lent_lease>(weak_from_this(), number);
      lease.loan = lent;
      expect(id, deadline,
        [lent, waiting = std::move(waiting)](
          lock_type& inner, const error_code& outcome, const agent_message&) mutable
        {
          inner.unlock();
          if (outcome)
            lent.reset(); // ends the loan
          std::move(waiting).complete(outcome, loan(std::move(lent)));
        });
      lock.unlock();
      expose(number, std::move(lease),
        [self = shared_from_this(), id, number](const error_code& failure,
          const remote_buffer& exposed) { self->on_lendable(id, number, failure, exposed); });
    });
}

void agent_impl::on_lendable(
  std::uint32_t id, std::uint64_t number, const error_code& ec, const remote_buffer& exposed)
{
  if (process_.foreign())
    return;
  std::optional<owned_lease> unwanted; // destroyed after the mutex is released
  lock_type lock(mutex_);
  if (ended_)
    return;
  if (ec || !requests_.contains(id))
  {
    unwanted = take(number); // given up already, maybe before the lease was in the table
    return give_up(lock, id, ec);
  }
  or_end(lock,
    [&]
    {
      agent_message question;
      question.type = message_type::lend;
      question.lease = number;
      question.lifetime =
        to_wire(owned_.find(number)->lifetime); // it exists: only give_up() removes it
      question.memory = exposed;
      ask(id, question);
    });
}

void agent_impl::take_back(lent_lease& lent) noexcept
{
  if (process_.foreign())
    return;
  std::optional<owned_lease> lease;
  {
    const std::lock_guard lock(mutex_);
    lease = take(lent.id);
    lent.out = false; // even if the last reference is about to be released
    if (lease)
      recall(lent.id, *lease);
  }
  if (lease)
    conclude(*std::move(lease), {});
}

void agent_impl::wait_return(
  const io_executor& executor, const std::shared_ptr<lent_lease>& lent, handler_of<> handler)
{
  if (process_.foreign())
    return refuse_request<>(executor, error::forked, std::move(handler));
  if (!lent || lent->agent.lock().get() != this)
    return refuse_request<>(executor, error::lease_ended, std::move(handler));
  lock_type lock(mutex_);
  owned_lease* const found = owned_.find(lent->id);
  if (!found)
  {
    const error_code ec = obstacle();
    lock.unlock();
    return refuse_request<>(executor, ec, std::move(handler));
  }
  const std::uint32_t id = requests_.next_id();
  assign_slot(handler, id);
  found->returns.add(id, waiting_handler<>(executor, std::move(handler)));
}

} // namespace rdma::detail

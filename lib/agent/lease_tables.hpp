//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_AGENT_LEASE_TABLES_HPP
#define BOOST_RDMA_LIB_AGENT_LEASE_TABLES_HPP

#include "agent/message.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

// The leases of one side of an agent channel. No I/O and no clock: the user sends the messages and
// sets an alarm. Not thread-safe.

namespace rdma::detail {

struct lease_terms
{
  std::chrono::milliseconds lifetime{}; // from the time at which the peer is told
  lease_clock::time_point end = lease_clock::time_point::max();
  bool exposed = false; // the peer has its description
  bool is_lent = false; // by the program, which alone decides when it ends
};

// The leases of this side's memory. `Lease` has lease_terms as its base, and a function close()
// that ends the peer's access.
template <class Lease>
class owned_leases
{
public:
  using time_point = lease_clock::time_point;
  using leases_type = std::unordered_map<std::uint64_t, Lease>;

  // No granted lease lasts longer.
  explicit owned_leases(std::chrono::milliseconds lifetime_max) noexcept
    : lifetime_max_(lifetime_max)
  {
  }

  std::uint64_t next_number() noexcept { return ++last_; } // never used again
  void add(std::uint64_t number, Lease lease) { leases_.emplace(number, std::move(lease)); }
  [[nodiscard]] Lease* find(std::uint64_t number) noexcept
  {
    const auto found = leases_.find(number);
    return found == leases_.end() ? nullptr : &found->second;
  }

  // Returns a lease that the peer may end, or null.
  [[nodiscard]] Lease* find_exposed(std::uint64_t number) noexcept
  {
    Lease* const found = find(number);
    return found && found->exposed ? found : nullptr;
  }

  // Returns a lease that the peer may renew or hand over, or null.
  [[nodiscard]] Lease* find_granted(std::uint64_t number) noexcept
  {
    Lease* const found = find_exposed(number);
    return found && !found->is_lent ? found : nullptr;
  }

  // The peer is told next. Precondition: the lease exists.
  const Lease& expose(std::uint64_t number, time_point now)
  {
    Lease& lease = leases_.at(number);
    lease.exposed = true;
    start_lifetime(number, lease, now, lease.lifetime);
    return lease;
  }

  // Returns the answer to a request.
  agent_message on_renew(const agent_message& asked, time_point now)
  {
    Lease* const lease = find_granted(asked.lease);
    if (!lease)
      return answer_to(asked, refusal_status::unknown_lease);
    start_lifetime(asked.lease, *lease, now, from_wire(asked.lifetime));
    agent_message answer = answer_to(asked, refusal_status::none);
    answer.lifetime = to_wire(lease->lifetime);
    return answer;
  }

  // Ends the peer's access and removes the lease: if there is none, its memory is unreachable.
  std::optional<Lease> take(std::uint64_t number) noexcept
  {
    const auto found = leases_.find(number);
    if (found == leases_.end())
      return std::nullopt;
    ends_.erase({found->second.end, number});
    found->second.close();
    std::optional<Lease> taken(std::move(found->second));
    leases_.erase(found);
    return taken;
  }

  [[nodiscard]] bool empty() const noexcept { return leases_.empty(); }
  [[nodiscard]] leases_type& all() noexcept { return leases_; }
  leases_type take_all() noexcept
  {
    ends_.clear();
    return std::exchange(leases_, {});
  }

  [[nodiscard]] time_point next_end() const noexcept
  {
    return ends_.empty() ? time_point::max() : ends_.begin()->first;
  }

  // Returns a lease whose time is over.
  [[nodiscard]] std::optional<std::uint64_t> overdue(time_point now) const noexcept
  {
    return ends_.empty() || ends_.begin()->first > now ? std::nullopt
                                                       : std::optional(ends_.begin()->second);
  }

private:
  void start_lifetime(
    std::uint64_t number, Lease& lease, time_point now, std::chrono::milliseconds lifetime)
  {
    ends_.erase({lease.end, number});
    lease.lifetime = lease.is_lent ? lifetime : std::min(lifetime, lifetime_max_);
    lease.end = end_of(now, lease.lifetime);
    if (lease.end != time_point::max())
      ends_.emplace(lease.end, number);
  }

  const std::chrono::milliseconds lifetime_max_;
  std::uint64_t last_ = 0;
  leases_type leases_;
  std::set<std::pair<time_point, std::uint64_t>> ends_;
};

// The leases of the peer's memory. `Lease` has an atomic `ended` and an atomic `expires`, an `id`,
// and a constructor from an owner, the id, the memory and the time at which it expires.
template <class Lease>
class held_leases
{
public:
  using time_point = lease_clock::time_point;

  static constexpr std::size_t lent_max = 64; // lent leases that the program has not accepted yet

  [[nodiscard]] bool contains(std::uint64_t id) const { return held_.contains(id); }
  [[nodiscard]] bool empty() const noexcept { return held_.empty(); }

  // Precondition: no lease has the id of the new one.
  template <class Owner>
  std::shared_ptr<Lease> hold(const agent_message& told, time_point since, Owner owner)
  {
    // First: a lease that is destroyed here would use the table.
    std::weak_ptr<Lease>& place = held_[told.lease];
    auto lease = std::make_shared<Lease>(
      std::move(owner), told.lease, told.memory, end_of(since, from_wire(told.lifetime)));
    place = lease;
    return lease;
  }

  [[nodiscard]] bool has_room_for_lent() const noexcept { return lent_.size() < lent_max; }
  void keep_lent(std::shared_ptr<Lease> lease) { lent_.push_back(std::move(lease)); }
  // Returns the oldest lent lease, or null.
  std::shared_ptr<Lease> take_lent() noexcept
  {
    std::shared_ptr<Lease> taken;
    if (!lent_.empty())
    {
      taken = std::move(lent_.front());
      lent_.pop_front();
    }
    return taken;
  }

  // The peer has answered a request of a request_table. A renewed lease ends when the peer says so,
  // even if nothing waits for the answer any more. Returns a lease that was renewed: this may be
  // the last reference, which must not be destroyed here.
  template <class Request>
  std::shared_ptr<Lease> on_answer(const Request& asked, const agent_message& answer) noexcept
  {
    if (asked.question.type != message_type::renew || answer.type != message_type::done)
      return nullptr;
    const auto found = held_.find(asked.question.lease);
    auto lease = found == held_.end() ? nullptr : found->second.lock();
    if (lease)
      lease->expires = end_of(asked.since, from_wire(answer.lifetime)).time_since_epoch();
    return lease;
  }

  void forget(std::uint64_t id) noexcept { held_.erase(id); }

  // Returns the message that releases a lease, unless it has ended.
  std::optional<agent_message> give_back(Lease& lease) noexcept
  {
    if (lease.ended.exchange(true))
      return std::nullopt;
    forget(lease.id);
    return agent_message{.type = message_type::release, .lease = lease.id};
  }

  // The peer has ended a lease. Returns it as on_answer() does.
  std::shared_ptr<Lease> recall(std::uint64_t id) noexcept
  {
    const auto found = held_.find(id);
    if (found == held_.end())
      return nullptr; // the recall crossed this side's release
    auto lease = found->second.lock();
    held_.erase(found);
    if (!lease)
      return nullptr; // it is being dropped concurrently
    lease->ended = true;
    std::erase(lent_, lease);
    return lease;
  }

  // Must not be called where a lease must not be destroyed.
  void end_all() noexcept
  {
    for (const auto& [id, each] : held_)
      if (const auto lease = each.lock())
        lease->ended = true;
    held_.clear();
    lent_.clear();
  }

private:
  std::unordered_map<std::uint64_t, std::weak_ptr<Lease>> held_;
  std::list<std::shared_ptr<Lease>> lent_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_AGENT_LEASE_TABLES_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_UNIT_AGENT_SIMULATED_PROGRAM_HPP
#define BOOST_RDMA_TEST_UNIT_AGENT_SIMULATED_PROGRAM_HPP

#include "unit/agent_simulated_side.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace test::agent_simulation {

/// A program with an agent. Its operations and their time limits are random.
class program : public side
{
public:
  using side::side;

  /// Does what a program may do at any time.
  void act()
  {
    if (is_over() || w.now < stopped_until_)
      return;
    switch (w.random() % 14)
    {
    case 0:
    case 1:
    case 2:
      return allocate();
    case 3:
    case 4:
      return change(message_type::renew);
    case 5:
      return change(message_type::release);
    case 6:
      return change(message_type::hand_over);
    case 7:
      return drop_one(leases_);
    case 8:
      return lend();
    case 9:
      return drop_one(loans_);
    case 10:
      return wait_return();
    case 11:
      return receive_remote();
    case 12:
      waits_local_.push_back(begin(no_limit));
      return deliver_handed();
    default:
      if (!operations_.empty())
        cancel(operations_[operations_.size() - 1
          - w.random() % std::min<std::size_t>(operations_.size(), 20)]);
    }
  }

  void finish()
  {
    is_finishing_ = true;
    leases_.clear();
    loans_.clear();
    while (held_.take_lent())
    {
    }
    for (operation& each : operations_)
      cancel(each);
  }

private:
  // Sometimes less than a message takes.
  duration time_limit()
  {
    return w.one_in(4) ? no_limit : w.one_in(2) ? w.any(w.delay / 2) : w.any(10 * w.delay);
  }
  duration lifetime()
  {
    return w.one_in(2) ? no_limit : w.one_in(4) ? w.any(2 * w.delay) : w.any(20 * w.delay);
  }

  void allocate()
  {
    agent_message question{.type = message_type::allocate,
      .lifetime = to_wire(lifetime()),
      .alignment = 64,
      .memory = remote_buffer(0, 64, {}, rdma::remote_access)};
    start(begin(time_limit()), question,
      [this, since = w.now](const agent_message& answer)
      { accept(held_.hold(answer, since, this)); });
  }

  /// Starts a request about a lease, which ends unless it is renewed.
  void change(message_type how)
  {
    if (leases_.empty())
      return;
    const auto which = leases_.begin() + static_cast<std::ptrdiff_t>(w.random() % leases_.size());
    const std::shared_ptr<borrowed> lease = *which;
    agent_message question{.type = how, .lease = lease->id};
    const bool ends = how != message_type::renew;
    if (ends)
      leases_.erase(which);
    if (ends ? lease->ended.exchange(true) : lease->ended.load())
      return;
    if (ends)
      held_.forget(lease->id);
    else
      question.lifetime = to_wire(lifetime());
    start(begin(time_limit()), question, [](const agent_message&) {});
  }

  template <class Handle>
  void drop_one(std::vector<Handle>& from)
  {
    if (!from.empty())
      from.erase(from.begin() + static_cast<std::ptrdiff_t>(w.random() % from.size()));
  }

  void lend()
  {
    operation* const op = begin(time_limit());
    const std::uint64_t number = owned_.next_number();
    const auto loan = std::shared_ptr<handle>(new handle{this, number});
    owned lease;
    lease.lifetime = lifetime();
    lease.is_lent = true;
    lease.loan = loan;
    requests_.add(op->id, w.now, op->deadline,
      [this, op, loan = loan](const error_code& ec, const agent_message&) mutable
      {
        if (!ec && !is_finishing_)
          loans_.push_back(loan);
        loan.reset();
        complete(op, ec);
      });
    update();
    expose(
      number, lease, [this, id = op->id, number](bool fails) { on_lendable(id, number, fails); });
  }

  void wait_return()
  {
    if (loans_.empty())
      return;
    owned* const lease = owned_.find(loans_[w.random() % loans_.size()]->id);
    operation* const op = begin(no_limit);
    if (lease)
      lease->returns.push_back(op);
    else
      complete(op, {});
  }

  void receive_remote()
  {
    operation* const op = begin(no_limit);
    while (const std::shared_ptr<borrowed> next = held_.take_lent())
    {
      if (time_point(next->expires.load()) <= w.now)
      {
        drop(*next);
        continue;
      }
      accept(next);
      return complete(op, {});
    }
    waits_remote_.push_back(op);
  }
};

} // namespace test::agent_simulation

#endif // BOOST_RDMA_TEST_UNIT_AGENT_SIMULATED_PROGRAM_HPP

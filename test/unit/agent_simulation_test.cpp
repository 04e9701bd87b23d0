//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/device_traits.hpp"
#include "unit/agent_simulated_side.hpp"
#include "unit/simulated_seeds.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

// The agents of both sides of a connection, in one thread on simulated time: requests, granted and
// lent leases, over a channel that delays messages and ends. A seed decides what the programs do,
// when they cancel, and when a side is stopped or dies. The real tables and messages run.

namespace test::agent_simulation {
namespace {

class program final : public side
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

class simulation
{
public:
  explicit simulation(unsigned seed)
    : w_(seed)
    , near_(w_)
    , far_(w_)
  {
    near_.join(far_);
    far_.join(near_);
  }

  /// Returns the number of operations that succeeded.
  std::size_t run()
  {
    const duration length = 5 * w_.delay + w_.any(30 * w_.delay);
    // All in a few moments: more requests than may be in flight.
    const bool is_bursty = w_.one_in(4);
    const duration moment = length / 4;
    for (std::size_t i = (is_bursty ? 400 : 5) + w_.random() % 120; i != 0; --i)
      w_.at(is_bursty ? w_.any(3ms).count() * moment : w_.any(length),
        [which = w_.one_in(3) ? &far_ : &near_] { which->act(); });
    if (w_.one_in(3))
      w_.at(w_.any(length), [this] { make_trouble(); });
    w_.at(length,
      [this]
      {
        near_.finish();
        far_.finish();
      });
    for (; !w_.agenda.empty(); ++steps)
    {
      REQUIRE(steps < 100'000);
      const auto next = w_.agenda.begin();
      w_.now = next->first;
      const auto action = std::move(next->second);
      w_.agenda.erase(next);
      action();
      near_.check_beliefs();
      far_.check_beliefs();
      if (near_.is_at_rest() && far_.is_at_rest())
      {
        near_.check_rest();
        far_.check_rest();
      }
      if (!w_.problem.empty())
        FAIL(w_.problem);
    }
    near_.check_end();
    far_.check_end();
    if (!w_.problem.empty())
      FAIL(w_.problem);
    return near_.succeeded + far_.succeeded;
  }

  std::uint64_t steps = 0;

private:
  void make_trouble()
  {
    program& one = w_.one_in(2) ? near_ : far_;
    program& other = &one == &near_ ? far_ : near_;
    switch (w_.random() % 3)
    {
    case 0:
      return one.stop(w_.any(20 * w_.delay));
    case 1:
      one.die();
      break;
    default: // the program closes, or the connection fails
      one.end(asio::error::operation_aborted);
    }
    w_.at(w_.any(5 * w_.delay), [&other] { other.end(rdma::error::peer_lost); });
  }

  world w_;
  program near_;
  program far_;
};

} // namespace

TEST_CASE("agents end each operation once and agree on how long each lease lasts")
{
  const unsigned count = exhaustive() ? 300'000 : 2000;
  std::uint64_t steps = 0;
  std::size_t succeeded = 0;
  const bool all = run_seeds(std::random_device()(), count,
    [&](unsigned seed)
    {
      CAPTURE(seed);
      simulation one(seed);
      succeeded += one.run();
      steps += one.steps;
    });
  if (!all)
    return;
  add_figure("steps", steps);
  CHECK(succeeded > count);
}

} // namespace test::agent_simulation

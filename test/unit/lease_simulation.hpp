//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//
#ifndef BOOST_RDMA_TEST_UNIT_LEASE_SIMULATION_HPP
#define BOOST_RDMA_TEST_UNIT_LEASE_SIMULATION_HPP

#include "unit/object_simulation.hpp"

#include <boost_rdma/detail/objects/lease.hpp>

#include <boost/asio/error.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

// Tools for simulations of leases: clocks of processes, and the rules of holders.

namespace test {

using namespace std::chrono_literals;

/// Clocks that run at different speed. A turn of the simulation is half a microsecond.
struct simulated_clock
{
  static inline const object_simulation* simulation = nullptr;
  static inline double speed = 1; // of the process whose machine runs

  static std::chrono::steady_clock::time_point now() noexcept
  {
    return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(
      static_cast<std::int64_t>(500. * static_cast<double>(simulation->now) * speed)));
  }
  /// Returns the turn at which a clock of this speed shows the time.
  static double turn_of(std::chrono::steady_clock::time_point time, double its_speed)
  {
    return static_cast<double>(std::chrono::nanoseconds(time.time_since_epoch()).count())
      / (500 * its_speed);
  }
};

/// A state machine that reads the clock of its process.
template <class Machine>
struct clocked : Machine
{
  clocked(Machine machine, double its_speed)
    : Machine(std::move(machine))
    , speed(its_speed)
  {
  }

  objects::step begin()
  {
    simulated_clock::speed = speed;
    return Machine::begin();
  }
  objects::step next(bool cancelled)
  {
    simulated_clock::speed = speed;
    steps_cancelled += cancelled;
    return Machine::next(cancelled);
  }

  double speed;
  unsigned steps_cancelled = 0;
};

/// Does nothing for some time.
struct sleeping_process
{
  objects::step begin() const { return objects::step::wait(time); }
  static objects::access_request request(std::size_t) { return {}; }
  void answered(std::size_t, std::uint64_t) const {}
  static objects::step next(bool) { return objects::step::finish(); }

  std::chrono::microseconds time;
};

/// Checks the words of leases after each turn, and the holders.
/**
 * A process claims a lease from its success until the end of its time by its own clock, or until it
 * begins to release it.
 */
class lease_oracle
{
public:
  lease_oracle(
    object_simulation& simulation, std::size_t first_word, std::size_t words, std::size_t processes)
    : simulation_(simulation)
    , first_word_(first_word)
    , claims_(processes)
    , tokens_(words)
  {
    for (std::size_t i = 0; i != words; ++i)
      known_.push_back(word(i));
  }

  /// A process has taken or renewed a lease.
  void succeeded(std::size_t process, const objects::held_lease& held, double speed, bool renewed)
  {
    claim made{
      held.fencing_token(), held.index(), simulated_clock::turn_of(held.expires_at(), speed)};
    if (made.ends <= now())
    {
      ++expired_on_arrival;
      return;
    }
    if (!renewed)
    {
      require(made.token > tokens_[made.index]);
      tokens_[made.index] = made.token;
    }
    for (std::size_t i = 0; i != claims_.size(); ++i)
      if (i != process && is_active(i))
        require(claims_[i]->index != made.index);
    claims_[process] = made;
  }

  void died(std::size_t process) { claims_[process].reset(); }

  /// A process begins to release its lease.
  void releases(std::size_t process)
  {
    if (claims_[process])
      claims_[process]->released = true;
  }

  /// A process was told that it has lost its lease.
  void lost(std::size_t process)
  {
    require(!claims_[process] || claims_[process]->ends <= now());
    claims_[process].reset();
    ++lost_leases;
  }

  void renews(std::size_t process, bool begins)
  {
    if (claims_[process])
      claims_[process]->renews = begins;
  }

  /// Compares the words with their former content.
  void turn()
  {
    for (std::size_t i = 0; i != known_.size(); ++i)
    {
      const auto before = objects::lease_word::of(known_[i]);
      const auto after = objects::lease_word::of(word(i));
      if (word(i) == known_[i])
        continue;
      known_[i] = word(i);
      changed = simulation_.now;
      if (after.ticket == before.ticket)
        require(after.held && after.beat == (before.held ? before.beat + 1 : 0));
      else
        require(after.ticket > before.ticket && after.beat == 0);
      for (std::size_t p = 0; p != claims_.size(); ++p)
        if (is_active(p) && claims_[p]->index == i)
        {
          require(after.ticket == claims_[p]->token);
          require(claims_[p]->renews); // nobody else changes the beat
        }
    }
  }

  [[nodiscard]] std::size_t holders() const
  {
    std::size_t result = 0;
    for (std::size_t p = 0; p != claims_.size(); ++p)
      result += is_active(p);
    return result;
  }

  bool right = true;
  std::uint64_t changed = 0; ///< turn of the last change of a word
  unsigned expired_on_arrival = 0;
  unsigned lost_leases = 0;

private:
  struct claim
  {
    std::uint64_t token;
    std::size_t index;
    double ends;
    bool renews = false;
    bool released = false;
  };

  void require(bool condition) { right = right && condition; }
  [[nodiscard]] double now() const { return static_cast<double>(simulation_.now); }
  [[nodiscard]] std::uint64_t word(std::size_t i) const
  {
    return simulation_.memory[first_word_ + i];
  }
  [[nodiscard]] bool is_active(std::size_t process) const
  {
    return claims_[process] && !claims_[process]->released && claims_[process]->ends > now();
  }

  object_simulation& simulation_;
  std::size_t first_word_;
  std::vector<std::optional<claim>> claims_;
  std::vector<std::uint64_t> tokens_;
  std::vector<std::uint64_t> known_;
};

/// Processes that take, renew and release leases, and that are cancelled, stopped and killed.
/**
 * Derived has start_taking(process), which starts an operation, and passes its result to taken().
 */
template <class Derived>
class lease_history
{
public:
  static constexpr std::size_t processes = 5;
  static constexpr std::size_t rounds_max = 80;
  static constexpr auto lease = 1ms;
  static constexpr std::uint64_t lease_turns = 2000;

  lease_history(std::uint64_t seed, std::span<const std::uint64_t> memory, std::uint64_t offset,
    std::size_t words)
    : simulation(seed, memory.size())
    , offset_(offset)
    , oracle((std::ranges::copy(memory, simulation.memory.begin()), simulation), offset / 8, words,
        processes)
  {
    simulated_clock::simulation = &simulation;
    for (double& each : speeds)
      each = 0.97 + 0.06 * static_cast<double>(simulation.below(1001)) / 1000;
  }

  template <class Machine>
  void start(std::size_t process, Machine machine,
    std::function<void(const rdma::error_code&, clocked<Machine>&)> done)
  {
    disturbed[process] = stopped_until[process] > simulation.now;
    simulation.start<clocked<Machine>>(
      process, clocked<Machine>(std::move(machine), speeds[process]), std::move(done));
  }

  void next_round(std::size_t process)
  {
    if (++rounds > rounds_max)
      return;
    wait(process, idle_max, [this, process] { self().start_taking(process); });
  }

  // The end of start_taking().
  void taken(
    std::size_t process, const rdma::error_code& ec, const std::optional<objects::held_lease>& held)
  {
    cancelled += ec == boost::asio::error::operation_aborted;
    right = right && (!ec || ec == boost::asio::error::operation_aborted) && !(ec && held);
    if (!held)
      return next_round(process);
    ++takes;
    oracle.succeeded(process, *held, speeds[process], false);
    most_holders = std::max(most_holders, oracle.holders());
    hold(process, *held);
  }

  void hold(std::size_t process, const objects::held_lease& held)
  {
    wait(process, 700,
      [this, process, held]
      {
        if (simulation.below(2) == 0)
          return release(process, held);
        oracle.renews(process, true);
        start<objects::lease_change>(process,
          {objects::lease_change::kind::renew, held, offset_ + 8 * held.index(),
            &simulated_clock::now},
          [this, process](const rdma::error_code& ec, auto& change)
          {
            oracle.renews(process, false);
            if (lost(process, ec))
              return next_round(process);
            if (!ec)
            {
              ++renewals;
              oracle.succeeded(process, change.held(), speeds[process], true);
            }
            hold(process, change.held());
          });
      });
  }

  void release(std::size_t process, const objects::held_lease& held)
  {
    start<objects::lease_change>(process,
      {objects::lease_change::kind::release, held, offset_ + 8 * held.index(),
        &simulated_clock::now},
      [this, process](const rdma::error_code& ec, auto&)
      {
        lost(process, ec);
        next_round(process);
      });
    oracle.releases(process);
  }

  bool lost(std::size_t process, const rdma::error_code& ec)
  {
    right = right
      && (!ec || ec == rdma::error::lease_ended || ec == boost::asio::error::operation_aborted);
    if (ec == rdma::error::lease_ended)
      oracle.lost(process);
    return ec == rdma::error::lease_ended;
  }

  void wait(std::size_t process, std::uint64_t us_max, std::function<void()> then)
  {
    simulation.start<sleeping_process>(process,
      {std::chrono::microseconds(simulation.below(us_max))},
      [then = std::move(then)](const rdma::error_code&, sleeping_process&) { then(); });
  }

  // Returns false if a rule was broken.
  bool run()
  {
    for (std::size_t i = 0; i != processes; ++i)
      next_round(i);
    while (right && oracle.right && simulation.turn())
    {
      oracle.turn();
      right = right && simulation.now < 2000 * lease_turns;
      const std::size_t process = simulation.below(processes);
      const std::uint64_t fate = simulation.below(3000);
      if (fate == 0)
      {
        oracle.died(process);
        stopped_until[process] = 0;
        simulation.kill(process);
        next_round(process); // another process in its place
      }
      else if (fate < stops)
      {
        const std::uint64_t turns = simulation.below(3 * lease_turns);
        disturbed[process] = true;
        stopped_until[process] = simulation.now + turns;
        simulation.stop(process, turns);
      }
      else if (fate < stops + 4)
      {
        disturbed[process] = true;
        simulation.cancel(process);
      }
    }
    return right && oracle.right;
  }

  object_simulation simulation;
  std::uint64_t offset_;
  lease_oracle oracle;
  std::array<double, processes> speeds;
  std::array<std::uint64_t, processes> stopped_until{};
  std::array<bool, processes> disturbed{}; // stopped or cancelled during the operation
  std::uint64_t idle_max = std::uint64_t{200} << simulation.below(6); // microseconds
  std::uint64_t stops = simulation.below(3) == 0 ? 60 : 4;            // in 3000 turns
  std::size_t rounds = 0;
  std::size_t takes = 0;
  std::size_t renewals = 0;
  std::size_t cancelled = 0;
  std::size_t most_holders = 0;
  bool right = true;

private:
  Derived& self() { return static_cast<Derived&>(*this); }
};

} // namespace test

#endif // BOOST_RDMA_TEST_UNIT_LEASE_SIMULATION_HPP

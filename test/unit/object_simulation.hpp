//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_UNIT_OBJECT_SIMULATION_HPP
#define BOOST_RDMA_TEST_UNIT_OBJECT_SIMULATION_HPP

#include "unit/simulated_seeds.hpp"

#include <boost_rdma/detail/objects/step.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

namespace test {

namespace objects = rdma::detail::objects;

/// Number of seeds of a simulation of objects: half of them in an ordinary run.
inline std::uint64_t seeds_of(std::uint64_t all)
{
  return exhaustive() ? all : share(all / 2);
}

/// Number of events that these seeds must have, of those that all seeds have. A part of the seeds
/// has at least half of its part.
inline std::uint64_t least(std::uint64_t events)
{
  return exhaustive() ? events : share(events / 2) / 2;
}

/// Processes that run state machines of remote objects on memory of the worst conforming device.
/**
 * One turn is one word of a read or a write, or one atomic, or the completion of a step, of a
 * process that is chosen at random. The requests of a step, and the words of a request, are carried
 * out in random order. A process may be killed or stopped at any turn; requests of a killed process
 * may be carried out much later. The address of a remote_buffer is its offset in the memory.
 */
class object_simulation
{
public:
  object_simulation(std::uint64_t seed, std::size_t words)
    : memory(words)
    , random(seed)
  {
  }

  /// Starts an operation of a process. A process has one operation at a time.
  /** @param done Called with the error and the machine; may start the process's next operation. */
  template <class Machine>
  void start(std::size_t process, Machine machine,
    std::function<void(const rdma::error_code&, Machine&)> done)
  {
    while (processes_.size() <= process)
      processes_.emplace_back();
    auto started = std::make_unique<running<Machine>>(std::move(machine), std::move(done));
    processes_[process].operation = std::move(started);
    processes_[process].operation->begin(*this);
  }

  /// Ends a process. Requests that it has posted are carried out later, or never.
  void kill(std::size_t process)
  {
    auto& ended = processes_[process];
    ended.stopped_until = 0;
    if (ended.operation != nullptr && below(4) != 0)
      late_.push_back({std::move(ended.operation), now + below(20'000)});
    ended.operation = nullptr;
  }

  /// Suspends a process, with its requests, for a number of turns.
  void stop(std::size_t process, std::uint64_t turns)
  {
    processes_[process].stopped_until = now + turns;
  }

  /// Makes its operation end at the next step.
  void cancel(std::size_t process)
  {
    if (processes_[process].operation != nullptr)
      processes_[process].operation->cancelled = true;
  }

  [[nodiscard]] bool is_busy(std::size_t process) const
  {
    return process < processes_.size() && processes_[process].operation != nullptr;
  }

  /// Makes one turn. Returns false if no operation is left.
  bool turn()
  {
    ++now;
    std::erase_if(late_,
      [this](late& each)
      { return each.from <= now && below(3) == 0 && !each.operation->late_access(*this); });
    std::vector<std::size_t> ready;
    std::uint64_t next = UINT64_MAX;
    for (std::size_t i = 0; i != processes_.size(); ++i)
      if (const auto& each = processes_[i]; each.operation != nullptr)
      {
        const std::uint64_t from = std::max(each.stopped_until, each.operation->wakes);
        next = std::min(next, from);
        if (from <= now)
          ready.push_back(i);
      }
    if (ready.empty())
    {
      if (next == UINT64_MAX)
        return false;
      now = next - 1; // idle time takes no turn
      return true;
    }
    process& chosen = processes_[ready[below(ready.size())]];
    // The operation's end may start the next one, or add a process.
    const auto operation = chosen.operation.get();
    if (operation->advance(*this))
    {
      auto ended = std::move(chosen.operation);
      ended->finish();
    }
    return true;
  }

  /// Returns a random number below `limit`.
  std::uint64_t below(std::uint64_t limit) { return random() % limit; }

  std::vector<std::uint64_t> memory;
  std::mt19937_64 random;
  std::uint64_t now = 0; ///< number of turns; a microsecond of a pause is two turns

private:
  struct operation
  {
    virtual ~operation() = default;
    virtual void begin(object_simulation& on) = 0;
    virtual bool advance(object_simulation& on) = 0;     // true: the operation has ended
    virtual bool late_access(object_simulation& on) = 0; // false: no request is left
    virtual void finish() = 0;

    std::uint64_t wakes = 0;
    bool cancelled = false;
  };

  template <class Machine>
  struct running : operation
  {
    running(Machine&& started, std::function<void(const rdma::error_code&, Machine&)>&& then)
      : machine(std::move(started))
      , done(std::move(then))
    {
    }

    void begin(object_simulation& on) override { take(on, machine.begin()); }

    bool advance(object_simulation& on) override
    {
      if (ended)
        return true;
      if (!accesses.empty())
        access(on, true);
      else
        take(on, machine.next(this->cancelled));
      return false;
    }

    bool late_access(object_simulation& on) override
    {
      if (!accesses.empty())
        access(on, false);
      return !accesses.empty();
    }

    void finish() override { done(ec, machine); }

    void take(object_simulation& on, const objects::step& next)
    {
      switch (next.what)
      {
      case objects::step::action::finish:
        ended = true;
        ec = next.ec;
        return;
      case objects::step::action::pause:
        this->wakes = on.now + 2 * static_cast<std::uint64_t>(next.pause.count());
        return;
      case objects::step::action::access:
        for (std::size_t i = 0; i != next.requests; ++i)
        {
          const objects::access_request what = machine.request(i);
          const std::size_t words = std::max<std::size_t>(what.bytes.size() / 8, 1);
          for (std::size_t word = 0; word != words; ++word)
            accesses.push_back({i, what, word});
        }
        std::shuffle(accesses.begin(), accesses.end(), on.random);
      }
    }

    // One word of one request. `alive`: the process takes the answer.
    void access(object_simulation& on, bool alive)
    {
      const auto [request, what, word] = accesses.back();
      accesses.pop_back();
      const std::uint64_t from = what.memory != nullptr ? what.memory->address() : 0;
      std::uint64_t& at = on.memory.at((from + what.offset) / 8 + word);
      std::uint64_t was = at;
      switch (what.kind)
      {
      case rdma::detail::request_kind::read:
        if (alive)
          std::memcpy(what.bytes.data() + 8 * word, &at, 8);
        break;
      case rdma::detail::request_kind::write:
        std::memcpy(&at, what.bytes.data() + 8 * word, 8);
        break;
      case rdma::detail::request_kind::fetch_add:
        at += what.compare_or_add;
        break;
      default:
        if (at == what.compare_or_add)
          at = what.swap;
      }
      if (alive
        && std::ranges::none_of(
          accesses, [request](const auto& each) { return each.request == request; }))
        machine.answered(request, was);
    }

    struct word_access
    {
      std::size_t request;
      objects::access_request what;
      std::size_t word;
    };

    Machine machine;
    std::function<void(const rdma::error_code&, Machine&)> done;
    std::vector<word_access> accesses;
    rdma::error_code ec;
    bool ended = false;
  };

  struct process
  {
    std::unique_ptr<struct operation> operation;
    std::uint64_t stopped_until = 0;
  };

  struct late
  {
    std::unique_ptr<struct operation> operation;
    std::uint64_t from;
  };

  std::vector<process> processes_;
  std::vector<late> late_;
};

} // namespace test

#endif // BOOST_RDMA_TEST_UNIT_OBJECT_SIMULATION_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_COMMON_LINEARIZATION_SEARCH_HPP
#define BOOST_RDMA_TEST_COMMON_LINEARIZATION_SEARCH_HPP

// Searches an order of concurrent operations that a sequential model permits: Wing, Gong, "Testing
// and verifying concurrent objects", 1993, in the form of Lowe, "Testing for linearizability",
// 2017, section 5 (just-in-time linearization, graph search).
//
// The search goes through the returns in order of time. At the return of an operation that has not
// taken effect, some pending operations take effect and then this one. The others take effect at a
// later return. Configurations that were reached before are not searched again.

#include "common/ordered_history.hpp"
#include "common/sequential_model.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <forward_list>
#include <functional>
#include <optional>
#include <queue>
#include <stdexcept>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace test::detail {

/// Searches the linearizations of the operations on one object.
template <class Model>
class linearization_search : ordered_history<Model>
{
public:
  using state = typename Model::State;

  struct failure
  {
    std::size_t operation;     ///< its return ends the smallest prefix without a linearization
    std::vector<state> states; ///< some states in which it can be called
    bool more_states;
  };

  linearization_search(const std::vector<recorded_operation<Model>>& all, const state& initial)
    : ordered_history<Model>(all)
    , initial_(initial)
    , final_(initial)
  {
  }

  /// Returns nothing if there is a linearization.
  std::optional<failure> run()
  {
    if (decide())
      return std::nullopt;
    if constexpr (foresees)
    {
      try
      {
        return smallest_prefix();
      }
      catch (const std::length_error&) // too hard with less foresight
      {
      }
    }
    return failure{returns_[furthest_].operation, states_, more_states_};
  }

private:
  static constexpr std::size_t kept_most = 3'000'000; // configurations, of some 200 bytes
  using base = ordered_history<Model>;
  using base::all_;
  using base::changes;
  using base::classes_;
  using base::pending_;
  using base::returns_;
  using base::slots_;
  using typename base::return_event;
  using typename base::slot_set;

  // Pending operations with a result have a slot each, in which a later operation follows.
  struct configuration
  {
    state now;
    slot_set done;
    bool operator==(const configuration&) const = default;
  };
  struct configuration_hash
  {
    std::size_t operator()(const configuration& one) const
    {
      return static_cast<std::size_t>(Model::hash(one.now)) * 0x9e3779b97f4a7c15u
        ^ std::hash<slot_set>()(one.done);
    }
  };

  // Numbers of operations without a result that took effect, in the order of their classes.
  using spent = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

  enum class phase : std::uint8_t
  {
    itself, // the operation that returns takes effect
    known,  // a pending operation takes effect
    unknown // an operation without a result takes effect
  };

  struct task
  {
    std::size_t at; // index in returns_
    std::size_t unknowns, knowns;
    phase next;
    const configuration* where;
    const spent* used;
  };
  struct later
  {
    bool depth_first;
    bool operator()(const task& a, const task& b) const
    {
      if (a.at != b.at)
        return depth_first ? a.at < b.at : a.at > b.at;
      return std::tie(a.unknowns, a.knowns, a.next) > std::tie(b.unknowns, b.knowns, b.next);
    }
  };

  // The initial state contains what results of later operations show about the order.
  static constexpr bool foresees = requires(const state& now,
    const std::vector<recorded_operation<Model>>& all) { Model::foresee(now, all); };

  bool decide()
  {
    if constexpr (foresees)
      initial_ = Model::foresee(initial_, all_);
    // Depth first finds a linearization soon if there is one. Breadth first needs less memory to
    // find that there is none.
    constexpr std::size_t breadth_first_most = 10'000'000;
    std::optional<bool> found = search(true, 8 * returns_.size() + 20'000);
    if (!found)
      found = search(false, breadth_first_most);
    if (!found)
      throw std::length_error("linearization_search: too many operations are concurrent");
    return *found;
  }

  // The search with foresight fails before the wrong result. Smaller histories have less foresight.
  failure smallest_prefix() const
  {
    std::size_t good = furthest_; // this many returns have a linearization
    std::size_t bad = returns_.size();
    for (std::size_t stride = 1; bad - good > 1; stride *= 2)
    {
      const std::size_t tried = good + std::min(stride, (bad - good) / 2);
      if (prefix(tried).decide())
        good = tried;
      else
      {
        bad = tried;
        stride = 1;
      }
    }
    linearization_search before = prefix(good);
    before.decide();
    return {returns_[good].operation, {before.final_}, true};
  }

  // The operations that were called before the end of this number of returns.
  linearization_search prefix(std::size_t returns) const
  {
    std::uint64_t end = 0;
    std::vector<bool> returned(all_.size());
    for (std::size_t i = 0; i != returns; ++i)
    {
      returned[returns_[i].operation] = true;
      end = all_[returns_[i].operation].returned;
    }
    std::vector<recorded_operation<Model>> some;
    for (std::size_t i = 0; i != all_.size(); ++i)
    {
      if (all_[i].called > end)
        continue;
      some.push_back(all_[i]);
      if (!returned[i])
      {
        some.back().returned = recorded_operation<Model>::never;
        some.back().result.reset();
      }
    }
    return linearization_search(some, initial_);
  }

  // Returns nothing if it visits more configurations than `most` without progress.
  std::optional<bool> search(bool depth_first, std::size_t most)
  {
    visited_.clear();
    visited_.resize(returns_.size());
    tasks_ = std::priority_queue<task, std::vector<task>, later>(later{depth_first});
    count_ = progress_ = furthest_ = 0;
    found_ = false;
    states_.clear();
    more_states_ = false;
    visit(0, {initial_, {}}, {});
    std::size_t kept = 0;
    while (!found_ && !tasks_.empty())
    {
      if (count_ - progress_ > most || (depth_first && count_ > kept_most))
        return std::nullopt;
      const task one = tasks_.top();
      tasks_.pop();
      if (!depth_first)
        for (; kept != one.at; ++kept)
          visited_[kept] = {}; // no task refers to an earlier return
      advance(one);
    }
    return found_;
  }

  void advance(task one)
  {
    const return_event& event = returns_[one.at];
    const configuration& where = *one.where;
    switch (one.next)
    {
    case phase::itself:
      one.next = phase::known;
      tasks_.push(one);
      if (auto next = step(where.now, event.operation))
        visit(one.at + 1, {std::move(*next), where.done}, *one.used);
      break;
    case phase::known:
      one.next = phase::unknown;
      ++one.unknowns;
      if (!classes_.empty())
        tasks_.push(one);
      for (std::size_t i = event.pending_begin; i != event.pending_end; ++i)
      {
        const std::size_t other = pending_[i];
        if (other == event.operation || where.done[slots_[other]] || gives_way(event, where, other))
          continue;
        if (auto next = step(where.now, other))
          visit(one.at, {std::move(*next), slot_set(where.done).set(slots_[other])}, *one.used);
      }
      break;
    case phase::unknown:
      for (std::uint32_t c = 0; c != classes_.size() && classes_[c].from.front() <= one.at; ++c)
      {
        const auto find = [c](auto& some)
        {
          return std::lower_bound(some.begin(), some.end(), c,
            [](const auto& a, std::uint32_t b) { return a.first < b; });
        };
        const auto known = find(*one.used);
        const std::size_t before =
          known != one.used->end() && known->first == c ? known->second : 0;
        if (before == classes_[c].from.size() || classes_[c].from[before] > one.at)
          continue;
        auto next = Model::step(where.now, classes_[c].operation, std::nullopt);
        if (!next || *next == where.now)
          continue;
        spent used = *one.used;
        const auto place = find(used);
        if (before != 0)
          ++place->second;
        else
          used.insert(place, {c, 1});
        visit(one.at, {std::move(*next), where.done}, std::move(used));
      }
      break;
    }
  }

  // Of equal pending operations the one that returns first takes effect first: exchanging two of
  // them excludes nothing.
  bool gives_way(const return_event& event, const configuration& where, std::size_t i) const
  {
    const auto& mine = all_[i];
    return std::any_of(pending_.begin() + static_cast<std::ptrdiff_t>(event.pending_begin),
      pending_.begin() + static_cast<std::ptrdiff_t>(event.pending_end),
      [&](std::size_t other)
      {
        const auto& one = all_[other];
        return std::tie(one.returned, other) < std::tie(mine.returned, i)
          && !where.done[slots_[other]] && one.operation == mine.operation
          && one.result == mine.result;
      });
  }

  std::optional<state> step(const state& now, std::size_t i) const
  {
    return Model::step(now, all_[i].operation, all_[i].result);
  }

  void visit(std::size_t at, configuration where, spent used)
  {
    for (;; ++at)
    {
      if (at == returns_.size())
      {
        found_ = true;
        final_ = where.now;
        return;
      }
      const return_event& event = returns_[at];
      // An operation that changes no state takes effect as soon as it can: this excludes nothing.
      for (std::size_t i = event.pending_begin; i != event.pending_end; ++i)
        if (const std::size_t one = pending_[i];
            !where.done[slots_[one]] && !changes(all_[one]) && step(where.now, one))
          where.done.set(slots_[one]);
      if (!where.done[slots_[event.operation]])
        break;
      where.done.reset(slots_[event.operation]);
    }
    note(at, where.now);
    const auto& returning = all_[returns_[at].operation];
    if constexpr (requires { Model::passed(where.now, returning.operation, *returning.result); })
      if (Model::passed(where.now, returning.operation, *returning.result))
        return;

    const auto [place, fresh] = visited_[at].try_emplace(std::move(where));
    // A configuration in which more operations without a result are left permits as much.
    for (const spent& less : place->second)
      if (contains(used, less))
        return;
    ++count_;
    place->second.push_front(std::move(used));
    std::size_t unknowns = 0;
    for (const auto& [name, number] : place->second.front())
      unknowns += number;
    tasks_.push({at, unknowns, place->first.done.count(), phase::itself, &place->first,
      &place->second.front()});
  }

  static bool contains(const spent& more, const spent& less)
  {
    auto place = more.begin();
    for (const auto& [name, number] : less)
    {
      while (place != more.end() && place->first < name)
        ++place;
      if (place == more.end() || place->first != name || place->second < number)
        return false;
    }
    return true;
  }

  void note(std::size_t at, const state& now)
  {
    constexpr std::size_t states_most = 3;
    if (at < furthest_)
      return;
    if (at > furthest_)
    {
      furthest_ = at;
      progress_ = count_;
      states_.clear();
      more_states_ = false;
    }
    if (std::find(states_.begin(), states_.end(), now) != states_.end())
      return;
    if (states_.size() == states_most)
      more_states_ = true;
    else
      states_.push_back(now);
  }

  state initial_;
  std::vector<std::unordered_map<configuration, std::forward_list<spent>, configuration_hash>>
    visited_; // for each return
  std::priority_queue<task, std::vector<task>, later> tasks_{later{true}};
  std::size_t count_ = 0;    // of configurations
  std::size_t progress_ = 0; // count_ when furthest_ last grew
  bool found_ = false;
  state final_;
  std::size_t furthest_ = 0;
  std::vector<state> states_;
  bool more_states_ = false;
};

} // namespace test::detail

#endif // BOOST_RDMA_TEST_COMMON_LINEARIZATION_SEARCH_HPP

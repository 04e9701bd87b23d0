//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_COMMON_ORDERED_HISTORY_HPP
#define BOOST_RDMA_TEST_COMMON_ORDERED_HISTORY_HPP

// The calls and returns of a history in order of time, as linearization_search reads them.

#include "common/sequential_model.hpp"

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <tuple>
#include <unordered_set>
#include <vector>

namespace test::detail {

template <class Model>
class ordered_history
{
protected:
  static constexpr std::size_t concurrent_most = 128;
  using slot_set = std::bitset<concurrent_most>;

  // Equal operations without a result: any of them can take effect in place of another.
  struct unknown_class
  {
    typename Model::Operation operation;
    std::vector<std::size_t> from; // for each, the first return that follows its call
  };

  struct return_event
  {
    std::size_t operation;
    std::size_t pending_begin, pending_end;
  };

  explicit ordered_history(const std::vector<recorded_operation<Model>>& all)
    : all_(all)
    , slots_(all.size())
  {
    blank_unseen_values();
    order_events();
  }

  static bool changes(const recorded_operation<Model>& one)
  {
    if constexpr (requires { Model::changes(one.operation, one.result); })
      return Model::changes(one.operation, one.result);
    else
      return true;
  }

  std::vector<recorded_operation<Model>> all_;
  std::vector<std::size_t> slots_; // of operations that have a result, in which later ones follow
  std::vector<return_event> returns_;
  std::vector<std::size_t> pending_; // for each return, the pending operations that have a result
  std::vector<unknown_class> classes_;

private:
  // Values that no result contains become the same value, so that their states are equal.
  void blank_unseen_values()
  {
    if constexpr (requires(typename Model::Operation& what) { Model::written(what); })
    {
      std::unordered_set<std::uint64_t> shown;
      for (const auto& one : all_)
        if (one.result)
          shown.insert(Model::shown(one.operation, *one.result));
      for (auto& one : all_)
        if (std::uint64_t* const value = Model::written(one.operation);
            value != nullptr && !shown.contains(*value))
          *value = unseen;
    }
  }

  void order_events()
  {
    std::vector<std::tuple<std::uint64_t, bool, std::size_t>> events; // time, return, operation
    for (std::size_t i = 0; i != all_.size(); ++i)
    {
      events.emplace_back(all_[i].called, false, i);
      if (all_[i].result)
        events.emplace_back(all_[i].returned, true, i);
    }
    std::sort(events.begin(), events.end());

    std::vector<std::size_t> open;
    slot_set taken;
    for (const auto& [time, is_return, i] : events)
    {
      if (is_return)
      {
        const std::size_t begin = pending_.size();
        pending_.insert(pending_.end(), open.begin(), open.end());
        returns_.push_back({i, begin, pending_.size()});
        std::erase(open, i);
        taken.reset(slots_[i]);
      }
      else if (all_[i].result)
      {
        std::size_t slot = 0;
        while (slot != concurrent_most && taken[slot])
          ++slot;
        if (slot == concurrent_most)
          throw std::length_error("linearization_search: more than 128 operations are pending");
        taken.set(slot);
        slots_[i] = slot;
        open.push_back(i);
      }
      else if (changes(all_[i]))
      {
        const auto same = std::find_if(classes_.begin(), classes_.end(),
          [&one = all_[i]](const auto& c) { return c.operation == one.operation; });
        auto& c = same != classes_.end()
          ? *same
          : classes_.emplace_back(unknown_class{all_[i].operation, {}});
        c.from.push_back(returns_.size());
      }
    }
  }
};

} // namespace test::detail

#endif // BOOST_RDMA_TEST_COMMON_ORDERED_HISTORY_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_UNIT_BRUTE_FORCE_HPP
#define BOOST_RDMA_TEST_UNIT_BRUTE_FORCE_HPP

// Tries every order of a few operations, to test why_not_linearizable().

#include "common/container_models.hpp"
#include "common/sequential_model.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace test {

template <class Model>
struct whole_model
{
  using State = typename Model::State;
  static State initial(const State& one) { return one; }
  static std::optional<State> step(const State& now, const recorded_operation<Model>& one)
  {
    return Model::step(now, one.operation, one.result);
  }
};

/// Has all keys in one state.
template <>
struct whole_model<map_model>
{
  using State = std::map<std::uint64_t, map_model::State>;
  static State initial(const map_model::State&) { return {}; }
  static std::optional<State> step(const State& now, const recorded_operation<map_model>& one)
  {
    State next = now;
    auto& value = next[one.operation.key];
    const auto stepped = map_model::step(value, one.operation, one.result);
    if (!stepped)
      return std::nullopt;
    value = *stepped;
    return next;
  }
};

/// Tries all orders of operations, without a cache and without the optional members of a model.
template <class Model>
class brute_force
{
public:
  /// `required`: operations that must take effect. Others can.
  brute_force(const std::vector<recorded_operation<Model>>& all, const std::vector<bool>& required)
    : all_(all)
    , required_(required)
    , done_(all.size())
  {
  }
  explicit brute_force(const std::vector<recorded_operation<Model>>& all)
    : brute_force(all, with_result(all))
  {
  }

  bool linearizable(const typename Model::State& initial)
  {
    return search(whole_model<Model>::initial(initial));
  }

private:
  static std::vector<bool> with_result(const std::vector<recorded_operation<Model>>& all)
  {
    std::vector<bool> required;
    for (const auto& one : all)
      required.push_back(one.result.has_value());
    return required;
  }

  bool search(const typename whole_model<Model>::State& now)
  {
    bool complete = true;
    for (std::size_t i = 0; i != all_.size(); ++i)
      complete = complete && (done_[i] || !required_[i]);
    if (complete)
      return true;
    for (std::size_t i = 0; i != all_.size(); ++i)
    {
      if (done_[i] || follows_another(i))
        continue;
      const auto next = whole_model<Model>::step(now, all_[i]);
      if (!next)
        continue;
      done_[i] = true;
      if (search(*next))
        return true;
      done_[i] = false;
    }
    return false;
  }

  bool follows_another(std::size_t i) const
  {
    for (std::size_t other = 0; other != all_.size(); ++other)
      if (!done_[other] && all_[other].returned < all_[i].called)
        return true;
    return false;
  }

  const std::vector<recorded_operation<Model>>& all_;
  const std::vector<bool> required_;
  std::vector<bool> done_;
};

} // namespace test

#endif // BOOST_RDMA_TEST_UNIT_BRUTE_FORCE_HPP

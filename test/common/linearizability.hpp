//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_COMMON_LINEARIZABILITY_HPP
#define BOOST_RDMA_TEST_COMMON_LINEARIZABILITY_HPP

// Checks that a history of concurrent operations is linearizable with respect to a sequential
// model.

#include "common/linearization_search.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace test {

/// The operations of several processes on one object, in any order.
template <sequential_model Model>
class history
{
public:
  using operation = typename Model::Operation;
  using result = typename Model::Result;

  /// Adds an operation with a known result. Equal times overlap.
  void add(std::uint32_t process, std::uint64_t called, std::uint64_t returned,
    const operation& what, const result& seen)
  {
    if (returned < called || returned == recorded_operation<Model>::never)
      throw std::invalid_argument("history: an operation returns before its call");
    all_.push_back({process, called, returned, what, seen});
  }

  /// Adds an operation without a known outcome: its process was killed, or it was cancelled. It
  /// takes effect at any time after its call, or never.
  void add_unknown(std::uint32_t process, std::uint64_t called, const operation& what)
  {
    all_.push_back({process, called, recorded_operation<Model>::never, what, std::nullopt});
  }

  std::vector<recorded_operation<Model>>& operations() noexcept { return all_; }
  const std::vector<recorded_operation<Model>>& operations() const noexcept { return all_; }

private:
  std::vector<recorded_operation<Model>> all_;
};

namespace detail {

template <class Model>
void append_line(std::string& text, const recorded_operation<Model>& one, std::uint64_t origin)
{
  text += "  process " + std::to_string(one.process) + ", " + std::to_string(one.called - origin)
    + " to " + (one.result ? std::to_string(one.returned - origin) : "?") + ": "
    + Model::text(one.operation, one.result) + '\n';
}

/// Describes the operation that no order explains, among the operations around it.
template <class Model>
std::string explain(const std::vector<recorded_operation<Model>>& all,
  const typename linearization_search<Model>::failure& why)
{
  constexpr std::size_t overlapping_most = 12;
  constexpr std::size_t earlier_most = 6;
  const recorded_operation<Model>& wrong = all[why.operation];
  std::uint64_t origin = wrong.called;
  std::vector<const recorded_operation<Model>*> overlapping;
  std::vector<const recorded_operation<Model>*> earlier;
  for (const auto& one : all)
  {
    origin = std::min(origin, one.called);
    if (&one == &wrong || one.called > wrong.returned)
      continue;
    (one.returned < wrong.called ? earlier : overlapping).push_back(&one);
  }
  const auto called_before = [](const auto* a, const auto* b) { return a->called < b->called; };
  const auto returned_before = [](const auto* a, const auto* b)
  { return a->returned < b->returned; };
  std::sort(overlapping.begin(), overlapping.end(), called_before);
  std::sort(earlier.begin(), earlier.end(), returned_before);

  std::string text = "not linearizable, no order of the operations explains\n";
  append_line(text, wrong, origin);
  text += "with the state before it:";
  for (std::size_t i = 0; i != why.states.size(); ++i)
    text += (i == 0 ? " " : ", or ") + Model::text(why.states[i]);
  text += why.more_states ? ", or others\n" : "\n";
  const auto append_last = [&](const char* title, const auto& some, std::size_t most)
  {
    const std::size_t shown = std::min(some.size(), most);
    text += title;
    if (shown < some.size())
      text += " (the last " + std::to_string(shown) + " of " + std::to_string(some.size()) + ")";
    text += some.empty() ? ": none\n" : ":\n";
    for (std::size_t i = some.size() - shown; i != some.size(); ++i)
      append_line(text, *some[i], origin);
  };
  append_last("operations that overlap it", overlapping, overlapping_most);
  append_last("earlier operations", earlier, earlier_most);
  return text;
}

} // namespace detail

/// Returns an empty text if the history is linearizable, otherwise an explanation of its smallest
/// prefix that is not.
/** A model with keys is checked for each key alone: Horn, Kroening, "Faster linearizability
 * checking via P-compositionality", 2015. `initial` is the state of each key then.
 *
 * Throws std::length_error if the history has too many concurrent operations to decide. */
template <sequential_model Model>
[[nodiscard]] std::string why_not_linearizable(
  const history<Model>& all, const typename Model::State& initial = Model::initial())
{
  const auto check = [&initial](const std::vector<recorded_operation<Model>>& some)
  { return detail::linearization_search<Model>(some, initial).run(); };

  if constexpr (requires(const typename Model::Operation& what) { Model::key(what); })
  {
    using key = decltype(Model::key(all.operations().front().operation));
    std::map<key, std::vector<recorded_operation<Model>>> split;
    for (const auto& one : all.operations())
      split[Model::key(one.operation)].push_back(one);
    std::string first;
    std::uint64_t first_at = recorded_operation<Model>::never;
    for (const auto& [name, some] : split)
    {
      const auto why = check(some);
      if (!why || some[why->operation].returned >= first_at)
        continue;
      first_at = some[why->operation].returned;
      first = detail::explain(some, *why);
    }
    return first;
  }
  else
  {
    const auto why = check(all.operations());
    return why ? detail::explain(all.operations(), *why) : std::string();
  }
}

} // namespace test

#endif // BOOST_RDMA_TEST_COMMON_LINEARIZABILITY_HPP

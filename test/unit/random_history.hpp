//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_UNIT_RANDOM_HISTORY_HPP
#define BOOST_RDMA_TEST_UNIT_RANDOM_HISTORY_HPP

// Simulates processes that use a sequential object.

#include "common/linearizability.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace test {

struct simulation_size
{
  std::uint32_t processes;
  std::size_t operations;
  std::size_t killed_most;
};

/// Returns a linearizable history. Each operation takes effect on `object` at a random time between
/// its call and its return. A killed process is replaced, and its last operation takes effect
/// before, after the kill, or never.
template <class Object>
history<typename Object::model> simulate(
  Object& object, std::mt19937& random, const simulation_size& size)
{
  using model = typename Object::model;
  struct process
  {
    std::uint32_t name;
    bool calls = false;
    std::uint64_t called = 0;
    typename model::Operation operation{};
    std::optional<typename model::Result> result{}; // once it took effect
  };
  history<model> all;
  std::vector<process> running;
  std::vector<typename model::Operation> late; // of killed processes
  std::uint32_t names = 0;
  while (names != size.processes)
    running.push_back({names++});
  std::size_t called = 0;
  std::size_t killed = 0;
  std::size_t idle = running.size();
  for (std::uint64_t now = 1; called != size.operations || idle != running.size();)
  {
    now += random() % 3; // some times are equal
    process& one = running[random() % running.size()];
    if (!late.empty() && random() % 8 == 0)
    {
      static_cast<void>(object.apply(late.back()));
      late.pop_back();
    }
    if (!one.calls)
    {
      if (called == size.operations)
        continue;
      ++called;
      --idle;
      one.calls = true;
      one.called = now;
      one.operation = object.choose(random, one.name);
      one.result.reset();
    }
    else if (killed != size.killed_most && random() % (2 + size.operations / 32) == 0)
    {
      ++killed;
      ++idle;
      if (!one.result && random() % 2 != 0)
        late.push_back(one.operation);
      all.add_unknown(one.name, one.called, one.operation);
      one = process{names++};
    }
    else if (!one.result)
      one.result = object.apply(one.operation);
    else
    {
      ++idle;
      one.calls = false;
      all.add(one.name, one.called, now, one.operation, *one.result);
    }
  }
  return all;
}

/// Returns a time that no operation of the history reaches.
template <class Model>
std::uint64_t end_of(const history<Model>& all)
{
  std::uint64_t end = 0;
  for (const auto& one : all.operations())
    end = std::max(end, one.result ? one.returned : one.called);
  return end + 1;
}

/// Returns two operations with results that satisfy `suits`, in random order, or two nulls.
template <class Model, class Suits>
std::pair<recorded_operation<Model>*, recorded_operation<Model>*> random_pair(
  history<Model>& all, std::mt19937& random, Suits&& suits)
{
  auto& some = all.operations();
  const std::size_t count = some.size();
  const std::size_t start = random() % (count * count);
  for (std::size_t n = 0; n != count * count; ++n)
  {
    const std::size_t at = (start + n) % (count * count);
    auto& a = some[at / count];
    auto& b = some[at % count];
    if (&a != &b && a.result && b.result && suits(a, b))
      return {&a, &b};
  }
  return {};
}

/// The first returned before the second was called.
template <class Model>
bool in_sequence(const recorded_operation<Model>& a, const recorded_operation<Model>& b)
{
  return a.returned < b.called;
}

} // namespace test

#endif // BOOST_RDMA_TEST_UNIT_RANDOM_HISTORY_HPP

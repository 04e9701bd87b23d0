//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/linearizability.hpp"
#include "unit/brute_force.hpp"
#include "unit/random_history.hpp"
#include "unit/sequential_objects.hpp"

#include "common/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <tuple>
#include <vector>

namespace {

// Any result of this operation, wrong or right.
template <class Object>
typename Object::model::Result random_result(
  const typename Object::model::Operation& what, std::mt19937& random)
{
  // An object that went another way.
  Object other;
  for (auto n = random() % 6; n != 0; --n)
    static_cast<void>(other.apply(other.choose(random, static_cast<std::uint32_t>(random() % 3))));
  return other.apply(what);
}

// A history of few operations, half of them wrong.
template <class Object>
test::history<typename Object::model> few_operations(std::mt19937& random)
{
  Object object;
  auto all =
    test::simulate(object, random, {3, 3 + random() % 5, random() % 3}); // 3 to 7 operations
  for (auto n = random() % 3; n != 0; --n)
    if (auto& one = all.operations()[random() % all.operations().size()]; one.result)
      one.result = random_result<Object>(one.operation, random);
  if (auto& one = all.operations()[random() % all.operations().size()];
      one.result && random() % 4 == 0)
    one.result = typename Object::model::Result{};
  return all;
}

template <class Model>
std::string text_of(const test::history<Model>& all)
{
  std::string text;
  for (const auto& one : all.operations())
    test::detail::append_line(text, one, 0);
  return text;
}

} // namespace

TEMPLATE_TEST_CASE("why_not_linearizable accepts a history of an object", "", test::register_object,
  test::counter_object, test::mutex_object, test::semaphore_object, test::map_object,
  test::log_object, test::ring_object)
{
  for (std::uint32_t seed = 0; seed != 1000; ++seed)
  {
    std::mt19937 random(seed);
    TestType object;
    const auto all = test::simulate(object, random, {2 + seed % 5, 60, seed % 8});
    const std::string wrong = test::why_not_linearizable(all, TestType::initial());
    if (!wrong.empty())
      FAIL("seed " << seed << '\n' << wrong);
  }
}

TEMPLATE_TEST_CASE("why_not_linearizable rejects a history that was made wrong", "",
  test::register_object, test::counter_object, test::mutex_object, test::semaphore_object,
  test::map_object, test::log_object, test::ring_object)
{
  for (int way = 0; way != TestType::ways; ++way)
  {
    int spoilt = 0;
    for (std::uint32_t seed = 0; seed != 250; ++seed)
    {
      std::mt19937 random(seed);
      TestType object;
      auto all = test::simulate(object, random, {2 + seed % 5, 60, seed % 8});
      if (!TestType::spoil(all, random, way))
        continue;
      ++spoilt;
      if (test::why_not_linearizable(all, TestType::initial()).empty())
        FAIL("seed " << seed << ", way " << way << '\n' << text_of(all));
    }
    CAPTURE(way);
    CHECK(spoilt > 125);
  }
}

TEMPLATE_TEST_CASE("why_not_linearizable decides as a search of every order does", "",
  test::register_object, test::counter_object, test::mutex_object, test::semaphore_object,
  test::map_object, test::log_object, test::ring_object)
{
  int accepted = 0;
  int rejected = 0;
  for (std::uint32_t seed = 0; seed != 5000; ++seed)
  {
    std::mt19937 random(seed);
    const auto all = few_operations<TestType>(random);
    const bool expected = test::brute_force(all.operations()).linearizable(TestType::initial());
    ++(expected ? accepted : rejected);
    const std::string wrong = test::why_not_linearizable(all, TestType::initial());
    if (wrong.empty() != expected)
      FAIL("seed " << seed << ' ' << wrong << '\n' << text_of(all));
  }
  CHECK(accepted > 500);
  CHECK(rejected > 200);
}

TEMPLATE_TEST_CASE("linearization_search finds the smallest prefix without a linearization", "",
  test::register_object, test::counter_object, test::mutex_object, test::semaphore_object,
  test::log_object, test::ring_object)
{
  using model = typename TestType::model;
  int rejected = 0;
  for (std::uint32_t seed = 0; seed != 2000; ++seed)
  {
    std::mt19937 random(seed);
    const auto all = few_operations<TestType>(random);
    const auto why =
      test::detail::linearization_search<model>(all.operations(), TestType::initial()).run();
    if (!why)
      continue;
    ++rejected;
    // The operations that were called by the last return of the prefix, and those that returned.
    const auto end = std::tuple(all.operations()[why->operation].returned, why->operation);
    std::vector<test::recorded_operation<model>> called;
    std::vector<test::recorded_operation<model>> shorter;
    std::vector<bool> until;
    for (std::size_t i = 0; i != all.operations().size(); ++i)
    {
      const auto& one = all.operations()[i];
      if (one.called > std::get<0>(end))
        continue;
      const auto returned = std::tuple(one.returned, i);
      called.push_back(one);
      shorter.push_back(one);
      if (returned >= end)
        shorter.back().result.reset();
      until.push_back(returned <= end);
    }
    const bool smaller = test::brute_force(shorter).linearizable(TestType::initial());
    const bool same = test::brute_force(called, until).linearizable(TestType::initial());
    if (!smaller || same)
      FAIL("seed " << seed << '\n'
                   << test::why_not_linearizable(all, TestType::initial()) << text_of(all));
  }
  CHECK(rejected > 100);
}

TEMPLATE_TEST_CASE("why_not_linearizable decides a history of many operations", "",
  test::register_object, test::counter_object, test::mutex_object, test::map_object,
  test::log_object)
{
  std::mt19937 random(1);
  TestType right;
  const auto all = test::simulate(right, random, {4, 100'000, 100});
  CHECK(test::why_not_linearizable(all, TestType::initial()) == "");
  TestType wrong;
  auto fewer = test::simulate(wrong, random, {4, 20'000, 50});
  REQUIRE(TestType::spoil(fewer, random, 0));
  CHECK(test::why_not_linearizable(fewer, TestType::initial()) != "");
}

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_UNIT_SEQUENTIAL_OBJECTS_HPP
#define BOOST_RDMA_TEST_UNIT_SEQUENTIAL_OBJECTS_HPP

// The objects of the sequential models, each with ways to make one of its histories wrong.

#include "common/basic_models.hpp"
#include "common/container_models.hpp"
#include "unit/random_history.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <utility>
#include <vector>

namespace test {

// Each object has:
// - `choose`: a random operation, and `apply`, which performs it.
// - `initial`: the model's state at its beginning.
// - `spoil(history, random, way)`: makes a history wrong, whatever its concurrent operations do.
//   Returns false if the history has no place for it. There are `ways` ways.
inline constexpr std::uint64_t thin_air = 1'000'000'000;

struct register_object
{
  using model = register_model;
  static model::State initial() { return model::initial(); }
  using kind = model::kind;

  model::Operation choose(std::mt19937& random, std::uint32_t)
  {
    const auto what = static_cast<kind>(random() % 3);
    return {what, what == kind::load ? 0 : ++values,
      what == kind::compare_store ? version - (random() % 4 == 0 && version != 0) : 0};
  }
  model::Result apply(const model::Operation& what)
  {
    if (what.what == kind::load)
      return {version, value, false};
    if (what.what == kind::compare_store && what.expected != version)
      return {version, unseen, false};
    value = what.value;
    ++version;
    return {version, unseen, what.what == kind::compare_store};
  }

  static constexpr int ways = 4;
  static bool spoil(history<model>& all, std::mt19937& random, int way)
  {
    const auto [a, b] = random_pair(all, random,
      [way](const auto& x, const auto& y)
      {
        const bool loads = y.operation.what == kind::load;
        switch (way)
        {
        case 0:
          return loads;
        case 1: // a stale read: x stored before
          return loads && x.operation.what == kind::store && in_sequence(x, y);
        case 2: // loads that go back
          return loads && x.operation.what == kind::load && in_sequence(x, y)
            && x.result->version != 0;
        default:
          return x.result->stored;
        }
      });
    if (a == nullptr)
      return false;
    if (way == 0)
      b->result->value = thin_air;
    else if (way < 3)
      b->result->version = a->result->version - 1;
    else // two of the same version succeed
    {
      model::Result again = *a->result;
      again.version = unseen;
      all.add(1000, a->called, end_of(all), a->operation, again);
    }
    return true;
  }

  std::uint64_t value = 0;
  std::uint64_t version = 0;
  std::uint64_t values = 0;
};

struct counter_object
{
  using model = counter_model;
  static model::State initial() { return model::initial(); }

  model::Operation choose(std::mt19937& random, std::uint32_t) { return {random() % 3}; }
  model::Result apply(const model::Operation& what)
  {
    return {std::exchange(sum, sum + what.amount)};
  }

  static constexpr int ways = 3;
  static bool spoil(history<model>& all, std::mt19937& random, int way)
  {
    const auto [a, b] = random_pair(all, random,
      [way](const auto& x, const auto& y)
      {
        return way == 0 || (way == 1 && x.operation.amount != 0 && y.operation.amount != 0)
          || (way == 2 && in_sequence(x, y) && x.result->before != 0);
      });
    if (a == nullptr)
      return false;
    b->result->before = way == 0 ? thin_air : a->result->before - (way == 2 ? 1 : 0);
    return true; // way 1: one of two additions was lost
  }

  std::uint64_t sum = 0;
};

struct mutex_object
{
  using model = mutex_model;
  static model::State initial() { return model::initial(); }
  using kind = model::kind;

  model::Operation choose(std::mt19937& random, std::uint32_t process)
  {
    const std::uint64_t who = process + 1;
    if (random() % 8 == 0)
      return {kind::lose, holder != 0 ? holder : who};
    return {holder == who || random() % 8 == 0 ? kind::unlock : kind::lock, who};
  }
  model::Result apply(const model::Operation& what)
  {
    const bool locks = what.what == kind::lock;
    if (holder != (locks ? 0 : what.who))
      return {false, unseen};
    holder = locks ? what.who : 0;
    return {true, locks ? ++tokens : unseen};
  }

  static constexpr int ways = 3;
  static bool spoil(history<model>& all, std::mt19937& random, int way)
  {
    const auto granted = [](const auto& x)
    { return x.operation.what == kind::lock && x.result->done; };
    if (way == 0) // two holders that nobody ends
    {
      const std::uint64_t end = end_of(all);
      all.add(1000, end, end + 2, {kind::lock, 1001}, {true, thin_air});
      all.add(1001, end + 1, end + 3, {kind::lock, 1002}, {true, thin_air + 1});
      return true;
    }
    const auto [a, b] = random_pair(all, random,
      [&](const auto& x, const auto& y)
      { return granted(x) && granted(y) && (way == 1 || in_sequence(x, y)); });
    if (a == nullptr)
      return false;
    b->result->token = a->result->token - (way == 2 ? 1 : 0);
    return true;
  }

  std::uint64_t holder = 0;
  std::uint64_t tokens = 0;
};

struct semaphore_object
{
  using model = semaphore_model;
  static model::State initial() { return model::initial(); }

  model::Operation choose(std::mt19937& random, std::uint32_t) { return {random() % 2 == 0}; }
  model::Result apply(const model::Operation& what)
  {
    if (what.acquires && permits == 0)
      return {false};
    permits = what.acquires ? permits - 1 : permits + 1;
    return {true};
  }

  static constexpr int ways = 2;
  static bool spoil(history<model>& all, std::mt19937&, int way)
  {
    // As many as there can be, and one more. The last fails or succeeds wrongly.
    std::uint64_t most = 1;
    for (const auto& one : all.operations())
      most += one.operation.acquires == (way == 0) ? 0 : 1;
    const bool acquires = way == 0;
    std::uint64_t end = end_of(all);
    for (std::uint64_t i = 0; i != most + 1; ++i, ++end)
      all.add(1000, end, end, {acquires}, {true});
    if (!acquires)
      all.add(1000, end + 1, end + 1, {true}, {false});
    return true;
  }

  std::uint64_t permits = 1;
};

struct map_object
{
  using model = map_model;
  static model::State initial() { return model::initial(); }
  using kind = model::kind;

  model::Operation choose(std::mt19937& random, std::uint32_t)
  {
    const auto what = static_cast<kind>(random() % 4);
    const bool writes = what == kind::insert || what == kind::update;
    return {what, random() % 3, writes ? ++values : 0};
  }
  model::Result apply(const model::Operation& what)
  {
    const auto place = map.find(what.key);
    const bool present = place != map.end();
    switch (what.what)
    {
    case kind::find:
      return {present, present ? place->second : unseen};
    case kind::insert:
      return {map.emplace(what.key, what.value).second, unseen};
    case kind::update:
      if (present)
        place->second = what.value;
      break;
    case kind::erase:
      map.erase(what.key);
      break;
    }
    return {present, unseen};
  }

  static constexpr int ways = 3;
  static bool spoil(history<model>& all, std::mt19937& random, int way)
  {
    const auto [a, b] = random_pair(all, random,
      [way](const auto& x, const auto& y)
      { return way != 0 ? in_sequence(x, y) : y.operation.what == kind::find && y.result->done; });
    if (a == nullptr)
      return false;
    if (way == 0)
    {
      b->result->value = thin_air;
      return true;
    }
    // A key that nobody else uses is present, but is not found, or is inserted again.
    all.add(1000, a->called, a->returned, {kind::insert, thin_air, 1}, {true, unseen});
    if (way == 1)
      all.add(1001, b->called, b->returned, {kind::find, thin_air, 0}, {false, unseen});
    else
      all.add(1001, b->called, b->returned, {kind::insert, thin_air, 2}, {true, unseen});
    return true;
  }

  std::map<std::uint64_t, std::uint64_t> map;
  std::uint64_t values = 0;
};

struct log_object
{
  using model = log_model;
  static model::State initial() { return model::initial(); }
  using kind = model::kind;

  model::Operation choose(std::mt19937& random, std::uint32_t)
  {
    if (random() % 2 == 0)
      return {kind::append, ++values};
    return {kind::read, random() % (log.size() + 2)};
  }
  model::Result apply(const model::Operation& what)
  {
    if (what.what == kind::append)
    {
      log.push_back(what.value);
      return {log.size() - 1, true};
    }
    if (what.value >= log.size())
      return {unseen, false};
    return {log[what.value], true};
  }

  static constexpr int ways = 4;
  static bool spoil(history<model>& all, std::mt19937& random, int way)
  {
    const auto [a, b] = random_pair(all, random,
      [way](const auto& x, const auto& y)
      {
        const bool appends = x.operation.what == kind::append;
        const bool both = appends && y.operation.what == kind::append;
        return way == 0 ? y.operation.what == kind::read && y.result->present
          : way == 1    ? appends && in_sequence(x, y)
          : way == 2    ? both
                        : both && in_sequence(x, y);
      });
    if (a == nullptr)
      return false;
    if (way == 0)
      b->result->value = thin_air;
    else if (way == 1) // the append was lost
      all.add(1000, b->called, b->returned, {kind::read, a->result->value}, {unseen, false});
    else if (way == 2)
      b->result->value = a->result->value;
    else
      std::swap(a->result->value, b->result->value);
    return true;
  }

  std::vector<std::uint64_t> log;
  std::uint64_t values = 0;
};

struct ring_object
{
  static constexpr std::size_t capacity = 3;
  using model = ring_model;
  static model::State initial() { return {capacity, {}}; }

  model::Operation choose(std::mt19937& random, std::uint32_t)
  {
    const bool pushes = random() % 2 == 0;
    return {pushes, pushes ? ++values : 0};
  }
  model::Result apply(const model::Operation& what)
  {
    if (what.pushes ? ring.size() == capacity : ring.empty())
      return {false, unseen};
    if (what.pushes)
    {
      ring.push_back(what.value);
      return {true, unseen};
    }
    const std::uint64_t value = ring.front();
    ring.pop_front();
    return {true, value};
  }

  static constexpr int ways = 4;
  static bool spoil(history<model>& all, std::mt19937& random, int way)
  {
    std::map<std::uint64_t, const recorded_operation<model>*> pushes;
    for (const auto& one : all.operations())
      if (one.operation.pushes)
        pushes[one.operation.value] = &one;
    const auto [a, b] = random_pair(all, random,
      [&](const auto& x, const auto& y)
      {
        const bool pop = !y.operation.pushes && y.result->done;
        const bool both = pop && !x.operation.pushes && x.result->done;
        return way == 0 ? pop
          : way == 1    ? both
          : way == 2    ? both && in_sequence(x, y)
            && in_sequence(*pushes.at(x.result->value), *pushes.at(y.result->value))
                     : true;
      });
    if (a == nullptr)
      return false;
    if (way == 0)
      b->result->value = thin_air;
    else if (way == 1)
      b->result->value = a->result->value;
    else if (way == 2)
      std::swap(a->result->value, b->result->value);
    else // more than it can hold, also if all operations without a result are pops
    {
      std::size_t most = capacity;
      for (const auto& one : all.operations())
        most += !one.result && !one.operation.pushes ? 1 : 0;
      const std::uint64_t end = end_of(all);
      for (std::size_t i = 0; i != most + 1; ++i)
        all.add(1000, end + i, end + i, {true, thin_air}, {true, unseen});
    }
    return true;
  }

  std::deque<std::uint64_t> ring;
  std::uint64_t values = 0;
};

} // namespace test

#endif // BOOST_RDMA_TEST_UNIT_SEQUENTIAL_OBJECTS_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/basic_models.hpp"
#include "software/object_history.hpp"

#include <boost_rdma/objects/owned.hpp>
#include <boost_rdma/objects/remote_counter.hpp>
#include <boost_rdma/objects/remote_flag.hpp>
#include <boost_rdma/objects/remote_mutex.hpp>
#include <boost_rdma/objects/remote_semaphore.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace test::objects_words_history {

// Tests that histories of counters, flags and locks of many processes are linearizable.

namespace {

constexpr std::uint32_t processes = 6;
constexpr std::uint64_t permits = 2;
constexpr std::chrono::milliseconds lease{50};

void count(history_client<counter_model>& client)
{
  auto counter = client.open<rdma::remote_counter<>>();
  while (client.more(200))
  {
    const std::uint64_t amount = client.below(3) * client.below(10); // half of them are loads
    record<std::uint64_t> r;
    client.record_operation(
      {amount}, r,
      [&]
      {
        if (amount == 0)
          counter.async_load(r.handler());
        else
          counter.async_add(amount, r.handler());
      },
      [&] { return counter_model::Result{r.value()}; });
  }
}

struct flag_model
{
  enum class kind : std::uint32_t
  {
    test,
    set,
    clear,
  };
  struct Operation
  {
    flag_model::kind kind;
    friend bool operator==(const Operation&, const Operation&) = default;
  };
  struct Result
  {
    bool before;
    friend bool operator==(const Result&, const Result&) = default;
  };
  using State = bool;

  static State initial() { return false; }
  static std::size_t hash(State state) { return state ? 1 : 0; }
  static std::optional<State> step(
    State state, const Operation& what, const std::optional<Result>& result)
  {
    if (result && result->before != state)
      return std::nullopt;
    return what.kind == kind::test ? state : what.kind == kind::set;
  }
  static std::string text(State state) { return state ? "set" : "clear"; }
  static std::string text(const Operation& what, const std::optional<Result>& result)
  {
    const char* const name = what.kind == kind::test ? "test"
      : what.kind == kind::set                       ? "set"
                                                     : "clear";
    return name + (result ? " over " + text(result->before) : std::string(": unknown"));
  }
};

void set_and_clear(history_client<flag_model>& client)
{
  using kind = flag_model::kind;
  auto flag = client.open<rdma::remote_flag<>>();
  while (client.more(200))
  {
    record<bool> r;
    const auto before = [&] { return flag_model::Result{r.value()}; };
    switch (client.below(3))
    {
    case 0:
      client.record_operation(
        {kind::test}, r, [&] { flag.async_test(r.handler()); }, before);
      break;
    case 1:
      client.record_operation(
        {kind::set}, r, [&] { flag.async_test_and_set(r.handler()); }, before);
      break;
    default:
      client.record_operation(
        {kind::clear}, r, [&] { flag.async_clear(r.handler()); }, before);
    }
  }
}

void lock_and_unlock(history_client<mutex_model>& client)
{
  using kind = mutex_model::kind;
  auto mutex = client.open<rdma::remote_mutex<>>();
  while (client.more(60))
  {
    const std::uint64_t who = client.unique();
    std::optional<rdma::mutex_lock> held;
    const auto locked = [&] {
      return held ? mutex_model::Result{true, held->fencing_token()} : mutex_model::Result{false};
    };
    if (client.below(3) == 0)
    {
      record<std::optional<rdma::mutex_lock>> r;
      client.record_operation(
        {kind::lock, who}, r, [&] { mutex.async_try_lock(r.handler()); },
        [&]
        {
          held = r.value();
          return locked();
        });
    }
    else
    {
      record<rdma::mutex_lock> r;
      client.record_operation(
        {kind::lock, who}, r, [&] { mutex.async_lock(r.handler()); },
        [&]
        {
          held = r.value();
          return locked();
        });
    }
    if (!held)
      continue;
    plain_record r;
    client.record_operation(
      {kind::unlock, who}, r, [&] { mutex.async_unlock(*held, r.handler()); },
      [&] { return mutex_model::Result{!r.ec}; }, {rdma::error::lease_ended});
  }
}

void acquire_and_release(history_client<semaphore_model>& client)
{
  auto semaphore = client.open<rdma::remote_semaphore<>>();
  while (client.more(60))
  {
    std::optional<rdma::semaphore_permit> held;
    if (client.below(3) == 0)
    {
      record<std::optional<rdma::semaphore_permit>> r;
      client.record_operation(
        {true}, r, [&] { semaphore.async_try_acquire(r.handler()); },
        [&]
        {
          held = r.value();
          return semaphore_model::Result{held.has_value()};
        });
    }
    else
    {
      record<rdma::semaphore_permit> r;
      client.record_operation(
        {true}, r, [&] { semaphore.async_acquire(r.handler()); },
        [&]
        {
          held = r.value();
          return semaphore_model::Result{true};
        });
    }
    if (!held)
      continue;
    plain_record r;
    client.record_operation(
      {false}, r, [&] { semaphore.async_release(*held, r.handler()); },
      [&] { return semaphore_model::Result{!r.ec}; }, {rdma::error::lease_ended});
  }
}

// The lease of a lock that was not unlocked with success can have ended at any time, or never.
void add_lost(history<mutex_model>& all)
{
  using kind = mutex_model::kind;
  std::map<std::uint64_t, bool> unlocked;
  for (const auto& one : all.operations())
    if (one.operation.what == kind::unlock)
      unlocked[one.operation.who] = one.result && one.result->done;
  const auto recorded = all.operations();
  for (const auto& one : recorded)
    if (one.operation.what == kind::lock && (!one.result || one.result->done)
      && !unlocked[one.operation.who])
      all.add_unknown(one.process, one.called, {kind::lose, one.operation.who});
}

// The same for permits: the end of a lease is a release.
void add_lost(history<semaphore_model>& all)
{
  const auto recorded = all.operations(); // each release is behind its process's acquisition
  history<semaphore_model> result;
  for (std::size_t i = 0; i != recorded.size(); ++i)
  {
    const auto& one = recorded[i];
    if (!one.result)
      result.add_unknown(one.process, one.called, one.operation);
    else if (one.result->done || one.operation.acquires)
      result.add(one.process, one.called, one.returned, one.operation, *one.result);
    const bool released = i + 1 != recorded.size() && recorded[i + 1].process == one.process
      && !recorded[i + 1].operation.acquires
      && (!recorded[i + 1].result || recorded[i + 1].result->done);
    if (one.operation.acquires && (!one.result || one.result->done) && !released)
      result.add_unknown(one.process, one.called, {false});
  }
  all = result;
}

template <class Remote, class... Initial>
auto maker(Initial... initial)
{
  return [=](asio::io_context& io, const rdma::context& context, auto&)
  { return std::make_unique<rdma::owned<Remote>>(io, context, initial...); };
}

} // namespace

TEST_CASE("the history of a counter of many processes is linearizable")
{
  BOOST_RDMA_TEST_FORKS();
  need(feature::endpoint_descriptions); // of the owner's queue pair
  const std::string wire = GENERATE("local", "tcp");
  const std::uint64_t hostile = GENERATE(0, 7);
  CAPTURE(wire, hostile);
  const auto history = history_of<counter_model>(
    {wire, hostile}, processes, 1000, maker<rdma::remote_counter<>>(std::uint64_t{0}), count);
  CHECK(why_not_linearizable(history) == "");
}

TEST_CASE("the history of a flag of many processes is linearizable")
{
  BOOST_RDMA_TEST_FORKS();
  need(feature::endpoint_descriptions); // of the owner's queue pair
  const std::string wire = GENERATE("local", "tcp");
  const std::uint64_t hostile = GENERATE(0, 7);
  CAPTURE(wire, hostile);
  const auto history = history_of<flag_model>(
    {wire, hostile}, processes, 1000, maker<rdma::remote_flag<>>(false), set_and_clear);
  CHECK(why_not_linearizable(history) == "");
}

TEST_CASE("the history of a mutex of many processes is linearizable")
{
  BOOST_RDMA_TEST_FORKS();
  need(feature::endpoint_descriptions); // of the owner's queue pair
  const std::string wire = GENERATE("local", "tcp");
  const std::uint64_t hostile = GENERATE(0, 7);
  CAPTURE(wire, hostile);
  auto history = history_of<mutex_model>(
    {wire, hostile}, processes, 1000, maker<rdma::remote_mutex<>>(lease), lock_and_unlock);
  add_lost(history);
  CHECK(why_not_linearizable(history) == "");
}

TEST_CASE("the history of a semaphore of many processes is linearizable")
{
  BOOST_RDMA_TEST_FORKS();
  need(feature::endpoint_descriptions); // of the owner's queue pair
  const std::string wire = GENERATE("local", "tcp");
  const std::uint64_t hostile = GENERATE(0, 7);
  CAPTURE(wire, hostile);
  auto history = history_of<semaphore_model>({wire, hostile}, processes, 1000,
    maker<rdma::remote_semaphore<>>(permits, lease), acquire_and_release);
  add_lost(history);
  CHECK(why_not_linearizable(history, permits) == "");
}

} // namespace test::objects_words_history

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/basic_models.hpp"
#include "common/linearizability.hpp"

#include "common/catch.hpp"
#include "common/texts.hpp"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

using test::counter_model;
using test::history;
using test::register_model;
using test::unseen;
using test::why_not_linearizable;

namespace {

constexpr register_model::Operation load{register_model::kind::load, 0, 0};

constexpr register_model::Operation store(std::uint64_t value)
{
  return {register_model::kind::store, value, 0};
}

constexpr register_model::Operation compare_store(std::uint64_t expected, std::uint64_t value)
{
  return {register_model::kind::compare_store, value, expected};
}

constexpr register_model::Result loaded(std::uint64_t value)
{
  return {unseen, value, false};
}

} // namespace

TEST_CASE("A register's history is linearizable when each load sees the latest store")
{
  history<register_model> all;
  CHECK(why_not_linearizable(all) == "");
  all.add(0, 0, 10, store(1), {});
  all.add(1, 5, 6, load, loaded(0));
  all.add(2, 7, 8, load, loaded(1));
  all.add(1, 11, 12, load, loaded(1));
  CHECK(why_not_linearizable(all) == "");

  SECTION("not with a stale load")
  {
    all.add(2, 13, 14, load, loaded(0));
    CHECK(why_not_linearizable(all) != "");
  }
  SECTION("equal times overlap")
  {
    all.add(2, 13, 14, store(2), {});
    all.add(1, 14, 15, load, loaded(1));
    CHECK(why_not_linearizable(all) == "");
    all.add(0, 15, 16, load, loaded(1));
    CHECK(why_not_linearizable(all) != "");
  }
  SECTION("not with a value that nobody stored")
  {
    all.add(2, 13, 14, load, loaded(7));
    CHECK(why_not_linearizable(all) != "");
  }
}

TEST_CASE("A register's history is not linearizable when sequential loads see new, then old")
{
  history<register_model> all;
  all.add(0, 0, 100, store(1), {});
  all.add(1, 10, 20, load, loaded(1));
  CHECK(why_not_linearizable(all) == "");
  all.add(2, 15, 25, load, loaded(0)); // overlaps the other load
  CHECK(why_not_linearizable(all) == "");
  all.add(2, 30, 40, load, loaded(0));
  CHECK(why_not_linearizable(all) != "");
}

TEST_CASE("compare_store succeeds once for each version")
{
  history<register_model> all;
  all.add(0, 0, 10, compare_store(0, 5), {1, unseen, true});
  all.add(1, 0, 10, compare_store(0, 6), {1, unseen, false});
  all.add(1, 11, 12, load, {1, 5, false});
  CHECK(why_not_linearizable(all) == "");
  SECTION("not twice")
  {
    all.add(2, 0, 20, compare_store(0, 7), {unseen, unseen, true});
    CHECK(why_not_linearizable(all) != "");
  }
  SECTION("not before the version exists")
  {
    all.add(2, 0, 20, compare_store(2, 7), {3, unseen, true});
    CHECK(why_not_linearizable(all) != "");
  }
  SECTION("also after an unknown one that must have failed")
  {
    all.add_unknown(2, 0, compare_store(0, 8));
    all.add(3, 13, 14, load, {1, 5, false});
    CHECK(why_not_linearizable(all) == "");
  }
}

TEST_CASE("Equal values of a register can be stored at several versions")
{
  history<register_model> all;
  all.add(0, 0, 1, store(5), {});
  all.add(0, 2, 3, store(5), {});
  all.add(0, 4, 5, store(6), {});
  const std::uint64_t version = GENERATE(1u, 2u);
  all.add(1, 0, 6, load, {version, 5, false});
  CHECK(why_not_linearizable(all) == "");
  SECTION("also the first value")
  {
    all.add(0, 7, 8, store(0), {});
    all.add(1, 0, 8, load, {0, 0, false});
    CHECK(why_not_linearizable(all) == "");
  }
  SECTION("not at a version of another value")
  {
    all.add(1, 0, 8, load, {3, 5, false});
    CHECK(why_not_linearizable(all) != "");
  }
}

TEST_CASE("An operation without a known outcome takes effect after its call, once, or never")
{
  history<register_model> all;
  all.add_unknown(0, 10, store(1));
  all.add(1, 20, 21, load, loaded(0));
  CHECK(why_not_linearizable(all) == "");
  all.add(1, 1000, 1001, load, loaded(1));
  CHECK(why_not_linearizable(all) == "");
  SECTION("not twice")
  {
    all.add(2, 1002, 1003, store(2), {});
    all.add(2, 1004, 1005, load, loaded(2));
    CHECK(why_not_linearizable(all) == "");
    all.add(2, 1006, 1007, load, loaded(1));
    CHECK(why_not_linearizable(all) != "");
  }
  SECTION("not before its call")
  {
    all.add(2, 8, 9, load, loaded(1));
    CHECK(why_not_linearizable(all) != "");
  }
}

TEST_CASE("why_not_linearizable shows the operation without explanation and those around it")
{
  history<register_model> all;
  for (std::uint64_t i = 0; i != 100; ++i)
    all.add(0, 1000 + 2 * i, 1001 + 2 * i, store(i), {});
  all.add(1, 1150, 1165, load, loaded(3));
  all.add_unknown(2, 1100, store(500));
  const std::string wrong = why_not_linearizable(all);
  test::contains_all(wrong,
    {"process 1, 150 to 165: load() -> 3", "value ? version ", "operations that overlap it",
      "process 2, 100 to ?: store(500)\n", "earlier operations (the last 6 of ",
      "process 0, 148 to 149: store(74)"});
  CHECK(std::count(wrong.begin(), wrong.end(), '\n') <= 25);
}

TEST_CASE("why_not_linearizable decides histories with a hundred unknown outcomes")
{
  history<register_model> all;
  std::uint64_t version = 0;
  std::uint64_t now = 0;
  for (std::uint64_t i = 1; i <= 100; ++i)
  {
    all.add_unknown(static_cast<std::uint32_t>(10 + i), now, store(1000 + i));
    // One in three takes effect, some later, with or without being seen.
    version += i % 3 == 0 ? 1 : 0;
    const std::uint64_t value = i % 6 == 0 ? 1000 + i - i % 4 : unseen;
    all.add(1, now + 1, now + 2, load, {version, value, false});
    for (std::uint64_t n = 0; n != 10; ++n, now += 10)
    {
      all.add(1, now + 3, now + 4, store(10 * i + n), {++version, unseen, false});
      all.add(2, now + 4, now + 6, load, {version, 10 * i + n, false});
    }
  }
  CHECK(why_not_linearizable(all) == "");
  SECTION("and one result too many")
  {
    all.add(1, now, now + 1, load, {version + 67, unseen, false});
    CHECK(why_not_linearizable(all) == "");
    all.add(1, now + 2, now + 3, load, {version + 68, unseen, false});
    CHECK(why_not_linearizable(all) != "");
  }
  SECTION("and a stale load")
  {
    all.add(1, now, now + 1, load, {version - 1, unseen, false});
    CHECK(why_not_linearizable(all) != "");
  }
}

TEST_CASE("why_not_linearizable decides after many configurations")
{
  // Each subset of the unknown additions has another sum.
  constexpr std::uint64_t unknown = 15;
  history<counter_model> all;
  for (std::uint64_t i = 0; i != unknown; ++i)
    all.add_unknown(static_cast<std::uint32_t>(i), 0, {std::uint64_t{2} << i});
  history<counter_model> odd = all;
  all.add(100, 1, 2, {0}, {(std::uint64_t{2} << unknown) - 2});
  CHECK(why_not_linearizable(all) == "");
  odd.add(100, 1, 2, {0}, {(std::uint64_t{2} << unknown) - 1});
  CHECK(why_not_linearizable(odd) != "");
}

TEST_CASE("history refuses a return before its call")
{
  history<counter_model> all;
  CHECK_THROWS_AS(all.add(0, 2, 1, {1}, {0}), std::invalid_argument);
}

TEST_CASE("why_not_linearizable refuses more than 128 concurrent operations with results")
{
  history<counter_model> all;
  for (std::uint32_t i = 0; i != 128; ++i)
    all.add(i, 0, 1, {1}, {i});
  CHECK(why_not_linearizable(all) == "");
  all.add(128, 0, 1, {1}, {128});
  CHECK_THROWS_AS(why_not_linearizable(all), std::length_error);
}

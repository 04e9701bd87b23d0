//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/basic_models.hpp"
#include "common/container_models.hpp"
#include "common/linearizability.hpp"

#include "common/catch.hpp"

#include <cstdint>

using test::counter_model;
using test::history;
using test::log_model;
using test::map_model;
using test::mutex_model;
using test::semaphore_model;
using test::unseen;
using test::why_not_linearizable;

TEST_CASE("A counter's history is not linearizable when an addition is lost")
{
  history<counter_model> all;
  all.add(0, 0, 10, {1}, {0});
  all.add(1, 0, 10, {2}, {1});
  CHECK(why_not_linearizable(all) == "");
  SECTION("seen by another addition")
  {
    all.add(2, 5, 15, {1}, {1});
    CHECK(why_not_linearizable(all) != "");
  }
  SECTION("seen by a load")
  {
    all.add(2, 11, 15, {0}, {2});
    CHECK(why_not_linearizable(all) != "");
  }
  SECTION("unless it is unknown whether it took place")
  {
    all.add_unknown(3, 1, {4});
    all.add(2, 11, 15, {0}, {3});
    all.add(2, 16, 17, {0}, {7});
    CHECK(why_not_linearizable(all) == "");
    all.add(2, 18, 19, {0}, {3});
    CHECK(why_not_linearizable(all) != "");
  }
}

TEST_CASE("A mutex's history is linearizable when it has one holder at a time and tokens grow")
{
  using kind = mutex_model::kind;
  history<mutex_model> all;
  all.add(1, 0, 10, {kind::lock, 1}, {true, 5});
  all.add(2, 0, 10, {kind::lock, 2}, {false, unseen});
  all.add(1, 20, 30, {kind::unlock, 1}, {true, unseen});
  all.add(2, 25, 40, {kind::lock, 2}, {true, 9});
  CHECK(why_not_linearizable(all) == "");
  SECTION("not with two holders")
  {
    all.add(3, 41, 50, {kind::lock, 3}, {true, 10});
    CHECK(why_not_linearizable(all) != "");
  }
  SECTION("not if it refuses a lock while it is free")
  {
    all.add(2, 41, 42, {kind::unlock, 2}, {true, unseen});
    all.add(3, 43, 50, {kind::lock, 3}, {false, unseen});
    CHECK(why_not_linearizable(all) != "");
  }
  SECTION("not with a token that does not grow")
  {
    all.add(2, 41, 42, {kind::unlock, 2}, {true, unseen});
    const std::uint64_t token = GENERATE(4u, 9u);
    all.add(3, 43, 50, {kind::lock, 3}, {true, token});
    CHECK(why_not_linearizable(all) != "");
  }
  SECTION("also when a lease ended")
  {
    all.add_unknown(0, 41, {kind::lose, 2});
    all.add(3, 45, 50, {kind::lock, 3}, {true, 10});
    all.add(2, 51, 52, {kind::unlock, 2}, {false, unseen});
    CHECK(why_not_linearizable(all) == "");
    all.add(2, 53, 54, {kind::unlock, 2}, {true, unseen});
    CHECK(why_not_linearizable(all) != "");
  }
}

TEST_CASE("A semaphore's history is not linearizable when it grants more permits than it has")
{
  history<semaphore_model> all;
  all.add(0, 0, 10, {true}, {true});
  all.add(1, 0, 10, {true}, {true});
  CHECK(why_not_linearizable(all, 1) != "");
  CHECK(why_not_linearizable(all, 2) == "");
  all.add(2, 11, 12, {true}, {false});
  CHECK(why_not_linearizable(all, 2) == "");
  CHECK(why_not_linearizable(all, 3) != "");
  all.add_unknown(0, 13, {false});
  all.add(2, 14, 15, {true}, {true});
  CHECK(why_not_linearizable(all, 2) == "");
  all.add(2, 16, 17, {true}, {true});
  CHECK(why_not_linearizable(all, 2) != "");
}

TEST_CASE("A map's history is checked for each key")
{
  using kind = map_model::kind;
  history<map_model> all;
  all.add(0, 0, 10, {kind::insert, 1, 100}, {});
  all.add(1, 0, 10, {kind::insert, 2, 200}, {});
  all.add(1, 0, 10, {kind::insert, 2, 201}, {false, unseen});
  all.add(1, 11, 12, {kind::find, 1, 0}, {true, 100});
  all.add(1, 13, 20, {kind::erase, 2, 0}, {});
  all.add(0, 13, 20, {kind::find, 2, 0}, {true, 200});
  all.add(0, 21, 22, {kind::update, 2, 202}, {false, unseen});
  all.add(0, 23, 24, {kind::update, 1, 101}, {});
  CHECK(why_not_linearizable(all) == "");
  SECTION("find misses a present key")
  {
    all.add(2, 25, 26, {kind::find, 1, 0}, {false, unseen});
    CHECK(why_not_linearizable(all) != "");
  }
  SECTION("find returns the value before an update")
  {
    all.add(2, 25, 26, {kind::find, 1, 0}, {true, 100});
    CHECK(why_not_linearizable(all) != "");
  }
  SECTION("find returns an erased key")
  {
    all.add(2, 25, 26, {kind::find, 2, 0}, {true, 200});
    CHECK(why_not_linearizable(all) != "");
  }
  SECTION("find returns another key's value")
  {
    all.add(2, 25, 26, {kind::find, 1, 0}, {true, 200});
    CHECK(why_not_linearizable(all) != "");
  }
  SECTION("a present key is inserted")
  {
    all.add(2, 25, 26, {kind::insert, 1, 102}, {});
    CHECK(why_not_linearizable(all) != "");
  }
}

TEST_CASE("A log's history is not linearizable when an append is lost or an index is used twice")
{
  using kind = log_model::kind;
  history<log_model> all;
  all.add(0, 0, 10, {kind::append, 100}, {1, true});
  all.add(1, 0, 10, {kind::append, 101}, {0, true});
  all.add(1, 0, 10, {kind::read, 0}, {unseen, false});
  all.add(1, 11, 12, {kind::read, 1}, {100, true});
  CHECK(why_not_linearizable(all) == "");
  SECTION("lost")
  {
    all.add(2, 11, 12, {kind::read, 0}, {unseen, false});
    CHECK(why_not_linearizable(all) != "");
  }
  SECTION("used twice")
  {
    all.add(2, 5, 12, {kind::append, 102}, {1, true});
    CHECK(why_not_linearizable(all) != "");
  }
  SECTION("left out")
  {
    all.add(2, 11, 12, {kind::append, 102}, {3, true});
    CHECK(why_not_linearizable(all) != "");
    all.add_unknown(3, 12, {kind::append, 103});
    CHECK(why_not_linearizable(all) == "");
    all.add(2, 13, 14, {kind::read, 2}, {103, true});
    CHECK(why_not_linearizable(all) == "");
    all.add(2, 15, 16, {kind::read, 2}, {102, true});
    CHECK(why_not_linearizable(all) != "");
  }
}

TEST_CASE("A ring's history is not linearizable when values are out of order")
{
  const test::ring_model::State initial{2, {}};
  history<test::ring_model> all;
  all.add(0, 0, 1, {true, 100}, {});
  all.add(0, 2, 3, {true, 101}, {});
  all.add(0, 4, 5, {true, 102}, {false, unseen});
  CHECK(why_not_linearizable(all, initial) == "");
  SECTION("right")
  {
    all.add(1, 6, 7, {false, 0}, {true, 100});
    all.add(1, 8, 9, {false, 0}, {true, 101});
    all.add(1, 10, 11, {false, 0}, {false, unseen});
    CHECK(why_not_linearizable(all, initial) == "");
    all.add(1, 12, 13, {false, 0}, {true, 102});
    CHECK(why_not_linearizable(all, initial) != "");
  }
  SECTION("wrong")
  {
    all.add(1, 6, 7, {false, 0}, {true, 101});
    CHECK(why_not_linearizable(all, initial) != "");
  }
  SECTION("lost with an unknown pop")
  {
    all.add_unknown(2, 6, {false, 0});
    all.add(1, 7, 8, {false, 0}, {true, 101});
    CHECK(why_not_linearizable(all, initial) == "");
  }
  SECTION("full")
  {
    all.add(1, 6, 7, {true, 103}, {});
    CHECK(why_not_linearizable(all, initial) != "");
  }
}

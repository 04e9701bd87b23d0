//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/group_call.hpp"

#include "common/catch.hpp"
#include "rpc/group_history.hpp"

#include <boost/asio/error.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

// A call to a group at one member, transition by transition, and the calls that a member has seen.

namespace test::rpc_group_call_test {
namespace {

using rdma::error;
using rdma::error_code;
using rdma::detail::rpc::children_of;
using rdma::detail::rpc::group_absence;
using rdma::detail::rpc::group_call;
using rdma::detail::rpc::group_history;
using rdma::detail::rpc::group_part;
using rdma::detail::rpc::group_range;
using rdma::detail::rpc::group_request;
using rdma::detail::rpc::height_of;
using namespace std::chrono_literals;
namespace asio = boost::asio;

using time_point = group_call::time_point;
constexpr time_point start{};

std::vector<std::byte> bytes_of(std::string_view text)
{
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string text_of(const group_call::outcome& o)
{
  std::string result;
  for (const auto& each : o.values)
    result.append(reinterpret_cast<const char*>(each.data()), each.size());
  return result;
}

std::vector<std::uint32_t> places_of(const std::vector<group_absence>& all)
{
  std::vector<std::uint32_t> result;
  for (const auto& each : all)
    result.push_back(each.place);
  return result;
}

// The root of a group of seven with fan-out 2: children 1 (with 2, 3) and 4 (with 5, 6).
group_call root_of_seven()
{
  return group_call({{0, 7}, 2, start + 100s, 10s}, start);
}

group_part whole(std::uint32_t count, std::string_view value)
{
  return {count, {}, bytes_of(value)};
}

} // namespace

TEST_CASE("the ranges of children are contiguous, disjoint, complete and of about one size")
{
  for (std::uint32_t fan_out = 1; fan_out != 6; ++fan_out)
    for (std::uint32_t count = 1; count != 100; ++count)
    {
      CAPTURE(fan_out, count);
      const auto ranges = children_of({7, count}, fan_out);
      std::uint32_t next = 8;
      std::uint32_t least = UINT32_MAX;
      std::uint32_t most = 0;
      std::uint32_t height = 0;
      for (const group_range& each : ranges)
      {
        REQUIRE(each.first == next);
        REQUIRE(each.count > 0);
        next += each.count;
        least = std::min(least, each.count);
        most = std::max(most, each.count);
        height = std::max(height, height_of(each.count, fan_out) + 1);
      }
      REQUIRE(next == 7 + count);
      REQUIRE(ranges.size() == std::min(fan_out, count - 1));
      REQUIRE((ranges.empty() || most - least <= 1));
      REQUIRE(height == height_of(count, fan_out));
    }
  CHECK(height_of(1, 2) == 0);
  CHECK(height_of(7, 2) == 2);
  CHECK(height_of(8, 2) == 3);
  CHECK(height_of(64, 4) == 3);
  CHECK(height_of(64, 1) == 63);
  CHECK(height_of(UINT32_MAX, UINT32_MAX) == 1);
}

TEST_CASE("a call asks its children at once and is done when all have answered")
{
  group_call c = root_of_seven();
  const auto tasks = c.take_tasks();
  REQUIRE(tasks.size() == 2);
  CHECK(tasks[0].to == group_range{1, 3});
  CHECK(tasks[1].to == group_range{4, 3});
  CHECK_FALSE(tasks[0].again);
  CHECK(tasks[0].ends == start + 90s);
  CHECK(tasks[0].until == start + 10s);
  CHECK(c.take_tasks().empty());
  c.take_part(4, whole(3, "efg"));
  c.take_own(bytes_of("a"));
  CHECK_FALSE(c.done());
  CHECK(c.waits_for(1));
  CHECK_FALSE(c.waits_for(4));
  CHECK_FALSE(c.waits_for_own());
  c.take_part(1, whole(3, "bcd"));
  REQUIRE(c.done());
  CHECK(c.alarm() == time_point::max());
  const auto o = c.take_outcome();
  CHECK(o.answered == 7);
  CHECK(o.missing.empty());
  CHECK(text_of(o) == "abcdefg"); // in the order of places
}

TEST_CASE("a call of a member without children is done when its handler has answered")
{
  group_call c({{5, 1}, 2, start + 100s, 10s}, start);
  CHECK(c.take_tasks().empty());
  CHECK_FALSE(c.done());
  SECTION("with a value")
  {
    c.take_own(bytes_of("x"));
    CHECK(text_of(c.take_outcome()) == "x");
  }
  SECTION("with an error")
  {
    c.take_own_failure(error::contended);
    const auto o = c.take_outcome();
    CHECK(o.answered == 0);
    REQUIRE(places_of(o.missing) == std::vector<std::uint32_t>{5});
    CHECK(o.missing[0].ec == error::contended);
  }
  CHECK(c.done());
}

TEST_CASE("the children of a member that fails are called in its place")
{
  group_call c = root_of_seven();
  static_cast<void>(c.take_tasks());
  c.take_failure(1, error::peer_lost, start + 1s);
  CHECK_FALSE(c.waits_for(1));
  const auto tasks = c.take_tasks();
  REQUIRE(tasks.size() == 2);
  CHECK(tasks[0].to == group_range{2, 1});
  CHECK(tasks[1].to == group_range{3, 1});
  CHECK(tasks[0].until == start + 11s);
  c.take_part(1, whole(3, "bcd")); // too late: its children are counted by themselves
  c.take_failure(1, error::closed, start + 1s);
  c.take_pending(1, start + 1s);
  CHECK(c.take_tasks().empty());
  c.take_own(bytes_of("a"));
  c.take_part(2, whole(1, "c"));
  c.take_failure(3, error::refused, start + 2s);
  c.take_part(4, {2, {{5, asio::error::timed_out}}, bytes_of("eg")});
  REQUIRE(c.done());
  const auto o = c.take_outcome();
  CHECK(o.answered == 4);
  CHECK(text_of(o) == "aceg");
  REQUIRE(places_of(o.missing) == std::vector<std::uint32_t>{1, 3, 5});
  CHECK(o.missing[0].ec == error::peer_lost);
  CHECK(o.missing[1].ec == error::refused);
  CHECK(o.missing[2].ec == asio::error::timed_out);
}

TEST_CASE("a silent member is bypassed, and one that works is asked again")
{
  group_call c = root_of_seven();
  static_cast<void>(c.take_tasks());
  CHECK(c.alarm() == start + 10s);
  c.on_time(start + 9s);
  CHECK(c.waits_for(1));
  c.take_pending(4, start + 9s);
  const auto again = c.take_tasks();
  REQUIRE(again.size() == 1);
  CHECK(again[0].to == group_range{4, 3});
  CHECK(again[0].again);
  CHECK(again[0].ends == start + 90s);
  CHECK(again[0].until == start + 19s);
  c.on_time(start + 10s);
  CHECK_FALSE(c.waits_for(1));
  CHECK(c.waits_for(4));
  CHECK(c.take_tasks().size() == 2);
  CHECK(c.alarm() == start + 19s);
}

TEST_CASE("a member that works until its end leaves time to call its children")
{
  group_call c = root_of_seven();
  static_cast<void>(c.take_tasks());
  c.take_pending(4, start + 88s);
  CHECK(c.take_tasks()[0].until == start + 95s); // it ends at 90 s
  c.take_failure(1, error::peer_lost, start + 96s);
  const auto tasks = c.take_tasks();
  CHECK(tasks[0].ends == start + 98s); // half of what is left
  CHECK(tasks[0].until == start + 99s);
}

TEST_CASE("a call ends with its time and names everything that has not answered")
{
  group_call c = root_of_seven();
  static_cast<void>(c.take_tasks());
  c.take_part(4, whole(3, "efg"));
  const bool answers = GENERATE(false, true);
  if (answers)
    c.take_own(bytes_of("a"));
  c.on_time(start + 100s);
  REQUIRE(c.done());
  CHECK_FALSE(c.waits_for(1));
  CHECK_FALSE(c.waits_for_own());
  CHECK(c.take_tasks().empty());
  c.take_own(bytes_of("late"));
  c.take_part(1, whole(3, "late"));
  c.on_time(start + 101s);
  const auto o = c.take_outcome();
  CHECK(text_of(o) == (answers ? "aefg" : "efg"));
  CHECK(o.answered == (answers ? 4U : 3U));
  std::vector<std::uint32_t> expected{0, 1, 2, 3};
  if (answers)
    expected.erase(expected.begin());
  CHECK(places_of(o.missing) == expected);
}

TEST_CASE("only the first answer of a handler or a child counts")
{
  group_call c = root_of_seven();
  c.take_own(bytes_of("a"));
  c.take_own(bytes_of("b"));
  c.take_own_failure(error::closed);
  c.take_part(1, whole(3, "bcd"));
  c.take_part(1, whole(3, "xyz"));
  c.take_failure(1, error::closed, start);
  c.take_part(5, whole(1, "f")); // is not asked by this member
  CHECK_FALSE(c.done());
  c.take_part(4, whole(3, "efg"));
  CHECK(text_of(c.take_outcome()) == "abcdefg");
}

TEST_CASE("callers are answered with the result, or after half of the silence limit")
{
  group_call c({{5, 1}, 2, start + 100s, 10s}, start);
  c.add_caller(1, start);
  c.add_caller(2, start + 1s);
  CHECK(c.alarm() == start + 5s);
  CHECK(c.take_callers(start + 4s).empty());
  CHECK(c.take_callers(start + 5s) == std::vector<std::uint64_t>{1});
  CHECK(c.alarm() == start + 6s);
  c.take_own({});
  CHECK(c.alarm() == start + 6s);
  CHECK(c.take_callers(start + 5s) == std::vector<std::uint64_t>{2});
  CHECK(c.alarm() == time_point::max());
  c.add_caller(3, start + 50s); // a duplicate
  CHECK(c.take_callers(start + 50s) == std::vector<std::uint64_t>{3});
}

TEST_CASE("a call that is abandoned waits for nobody and uses no answer")
{
  group_call call = root_of_seven();
  const bool has_asked = GENERATE(false, true);
  if (has_asked)
    CHECK(call.take_tasks().size() == 2);
  call.add_caller(1, start);
  call.abandon();
  CHECK(call.done());
  CHECK_FALSE(call.waits_for(1));
  CHECK_FALSE(call.waits_for_own());
  call.take_own(bytes_of("a"));
  call.take_part(1, whole(3, "b"));
  call.take_pending(4, start + 1s);
  call.take_failure(4, error::peer_lost, start + 1s);
  call.on_time(start + 100s);
  CHECK(call.take_tasks().empty());
  CHECK(call.take_callers(start + 100s).empty());
  CHECK(call.alarm() == time_point::max());
  const group_call::outcome result = call.take_outcome();
  CHECK(result.answered == 0);
  CHECK(result.missing.empty());
  CHECK(result.values.empty());
}

TEST_CASE("a member starts each call of a root at most once")
{
  using history = group_history<int>;
  using verdict = history::verdict;
  history h;
  std::vector<std::shared_ptr<int>> removed;
  const auto request =
    [](std::uint64_t sequence, std::uint64_t oldest, std::uint64_t incarnation = 1)
  {
    group_request r;
    r.root = 3;
    r.incarnation = incarnation;
    r.sequence = sequence;
    r.oldest = oldest;
    return r;
  };
  const auto five = std::make_shared<int>(5);
  CHECK(h.find(request(5, 5), removed).is == verdict::fresh);
  h.add(request(5, 5), five);
  CHECK(h.find(request(5, 5), removed).record == five);
  CHECK(h.find(request(4, 4), removed).is == verdict::ended); // the root has passed it
  CHECK(h.find(request(7, 5), removed).is == verdict::fresh);
  h.add(request(7, 5), std::make_shared<int>(7));
  CHECK(h.find(request(6, 5), removed).is == verdict::fresh); // later ones may overtake it
  SECTION("a record is kept until the root's oldest call is newer")
  {
    CHECK(removed.empty());
    CHECK(h.find(request(8, 6), removed).is == verdict::fresh);
    CHECK(removed == std::vector<std::shared_ptr<int>>{five});
    CHECK(h.find(request(5, 5), removed).is == verdict::ended);
    CHECK(h.find(request(7, 5), removed).is == verdict::known);
  }
  SECTION("a call without a record has still been started")
  {
    h.forget(3, 5, *five);
    CHECK(h.find(request(5, 5), removed).is == verdict::ended);
    h.forget(3, 7, *five); // another record
    CHECK(h.find(request(7, 5), removed).is == verdict::known);
  }
  SECTION("a new process of the root begins again, and messages of the old one are late")
  {
    CHECK(h.find(request(1, 1, 2), removed).is == verdict::fresh);
    CHECK(removed.size() == 2);
    CHECK(h.find(request(9, 9, 1), removed).is == verdict::ended);
  }
  SECTION("roots are independent")
  {
    group_request other = request(1, 1);
    other.root = 4;
    CHECK(h.find(other, removed).is == verdict::fresh);
  }
  SECTION("clear() returns the records")
  {
    h.clear(removed);
    CHECK(removed.size() == 2);
    CHECK(h.find(request(5, 5), removed).is == verdict::fresh);
  }
}

} // namespace test::rpc_group_call_test

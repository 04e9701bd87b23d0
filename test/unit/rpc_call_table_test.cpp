//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/call_table.hpp"

#include "common/allocations.hpp"
#include "common/catch.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <vector>

// The calls of an RPC client without I/O and without a clock.

namespace test::rpc_call_table_test {
namespace {

using rdma::error;
using rdma::error_code;
using rdma::detail::rpc::call_list;
using rdma::detail::rpc::call_table;
using time_point = call_table::time_point;
using std::chrono::seconds;

// Declared before its table: a call that is in a list must not be destroyed.
struct test_call final : rdma::detail::rpc::call
{
  explicit test_call(std::size_t bytes = 10, time_point until = time_point::max())
  {
    size = bytes;
    deadline = until;
  }

  error_code take_result(const error_code& ec, std::span<const std::byte> reply) noexcept override
  {
    result = ec;
    reply_size = reply.size();
    ++stored;
    return ec;
  }
  void finish(bool here) override
  {
    finished_here = here;
    finished_after = stored;
    ++finished;
  }
  void remove() noexcept override {} // the test has it

  error_code result;
  std::size_t reply_size = 0;
  int stored = 0;
  int finished = 0;
  int finished_after = 0;
  bool finished_here = false;
};

rdma::rpc::client_options options(
  std::uint32_t calls, std::size_t bytes = 1000, std::uint32_t queue = 100)
{
  rdma::rpc::client_options made;
  made.calls = calls;
  made.bytes = bytes;
  made.queue = queue;
  return made;
}

constexpr std::uint32_t slot_of(std::uint32_t number)
{
  return number & 0xffff;
}
constexpr std::uint32_t generation_of(std::uint32_t number)
{
  return number >> 16;
}

// A time after the start of the clock.
constexpr time_point at(int s)
{
  return time_point(seconds(s));
}

// Returns true if the call is sent at once.
bool start(call_table& table, test_call& what)
{
  REQUIRE(table.add(what));
  return table.submit(what);
}

// The numbers of the calls that can be sent now, in order.
std::vector<std::uint32_t> sent_now(call_table& table)
{
  std::vector<std::uint32_t> numbers;
  while (const auto* const next = table.next_to_send())
    numbers.push_back(next->number);
  return numbers;
}

} // namespace

TEST_CASE("call_table numbers calls by their slot, with how often it was used in the upper half")
{
  test_call a, b, c;
  test_call d;
  call_table table(options(10));
  REQUIRE(table.add(a));
  REQUIRE(table.add(b));
  REQUIRE(table.add(c));
  CHECK(a.number == 0x1'0000);
  CHECK(b.number == 0x1'0001);
  CHECK(c.number == 0x1'0002);
  CHECK(table.size() == 3);
  table.remove(b);
  CHECK(table.size() == 2);
  REQUIRE(table.add(d));
  CHECK(d.number == 0x2'0001);
}

TEST_CASE("call_table uses the slot next that was vacated first")
{
  std::deque<test_call> calls(6);
  call_table table(options(10));
  for (test_call& each : calls)
    REQUIRE(table.add(each));
  for (const std::size_t i : {4u, 0u, 2u})
    table.remove(calls[i]);
  for (const std::uint32_t expected : {4u, 0u})
  {
    REQUIRE(table.add(calls.emplace_back()));
    CHECK(slot_of(calls.back().number) == expected);
    CHECK(generation_of(calls.back().number) == 2);
  }
  // One that is vacated meanwhile follows the others.
  table.remove(calls[5]);
  for (const std::uint32_t expected : {2u, 5u})
  {
    REQUIRE(table.add(calls.emplace_back()));
    CHECK(slot_of(calls.back().number) == expected);
  }
  REQUIRE(table.add(calls.emplace_back()));
  CHECK(calls.back().number == 0x1'0006); // none is vacant
}

TEST_CASE("call_table gives a number again only after 65,536 uses of its slot")
{
  test_call again;
  call_table table(options(1));
  std::set<std::uint32_t> seen;
  std::uint32_t first = 0;
  for (int i = 0; i < 65'536; ++i)
  {
    test_call c;
    REQUIRE(table.add(c));
    if (i == 0)
      first = c.number;
    seen.insert(c.number);
    table.remove(c);
  }
  CHECK(seen.size() == 65'536);
  REQUIRE(table.add(again));
  CHECK(again.number == first);
  CHECK(table.submit(again));
  CHECK(table.with_server(first) == &again);
}

TEST_CASE("call_table adds as many calls as may be sent and wait, in any state")
{
  std::deque<test_call> calls(5);
  test_call further;
  call_table table(options(2, 1000, 3));
  CHECK(start(table, calls[0]));
  CHECK(start(table, calls[1]));
  CHECK(!start(table, calls[2]));
  CHECK(!start(table, calls[3]));
  REQUIRE(table.add(calls[4]));
  further.number = 77;
  CHECK(!table.add(further));
  CHECK(further.number == 77);
  CHECK(table.size() == 5);
  // One that ends makes room: sent, waiting or only added.
  for (const std::size_t i : {0u, 3u, 4u})
  {
    CAPTURE(i);
    table.remove(calls[i]);
    test_call& next = calls.emplace_back();
    CHECK(table.add(next));
    CHECK(!table.add(further));
  }
}

TEST_CASE("call_table adds no call that would wait when the queue is 0")
{
  test_call a, b;
  call_table table(options(1, 1000, 0));
  CHECK(start(table, a));
  CHECK(!table.add(b));
  table.remove(a);
  CHECK(start(table, b));
}

TEST_CASE("call_table adds at most 65,535 calls, each with a number of its own")
{
  const std::uint32_t calls_max = GENERATE(1u, 65'535u);
  std::deque<test_call> calls(65'535);
  test_call further;
  call_table table(options(calls_max, SIZE_MAX, UINT32_MAX));
  std::set<std::uint32_t> numbers;
  for (test_call& each : calls)
  {
    if (!table.add(each))
      break;
    numbers.insert(each.number);
  }
  CHECK(numbers.size() == 65'535);
  CHECK(!table.add(further));
  // The last slot is used like others.
  test_call& last = calls.back();
  CHECK(slot_of(last.number) == 65'534);
  CHECK(table.submit(last));
  CHECK(table.with_server(last.number) == &last);
  table.remove(last);
  REQUIRE(table.add(further));
  CHECK(further.number == 0x2'fffe);
}

TEST_CASE("call_table sends as many calls as the server may have at a time")
{
  std::deque<test_call> calls(5);
  call_table table(options(3));
  CHECK(start(table, calls[0]));
  CHECK(start(table, calls[1]));
  CHECK(start(table, calls[2]));
  CHECK(!start(table, calls[3]));
  CHECK(!start(table, calls[4]));
  CHECK(table.next_to_send() == nullptr);
  CHECK(table.remove(calls[1]));
  CHECK(table.next_to_send() == &calls[3]);
  CHECK(table.next_to_send() == nullptr);
  CHECK(table.remove(calls[3]));
  CHECK(table.next_to_send() == &calls[4]);
  CHECK(table.next_to_send() == nullptr);
}

TEST_CASE("call_table sends as many bytes as the server may have at a time")
{
  test_call a(60), b(40), c(1), d(39);
  test_call e(1);
  call_table table(options(100, 100));
  CHECK(start(table, a));
  CHECK(start(table, b)); // exactly all
  CHECK(!start(table, c));
  CHECK(!start(table, d));
  CHECK(table.remove(b));
  CHECK(sent_now(table) == std::vector{c.number, d.number});
  CHECK(!start(table, e));
  CHECK(table.remove(d));
  CHECK(table.next_to_send() == &e);
}

TEST_CASE("call_table sends a call that is larger than the limit of bytes alone")
{
  test_call small(1), large(101), next(1), huge(SIZE_MAX), after(1);
  call_table table(options(100, 100));
  CHECK(start(table, small));
  CHECK(!start(table, large));
  CHECK(!start(table, next));
  CHECK(!start(table, huge));
  CHECK(table.remove(small));
  CHECK(sent_now(table) == std::vector{large.number});
  CHECK(table.remove(large));
  CHECK(sent_now(table) == std::vector{next.number});
  CHECK(table.remove(next));
  CHECK(sent_now(table) == std::vector{huge.number});
  CHECK(!start(table, after));
  CHECK(table.next_to_send() == nullptr);
  CHECK(table.remove(huge));
  CHECK(sent_now(table) == std::vector{after.number});
}

TEST_CASE("call_table sends calls one at a time when the limit of bytes is 0")
{
  test_call a(20), b(20);
  call_table table(options(100, 0));
  CHECK(start(table, a));
  CHECK(!start(table, b));
  CHECK(table.remove(a));
  CHECK(table.next_to_send() == &b);
}

TEST_CASE("call_table sends waiting calls in the order in which they were submitted")
{
  test_call first, a, b, c;
  call_table table(options(1));
  CHECK(start(table, first));
  REQUIRE(table.add(a));
  REQUIRE(table.add(b));
  REQUIRE(table.add(c));
  CHECK(!table.submit(b));
  CHECK(!table.submit(c));
  CHECK(!table.submit(a));
  test_call* last = &first;
  for (test_call* const expected : {&b, &c, &a})
  {
    CHECK(table.remove(*last));
    CHECK(table.next_to_send() == expected);
    CHECK(table.next_to_send() == nullptr);
    last = expected;
  }
}

TEST_CASE("call_table sends no call before one that waits for more room")
{
  test_call a(60), large(50), small(10);
  test_call late(10);
  call_table table(options(100, 100));
  CHECK(start(table, a));
  CHECK(!start(table, large));
  CHECK(!start(table, small)); // there is room for it
  CHECK(table.next_to_send() == nullptr);
  CHECK(table.remove(a));
  // Room for all, but the new call is submitted before the waiting ones are sent.
  CHECK(!start(table, late));
  CHECK(sent_now(table) == std::vector{large.number, small.number, late.number});
}

TEST_CASE("call_table does not send waiting calls that have ended")
{
  std::deque<test_call> calls(5);
  test_call d, e;
  call_table table(options(1));
  CHECK(start(table, calls[0]));
  for (std::size_t i = 1; i < calls.size(); ++i)
    CHECK(!start(table, calls[i]));
  for (const std::size_t i : {1u, 3u}) // the first, and one between others
    CHECK(!table.remove(calls[i]));
  // Their slots are used again before their turn would have come.
  CHECK(!start(table, d));
  CHECK(!start(table, e));
  CHECK(slot_of(d.number) == slot_of(calls[1].number));
  test_call* last = &calls[0];
  for (test_call* const expected : {&calls[2], &calls[4], &d, &e})
  {
    CHECK(table.remove(*last));
    CHECK(table.next_to_send() == expected);
    CHECK(table.next_to_send() == nullptr);
    last = expected;
  }
}

TEST_CASE("call_table sends calls behind a larger one when that ends while it waits")
{
  test_call a(60), large(50), small(10), further(31);
  call_table table(options(100, 100));
  CHECK(start(table, a));
  CHECK(!start(table, large));
  CHECK(!start(table, small));
  CHECK(!start(table, further));
  CHECK(!table.remove(large));
  CHECK(sent_now(table) == std::vector{small.number});
}

TEST_CASE("call_table sends a new call at once when all waiting calls have ended")
{
  test_call a(60), large(50), small(10);
  call_table table(options(100, 100));
  CHECK(start(table, a));
  CHECK(!start(table, large));
  CHECK(!table.remove(large));
  CHECK(start(table, small));
  CHECK(table.with_server(small.number) == &small);
}

TEST_CASE("call_table allocates nothing for calls that end while another one waits")
{
  test_call stays, waits;
  call_table table(options(1, 1000, 2));
  CHECK(start(table, stays));
  CHECK(!start(table, waits)); // stays in front of those that end
  bool waited = true;
  const auto one_ends = [&]
  {
    test_call ends(10, at(1));
    waited = table.add(ends) && !table.submit(ends) && !table.remove(ends) && waited;
  };
  one_ends(); // allocates the slot
  allocation_count count;
  for (int i = 0; i < 10'000; ++i)
    one_ends();
  count.stop();
  CHECK(count.value() == 0);
  CHECK(waited);
  CHECK(table.size() == 2);
  CHECK(table.remove(stays));
  CHECK(sent_now(table) == std::vector{waits.number});
}

TEST_CASE("call_table reports whether the call that is removed was with the server")
{
  test_call added, sent, waiting;
  call_table table(options(1));
  REQUIRE(table.add(added));
  CHECK(start(table, sent));
  CHECK(!start(table, waiting));
  CHECK(!table.remove(added));
  CHECK(!table.remove(waiting));
  CHECK(table.remove(sent));
  CHECK(table.size() == 0);
}

TEST_CASE("call_table returns the earliest deadline of submitted calls")
{
  test_call never, five(10, at(5)), three(10, at(3)), four(10, at(4));
  call_table table(options(1));
  CHECK(table.deadline() == time_point::max());
  CHECK(table.expired(time_point::max() - time_point::duration(1)) == nullptr);
  CHECK(start(table, never));
  CHECK(table.deadline() == time_point::max());
  REQUIRE(table.add(three));
  CHECK(table.deadline() == time_point::max()); // not submitted
  CHECK(!start(table, five));
  CHECK(table.deadline() == at(5));
  CHECK(!table.submit(three));
  CHECK(table.deadline() == at(3));
  CHECK(!start(table, four));
  CHECK(table.deadline() == at(3));
  CHECK(table.expired(at(3) - time_point::duration(1)) == nullptr);
  CHECK(table.expired(at(3)) == &three);
  CHECK(table.expired(at(100)) == &three);

  // Sending a call does not change its deadline.
  CHECK(table.remove(never));
  CHECK(table.next_to_send() == &five);
  CHECK(table.deadline() == at(3));
  table.remove(three);
  CHECK(table.deadline() == at(4));
  CHECK(table.expired(at(3)) == nullptr);
  table.remove(five); // not the earliest
  CHECK(table.expired(at(4)) == &four);
  table.remove(four);
  CHECK(table.deadline() == time_point::max());
  CHECK(table.expired(at(100)) == nullptr);
}

TEST_CASE("call_table returns calls with the same deadline one after the other")
{
  std::deque<test_call> calls;
  call_table table(options(2));
  for (int i = 0; i < 4; ++i)
    start(table, calls.emplace_back(10, at(1)));
  std::set<const void*> expired;
  while (auto* const next = table.expired(at(1)))
  {
    REQUIRE(expired.insert(next).second);
    table.remove(*next);
  }
  CHECK(expired.size() == calls.size());
  CHECK(table.size() == 0);
}

TEST_CASE("call_table removes exactly the given one of calls with the same deadline")
{
  test_call a(10, at(1)), b(10, at(1)), c(10, at(1));
  call_table table(options(10));
  for (test_call* const each : {&a, &b, &c})
    CHECK(start(table, *each));
  table.remove(b);
  std::set<const void*> left;
  for (int i = 0; i < 2; ++i)
  {
    auto* const next = table.expired(at(1));
    REQUIRE(next != nullptr);
    left.insert(next);
    table.remove(*next);
  }
  CHECK(left == std::set<const void*>{&a, &c});
  CHECK(table.expired(at(1)) == nullptr);
}

TEST_CASE("call_table finds sent calls for replies, and sent and waiting ones for cancellation")
{
  test_call added, sent, waiting;
  call_table table(options(1));
  REQUIRE(table.add(added));
  CHECK(start(table, sent));
  CHECK(!start(table, waiting));
  CHECK(table.with_server(added.number) == nullptr);
  CHECK(table.with_server(sent.number) == &sent);
  CHECK(table.with_server(waiting.number) == nullptr);
  CHECK(table.find(added.number) == nullptr);
  CHECK(table.find(sent.number) == &sent);
  CHECK(table.find(waiting.number) == &waiting);
  using progress = rdma::detail::rpc::call::progress_type;
  CHECK(added.progress == progress::kept);
  CHECK(sent.progress == progress::sent);
  CHECK(waiting.progress == progress::kept);

  table.remove(sent);
  CHECK(table.next_to_send() == &waiting);
  CHECK(table.with_server(waiting.number) == &waiting);
  CHECK(!table.submit(added));
  CHECK(table.find(added.number) == &added);
}

TEST_CASE("call_table does not find calls by numbers of calls that have ended")
{
  test_call a, b;
  test_call next;
  call_table table(options(2));
  CHECK(start(table, a));
  CHECK(start(table, b));
  const std::uint32_t late = a.number;
  table.remove(a);
  CHECK(table.with_server(late) == nullptr);
  CHECK(table.find(late) == nullptr);
  CHECK(start(table, next)); // in the same slot
  REQUIRE(slot_of(next.number) == slot_of(late));
  CHECK(table.with_server(late) == nullptr);
  CHECK(table.find(late) == nullptr);
  CHECK(table.with_server(next.number) == &next);
}

TEST_CASE("call_table does not find calls by numbers that it has not given")
{
  test_call a;
  call_table empty(options(2));
  call_table table(options(2));
  CHECK(start(table, a));
  for (const std::uint32_t number :
    {0u, 1u, 0x1'0001u, 0x2'0000u, 0x0'0000u, 0x8001'0000u, 0x1'ffffu, 0x1'fffeu, UINT32_MAX})
  {
    CAPTURE(number);
    CHECK(table.with_server(number) == nullptr);
    CHECK(table.find(number) == nullptr);
    CHECK(empty.with_server(number) == nullptr);
    CHECK(empty.find(number) == nullptr);
  }
  CHECK(table.with_server(a.number) == &a);
  // A vacant slot has no call, whatever the generation.
  table.remove(a);
  for (std::uint32_t generation = 0; generation <= UINT16_MAX; ++generation)
    REQUIRE(table.find(generation << 16) == nullptr);
}

TEST_CASE("call_table moves all submitted calls to the end of a list")
{
  test_call earlier, added, sent(10, at(1)), also_sent, waiting(10, at(2)), also_waiting;
  call_table table(options(2));
  call_list all;
  all.push_back(earlier);
  REQUIRE(table.add(added));
  CHECK(start(table, sent));
  CHECK(start(table, also_sent));
  CHECK(!start(table, waiting));
  CHECK(!start(table, also_waiting));
  const std::uint32_t number = waiting.number;
  table.remove_all(all);

  REQUIRE(!all.empty());
  CHECK(&all.front() == &earlier);
  all.pop_front();
  std::set<const void*> moved;
  while (!all.empty())
  {
    moved.insert(&all.front());
    all.pop_front();
  }
  CHECK(moved == std::set<const void*>{&sent, &also_sent, &waiting, &also_waiting});
  CHECK(table.size() == 1);
  CHECK(table.deadline() == time_point::max());
  CHECK(table.next_to_send() == nullptr);
  CHECK(table.find(number) == nullptr);
  CHECK(waiting.number == number); // for the message that cancels it

  table.remove_all(all);
  CHECK(all.empty());
  CHECK(table.submit(added)); // it stays
  CHECK(table.with_server(added.number) == &added);
}

TEST_CASE("call_table sends new calls at once after all calls were removed")
{
  test_call a(60), b(60), c(60);
  test_call d(60), e(40), f(1);
  call_table table(options(2, 100));
  CHECK(start(table, a));
  CHECK(!start(table, b));
  CHECK(!start(table, c));
  call_list all;
  table.remove_all(all);
  all.clear();
  CHECK(start(table, d));
  CHECK(start(table, e));
  CHECK(!start(table, f));
}

TEST_CASE("call::end stores the error and then lets the handler be called later")
{
  test_call c;
  c.end(error::closed);
  CHECK(c.result == error::closed);
  CHECK(c.reply_size == 0);
  CHECK(c.stored == 1);
  CHECK(c.finished == 1);
  CHECK(c.finished_after == 1);
  CHECK(!c.finished_here);
}

namespace {

// What call_table is to do, in a simple way: calls in the order of their submission.
struct model
{
  enum class state
  {
    added,
    waiting,
    sent,
  };
  struct entry
  {
    test_call* what;
    state is;
  };

  std::size_t calls_max;
  std::size_t bytes_max;
  std::deque<test_call*> waiting;
  std::map<std::uint32_t, entry> all;

  [[nodiscard]] bool has_room(const test_call& what) const
  {
    std::size_t calls = 0;
    std::size_t bytes = 0;
    for (const auto& [number, each] : all)
      if (each.is == state::sent)
      {
        ++calls;
        bytes += each.what->size;
      }
    return calls == 0 || (calls < calls_max && bytes + what.size <= bytes_max);
  }

  test_call* send()
  {
    if (waiting.empty() || !has_room(*waiting.front()))
      return nullptr;
    test_call* const next = waiting.front();
    waiting.pop_front();
    all.at(next->number).is = state::sent;
    return next;
  }

  bool submit(test_call& what)
  {
    all.at(what.number).is = state::waiting;
    waiting.push_back(&what);
    return waiting.size() == 1 && send() != nullptr;
  }

  bool remove(test_call& what)
  {
    const bool was_sent = all.at(what.number).is == state::sent;
    std::erase(waiting, &what);
    all.erase(what.number);
    return was_sent;
  }

  [[nodiscard]] time_point deadline() const
  {
    time_point earliest = time_point::max();
    for (const auto& [number, each] : all)
      if (each.is != state::added)
        earliest = std::min(earliest, each.what->deadline);
    return earliest;
  }
};

} // namespace

TEST_CASE("call_table does the same as a simple model in random steps")
{
  const unsigned seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937 random(seed);
  constexpr std::size_t slots = 20;
  std::deque<test_call> memory(slots + 1);
  call_table table(options(6, 100, slots - 6));
  model expected{6, 100, {}, {}};
  std::vector<test_call*> unused;
  for (test_call& each : memory)
    unused.push_back(&each);
  const auto release = [&](test_call& what) { unused.push_back(&what); };
  const auto any = [&](model::state is) -> test_call*
  {
    std::vector<test_call*> some;
    for (const auto& [number, each] : expected.all)
      if (each.is == is)
        some.push_back(each.what);
    return some.empty() ? nullptr : some[random() % some.size()];
  };
  const auto remove = [&](test_call* what)
  {
    if (what == nullptr)
      return;
    REQUIRE(table.remove(*what) == expected.remove(*what));
    release(*what);
  };
  using enum model::state;
  for (int step = 0; step < 20'000; ++step)
  {
    CAPTURE(step);
    switch (random() % 16)
    {
    case 0:
    case 1:
    case 2:
    case 3:
    {
      test_call& next = *unused.back();
      next.size = random() % 8 == 0 ? 1 + random() % 200 : 1 + random() % 40;
      next.deadline = random() % 3 == 0 ? time_point::max() : at(static_cast<int>(random() % 50));
      const bool has_room = expected.all.size() < slots;
      REQUIRE(table.add(next) == has_room);
      if (!has_room)
        break;
      unused.pop_back();
      REQUIRE(expected.all.try_emplace(next.number, model::entry{&next, added}).second);
      break;
    }
    case 4:
    case 5:
    case 6:
    case 7:
      if (test_call* const what = any(added))
        REQUIRE(table.submit(*what) == expected.submit(*what));
      break;
    case 8:
    case 9:
    case 10:
      remove(any(sent));
      break;
    case 11:
      remove(any(waiting));
      break;
    case 12:
      if (random() % 4 == 0)
        remove(any(added));
      break;
    case 13:
    {
      const time_point now = at(static_cast<int>(random() % 50));
      auto* const late = static_cast<test_call*>(table.expired(now));
      REQUIRE((late != nullptr) == (expected.deadline() <= now));
      if (late != nullptr)
        REQUIRE(late->deadline == expected.deadline());
      remove(late);
      break;
    }
    case 14:
      if (random() % 50 == 0)
      {
        call_list all;
        table.remove_all(all);
        while (!all.empty())
        {
          auto& each = static_cast<test_call&>(all.front());
          all.pop_front();
          REQUIRE(expected.all.at(each.number).is != added);
          expected.remove(each);
          release(each);
        }
        REQUIRE(any(sent) == nullptr);
        REQUIRE(any(waiting) == nullptr);
      }
      break;
    default:
      for (test_call* next = expected.send(); next != nullptr; next = expected.send())
        REQUIRE(table.next_to_send() == next);
      REQUIRE(table.next_to_send() == nullptr);
    }
    REQUIRE(table.size() == expected.all.size());
    REQUIRE(table.deadline() == expected.deadline());
    for (const auto& [number, each] : expected.all)
    {
      REQUIRE(table.with_server(number) == (each.is == sent ? each.what : nullptr));
      REQUIRE(table.find(number) == (each.is != added ? each.what : nullptr));
    }
  }
}

} // namespace test::rpc_call_table_test

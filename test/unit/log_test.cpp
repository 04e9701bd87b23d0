//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "unit/log_machines.hpp"

#include <boost/asio/error.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace test::log_test {

// Tests the transitions of the state machines of logs. log_simulation_test.cpp runs random ones.

using objects::log_word;
using namespace std::chrono_literals;

namespace {

constexpr objects::log_shape small{.order = 2, .lease = 1000us};

struct log_memory
{
  explicit log_memory(std::uint64_t seed = 1)
    : simulation(seed, log_words(small))
  {
  }

  // Runs an operation to its end, while other processes run, too.
  template <class Machine>
  Machine end(std::size_t process, Machine machine)
  {
    std::optional<Machine> result;
    simulation.start<Machine>(process, std::move(machine),
      [&](const rdma::error_code& error, Machine& ended)
      {
        ec = error;
        result = ended;
      });
    const std::uint64_t limit = simulation.now + 100'000;
    while (!result)
    {
      REQUIRE(simulation.turn());
      REQUIRE(simulation.now < limit);
    }
    return *result;
  }

  std::uint64_t append(std::uint32_t number) { return end(9, append_of(small, number)).index(); }
  void append(std::uint32_t from, std::uint32_t to)
  {
    for (std::uint32_t i = from; i != to; ++i)
    {
      CHECK(append(i) == i);
      CHECK_FALSE(ec);
    }
  }
  read_of read(std::uint64_t index, std::size_t count = read_of::count_max, bool seals = true)
  {
    return end(9, read_of(small, index, count, seals));
  }
  void trim(std::uint64_t index) { (void)end(9, objects::log_trim(index)); }

  // Takes an index for a process that does not go on.
  void leave_hole() { ++simulation.memory[objects::log_tail_offset / 8]; }

  log_word first_word(std::uint64_t index) const
  {
    return log_word::of(simulation.memory[log_word_at(small, index)]);
  }

  object_simulation simulation;
  rdma::error_code ec;
};

// Carries out the requests of a machine one after the other.
template <class Machine>
struct by_hand
{
  explicit by_hand(Machine started, log_memory& on)
    : machine(std::move(started))
    , memory(on.simulation.memory)
    , next(machine.begin())
  {
  }

  std::vector<objects::access_request> posted()
  {
    std::vector<objects::access_request> result;
    for (std::size_t i = 0; i != next.requests; ++i)
      result.push_back(machine.request(i));
    return result;
  }

  std::uint64_t carry_out(const objects::access_request& what)
  {
    const std::uint64_t was = memory[what.offset / 8];
    if (what.kind == rdma::detail::request_kind::read)
      std::memcpy(what.bytes.data(), &memory[what.offset / 8], what.bytes.size());
    else if (what.kind == rdma::detail::request_kind::fetch_add)
      memory[what.offset / 8] += what.compare_or_add;
    else if (was == what.compare_or_add)
      memory[what.offset / 8] = what.swap;
    return was;
  }

  // Ends the step.
  void advance(bool cancelled = false)
  {
    const auto requests = posted();
    for (std::size_t i = 0; i != requests.size(); ++i)
      machine.answered(i, carry_out(requests[i]));
    next = machine.next(cancelled);
  }

  void advance(int steps)
  {
    for (int i = 0; i != steps; ++i)
      advance();
  }

  void run()
  {
    for (int steps = 0; !ended(); ++steps)
    {
      REQUIRE(steps != 1000);
      advance();
    }
  }

  [[nodiscard]] bool ended() const { return next.what == objects::step::action::finish; }

  Machine machine;
  std::vector<std::uint64_t>& memory;
  objects::step next;
};

constexpr int to_fill = 2;   // look, reserve
constexpr int to_commit = 3; // and fill

} // namespace

TEST_CASE("laps are compared across the end of their range")
{
  const auto word = [](objects::lap lap) {
    return log_word{1, lap, log_word::mark::written}.packed();
  };
  CHECK(objects::compare_lap(word(5), 5) == 0);
  CHECK(objects::compare_lap(word(4), 5) < 0);
  CHECK(objects::compare_lap(word(6), 5) > 0);
  CHECK(objects::compare_lap(word(objects::lap_mask), 0) < 0);
  CHECK(objects::compare_lap(word(0), objects::lap_mask) > 0);
  CHECK(small.lap_of(0) == 1);
  CHECK(small.lap_of(std::uint64_t{objects::lap_mask} << small.order) == 0);
}

TEST_CASE("words of a log keep their parts")
{
  const auto mark =
    GENERATE(log_word::mark::none, log_word::mark::written, log_word::mark::skipped);
  const log_word read = log_word::of(log_word{0x8000'0001, objects::lap_mask - 1, mark}.packed());
  CHECK(read.data == 0x8000'0001);
  CHECK(read.lap == objects::lap_mask - 1);
  CHECK(read.mark == mark);
}

TEST_CASE("an append without others takes four steps")
{
  log_memory m;
  by_hand append(append_of(small, 3), m);
  append.advance(4);
  CHECK(append.ended());
  CHECK_FALSE(append.next.ec);
  CHECK(append.machine.index() == 0);
  CHECK(m.read(0).values[0] == log_value_of(3));
}

TEST_CASE("an entry of a log is read from its commit on")
{
  log_memory m;
  by_hand append(append_of(small, 3), m);
  append.advance(to_commit);
  by_hand read(read_of(small, 0, 1), m);
  read.advance();
  CHECK(read.next.what == objects::step::action::pause);
  append.advance();
  CHECK(append.ended());
  read.advance(2);
  CHECK(read.ended());
  CHECK(read.machine.count() == 1);
  CHECK(read.machine.next_index() == 1);
}

TEST_CASE("an append reads its place again if another one took the next index")
{
  log_memory m;
  by_hand append(append_of(small, 3), m);
  append.advance();
  CHECK(m.append(0) == 0);
  append.advance(); // takes the index 1
  CHECK(append.machine.index() == 1);
  append.advance(3);
  CHECK(append.ended());
  CHECK(m.read(0).count() == 2);
}

TEST_CASE("a log is full until its first entries are trimmed")
{
  log_memory m;
  m.append(0, 4);
  m.append(9);
  CHECK(m.ec == rdma::error::object_full);
  m.trim(1);
  CHECK_FALSE(m.ec);
  m.append(4, 5);
  const auto r = m.read(0);
  CHECK(m.ec == rdma::error::out_of_range);
  CHECK(r.count() == 0);
  CHECK(r.next_index() == 1);
  CHECK(m.read(1).values[0] == log_value_of(1));
}

TEST_CASE("an append is not told that a log is full if it was never full")
{
  log_memory m;
  m.append(0, 3);
  by_hand append(append_of(small, 3), m);
  // `first` is read, then an entry is trimmed and appended, then `tail` is read.
  m.trim(1);
  m.append(3, 4);
  auto control = append.posted()[0].bytes;
  std::uint64_t words[] = {4, 0};
  std::memcpy(control.data(), words, sizeof words);
  append.next = append.machine.next(false);
  CHECK_FALSE(append.ended());
  append.advance();
  CHECK_FALSE(append.ended());
  CHECK(m.simulation.memory[objects::log_tail_offset / 8] == 4);
  append.advance(3);
  CHECK(append.ended());
  CHECK_FALSE(append.next.ec);
}

TEST_CASE("an append with an index waits for room")
{
  log_memory m;
  m.append(0, 3);
  by_hand append(append_of(small, 4), m);
  append.advance(); // sees room for one
  m.append(3, 4);
  append.advance(2); // takes an index without room
  CHECK(append.next.what == objects::step::action::pause);
  append.advance(2);
  CHECK(append.next.what == objects::step::action::pause);
  // Its place has not changed.
  CHECK(m.read(0).values[0] == log_value_of(0));
  // A reader waits for the trim, not for the lease.
  by_hand read(read_of(small, 4, 1), m);
  for (int i = 0; i != 40; ++i)
    read.advance();
  CHECK_FALSE(read.ended());
  CHECK(read.machine.seals() == 0);
  m.trim(1);
  append.advance(4);
  CHECK(append.ended());
  CHECK(append.machine.index() == 4);
  read.advance(2);
  CHECK(read.ended());
  CHECK(read.machine.values[0] == log_value_of(4));
}

TEST_CASE("late requests of an append do not change the next lap")
{
  log_memory m;
  by_hand append(append_of(small, 77), m);
  const bool committing = GENERATE(false, true);
  append.advance(committing ? to_commit : to_fill);
  const auto late = append.posted();
  CHECK(late.size() == (committing ? 1 : log_value_words - 1));
  m.append(1, 4);
  CHECK(m.read(0).next_index() == 4);
  m.trim(4);
  m.append(4, 5);
  for (const auto& each : late)
    append.carry_out(each);
  const auto r = m.read(4);
  CHECK(r.values[0] == log_value_of(4));
  CHECK(r.count() == 1);
}

TEST_CASE("an append whose index was skipped takes another one")
{
  log_memory m;
  by_hand append(append_of(small, 77), m);
  append.advance(GENERATE(to_fill, to_commit));
  m.append(1, 2);
  const auto skipping = m.read(0);
  CHECK(skipping.count() == 1);
  CHECK(skipping.values[0] == log_value_of(1));
  CHECK(skipping.next_index() == 2);
  append.run();
  CHECK_FALSE(append.next.ec);
  CHECK(append.machine.attempts() == 1);
  CHECK(append.machine.index() == 2);
  CHECK(m.read(2).values[0] == log_value_of(77));
  CHECK(m.first_word(0).mark == log_word::mark::skipped);
}

TEST_CASE("an append whose index was trimmed and used again takes another one")
{
  log_memory m;
  by_hand append(append_of(small, 77), m);
  append.advance(GENERATE(to_fill, to_commit));
  m.append(1, 4);
  m.trim(3); // without a reader
  m.append(4, 5);
  append.run();
  CHECK_FALSE(append.next.ec);
  CHECK(append.machine.index() == 5);
  CHECK(m.read(4).values[0] == log_value_of(4));
  CHECK(m.read(4).values[1] == log_value_of(77));
}

TEST_CASE("an append that waits for room takes another index if a trim has passed its own")
{
  log_memory m;
  m.append(0, 3);
  by_hand append(append_of(small, 77), m);
  append.advance();
  m.append(3, 4);
  append.advance(2);
  CHECK(append.machine.index() == 4);
  m.trim(5);
  append.run();
  CHECK_FALSE(append.next.ec);
  CHECK(append.machine.index() == 5);
  CHECK(m.read(5).values[0] == log_value_of(77));
}

TEST_CASE("an append gives up when readers skip all its indexes")
{
  log_memory m;
  by_hand append(append_of(small, 77), m);
  for (unsigned i = 0; i != objects::log_append::attempts_max; ++i)
  {
    REQUIRE_FALSE(append.ended());
    append.advance(to_fill);
    const std::uint64_t index = append.machine.index();
    m.simulation.memory[log_word_at(small, index)] =
      log_word{0, small.lap_of(index), log_word::mark::skipped}.packed();
    m.trim(index + 1);
    append.advance(2); // to the failure of the commit
  }
  CHECK(append.ended());
  CHECK(append.next.ec == rdma::error::contended);
  CHECK(append.machine.attempts() == objects::log_append::attempts_max);
}

TEST_CASE("a cancelled append marks its index as skipped")
{
  log_memory m;
  by_hand append(append_of(small, 77), m);
  append.advance(GENERATE(0, 1));
  append.advance(true);
  const bool has_index = m.simulation.memory[objects::log_tail_offset / 8] != 0;
  if (has_index)
    append.advance(true);
  CHECK(append.ended());
  CHECK(append.next.ec == boost::asio::error::operation_aborted);
  CHECK((m.first_word(0).mark == log_word::mark::skipped) == has_index);
}

TEST_CASE("a cancelled append succeeds if it has committed")
{
  log_memory m;
  by_hand append(append_of(small, 77), m);
  append.advance(to_commit);
  append.advance(true);
  CHECK(append.ended());
  CHECK_FALSE(append.next.ec);
  CHECK(m.read(0).values[0] == log_value_of(77));
}

TEST_CASE("a read of a log ends before an index without an entry, and the next one skips it")
{
  log_memory m;
  m.append(0, 1);
  m.leave_hole();
  m.append(2, 4);
  auto r = m.read(0);
  CHECK(r.count() == 1);
  CHECK(r.next_index() == 1);
  r = m.read(1);
  CHECK(r.count() == 2);
  CHECK(r.next_index() == 4);
  CHECK(r.values[0] == log_value_of(2));
  CHECK(r.values[1] == log_value_of(3));
  CHECK(m.read(0).count() == 1); // also with a mark
}

TEST_CASE("a read of a log waits for the lease once, however many processes have died")
{
  log_memory m;
  for (int i = 0; i != 3; ++i)
    m.leave_hole();
  m.append(3);
  const std::uint64_t since = m.simulation.now;
  const auto r = m.read(0);
  CHECK(r.values[0] == log_value_of(3));
  CHECK(r.next_index() == 4);
  const std::uint64_t turns = m.simulation.now - since;
  const std::uint64_t lease = 2 * small.lease.count();
  CHECK(turns >= lease);
  CHECK(turns < 2 * lease);
  CHECK(m.read(0).next_index() == 4);
}

TEST_CASE("a read of a log gives each index the lease from the look that found it taken")
{
  log_memory m;
  m.leave_hole();
  by_hand read(read_of(small, 0, 1), m);
  std::chrono::microseconds waited{};
  const auto wait = [&](std::uint64_t index)
  {
    int steps = 0;
    for (waited = {}; m.first_word(index).mark != log_word::mark::skipped; ++steps)
    {
      REQUIRE(steps != 100);
      if (read.next.what == objects::step::action::pause)
        waited += read.next.pause;
      if (waited > small.lease / 2 && m.simulation.memory[objects::log_tail_offset / 8] == 1)
        m.leave_hole(); // during the lease of the first
      read.advance();
    }
  };
  wait(0);
  CHECK(waited >= small.lease);
  CHECK(m.first_word(1).mark == log_word::mark::none);
  wait(1);
  CHECK(waited >= small.lease);
}

TEST_CASE("a reader that may not do atomics waits until another one has skipped the index")
{
  log_memory m;
  m.leave_hole();
  m.append(1, 2);
  by_hand read(read_of(small, 0, 1, false), m);
  for (int i = 0; i != 100; ++i)
    read.advance();
  CHECK_FALSE(read.ended());
  CHECK(m.first_word(0).mark == log_word::mark::none);
  CHECK(m.read(0).next_index() == 2);
  read.advance(2);
  CHECK(read.ended());
  CHECK(read.machine.values[0] == log_value_of(1));
  CHECK(read.machine.next_index() == 2);
}

TEST_CASE("a late mark of a reader has no effect on an entry")
{
  log_memory m;
  by_hand append(append_of(small, 0), m);
  append.advance(to_commit);
  by_hand read(read_of(small, 0, 1), m);
  for (int i = 0; i != 100 && read.machine.seals() == 0; ++i)
    read.advance();
  const auto late = read.posted();
  CHECK(late.size() == 1);
  const bool next_lap = GENERATE(false, true);
  append.advance();
  if (next_lap)
  {
    m.append(1, 4);
    m.trim(1);
    m.append(4, 5);
  }
  read.carry_out(late[0]);
  CHECK(m.first_word(0).mark == log_word::mark::written);
  CHECK(m.read(next_lap ? 4 : 0).values[0] == log_value_of(next_lap ? 4 : 0));
}

TEST_CASE("a read of a log with words of different times is repeated")
{
  log_memory m;
  m.append(0, 1);
  by_hand read(read_of(small, 0, 1), m);
  const auto word = log_word_at(small, 0, 1);
  const auto content = m.simulation.memory[word];
  m.simulation.memory[word] = GENERATE(0, log_word{1, 2, log_word::mark::written}.packed());
  read.advance();
  CHECK(read.next.what == objects::step::action::access);
  m.simulation.memory[word] = content;
  read.advance();
  CHECK(read.ended());
  CHECK(read.machine.torn() == 1);
  CHECK(read.machine.values[0] == log_value_of(0));
}

TEST_CASE("a reader whose look took a whole lap does not mark the entry of the next lap")
{
  log_memory m;
  by_hand append(append_of(small, 0), m);
  append.advance(to_commit);
  by_hand read(read_of(small, 0, 1), m);
  std::chrono::microseconds waited{};
  for (int i = 0; i != 100 && waited < small.lease; ++i)
  {
    if (read.next.what == objects::step::action::pause)
      waited += read.next.pause;
    read.advance();
  }
  REQUIRE(read.machine.seals() == 0);
  // The look that ends the lease reads the control words, and much later the entry.
  const auto look = read.posted();
  REQUIRE(look.size() == 2);
  read.carry_out(look[1]);
  append.advance();
  m.append(1, 4);
  m.trim(1);
  m.append(4, 5);
  read.carry_out(look[0]);
  read.next = read.machine.next(false);
  CHECK(read.machine.seals() == 0);
  read.run();
  CHECK(read.next.ec == rdma::error::out_of_range);
  CHECK(m.read(4).values[0] == log_value_of(4));
}

TEST_CASE("a read of memory that breaks the rules of a log ends")
{
  log_memory m;
  m.append(0, 1);
  m.simulation.memory[log_word_at(small, 0, 1)] = 0;
  m.read(0);
  CHECK(m.ec == rdma::error::contended);
}

TEST_CASE("a trim moves the first index only forward, and not beyond the last")
{
  log_memory m;
  m.append(0, 3);
  m.trim(4);
  CHECK(m.ec == rdma::error::out_of_range);
  m.trim(2);
  m.trim(1);
  CHECK_FALSE(m.ec);
  CHECK(m.read(2).values[0] == log_value_of(2));
  // Another trim is faster, with a smaller and with a larger index.
  const std::uint64_t other = GENERATE(3, 4);
  m.append(3, 5);
  by_hand trim(objects::log_trim(4), m);
  trim.advance();
  m.trim(other);
  trim.advance(other == 4 ? 1 : 2);
  CHECK(trim.ended());
  CHECK_FALSE(trim.next.ec);
  CHECK(m.read(3).next_index() == 4);
  CHECK(m.ec == rdma::error::out_of_range);
}

TEST_CASE("a late request of a trim has no effect after another trim")
{
  log_memory m;
  m.append(0, 4);
  by_hand trim(objects::log_trim(1), m);
  trim.advance();
  m.trim(3);
  trim.carry_out(trim.posted()[0]);
  CHECK(m.simulation.memory[objects::log_first_offset / 8] == 3);
}

TEST_CASE("open_log accepts the header of a log with any shape, and no other")
{
  const auto expected = rdma::detail::objects::header_of<log_value>(objects::kind::log, 0);
  objects::header there = objects::with_shape(expected, {.order = 4, .lease = 5000us});
  const std::uint64_t size = objects::log_size(16, sizeof(log_value));
  const auto opened = [&](std::uint64_t memory)
  {
    objects::open_log open(expected, {}, memory);
    REQUIRE(open.begin().requests == 1);
    std::memcpy(open.request(0).bytes.data(), &there, sizeof there);
    const auto end = open.next(false);
    if (!end.ec)
    {
      CHECK(open.shape().capacity() == 16);
      CHECK(open.shape().lease == 5000us);
    }
    return end.ec;
  };
  CHECK_FALSE(opened(size));
  CHECK(opened(size - 1) == rdma::error::remote_range_too_small);
  const std::function<void()> changes[] = {[&] { there.signature ^= 1; },
    [&] { there.kind = objects::kind::versioned; }, [&] { ++there.size; }, [&] { ++there.layout; },
    [&] { there.capacity = 17; }, [&] { there.capacity = 0; },
    [&] { there.capacity = std::uint64_t{1} << 63; }, [&] { there.reserved[0] = 999; },
    [&] { there.reserved[0] = UINT64_MAX; }, [&] { there.reserved[0] = 3'600'000'001; },
    [&] { there.reserved[1] = 1; }};
  const auto right = there;
  for (const auto& change : changes)
  {
    change();
    CHECK(opened(size) == rdma::error::object_mismatch);
    there = right;
  }
}

} // namespace test::log_test

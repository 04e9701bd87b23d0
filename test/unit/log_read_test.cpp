//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "unit/log_machines.hpp"

#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>

namespace test::log_read_test {

// Tests the transitions of reads, trims and opening of a log. log_simulation_test.cpp runs random
// ones.

using objects::log_word;
using namespace std::chrono_literals;

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
  const std::uint64_t lease = 2 * small_log.lease.count();
  CHECK(turns >= lease);
  CHECK(turns < 2 * lease);
  CHECK(m.read(0).next_index() == 4);
}

TEST_CASE("a read of a log looks at all entries that are there, and marks all holes in one step")
{
  log_memory m;
  by_hand read(read_of(small_log, 0, read_of::count_max), m);
  const auto entries = [&] { return read.posted()[0].bytes.size() / (8 * log_value_words); };
  CHECK(entries() == 4); // as many as the image has
  read.advance(2);
  CHECK(entries() == 1); // nothing is there
  m.leave_hole();
  m.leave_hole();
  m.append(2, 3);
  read.advance(2);
  CHECK(entries() == 3);
  for (int i = 0; i != 100 && read.machine.seals() == 0; ++i)
    read.advance();
  CHECK(read.posted().size() == 2);
  read.run();
  CHECK(read.machine.next_index() == 3);
}

TEST_CASE("a read of a log gives each index the lease from the look that found it taken")
{
  log_memory m;
  m.leave_hole();
  by_hand read(read_of(small_log, 0, 1), m);
  std::chrono::microseconds waited{};
  const auto wait = [&](std::uint64_t index)
  {
    int steps = 0;
    for (waited = {}; m.first_word(index).mark != log_word::mark::skipped; ++steps)
    {
      REQUIRE(steps != 100);
      if (read.next.what == objects::step::action::pause)
        waited += read.next.pause;
      if (waited > small_log.lease / 2 && m.simulation.memory[objects::log_tail_offset / 8] == 1)
        m.leave_hole(); // during the lease of the first
      read.advance();
    }
  };
  wait(0);
  CHECK(waited >= small_log.lease);
  CHECK(m.first_word(1).mark == log_word::mark::none);
  wait(1);
  CHECK(waited >= small_log.lease);
}

TEST_CASE("a reader that may not do atomics waits until another one has skipped the index")
{
  log_memory m;
  m.leave_hole();
  m.append(1, 2);
  by_hand read(read_of(small_log, 0, 1, false), m);
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
  by_hand append(append_of(small_log, 0), m);
  append.advance(to_commit);
  by_hand read(read_of(small_log, 0, 1), m);
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
  by_hand read(read_of(small_log, 0, 1), m);
  const auto word = log_word_at(small_log, 0, 1);
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
  by_hand append(append_of(small_log, 0), m);
  append.advance(to_commit);
  by_hand read(read_of(small_log, 0, 1), m);
  std::chrono::microseconds waited{};
  for (int i = 0; i != 100 && waited < small_log.lease; ++i)
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
  m.simulation.memory[log_word_at(small_log, 0, 1)] = 0;
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

TEST_CASE("the pauses of a read of a log begin again when it begins to count a lease")
{
  log_memory m;
  by_hand read(read_of(small_log, 0, 1), m); // of an entry that nobody has begun
  read.advance(20);
  while (read.next.what != objects::step::action::pause)
    read.advance();
  const auto longest = read.next.pause;
  m.leave_hole();
  read.advance();
  while (read.next.what != objects::step::action::pause)
    read.advance();
  CHECK(read.next.pause < longest);
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
    [&] { there.capacity = std::uint64_t{1} << 63; }, [&] { there.parameters[0] = 999; },
    [&] { there.parameters[0] = UINT64_MAX; }, [&] { there.parameters[0] = 3'600'000'001; },
    [&] { there.parameters[1] = 1; }};
  const auto right = there;
  for (const auto& change : changes)
  {
    change();
    CHECK(opened(size) == rdma::error::object_mismatch);
    there = right;
  }
}

} // namespace test::log_read_test

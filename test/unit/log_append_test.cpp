//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "unit/log_machines.hpp"

#include <boost/asio/error.hpp>

#include <cstdint>
#include <cstring>

namespace test::log_append_test {

// Tests the transitions of appends to a log. log_simulation_test.cpp runs random ones.

using objects::log_word;

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
  CHECK(small_log.lap_of(0) == 1);
  CHECK(small_log.lap_of(std::uint64_t{objects::lap_mask} << small_log.order) == 0);
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
  by_hand append(append_of(small_log, 3), m);
  append.advance(4);
  CHECK(append.ended());
  CHECK_FALSE(append.next.ec);
  CHECK(append.machine.index() == 0);
  CHECK(m.read(0).values[0] == log_value_of(3));
}

TEST_CASE("an entry of a log is read from its commit on")
{
  log_memory m;
  by_hand append(append_of(small_log, 3), m);
  append.advance(to_commit);
  by_hand read(read_of(small_log, 0, 1), m);
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
  by_hand append(append_of(small_log, 3), m);
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
  by_hand append(append_of(small_log, 3), m);
  // `first` is read, then an entry is trimmed and appended, then `tail` is read.
  m.trim(1);
  m.append(3, 4);
  const auto look = [&](std::uint64_t tail, std::uint64_t first)
  {
    const std::uint64_t words[] = {tail, first};
    std::memcpy(append.posted()[0].bytes.data(), words, sizeof words);
    append.next = append.machine.next(false);
    CHECK_FALSE(append.ended());
  };
  look(4, 0);
  // The same again: each look alone finds a full log.
  look(5, 1);
  append.advance();
  CHECK_FALSE(append.ended());
  CHECK(m.simulation.memory[objects::log_tail_offset / 8] == 4);
  append.advance(3);
  CHECK(append.ended());
  CHECK_FALSE(append.next.ec);
}

TEST_CASE("an append is not told that a log is full if it was emptied between two looks")
{
  log_memory m;
  m.append(0, 4);
  by_hand append(append_of(small_log, 77), m);
  append.advance();
  // `tail` is read, then all entries are trimmed, and one more, then `first` is read.
  m.trim(4);
  m.append(4, 5);
  m.trim(5);
  const std::uint64_t words[] = {4, 5};
  std::memcpy(append.posted()[0].bytes.data(), words, sizeof words);
  append.next = append.machine.next(false);
  append.run();
  CHECK_FALSE(append.next.ec);
  CHECK(append.machine.index() == 5);
}

TEST_CASE("an append tries again after late requests of an earlier lap")
{
  log_memory m;
  const auto first_late = GENERATE(std::size_t{0}, std::size_t{1}); // of the words after the first
  // Two appends have the indexes 0 and 1, which are trimmed before they have written anything.
  by_hand filling(append_of(small_log, 70), m);
  filling.advance(to_fill);
  by_hand committing(append_of(small_log, 71), m);
  committing.advance(to_commit);
  m.append(2, 4);
  m.trim(4);
  by_hand append(append_of(small_log, 4), m);
  append.advance(to_fill);
  const auto late = filling.posted();
  for (std::size_t i = first_late; i != late.size(); ++i)
    append.carry_out(late[i]);
  append.run();
  by_hand another(append_of(small_log, 5), m);
  another.advance(to_commit);
  another.carry_out(committing.posted()[0]);
  CHECK(m.first_word(1).mark == log_word::mark::written); // late, but nobody was there
  another.run();
  CHECK(append.machine.index() == 4);
  CHECK(another.machine.index() == 5);
  const auto r = m.read(4);
  CHECK(r.count() == 2);
  CHECK(r.values[0] == log_value_of(4));
  CHECK(r.values[1] == log_value_of(5));
}

namespace {

void take_index_without_room(by_hand<append_of>& append, log_memory& m)
{
  m.append(0, 3);
  append.advance(); // sees room for one
  m.append(3, 4);
  append.advance(2);
  CHECK(append.next.what == objects::step::action::pause);
}

} // namespace

TEST_CASE("an append with an index waits for room")
{
  log_memory m;
  by_hand append(append_of(small_log, 4), m);
  take_index_without_room(append, m);
  append.advance(2);
  CHECK(append.next.what == objects::step::action::pause);
  // Its place has not changed.
  CHECK(m.read(0).values[0] == log_value_of(0));
  // A reader waits for the trim, not for the lease.
  by_hand read(read_of(small_log, 4, 1), m);
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

TEST_CASE("an append that waits for room can be cancelled")
{
  log_memory m;
  by_hand append(append_of(small_log, 4), m);
  take_index_without_room(append, m);
  append.advance(true);
  CHECK_FALSE(append.ended());
  append.advance(true);
  CHECK(append.ended());
  CHECK(append.next.ec == boost::asio::error::operation_aborted);
}

TEST_CASE("late requests of an append do not change the next lap")
{
  log_memory m;
  by_hand append(append_of(small_log, 77), m);
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
  by_hand append(append_of(small_log, 77), m);
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
  by_hand append(append_of(small_log, 77), m);
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
  by_hand append(append_of(small_log, 77), m);
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
  by_hand append(append_of(small_log, 77), m);
  for (unsigned i = 0; i != objects::log_append::attempts_max; ++i)
  {
    REQUIRE_FALSE(append.ended());
    append.advance(to_fill);
    const std::uint64_t index = append.machine.index();
    m.simulation.memory[log_word_at(small_log, index)] =
      log_word{0, small_log.lap_of(index), log_word::mark::skipped}.packed();
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
  by_hand append(append_of(small_log, 77), m);
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
  by_hand append(append_of(small_log, 77), m);
  append.advance(to_commit);
  append.advance(true);
  CHECK(append.ended());
  CHECK_FALSE(append.next.ec);
  CHECK(m.read(0).values[0] == log_value_of(77));
}

} // namespace test::log_append_test

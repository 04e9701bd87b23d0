//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "unit/object_simulation.hpp"

#include <boost_rdma/detail/objects/ring.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <span>
#include <vector>

namespace test::objects_ring_test {

// Tests the two ends of a ring on simulated memory.

using objects::ring_code;
using objects::ring_layout;
using objects::ring_reader;
using objects::ring_writer;
using kind = ring_writer::action::kind;

namespace {

template <std::size_t Size>
void check_code(std::mt19937_64& random)
{
  using code = ring_code<Size>;
  static_assert(code::words == (8 * Size + 62) / 63);
  for (const std::uint64_t parity : {std::uint64_t{0}, objects::ring_parity})
  {
    std::array<std::uint8_t, Size> record;
    std::ranges::generate(record, [&] { return static_cast<std::uint8_t>(random()); });
    std::array<std::uint64_t, code::words> words;
    code::encode(record.data(), parity, words.data());
    std::array<std::uint8_t, Size> found{};
    REQUIRE(code::decode(words.data(), parity, found.data()));
    REQUIRE(found == record);
    for (std::uint64_t& word : words)
    {
      word ^= objects::ring_parity;
      REQUIRE_FALSE(code::decode(words.data(), parity, found.data()));
      word ^= objects::ring_parity;
    }
  }
}

template <std::size_t... Sizes>
void check_codes(std::index_sequence<Sizes...>)
{
  std::mt19937_64 random(1);
  (check_code<Sizes + 1>(random), ...);
  check_code<504>(random);
  check_code<505>(random);
  check_code<1024>(random);
}

std::size_t count_of(ring_writer& w, kind what)
{
  std::size_t count = 0;
  for (auto next = w.next(); next.what != kind::none; next = w.next())
    count += next.what == what ? 1 : 0;
  return count;
}

} // namespace

TEST_CASE("a record has the same bytes after its words, unless one of them is missing")
{
  check_codes(std::make_index_sequence<130>());
}

TEST_CASE("the parity of an entry changes from lap to lap, also behind any number of laps")
{
  const std::uint64_t capacity = GENERATE(1, 2, 64);
  const ring_layout layout{capacity, 1};
  CHECK(layout.parity_of(0) == objects::ring_parity);
  for (const std::uint64_t record : {std::uint64_t{0}, (std::uint64_t{1} << 32) * capacity - 1,
         (std::uint64_t{1} << 32) * capacity, UINT64_MAX - capacity, UINT64_MAX})
    CHECK(layout.parity_of(record) != layout.parity_of(record + capacity));
}

TEST_CASE("a lone record of a ring is written at once, and others together behind it")
{
  ring_writer w({8, 1});
  CHECK(w.push());
  const auto lone = w.next();
  CHECK(lone.what == kind::write);
  CHECK(lone.first == 0);
  CHECK(lone.count == 1);
  CHECK(w.next().what == kind::none);

  ring_writer wide({64, 1});
  CHECK(wide.push());
  const auto first = wide.next();
  for (int i = 0; i != 7; ++i)
    CHECK_FALSE(wide.push());
  CHECK(wide.written() == 0);
  wide.wrote(first.slot);
  CHECK(wide.written() == 1);
  const auto others = wide.next();
  CHECK(others.what == kind::write);
  CHECK(others.first == 1);
  CHECK(others.count == 7);
}

TEST_CASE("writes of a ring overlap if each has many records, up to a number")
{
  ring_writer w({64, 1}); // 8 are many
  std::size_t writes = 0;
  for (int i = 0; i != 64; ++i)
    if (w.push())
      writes += count_of(w, kind::write);
  CHECK(writes == ring_writer::writes_max);
}

TEST_CASE("writes of a ring that end in another order count in order")
{
  ring_writer w({4, 1});
  std::array<unsigned, 3> slots{};
  for (unsigned& each : slots)
  {
    CHECK(w.push());
    each = w.next().slot;
    static_cast<void>(count_of(w, kind::write));
  }
  w.wrote(slots[2]);
  w.wrote(slots[1]);
  CHECK(w.written() == 0);
  w.wrote(slots[0]);
  CHECK(w.written() == 3);
}

TEST_CASE("a ring is written up to its end, up to its free entries, and in parts")
{
  ring_writer w({4, 1});
  CHECK(w.push());
  const auto first = w.next();
  for (int i = 0; i != 3; ++i)
    static_cast<void>(w.push());
  CHECK_FALSE(w.has_room());
  w.wrote(first.slot);
  CHECK(w.has_room());
  const auto rest = w.next();
  CHECK(rest.count == 3); // up to the end
  CHECK(w.next().what == kind::read);
  static_cast<void>(w.push());
  w.wrote(rest.slot);
  static_cast<void>(w.push());
  CHECK(w.next().what == kind::none); // no entry is free
  REQUIRE(w.was_consumed(1));
  const auto again = w.next();
  CHECK(again.what == kind::write);
  CHECK(again.first == 4);
  CHECK(again.count == 1); // one entry is free

  ring_writer large({1 << 20, objects::ring_entry_words(1024)});
  static_cast<void>(large.push());
  const auto one = large.next();
  for (int i = 0; i != 2000; ++i)
    static_cast<void>(large.push());
  large.wrote(one.slot);
  const auto part = large.next();
  CHECK(part.count > 100);
  CHECK(part.count < 400);
}

TEST_CASE("an impossible number of consumed records is refused")
{
  ring_writer w({4, 1});
  const auto fill = [&]
  {
    while (w.has_room())
      static_cast<void>(w.push());
    for (auto next = w.next(); next.what != kind::none; next = w.next())
      if (next.what == kind::write)
        w.wrote(next.slot);
  };
  fill();
  fill();
  CHECK_FALSE(ring_writer(w).was_consumed(5));
  CHECK_FALSE(ring_writer(w).was_consumed(UINT64_MAX));
  REQUIRE(w.was_consumed(4));
  CHECK_FALSE(ring_writer(w).was_consumed(3));
  CHECK(ring_writer(w).was_consumed(4));
}

TEST_CASE("the producer of a full ring pauses between reads until there is news")
{
  ring_writer w({2, 1});
  while (w.has_room())
  {
    static_cast<void>(w.push());
    for (auto next = w.next(); next.what == kind::write; next = w.next())
      w.wrote(next.slot);
    if (w.next_record() == 4)
      break;
  }
  // The read is in flight.
  for (unsigned i = 0; i != ring_writer::reads_without_pause - 1; ++i)
  {
    REQUIRE(w.was_consumed(0));
    REQUIRE(w.next().what == kind::read);
  }
  std::chrono::microseconds last{};
  for (int i = 0; i != 3; ++i)
  {
    REQUIRE(w.was_consumed(0));
    const auto pause = w.next();
    REQUIRE(pause.what == kind::pause);
    CHECK(pause.pause > last);
    last = pause.pause;
    CHECK(w.next().what == kind::none);
    w.rested();
    REQUIRE(w.next().what == kind::read);
    CHECK(w.next().what == kind::none);
  }
  REQUIRE(w.was_consumed(1));
  CHECK(w.next().what == kind::write);
  CHECK(w.next().what == kind::read);
}

TEST_CASE("the consumer publishes its position after an eighth of the ring, or if it is empty")
{
  constexpr std::uint64_t capacity = 32;
  const ring_layout layout{capacity, 1};
  std::vector<std::uint64_t> memory(layout.size() / 8);
  const auto consumed = [&] { return memory[ring_layout::consumed_offset / 8]; };
  ring_reader<4> reader(memory.data(), capacity);
  std::uint32_t found = 0;
  CHECK_FALSE(reader.pop(&found));
  for (std::uint32_t i = 0; i != 6; ++i)
    ring_code<4>::encode(&i, objects::ring_parity, &memory[layout.offset_of(i) / 8]);
  for (std::uint32_t i = 0; i != 6; ++i)
  {
    CHECK(consumed() == (i < 4 ? 0 : 4));
    REQUIRE(reader.pop(&found));
    CHECK(found == i);
  }
  CHECK(consumed() == 4);
  CHECK_FALSE(reader.pop(&found));
  CHECK(consumed() == 6);
}

TEST_CASE("a producer that writes anything makes the consumer take each entry once a lap")
{
  constexpr std::uint64_t capacity = 8;
  const ring_layout layout{capacity, ring_code<16>::words};
  std::vector<std::uint64_t> memory(layout.size() / 8);
  ring_reader<16> reader(memory.data(), capacity);
  std::array<std::uint64_t, 2> found{};
  for (int lap = 0; lap != 4; ++lap)
  {
    // also the header and the number of consumed records
    std::ranges::fill(memory, lap % 2 == 0 ? UINT64_MAX : UINT64_MAX >> 1);
    for (std::uint64_t i = 0; i != capacity; ++i)
      REQUIRE(reader.pop(&found));
    REQUIRE_FALSE(reader.pop(&found));
  }
  std::mt19937_64 random(1);
  std::size_t popped = 0;
  std::size_t refused = 0;
  for (int i = 0; i != 10'000; ++i)
  {
    std::ranges::generate(memory, [&] { return random(); });
    ++(reader.pop(&found) ? popped : refused);
  }
  CHECK(popped > 500);
  CHECK(refused > 5000);
}

namespace {

struct opening
{
  rdma::error_code open(const std::vector<std::uint64_t>& from)
  {
    objects::open_ring machine(expected(64), {}, 8 * from.size());
    REQUIRE(machine.begin().what == objects::step::action::access);
    const auto request = machine.request(0);
    REQUIRE(request.kind == rdma::detail::request_kind::read);
    REQUIRE(request.offset == 0);
    std::memcpy(request.bytes.data(), from.data(), request.bytes.size());
    const auto end = machine.next(false);
    CHECK(end.what == objects::step::action::finish);
    capacity = machine.layout().capacity;
    return end.ec;
  }

  static objects::header expected(std::uint64_t capacity)
  {
    return objects::header_of<std::uint64_t>(objects::kind::ring, capacity);
  }

  static std::vector<std::uint64_t> memory(std::uint64_t capacity)
  {
    std::vector<std::uint64_t> result(ring_layout{16, 2}.size() / 8);
    const auto header = std::bit_cast<std::array<std::uint64_t, 8>>(expected(capacity));
    std::ranges::copy(header, result.begin());
    return result;
  }

  std::uint64_t capacity = 0;
};

} // namespace

TEST_CASE("only a new ring whose capacity is possible is opened")
{
  opening o;
  for (const std::uint64_t capacity : {1, 2, 16})
  {
    CHECK_FALSE(o.open(opening::memory(capacity)));
    CHECK(o.capacity == capacity);
  }
  for (const std::uint64_t capacity : {std::uint64_t{0}, std::uint64_t{3}, std::uint64_t{32},
         std::uint64_t{1} << 33, std::uint64_t{1} << 60, std::uint64_t{1} << 63, UINT64_MAX})
    CHECK(o.open(opening::memory(capacity)) == rdma::error::object_mismatch);
  for (std::size_t word = 0; word != 8; ++word)
    if (word != offsetof(objects::header, capacity) / 8)
    {
      auto memory = opening::memory(16);
      memory[word] ^= 1;
      CHECK(o.open(memory) == rdma::error::object_mismatch);
    }
  auto consumed = opening::memory(16);
  consumed[ring_layout::consumed_offset / 8] = 1;
  CHECK(o.open(consumed) == rdma::error::object_mismatch);
  auto written = opening::memory(16);
  written[ring_layout::entries_offset / 8] = objects::ring_parity;
  CHECK(o.open(written) == rdma::error::object_mismatch);
}

// ---- random histories

namespace {

// One request of the producer. A device may carry out a write again before it completes.
struct single_request
{
  objects::step begin() { return objects::step::access(repeated ? 2 : 1); }
  objects::access_request request(std::size_t) const { return what; }
  void answered(std::size_t, std::uint64_t) {}
  objects::step next(bool) { return objects::step::finish(); }

  objects::access_request what;
  bool repeated = false;
};

struct pause
{
  objects::step begin() { return objects::step::wait(time); }
  objects::access_request request(std::size_t) const { return {}; }
  void answered(std::size_t, std::uint64_t) {}
  objects::step next(bool) { return objects::step::finish(); }

  std::chrono::microseconds time{};
};

struct ring_events
{
  std::size_t records = 0;
  std::size_t partial = 0; // looks at entries with words of two laps
  std::size_t full = 0;    // pushes without room
  std::size_t overlapped = 0;
  std::size_t pauses = 0;
  std::size_t behind_wait = 0; // records that arrived after the producer was killed
};

// The consumer takes the records that were pushed, in order and each once, whatever the device
// does.
template <std::size_t Size>
struct ring_history
{
  using record = std::array<std::uint32_t, Size / 4>;

  ring_history(std::uint64_t seed, std::uint64_t capacity, ring_events& counted)
    : layout{capacity, ring_code<Size>::words}
    , simulation(seed, layout.size() / 8)
    , staging(layout.size() / 8)
    , writer(layout)
    , reader(simulation.memory.data(), capacity)
    , events(counted)
  {
    // adds all processes
    simulation.start<pause>(pause_process, {}, [](const rdma::error_code&, pause&) {});
    while (simulation.turn())
      ;
  }

  static record record_of(std::uint64_t number)
  {
    record result;
    for (std::size_t i = 0; i != result.size(); ++i)
      result[i] = static_cast<std::uint32_t>(number * 2'654'435'761u + 977 * i);
    return result;
  }

  void push()
  {
    for (std::uint64_t i = simulation.below(2 * layout.capacity + 2); i != 0; --i)
    {
      if (writer.next_record() == records_max)
        return;
      if (!writer.has_room())
      {
        ++events.full;
        return;
      }
      const std::uint64_t number = writer.next_record();
      const record value = record_of(number);
      ring_code<Size>::encode(
        &value, layout.parity_of(number), &staging[layout.offset_of(layout.index_of(number)) / 8]);
      if (writer.push())
        advance();
    }
  }

  void advance()
  {
    for (auto next = writer.next(); next.what != kind::none; next = writer.next())
      start(next);
  }

  void start(const ring_writer::action& next)
  {
    const auto part = [&](std::uint64_t offset, std::uint64_t size)
    { return std::as_writable_bytes(std::span(staging).subspan(offset / 8, size / 8)); };
    switch (next.what)
    {
    case kind::write:
    {
      const std::uint64_t offset = layout.offset_of(layout.index_of(next.first));
      ++in_flight;
      if (in_flight > 1)
        ++events.overlapped;
      return simulation.start<single_request>(next.slot,
        {{.kind = rdma::detail::request_kind::write,
           .offset = offset,
           .bytes = part(offset, next.count * 8 * layout.entry_words)},
          simulation.below(2) == 0},
        [this, slot = next.slot](const rdma::error_code&, single_request&)
        {
          --in_flight;
          writer.wrote(slot);
          advance();
        });
    }
    case kind::read:
      return simulation.start<single_request>(read_process,
        {{.kind = rdma::detail::request_kind::read,
          .offset = ring_layout::consumed_offset,
          .bytes = part(ring_layout::consumed_offset, 8)}},
        [this](const rdma::error_code&, single_request&)
        {
          right = right && writer.was_consumed(staging[ring_layout::consumed_offset / 8]);
          advance();
        });
    default:
      ++events.pauses;
      return simulation.start<pause>(pause_process, {next.pause},
        [this](const rdma::error_code&, pause&)
        {
          writer.rested();
          advance();
        });
    }
  }

  void pop()
  {
    const auto entry = std::span(reader.entry(), layout.entry_words);
    const auto arrived = static_cast<std::size_t>(std::ranges::count_if(
      entry, [this](std::uint64_t w) { return (w & objects::ring_parity) == reader.parity(); }));
    if (arrived != 0 && arrived != entry.size())
      ++events.partial;
    for (std::uint64_t i = simulation.below(layout.capacity + 1) + 1; i != 0; --i)
    {
      record found;
      if (!reader.pop(&found))
        return;
      right = right && popped < writer.next_record() && found == record_of(popped);
      ++popped;
      if (killed)
        ++events.behind_wait;
    }
  }

  void kill_producer()
  {
    killed = true;
    for (std::size_t i = 0; i != processes; ++i)
      simulation.kill(i);
  }

  void run()
  {
    const bool is_killed = simulation.below(3) == 0;
    const std::uint64_t death = simulation.below(4000);
    std::uint64_t consumer_stopped_until = 0;
    std::uint64_t quiet = 0;
    for (std::uint64_t turn = 0; popped != records_max && right && quiet != 30'000; ++turn)
    {
      right = right && turn < 2'000'000;
      if (is_killed && !killed && turn >= death)
        kill_producer();
      static_cast<void>(simulation.turn());
      quiet = killed ? quiet + 1 : 0; // late requests come within 20,000 turns
      const std::uint64_t choice = simulation.below(256);
      if (choice < 16 && !killed)
        push();
      else if (choice < 48 && turn >= consumer_stopped_until)
        pop();
      else if (choice == 48)
        simulation.stop(simulation.below(processes), simulation.below(300));
      else if (choice == 49 && simulation.below(4) == 0)
        consumer_stopped_until = turn + simulation.below(2000);
    }
    right = right && (killed || popped == records_max) && popped >= writer.written();
    events.records += popped;
  }

  static constexpr std::size_t read_process = ring_writer::writes_max;
  static constexpr std::size_t pause_process = read_process + 1;
  static constexpr std::size_t processes = pause_process + 1;
  static constexpr std::uint64_t records_max = 150;

  ring_layout layout;
  object_simulation simulation;
  std::vector<std::uint64_t> staging;
  ring_writer writer;
  ring_reader<Size> reader;
  ring_events& events;
  std::uint64_t popped = 0;
  unsigned in_flight = 0;
  bool killed = false;
  bool right = true;
};

template <std::size_t Size>
void run_histories(std::uint64_t capacity)
{
  ring_events events;
  for (std::uint64_t seed = 0; seed != seeds_of(500); ++seed)
  {
    ring_history<Size> history(seed, capacity, events);
    history.run();
    INFO("seed " << seed << ", size " << Size << ", capacity " << capacity);
    REQUIRE(history.right);
  }
  INFO("size " << Size << ", capacity " << capacity);
  CHECK(events.records >= least(10'000));
  CHECK(events.full >= least(100));
  CHECK(events.pauses >= least(10));
  CHECK(events.behind_wait >= least(10));
  if (Size > 4)
    CHECK(events.partial >= least(500));
  if (capacity > 1)
    CHECK(events.overlapped >= least(500));
}

} // namespace

TEST_CASE("records of a ring arrive in order and once on any device, also from dead producers")
{
  const std::uint64_t capacity = GENERATE(1, 2, 4, 16, 64);
  run_histories<4>(capacity);
  run_histories<16>(capacity);
  run_histories<48>(capacity);
}

} // namespace test::objects_ring_test

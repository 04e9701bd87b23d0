//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "unit/published_simulation.hpp"

#include <boost/asio/error.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace test::published_test {

// Tests the state machines of published values, one operation after the other.

using namespace std::chrono_literals;

TEST_CASE("the words of a published value keep their parts")
{
  const published_version version{0xff'ffff'ffff'ffff, 255};
  CHECK(published_version::of(version.packed()).generation == version.generation);
  CHECK(published_version::of(version.packed()).buffer == version.buffer);
  const pin_word pin{0x7fff'ffff, 0xff'ffff, 255, true};
  const pin_word read = pin_word::of(pin.packed());
  CHECK(read.claim == pin.claim);
  CHECK(read.beat == pin.beat);
  CHECK(read.buffer == pin.buffer);
  CHECK(read.pinned);
  CHECK(pin.moved_to(3).beat == 0);
}

TEST_CASE("each change of a slot gives it a word that it never had")
{
  pin_word word = pin_word::of(0);
  std::vector<std::uint64_t> words{0};
  for (int claim = 0; claim != 3; ++claim)
  {
    word = word.pinning(1);
    words.push_back(word.packed());
    for (int i = 0; i != 3; ++i)
    {
      word = word.moved_to(1);
      words.push_back(word.packed());
    }
    word = word.freed();
    words.push_back(word.packed());
  }
  std::ranges::sort(words);
  CHECK(std::ranges::adjacent_find(words) == words.end());
}

TEST_CASE("a lease ends when a word has not changed since the first look")
{
  objects::lease_watch watch(1, 5ms);
  const objects::time_point start{1h};
  CHECK_FALSE(watch.has_ended(0, 1, start));
  CHECK_FALSE(watch.has_ended(0, 1, start + 4ms));
  CHECK(watch.has_ended(0, 1, start + 5ms));
  CHECK_FALSE(watch.has_ended(0, 3, start + 6ms));
  CHECK_FALSE(watch.has_ended(0, 3, start + 10ms));
  CHECK(watch.has_ended(0, 3, start + 11ms));
}

namespace {

// An object whose operations follow each other.
struct quiet_object
{
  explicit quiet_object(std::uint64_t buffers, std::uint64_t slots = 2)
    : layout(small_layout(buffers, slots))
    , simulation(1, layout.size() / 8)
    , owner(layout)
  {
    simulated = &simulation;
    simulation.now = 1'000'000;
    objects::encode_published(simulation.memory,
      objects::header_of<published_words>(objects::kind::published, buffers), layout);
  }

  template <class Machine>
  std::pair<rdma::error_code, Machine> run(Machine machine)
  {
    std::optional<std::pair<rdma::error_code, Machine>> result;
    simulation.start<Machine>(0, std::move(machine),
      [&](const rdma::error_code& ec, Machine& m) { result.emplace(ec, std::move(m)); });
    finish();
    REQUIRE(result);
    return std::move(*result);
  }

  // Carries out all operations, unless there is no end of them.
  void finish()
  {
    const std::uint64_t limit = simulation.now + 100 * lease_turns;
    while (simulation.turn() && simulation.now < limit)
      ;
  }

  auto publish()
  {
    value = words_of(owner.current.generation + 1);
    return run(publication(
      owner, publication::extent::all, std::as_bytes(std::span(value)), &simulated_now));
  }

  objects::take_snapshot snapshot()
  {
    auto [ec, taken] = run(objects::take_snapshot(layout, &simulated_now));
    REQUIRE_FALSE(ec);
    return taken;
  }

  rdma::error_code read(const objects::take_snapshot& from, std::uint64_t offset = 0)
  {
    return run(objects::read_snapshot(layout, from.version(), from.slot(), from.pin(), offset,
                 buffer_of(bytes_of(value))))
      .first;
  }

  published_layout layout;
  object_simulation simulation;
  objects::publisher owner;
  published_words value{};
};

} // namespace

TEST_CASE("the owner reuses the buffer with the oldest value")
{
  quiet_object object(4);
  for (std::uint64_t i = 1; i != 12; ++i)
  {
    CHECK_FALSE(object.publish().first);
    CHECK(object.owner.current.generation == i);
    if (i > 3)
      CHECK(object.owner.current.buffer == (i % 4));
  }
}

TEST_CASE("the owner ends no snapshot whose buffer it does not need")
{
  quiet_object object(2);
  object.publish();
  const auto snapshot = object.snapshot();
  object.simulation.now += 3 * lease_turns;
  CHECK_FALSE(object.publish().first); // in the other buffer
  CHECK_FALSE(object.read(snapshot));
  const auto later = object.snapshot();
  CHECK_FALSE(object
                .run(objects::change_pin(
                  object.layout, snapshot.slot(), snapshot.pin(), true, &simulated_now))
                .first);
  const auto [ec, published] = object.publish(); // waits for a lease, and looks at both pins
  CHECK_FALSE(ec);
  CHECK(published.freed() == 1);
  CHECK(object.read(snapshot) == rdma::error::lease_ended);
  CHECK_FALSE(object.read(later));
}

TEST_CASE("a publication ends at once if another is outstanding or the object has ended")
{
  quiet_object object(2);
  const auto snapshot = object.snapshot();
  object.publish();
  const auto start = [&](std::size_t process, rdma::error_code& result)
  {
    object.simulation.start<publication>(process,
      publication(object.owner, publication::extent::prepare, {}, &simulated_now),
      [&](const rdma::error_code& ec, publication&) { result = ec; });
  };
  rdma::error_code first;
  rdma::error_code second;
  start(0, first);
  start(1, second);
  while (!second && object.simulation.turn())
    ;
  CHECK(object.simulation.is_busy(0));
  CHECK(second == boost::asio::error::already_started);
  const bool closes = GENERATE(false, true);
  if (closes)
    object.owner.closed = true;
  else
    object.simulation.cancel(0);
  object.finish();
  CHECK(first == boost::asio::error::operation_aborted);
  CHECK_FALSE(object.owner.busy);
  CHECK_FALSE(object.read(snapshot));
}

TEST_CASE("a snapshot that does not succeed leaves no pin")
{
  quiet_object object(2);
  rdma::error_code result;
  object.simulation.start<objects::take_snapshot>(0,
    objects::take_snapshot(object.layout, &simulated_now),
    [&](const rdma::error_code& ec, objects::take_snapshot&) { result = ec; });
  const auto is_pinned = [&]
  {
    return std::ranges::any_of(
      std::span(object.simulation.memory).subspan(object.layout.slot(0) / 8, 2),
      [](std::uint64_t word) { return pin_word::of(word).pinned; });
  };
  const bool cancels = GENERATE(false, true);
  std::uint64_t generation = 0;
  bool was_pinned = false;
  while (object.simulation.turn())
  {
    // The value is replaced before each look.
    ++generation;
    object.simulation.memory[object.layout.current / 8] =
      published_version{generation, static_cast<std::uint8_t>(generation % 2)}.packed();
    was_pinned = was_pinned || is_pinned();
    if (cancels && was_pinned)
      object.simulation.cancel(0);
  }
  CHECK(was_pinned);
  CHECK(result
    == (cancels ? rdma::error_code(boost::asio::error::operation_aborted)
                : rdma::make_error_code(rdma::error::contended)));
  CHECK_FALSE(is_pinned());
}

TEST_CASE("memory that is not of a published value ends its operations")
{
  quiet_object object(2);
  const auto loaded = [&] { return object.run(load_words(object.layout, object.value)).first; };
  object.simulation.memory[object.layout.generation(0) / 8] = 7;
  CHECK(loaded() == rdma::error::contended);
  object.simulation.memory[object.layout.current / 8] = published_version{0, 2}.packed();
  CHECK(loaded() == rdma::error::object_mismatch);
  CHECK(object.run(objects::take_snapshot(object.layout, &simulated_now)).first
    == rdma::error::object_mismatch);
}

TEST_CASE("operations on a slot that the owner changes again and again end")
{
  quiet_object object(2);
  const auto snapshot = object.snapshot();
  auto pins = std::span(object.simulation.memory).subspan(object.layout.slot(0) / 8, 2);
  pins[1 - snapshot.slot()] = pin_word::of(0).pinning(0).packed();
  const std::vector<std::uint64_t> all(pins.begin(), pins.end());
  std::optional<rdma::error_code> result;
  const auto done = [&](const rdma::error_code& ec, const auto&) { result = ec; };
  const bool takes = GENERATE(true, false);
  if (takes)
    object.simulation.start<objects::take_snapshot>(
      0, objects::take_snapshot(object.layout, &simulated_now), done);
  else
    object.simulation.start<objects::change_pin>(0,
      objects::change_pin(
        object.layout, snapshot.slot(), snapshot.pin(), GENERATE(false, true), &simulated_now),
      done);
  std::uint32_t turns = 0;
  do
    if (takes)
      std::ranges::copy(all, pins.begin());
    else
      pins[snapshot.slot()] = pin_word{0, ++turns, 0, true}.packed();
  while (object.simulation.now < 2'000'000 && object.simulation.turn());
  REQUIRE(result);
  CHECK(*result == rdma::error::contended);
}

namespace {

objects::time_point set_time;

objects::time_point time_that_was_set() noexcept
{
  return set_time;
}

} // namespace

TEST_CASE("a snapshot waits for a lease again when it has seen a free slot")
{
  const published_layout layout = small_layout(2, 1);
  objects::take_snapshot taken(layout, &time_that_was_set);
  const auto looks = [&](std::chrono::milliseconds time, const pin_word& slot)
  {
    set_time = objects::time_point(1h + time);
    const std::array<std::uint64_t, 2> image{published_version{0, 0}.packed(), slot.packed()};
    std::memcpy(taken.request(0).bytes.data(), image.data(), sizeof image);
    return taken.next(false);
  };
  using action = objects::step::action;
  REQUIRE(taken.begin().what == action::access);
  const pin_word first{0, 0, 0, true};
  CHECK(looks(0ms, first).what == action::pause);
  CHECK(taken.next(false).what == action::access);
  CHECK(looks(4ms, first.freed()).what == action::access); // claims the slot
  taken.answered(0, first.freed().pinning(0).packed());    // another was faster
  CHECK(taken.next(false).what == action::access);
  pin_word other = first.freed().pinning(0);
  for (const auto time : {4ms, 6ms, 8ms})
  {
    CHECK(looks(time, other).what == action::pause);
    CHECK(taken.next(false).what == action::access);
    other = other.moved_to(0);
  }
  CHECK(looks(9ms, other).ec == rdma::error::object_full);
}

TEST_CASE("a part outside the value is not read")
{
  quiet_object object(2);
  const auto snapshot = object.snapshot();
  CHECK_FALSE(object.read(snapshot));
  CHECK(object.read(snapshot, 8) == rdma::error::out_of_range);
  CHECK(object.read(snapshot, UINT64_MAX) == rdma::error::out_of_range);
}

TEST_CASE("a published value is opened if its parameters are in range")
{
  const auto expected = objects::header_of<published_words>(objects::kind::published, 0);
  const auto opened =
    [&](std::uint64_t buffers, std::uint64_t slots, std::uint64_t lease, bool cancels = false)
  {
    object_simulation simulation(1, 64);
    objects::header head = expected;
    head.capacity = buffers;
    head.parameters = {slots, lease};
    std::memcpy(simulation.memory.data(), &head, sizeof head);
    const rdma::remote_buffer memory(rdma::device_kind::software, 4096, 4096, 1);
    rdma::error_code result;
    simulation.start<objects::open_published>(0, objects::open_published(expected, memory),
      [&](const rdma::error_code& ec, objects::open_published& o)
      {
        result = ec;
        CHECK(o.layout().is_valid() == !ec);
      });
    if (cancels)
      simulation.cancel(0);
    while (simulation.turn())
      ;
    return result;
  };
  CHECK_FALSE(opened(2, 1, 1));
  CHECK_FALSE(opened(8, 64, 86'400'000));
  for (const std::uint64_t wrong : {std::uint64_t{0}, std::uint64_t{1} << 62, UINT64_MAX})
  {
    CHECK(opened(wrong, 1, 1) == rdma::error::object_mismatch);
    CHECK(opened(2, wrong, 1) == rdma::error::object_mismatch);
    CHECK(opened(2, 1, wrong) == rdma::error::object_mismatch);
  }
  CHECK(opened(255, 1, 1) == rdma::error::remote_range_too_small);
  CHECK(opened(2, 1, 1, true) == boost::asio::error::operation_aborted);
}

TEST_CASE("a published value of another kind, size or layout is not opened")
{
  const auto expected = objects::header_of<published_words>(objects::kind::published, 0);
  objects::header found = expected;
  found.capacity = 2;
  found.parameters = {1, 1};
  rdma::error_code wanted = rdma::error::object_mismatch;
  SECTION("the same")
  {
    wanted = {};
  }
  SECTION("another signature")
  {
    ++found.signature;
  }
  SECTION("another kind")
  {
    found.kind = objects::kind::log;
  }
  SECTION("another size")
  {
    found.size -= 8;
  }
  SECTION("another layout")
  {
    ++found.layout;
  }
  SECTION("a lease of a lock")
  {
    found.lease_ms = 1;
  }
  object_simulation simulation(1, 64);
  std::memcpy(simulation.memory.data(), &found, sizeof found);
  const rdma::remote_buffer memory(rdma::device_kind::software, 4096, 4096, 1);
  rdma::error_code result;
  simulation.start<objects::open_published>(0, objects::open_published(expected, memory),
    [&](const rdma::error_code& ec, objects::open_published&) { result = ec; });
  while (simulation.turn())
    ;
  CHECK(result == wanted);
}

} // namespace test::published_test

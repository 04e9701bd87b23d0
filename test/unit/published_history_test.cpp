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
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace test::published_history_test {

// Tests published values with random processes on simulated memory.

namespace {

struct published_counts
{
  std::size_t published = 0;
  std::size_t loads = 0;
  std::size_t torn = 0;
  std::size_t snapshots = 0;
  std::size_t moves = 0;
  std::size_t reads = 0;
  std::size_t old_reads = 0; // of a value that was not current any more
  std::size_t reads_ended = 0;
  std::size_t renewals = 0;
  std::size_t renewals_ended = 0;
  std::size_t freed_by_owner = 0;
  std::size_t freed_by_readers = 0;
  std::size_t full = 0;
  std::size_t waits = 0; // publications that took longer than half a lease
};

// An owner that publishes, and readers that load, hold snapshots, renew them, or leave them. All
// are stopped, and readers are killed.
struct published_history
{
  published_history(std::uint64_t seed, published_counts& counted)
    : only_loads(seed % 5 == 0)
    , eager(seed / 9 % 2 == 0)
    , counts(counted)
    , layout(small_layout(2 + seed % 3, 2 + seed / 3 % 3))
    , simulation(seed, layout.size() / 8)
    , owner(layout)
    , readers(1 + processes)
  {
    simulated = &simulation;
    objects::encode_published(simulation.memory,
      objects::header_of<published_words>(objects::kind::published, layout.buffers), layout);
    const published_words first = words_of(0);
    std::ranges::copy(first, simulation.memory.begin() + layout.value(0) / 8);
    slots.assign(layout.slots, 0);
    publish();
    for (std::size_t i = 1; i != 1 + processes; ++i)
      next(i);
  }

  struct reader
  {
    published_words value{};
    std::optional<objects::take_snapshot> snapshot;
    std::uint64_t pin = 0;
    objects::time_point expires;
  };

  [[nodiscard]] published_version current() const
  {
    return published_version::of(simulation.memory[layout.current / 8]);
  }

  void require(bool condition, const char* what)
  {
    if (condition || !right)
      return;
    right = false;
    wrong = what;
  }

  // ---- the owner

  void publish()
  {
    if (owner.current.generation == publications_max)
      return;
    next_value = words_of(owner.current.generation + 1);
    const std::uint64_t began = simulation.now;
    owner_stopped = false;
    const bool in_two_parts = simulation.below(4) == 0;
    simulation.start<publication>(0,
      publication(owner, in_two_parts ? publication::extent::prepare : publication::extent::all,
        std::as_bytes(std::span(next_value)), &simulated_now),
      [this, began, in_two_parts](const rdma::error_code& ec, publication& p)
      {
        counts.freed_by_owner += p.freed();
        require(!ec || ec == boost::asio::error::operation_aborted, "error of a publication");
        require(p.generation() == current().generation, "generation of a publication");
        waited_since(began);
        const auto buffer = p.buffer();
        end(p);
        if (in_two_parts && !ec)
          fill(*buffer);
        else
          pause_owner();
      });
  }

  // An operation destroys its machine before it calls the handler.
  static void end(publication& machine) { const publication ended(std::move(machine)); }

  // The owner waits for a lease at most, after the last renewal or late pin of an older buffer.
  void waited_since(std::uint64_t began)
  {
    const std::uint64_t time = simulation.now - std::max(began, pinned_older);
    if (owner_stopped)
      return;
    counts.waits += time > lease_turns / 2;
    require(time < lease_turns + few_looks, "the owner waits for longer than a lease");
  }

  // The program writes the prepared buffer, one word per turn, in a random order.
  struct filling
  {
    objects::step begin() { return objects::step::access(1); }
    objects::access_request request(std::size_t)
    {
      return {.kind = rdma::detail::request_kind::write, .offset = offset, .bytes = bytes};
    }
    void answered(std::size_t, std::uint64_t) {}
    objects::step next(bool) { return objects::step::finish(); }

    std::uint64_t offset;
    std::span<std::byte> bytes;
  };

  void fill(std::uint8_t buffer)
  {
    simulation.start<filling>(0, {layout.value(buffer), bytes_of(next_value)},
      [this](const rdma::error_code&, filling&)
      {
        simulation.start<publication>(0,
          publication(owner, publication::extent::commit, {}, &simulated_now),
          [this](const rdma::error_code& ec, publication& p)
          {
            require(!ec, "error of a commit");
            end(p);
            pause_owner();
          });
      });
  }

  // ---- machines that only wait

  struct waiting
  {
    objects::step begin() { return objects::step::access(0); }
    objects::access_request request(std::size_t) { return {}; }
    void answered(std::size_t, std::uint64_t) {}
    objects::step next(bool)
    {
      return std::exchange(waited, true) ? objects::step::finish() : objects::step::wait(time);
    }

    std::chrono::microseconds time;
    bool waited = false;
  };

  void pause_owner()
  {
    ++counts.published;
    if (eager || simulation.below(3) == 0)
      return publish();
    simulation.start<waiting>(0, {std::chrono::microseconds(simulation.below(400))},
      [this](const rdma::error_code&, waiting&) { publish(); });
  }

  // ---- readers

  void next(std::size_t process)
  {
    if (++begun > operations_max)
      return;
    reader& r = readers[process];
    if (!r.snapshot)
      return only_loads || simulation.below(3) == 0 ? load_value(process) : take(process);
    switch (simulation.below(8))
    {
    case 0:
      return change(process, false);
    case 1:
    case 2:
      return change(process, true);
    case 3:
      return simulation.start<waiting>(process,
        {std::chrono::microseconds(simulation.below(2 * lease_turns / 2))},
        [this, process](const rdma::error_code&, waiting&) { next(process); });
    default:
      return read(process);
    }
  }

  void load_value(std::size_t process)
  {
    reader& r = readers[process];
    const std::uint64_t floor = current().generation;
    simulation.start<load_words>(process, load_words(layout, r.value),
      [this, process, floor](const rdma::error_code& ec, load_words& l)
      {
        counts.torn += l.torn();
        require(ec != rdma::error::object_mismatch, "error of a load");
        if (!ec)
        {
          ++counts.loads;
          in_order(l.generation(), floor, "a load is not linearizable");
          require(readers[process].value == words_of(l.generation()), "a load is a mix");
        }
        next(process);
      });
  }

  void in_order(std::uint64_t generation, std::uint64_t floor, const char* what)
  {
    require(generation >= floor && generation <= current().generation, what);
  }

  void take(std::size_t process)
  {
    const std::uint64_t floor = current().generation;
    const std::uint64_t began = simulation.now;
    simulation.start<objects::take_snapshot>(process,
      objects::take_snapshot(layout, &simulated_now),
      [this, process, floor, began](const rdma::error_code& ec, objects::take_snapshot& s)
      {
        counts.moves += s.moves();
        counts.freed_by_readers += s.freed();
        reader& r = readers[process];
        if (ec == rdma::error::object_full)
        {
          ++counts.full;
          require(simulation.now - began >= lease_turns, "object_full before a lease");
        }
        else
          require(!ec || ec == boost::asio::error::operation_aborted, "error of a snapshot");
        if (!ec)
        {
          ++counts.snapshots;
          in_order(s.version().generation, floor, "a snapshot is not linearizable");
          r.pin = s.pin();
          r.expires = s.expires_at();
          r.snapshot = s;
        }
        next(process);
      });
  }

  // An operation fails only after the time that was promised.
  void lease_ended(reader& r)
  {
    require(simulated_now() >= r.expires, "a lease ended too early");
    r.snapshot.reset();
  }

  void read(std::size_t process)
  {
    reader& r = readers[process];
    const std::uint64_t first = simulation.below(value_words);
    const std::uint64_t count = 1 + simulation.below(value_words - first);
    r.value.fill(0);
    simulation.start<objects::read_snapshot>(process,
      objects::read_snapshot(layout, r.snapshot->version(), r.snapshot->slot(), r.pin, 8 * first,
        buffer_of(bytes_of(r.value).first(8 * count))),
      [this, process, first, count](const rdma::error_code& ec, objects::read_snapshot&)
      {
        reader& by = readers[process];
        const std::uint64_t generation = by.snapshot->version().generation;
        if (ec == rdma::error::lease_ended)
        {
          ++counts.reads_ended;
          lease_ended(by);
        }
        else if (!ec)
        {
          ++counts.reads;
          counts.old_reads += generation != current().generation;
          const published_words expected = words_of(generation);
          require(std::equal(by.value.begin(), by.value.begin() + count, expected.begin() + first),
            "a snapshot has changed");
        }
        else
          require(ec == boost::asio::error::operation_aborted, "error of a read");
        next(process);
      });
  }

  void change(std::size_t process, bool renews)
  {
    reader& r = readers[process];
    // Also with an older word, as if another renewal had ended later.
    const std::uint64_t pin = simulation.below(2) == 0 ? r.snapshot->pin() : r.pin;
    simulation.start<objects::change_pin>(process,
      objects::change_pin(layout, r.snapshot->slot(), pin, renews, &simulated_now),
      [this, process, renews](const rdma::error_code& ec, objects::change_pin& c)
      {
        reader& by = readers[process];
        if (ec == rdma::error::lease_ended)
        {
          ++counts.renewals_ended;
          lease_ended(by);
        }
        else if (!renews)
          by.snapshot.reset();
        else
        {
          ++counts.renewals;
          by.pin = c.pin();
          by.expires = c.expires_at();
        }
        next(process);
      });
  }

  // A value does not change while a slot has the pin of its snapshot.
  void check_held()
  {
    for (const reader& r : readers)
      if (r.snapshot)
      {
        const std::uint64_t word = simulation.memory[layout.slot(r.snapshot->slot()) / 8];
        if (!pin_word::of(word).is_of_claim(pin_word::of(r.pin).claim))
          continue;
        const published_words expected = words_of(r.snapshot->version().generation);
        require(std::equal(expected.begin(), expected.end(),
                  simulation.memory.begin() + layout.value(r.snapshot->version().buffer) / 8),
          "the memory of a snapshot has changed");
      }
  }

  void note_slots()
  {
    for (std::size_t i = 0; i != slots.size(); ++i)
      if (const std::uint64_t word = simulation.memory[layout.slot(i) / 8]; word != slots[i])
      {
        slots[i] = word;
        if (pin_word::of(word).pinned && pin_word::of(word).buffer != current().buffer)
          pinned_older = simulation.now;
      }
  }

  void run()
  {
    while (right && simulation.turn())
    {
      note_slots();
      if (simulation.below(8) == 0)
        check_held();
      require(simulation.now < 20'000'000, "no end");
      const std::size_t process = simulation.below(1 + processes);
      const std::uint64_t fate = simulation.below(3000);
      if (fate == 0 && process != 0)
      {
        readers[process] = {};
        simulation.kill(process);
        next(process); // another process in its place
      }
      else if (fate < 5)
      {
        const std::uint64_t time = simulation.below(4) == 0 ? 3 * lease_turns : 3000;
        simulation.stop(process, simulation.below(time));
        owner_stopped = owner_stopped || process == 0;
      }
      else if (fate < 8)
        simulation.cancel(process);
    }
  }

  static constexpr std::size_t processes = 4; // readers
  static constexpr std::size_t operations_max = 300;
  static constexpr std::uint64_t publications_max = 80;
  static constexpr std::uint64_t few_looks = 5000;

  bool only_loads;
  bool eager; // the owner publishes without pauses
  published_counts& counts;
  published_layout layout;
  object_simulation simulation;
  objects::publisher owner;
  std::vector<reader> readers;
  published_words next_value{};
  std::vector<std::uint64_t> slots;
  std::uint64_t pinned_older = 0; // turn when a slot became a pin of a buffer that is not current
  bool owner_stopped = false;     // since the publication began
  std::size_t begun = 0;
  bool right = true;
  const char* wrong = "";
};

} // namespace

TEST_CASE("reads of published values are consistent with processes that stop and die")
{
  published_counts counts;
  for (std::uint64_t seed = 0; seed != seeds_of(4000); ++seed)
  {
    published_history history(seed, counts);
    history.run();
    INFO("seed " << seed << ": " << history.wrong);
    REQUIRE(history.right);
  }
  CHECK(counts.published >= least(100'000));
  CHECK(counts.loads >= least(1000));
  CHECK(counts.torn >= least(1000));
  CHECK(counts.snapshots >= least(1000));
  CHECK(counts.moves >= least(1000));
  CHECK(counts.reads >= least(1000));
  CHECK(counts.old_reads >= least(1000));
  CHECK(counts.reads_ended >= least(1000));
  CHECK(counts.renewals >= least(1000));
  CHECK(counts.renewals_ended >= least(1000));
  CHECK(counts.freed_by_owner >= least(1000));
  CHECK(counts.freed_by_readers >= least(1000));
  CHECK(counts.full >= least(100));
  CHECK(counts.waits >= least(1000));
}

} // namespace test::published_history_test

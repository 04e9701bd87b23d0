//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "checker.hpp"

#include "verbs/software/wire/bells.hpp"
#include "verbs/software/wire/ring.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace wire = rdma::software::wire;
namespace ring = rdma::software::wire::ring;

namespace {

constexpr std::size_t lines = 4;

/// A ring's line. The bytes of a record that begins further ahead may be in the place of the word.
struct line
{
  checker::plain<std::uint32_t> bytes;
  checker::plain<std::uint32_t> ack;

  std::uint32_t load(std::memory_order how) const
  {
    mixed_.load(); // must not race with write_over()
    return word_.load(how);
  }
  void store(std::uint32_t value, std::memory_order how)
  {
    mixed_.load();
    word_.store(value, how);
  }
  std::uint32_t glance() const { return word_.load(std::memory_order_relaxed); }
  void write_over(std::uint32_t value)
  {
    mixed_.store(0);
    word_.store(value, std::memory_order_relaxed);
  }

private:
  checker::atomic<std::uint32_t> word_;
  checker::plain<std::uint32_t> mixed_;
};

/// In the place of ring::shared_bytes.
struct memory : checker::atomics
{
  static inline std::array<line, lines>* now = nullptr;
  alignas(ring::line) static inline std::array<std::byte, lines * ring::line> addresses{};

  static line& word_at(const std::byte* at)
  {
    return (*now)[static_cast<std::size_t>(at - addresses.data()) / ring::line];
  }
  static void put(std::byte* at, std::uint32_t value) { word_at(at).ack.store(value); }
  static std::uint32_t get(const std::byte* at) { return word_at(at).ack.load(); }
  static std::uint32_t glance(const std::byte* at) { return word_at(at).glance(); }
};

using writer = ring::basic_writer<memory>;
using reader = ring::basic_reader<memory>;

// Records of one or two lines. Two of them skip the ring's end.
constexpr std::array<std::size_t, 5> bodies{8, 100, 100, 8, 100};

/// Writes the record that was begun.
void write(writer& to, std::byte* at, std::uint32_t id)
{
  const std::size_t body = bodies[id - 1];
  memory::word_at(at).bytes.store(id);
  // It looks like a record of one line.
  for (std::size_t next = ring::line; next < ring::record_size(body); next += ring::line)
  {
    memory::word_at(at + next).write_over(ring::line);
    memory::word_at(at + next).bytes.store(id);
  }
  to.end(body, id);
}

/// Takes the next record if it is there.
bool take(reader& from, std::uint32_t id)
{
  const auto body = from.front();
  checker::require(!from.broken(), "what is there is a record");
  if (body.empty())
    return false;
  const std::size_t size = ring::record_size(bodies[id - 1]);
  checker::require(body.size() == size - ring::head_size, "it has the record's size");
  checker::require(from.piggybacked_ack() == id, "it has what rides along");
  for (std::size_t line = 0; line != size; line += ring::line)
    checker::require(memory::word_at(body.data() + line).bytes.load() == id, "it has its body");
  from.pop();
  return true;
}

/// A writer and a reader that both poll.
struct polled_ring : rl::test_suite<polled_ring, 2>
{
  std::array<line, lines> content;
  reader::progress taken{0};

  void before() { memory::now = &content; }

  void thread(unsigned index)
  {
    std::byte* const at = memory::addresses.data();
    if (index == 0)
    {
      writer out(at, lines * ring::line, taken, 0);
      for (std::uint32_t id = 1; id <= bodies.size(); ++id)
      {
        std::byte* place = nullptr;
        while ((place = out.begin(bodies[id - 1], false)) == nullptr)
          checker::yield();
        write(out, place, id);
      }
      checker::require(!out.broken(), "the writer believes the reader");
      return;
    }
    reader in(at, lines * ring::line, taken);
    for (std::uint32_t id = 1; id <= bodies.size();)
    {
      if (!in.ready() || !take(in, id))
        checker::yield();
      else
        ++id;
    }
  }
};

/// A writer that sleeps until there is room. Its peer takes the records.
struct full_ring : rl::test_suite<full_ring, 2>
{
  using side = wire::basic_link_side<checker::atomics, 64>;

  std::array<line, lines> content;
  reader::progress taken{0};
  wire::basic_lane_waits<checker::atomics> waits; // of the writer
  side bells;                                     // of the writer
  checker::wake_up_socket socket;                 // of the writer

  void before() { memory::now = &content; }

  void thread(unsigned index)
  {
    if (index == 0)
      write_all();
    else
      take_all();
  }

  void write_all()
  {
    wire::sleep_count sleeps;
    writer out(memory::addresses.data(), lines * ring::line, taken, 0);
    for (std::uint32_t id = 1; id <= bodies.size(); ++id)
    {
      const auto begin = [&] { return out.begin(bodies[id - 1], false); };
      std::byte* place = begin();
      if (place == nullptr)
        place = waits.begin_blocked(begin);
      while (place == nullptr)
      {
        bool rung = false;
        const auto visit = [&](unsigned) { rung = true; };
        while (!rung)
        {
          socket.read();
          sleeps.rearm(bells);
          bells.take_bells(visit);
        }
        place = waits.begin_blocked(begin);
      }
      waits.blocked.store(0, std::memory_order_relaxed);
      write(out, place, id);
    }
  }

  void take_all()
  {
    wire::basic_wake_ups<checker::atomics> wake_ups;
    reader in(memory::addresses.data(), lines * ring::line, taken);
    for (std::uint32_t id = 1; id <= bodies.size();)
    {
      if (!take(in, id))
      {
        checker::yield();
        continue;
      }
      ++id;
      if (!waits.is_to_ring(false))
        continue;
      bells.ring(0);
      wake_ups.wake(bells, [&] { return socket.send(); });
    }
  }
};

} // namespace

TEST_CASE("a reader never takes a record that is not complete")
{
  checker::check_interleavings<polled_ring>(100'000, 1);
}

TEST_CASE("a writer that waits for room is woken")
{
  checker::check_interleavings<full_ring>(100'000, 2);
}

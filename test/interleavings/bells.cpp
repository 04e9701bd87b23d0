//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "checker.hpp"

#include "verbs/software/wire/bells.hpp"

#include <array>
#include <cstdint>

namespace wire = rdma::software::wire;

namespace {

/// One end of a link, whose other end has news for it. A wake-up that is lost is a deadlock.
template <class Suite, unsigned Wakers>
struct link_suite : rl::test_suite<Suite, Wakers + 1>
{
  static constexpr unsigned lanes = Wakers;

  // What the two ends share.
  wire::basic_link_side<checker::atomics, 64> side;
  std::array<wire::basic_lane_waits<checker::atomics>, lanes> waits;
  std::array<checker::atomic<std::uint32_t>, lanes> news;

  checker::wake_up_socket socket;
  wire::basic_wake_ups<checker::atomics> wake_ups; // of the other end

  // Of the end that sleeps.
  wire::sleep_count sleeps;
  std::array<std::uint32_t, lanes> taken{};

  /// The other end: as local_wire::notify() and local_link::ring(). The socket may refuse.
  void tell(unsigned lane, std::uint32_t number, bool refuses)
  {
    news[lane].store(number, std::memory_order_release);
    bool refused = refuses && checker::any_of(2) == 0;
    do
    {
      if (!waits[lane].is_to_ring(true))
        return;
      side.ring(lane);
    } while (!wake_ups.wake(side, [&] { return !std::exchange(refused, false) && socket.send(); }));
  }

  bool has_news(unsigned lane) const
  {
    return news[lane].load(std::memory_order_relaxed) != taken[lane];
  }

  void take(unsigned lane) { taken[lane] = news[lane].load(std::memory_order_acquire); }

  void take_bells()
  {
    side.take_bells([this](unsigned lane) { take(lane); });
  }

  /// As served_link::work() after a wake-up.
  void sleep()
  {
    socket.read();
    sleeps.rearm(side);
    take_bells();
  }

  bool has_all(std::uint32_t number) const
  {
    for (const std::uint32_t each : taken)
      if (each != number)
        return false;
    return true;
  }
};

/// No thread ever polls.
struct sleeper : link_suite<sleeper, 1>
{
  static constexpr std::uint32_t count = 3;

  void thread(unsigned index)
  {
    if (index == 0)
      for (std::uint32_t number = 1; number <= count; ++number)
        tell(0, number, true);
    else
      while (!has_all(count))
        sleep();
  }
};

/// Two queue pairs of the other end, each with a thread, use the same link.
struct shared_link : link_suite<shared_link, 2>
{
  static constexpr std::uint32_t count = 2;

  void thread(unsigned index)
  {
    if (index < lanes)
      for (std::uint32_t number = 1; number <= count; ++number)
        tell(index, number, false);
    else
      while (!has_all(count))
        sleep();
  }
};

/// A thread polls a while, then sleeps.
struct poller : link_suite<poller, 1>
{
  static constexpr std::uint32_t count = 2;

  void thread(unsigned index)
  {
    if (index == 0)
      for (std::uint32_t number = 1; number <= count; ++number)
        tell(0, number, false);
    else
      while (!has_all(count))
        poll_and_sleep();
  }

  // As engine::look_at(), serve_looked_at() and look_away().
  void poll_and_sleep()
  {
    const bool polls_lane = checker::any_of(2) == 0;
    if (polls_lane)
      waits[0].want_bell(false);
    sleeps.look(side, true);
    look();
    bool found = false;
    if (polls_lane)
    {
      waits[0].want_bell(true);
      found = has_news(0);
    }
    sleeps.look(side, false);
    if (found)
      take(0);
    if (side.has_bells())
      take_bells();
    else if (!found && !has_all(count)) // nothing else would come
      sleep();
  }

  void look()
  {
    if (has_news(0))
      take(0);
    if (side.has_bells())
      take_bells();
  }
};

} // namespace

TEST_CASE("no wake-up is lost")
{
  checker::check_interleavings<sleeper>(200'000, 3);
}

TEST_CASE("no wake-up is lost when two queue pairs share a link")
{
  checker::check_interleavings<shared_link>(200'000, 0);
}

TEST_CASE("no wake-up is lost by a thread that polls a while, then sleeps")
{
  checker::check_interleavings<poller>(200'000, 3);
}

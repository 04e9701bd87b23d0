//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/device_traits.hpp"
#include "common/figures.hpp"
#include "unit/simulated_seeds.hpp"
#include "unit/simulation.hpp"

#include <array>
#include <cstdint>
#include <deque>
#include <iterator>
#include <optional>
#include <random>

#include <sys/socket.h>

namespace simulation {
namespace {

enum class fault
{
  none,
  deregistration,       // of memory that the peer uses
  local_deregistration, // of memory of sends and receives
  death,                // of one end
  all,
};

// The ends of one connection, and the steps between them.
struct world
{
  world(unsigned seed, fault faults, coverage& found)
    : random(seed)
    , what(faults)
  {
    static constexpr std::uint32_t segments[] = {1024, 10'000, wire::local_wire::segment_bytes};
    end::kind is;
    is.segment = segments[random() % std::size(segments)];
    is.is_xrc = one_in(5);
    for (unsigned i = 0; i != 2; ++i)
    {
      is.shares = one_in(2);
      is.has_direct_access = !one_in(4);
      // A limit ends most connections.
      is.rnr_retry = what == fault::all && one_in(3) ? random() % 4 : 7;
      ends.emplace_back(i + 1, 2 - i, is, found);
    }
    std::array<int, 2> sockets{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets.data()) == 0);
    if (one_in(2))
      for (const int each : sockets)
      {
        const int least = 1;
        REQUIRE(::setsockopt(each, SOL_SOCKET, SO_SNDBUF, &least, sizeof least) == 0);
      }
    wire::descriptor fd;
    const auto memory = wire::segment::create(fd);
    REQUIRE(memory);
    for (unsigned i = 0; i != 2; ++i)
      ends[i].connect(ends[1 - i], memory, i, sockets[i]);
    // Each world has conditions of its own, such as rings that are usually full.
    stops = one_in(2) ? 0 : random() % 400;
    fills = one_in(2) ? 0 : random() % 100;
    receive_weight = 1 + random() % 4;
  }

  bool one_in(unsigned n) { return random() % n == 0; }
  end& any() { return ends[random() % 2]; }

  void step()
  {
    if (stopped == nullptr ? stops != 0 && one_in(100) : one_in(stops))
      stopped = stopped == nullptr ? &any() : nullptr;
    end& who = any();
    if (&who == stopped)
      return;
    if (fills != 0 && one_in(fills))
      one_in(2) ? who.fill_socket_of_peer() : who.transmit_unheard();
    if (who.asleep() && !(who.wake() || (one_in(4) && who.repeat_wake_up())))
      return;
    switch (random() % 16)
    {
    case 0:
    case 1:
    case 2:
    case 3:
      if (who.may_post())
        who.post(random);
      break;
    case 4:
    case 5:
    case 6:
      if (who.may_post_receive() && random() % 4 < receive_weight)
        who.post_receive();
      break;
    case 7:
      who.resume();
      break;
    case 8:
      who.sleep();
      break;
    case 9:
      who.wake();
      break;
    case 10:
    case 11:
    case 12:
      who.transmit(one_in(2));
      break;
    default:
      who.receive();
      break;
    }
  }

  void fail_something()
  {
    end& who = any();
    switch (what)
    {
    case fault::none:
      return;
    case fault::deregistration:
      return who.exposed.withdraw();
    case fault::local_deregistration:
      return one_in(2) ? who.sources.withdraw() : who.targets.withdraw();
    case fault::death:
      return one_in(2) ? who.kill() : who.destroy();
    case fault::all:
      switch (random() % 6)
      {
      case 0:
        return who.exposed.withdraw();
      case 1:
        return who.sources.withdraw();
      case 2:
        return who.targets.withdraw();
      case 3:
        return who.kill();
      case 4:
        return who.destroy();
      default:
        return;
      }
    }
  }

  void check()
  {
    for (const end& each : ends)
      each.check();
  }

  // Ends that are told by their socket alone carry out all that was posted.
  void finish()
  {
    const auto is_done = [this]
    {
      // A peer finds the end of the other one.
      return ends[0].idle() && ends[1].idle() && ends[0].over() == ends[1].over();
    };
    for (unsigned round = 0; !is_done(); ++round)
    {
      REQUIRE(round != 100'000);
      bool moved = false;
      for (end& each : ends)
      {
        const bool repeats = each.repeat_wake_up();
        moved = moved || repeats;
        if (each.over())
          continue;
        const bool receives = each.may_post_receive();
        while (each.may_post_receive())
          each.post_receive();
        if (!each.wake() && each.asleep() && !receives)
          continue;
        moved = true;
        each.work();
        each.sleep();
      }
      INFO("nobody is woken, and requests are outstanding");
      REQUIRE((moved || is_done()));
    }
    check();
    for (const end& each : ends)
    {
      if (!each.killed())
        each.check_end();
      if (what == fault::none)
        REQUIRE_FALSE(each.over());
    }
  }

  std::mt19937 random;
  const fault what;
  std::deque<end> ends;
  end* stopped = nullptr;
  unsigned stops = 0; // steps of a stop, about; 0: there are none
  unsigned fills = 0; // one of so many steps fills a socket; 0: none does
  unsigned receive_weight = 0;
};

void simulate(unsigned seed, fault what, coverage& found)
{
  CAPTURE(seed);
  world w(seed, what, found);
  const unsigned steps = 200 + w.random() % 1600;
  const unsigned at = w.random() % steps;
  found.steps += steps;
  for (unsigned i = 0; i != steps; ++i)
  {
    w.step();
    if (i % 256 == 0)
      w.check();
    if (i == at || (what == fault::all && w.one_in(400)))
      w.fail_something();
  }
  w.finish();
}

// Seeds from a random one on, with about 200,000 steps; or the one that BOOST_RDMA_TEST_SEED names.
std::optional<coverage> simulate_all(fault what)
{
  const unsigned count = test::exhaustive() ? 4000 : 200;
  coverage found;
  const bool all = test::run_seeds(
    std::random_device()(), count, [&](unsigned seed) { simulate(seed, what, found); });
  if (!all)
    return std::nullopt;
  test::add_figure("steps", found.steps);
  CHECK(found.steps > 500 * count);
  return found;
}

} // namespace

TEST_CASE("simulation: every order of steps completes every request")
{
  if (const auto found = simulate_all(fault::none))
  {
    CHECK(found->full_rings != 0);
    CHECK(found->refused_bells != 0);
    CHECK(found->rnr_waits != 0);
    CHECK(found->lost_peers == 0);
  }
}

TEST_CASE("simulation: deregistered memory is not accessed")
{
  if (const auto found = simulate_all(fault::deregistration))
    CHECK(found->remote_failures != 0);
}

TEST_CASE("simulation: memory of sends and receives is not accessed when it is deregistered")
{
  if (const auto found = simulate_all(fault::local_deregistration))
  {
    CHECK(found->local_failures != 0);
    CHECK(found->remote_failures != 0);
  }
}

TEST_CASE("simulation: the requests of an end whose peer is killed complete in order")
{
  if (const auto found = simulate_all(fault::death))
    CHECK(found->lost_peers != 0);
}

TEST_CASE("simulation: requests complete in order, and no more often retried, whatever fails")
{
  if (const auto found = simulate_all(fault::all))
    CHECK(found->rnr_failures != 0);
}

} // namespace simulation

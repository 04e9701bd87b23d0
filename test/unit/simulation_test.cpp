//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/device_traits.hpp"
#include "unit/simulation.hpp"

#include <cstdlib>

namespace simulation {
namespace {

enum class fault
{
  none,
  deregistration, // of memory that the peer uses
  death,          // of one end
};

// The ends of one connection, and the steps between them.
struct world
{
  explicit world(unsigned seed)
    : random(seed)
  {
    static constexpr std::uint32_t segments[] = {1024, 10'000, wire::local_wire::segment_bytes};
    const std::uint32_t segment = segments[random() % std::size(segments)];
    for (unsigned i = 0; i != 2; ++i)
      ends.emplace_back(i + 1, 2 - i, segment, random() % 2 == 0);
    std::array<int, 2> sockets{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets.data()) == 0);
    wire::descriptor fd;
    const auto memory = wire::segment::create(fd);
    REQUIRE(memory);
    for (unsigned i = 0; i != 2; ++i)
      ends[i].connect(ends[1 - i], memory, i, sockets[i]);
  }

  end& any() { return ends[random() % 2]; }

  void step()
  {
    end& who = any();
    if (who.asleep() && !who.wake())
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
      if (who.may_post_receive())
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
      who.transmit(random() % 2 == 0);
      break;
    default:
      who.receive();
      break;
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
    for (unsigned round = 0; !ends[0].idle() || !ends[1].idle(); ++round)
    {
      REQUIRE(round != 100'000);
      bool moved = false;
      for (end& each : ends)
      {
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
      REQUIRE((moved || (ends[0].idle() && ends[1].idle())));
    }
    check();
    for (const end& each : ends)
      if (!each.over() || each.failed())
        each.check_end();
  }

  std::mt19937 random;
  std::deque<end> ends;
};

void simulate(unsigned seed, fault what)
{
  CAPTURE(seed);
  world w(seed);
  const unsigned steps = 200 + w.random() % 400;
  const unsigned at = w.random() % steps;
  for (unsigned i = 0; i != steps; ++i)
  {
    w.step();
    if (i % 64 == 0)
      w.check();
    if (i != at)
      continue;
    if (what == fault::deregistration)
      w.any().deregister();
    else if (what == fault::death)
      w.any().close();
  }
  w.finish();
}

// Seeds from a random one on, or the one that BOOST_RDMA_TEST_SEED names.
void simulate_all(fault what)
{
  if (const char* const one = std::getenv("BOOST_RDMA_TEST_SEED"))
    return simulate(static_cast<unsigned>(std::strtoul(one, nullptr, 10)), what);
  const unsigned first = std::random_device()();
  const unsigned count = test::exhaustive() ? 20'000 : 300;
  for (unsigned i = 0; i != count; ++i)
    simulate(first + i, what);
}

} // namespace

TEST_CASE("simulation: every order of steps completes every request")
{
  simulate_all(fault::none);
}

TEST_CASE("simulation: deregistered memory does not change")
{
  simulate_all(fault::deregistration);
}

TEST_CASE("simulation: the requests of an end whose peer is killed complete in order")
{
  simulate_all(fault::death);
}

} // namespace simulation

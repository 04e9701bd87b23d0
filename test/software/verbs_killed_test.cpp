//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests processes that are killed at any instruction, and the state of their peers.

#include "common/sanitizers.hpp"
#include "software/verbs_processes.hpp"

#include <array>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>

#include <fcntl.h>

using namespace test;

namespace {

constexpr std::size_t size = 64 * 1024;

unsigned kills()
{
#if BOOST_RDMA_TEST_ADDRESS_SANITIZER || BOOST_RDMA_TEST_THREAD_SANITIZER
  return 300; // sanitizer builds have a tenth of the speed
#else
  return exhaustive() ? 10'000 : 2'000;
#endif
}

rdma::software::device_settings on_loopback()
{
  rdma::software::device_settings s;
  s.addresses = {"127.0.0.1"};
  // For processes that are killed before they are connected.
  s.retry_time_min = std::chrono::milliseconds(50);
  return s;
}

/// Posts every kind of request, as long as the queue accepts it.
void hammer(const endpoint& e, const memory& m, const end_name& peer, unsigned turn)
{
  const std::array<std::size_t, 4> sizes{8, 64, 5000, size / 2};
  const std::size_t bytes = sizes[turn / 5 % sizes.size()];
  switch (turn % 5)
  {
  case 0:
    (void)e.write(turn, m.sge(0, bytes), peer.address, peer.key);
    break;
  case 1:
    (void)e.read(turn, m.sge(size / 2, bytes), peer.address, peer.key);
    break;
  case 2:
    (void)e.send(turn, m.sge(0, bytes));
    break;
  case 3:
    (void)e.receive(turn, m.sge(0, size));
    break;
  default:
  {
    request r(IBV_WR_ATOMIC_FETCH_AND_ADD, {m.sge(size - 8, 8)}, turn);
    (void)e.post(r.atomic(peer.address + size - 16, peer.key, 1).wr);
  }
  }
}

pair_options talkative()
{
  pair_options o;
  o.timeout = 1;
  return o;
}

/// Sends requests to the other end until it is killed.
void be_killed(const out_of_band& line, int connected)
{
  verbs_device d(on_loopback());
  endpoint e(d, talkative());
  memory m(d, size);
  const end_name peer = line.exchange(e.name(m));
  connect_to(e, peer);
  must(::write(connected, "c", 1) == 1, "report the connection");
  for (unsigned turn = 0;; ++turn)
  {
    hammer(e, m, peer, turn);
    (void)e.sent().poll();
    (void)e.received().poll();
  }
}

/// Starts a process for each round and kills it shortly after it has connected. It opens no device
/// itself.
bool kill_them(const out_of_band& line, unsigned rounds, unsigned seed)
{
  std::minstd_rand random(seed);
  for (unsigned i = 0; i != rounds; ++i)
  {
    int connected[2];
    must(::pipe2(connected, O_CLOEXEC) == 0, "pipe");
    const pid_t pid = ::fork();
    must(pid >= 0, "fork");
    if (pid == 0)
    {
      try
      {
        be_killed(line, connected[1]);
      }
      catch (const std::exception& error)
      {
        std::cerr << "to be killed: " << error.what() << '\n';
      }
      ::_exit(EXIT_FAILURE);
    }
    ::close(connected[1]);
    char c = 0;
    const bool lived = ::read(connected[0], &c, 1) == 1;
    ::close(connected[0]);
    // A random delay, not a wait for an event.
    const timespec moment{0, std::uniform_int_distribution<long>(0, 1'500'000)(random)};
    ::nanosleep(&moment, nullptr);
    ::kill(pid, SIGKILL);
    int status = 0;
    must(::waitpid(pid, &status, 0) == pid, "waitpid");
    if (!lived || !WIFSIGNALED(status))
      return false;
    line.meet();
  }
  return true;
}

struct holdings
{
  std::ptrdiff_t descriptors;
  std::ptrdiff_t shared_mappings;
};

holdings what_is_held()
{
  holdings now{};
  now.descriptors = std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    now.shared_mappings += line.find("memfd:boost_rdma") != std::string::npos ? 1 : 0;
  return now;
}

} // namespace

// [long]: test/vm/suite leaves it out.
TEST_CASE("peers that are killed at any moment do not affect other connections", "[long]")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  // Several concurrently, because the start and end of processes dominate a round.
  constexpr unsigned at_once = 5;
  const unsigned rounds = kills() / at_once;
  const auto kill = [rounds](unsigned with)
  { return [with, rounds](const out_of_band& line) { return kill_them(line, rounds, with); }; };
  using killer = child<decltype(kill(0))>;
  std::array<std::unique_ptr<killer>, at_once> killers;
  for (unsigned i = 0; i != at_once; ++i)
    killers[i] = std::make_unique<killer>(kill(seed + i));
  child other(
    [rounds](const out_of_band& line)
    {
      verbs_device d(on_loopback());
      endpoint e(d);
      memory m(d, 8);
      connect_to(e, line.exchange(e.name(m)));
      bool good = e.receive(0, m.sge()) == 0;
      line.meet();
      for (unsigned i = 0; i != rounds && good; ++i)
        good = e.received().next().status == IBV_WC_SUCCESS && e.receive(0, m.sge()) == 0
          && e.send(0, m.sge()) == 0 && e.sent().next().status == IBV_WC_SUCCESS;
      line.meet();
      return good;
    });
  verbs_device d(on_loopback());
  endpoint steady(d);
  memory text(d, 8);
  connect_to(steady, other.line().exchange(steady.name(text)));
  other.line().meet();
  // Each queue pair has its own memory: concurrent receives, sends and writes in one memory are
  // unordered.
  std::array<std::unique_ptr<memory>, at_once> memories;
  for (auto& each : memories)
    each = std::make_unique<memory>(d, size);
  holdings before{};
  for (unsigned round = 0; round != rounds; ++round)
  {
    {
      struct end
      {
        end(const verbs_device& on, const memory& with)
          : e(on, talkative())
          , m(with)
        {
        }
        endpoint e;
        const memory& m;
        end_name peer;
        bool failed = false;
      };
      std::array<std::unique_ptr<end>, at_once> ends;
      for (unsigned i = 0; i != at_once; ++i)
      {
        ends[i] = std::make_unique<end>(d, *memories[i]);
        ends[i]->peer = killers[i]->line().exchange(ends[i]->e.name(ends[i]->m));
        connect_to(ends[i]->e, ends[i]->peer);
      }
      unsigned turn = 0;
      REQUIRE(until(
        [&]
        {
          ++turn;
          bool all = true;
          for (const auto& each : ends)
          {
            if (!each->failed)
              hammer(each->e, each->m, each->peer, turn);
            for (const completions* from : {&each->e.sent(), &each->e.received()})
              if (const auto wc = from->poll(); wc && wc->status != IBV_WC_SUCCESS)
                each->failed = true;
            all = all && each->failed;
          }
          return all;
        }));
      for (unsigned i = 0; i != at_once; ++i)
      {
        REQUIRE(ends[i]->e.state() == IBV_QPS_ERR);
        killers[i]->line().meet();
      }
    }
    REQUIRE(steady.receive(1, text.sge()) == 0);
    REQUIRE(steady.send(2, text.sge()) == 0);
    REQUIRE(steady.received().next().status == IBV_WC_SUCCESS);
    REQUIRE(steady.sent().next().status == IBV_WC_SUCCESS);
    // By this round, all permanent resources exist.
    if (round == rounds / 10)
      before = what_is_held();
  }
  holdings after{};
  // Links that no queue pair uses are released after two seconds at most; some were held before.
  CHECK(until(
    [&]
    {
      after = what_is_held();
      return after.descriptors <= before.descriptors
        && after.shared_mappings <= before.shared_mappings;
    }));
  other.line().meet();
  CHECK(other.succeeded());
  for (const auto& each : killers)
    CHECK(each->succeeded());
}

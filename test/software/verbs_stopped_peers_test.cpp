//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests the end of a peer's access while the peer is stopped in the middle of a copy, or claims to
// copy for ever.

#include "software/shared_region.hpp"
#include "software/verbs_processes.hpp"

#include "verbs/software/memory/late_writers.hpp"
#include "verbs/software/wire/segment.hpp"

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

using namespace test;

namespace {

constexpr std::size_t size = 64 * 1024;

/// Sets the mark of an access by the peer's first grant, in all lanes of this process: as if it
/// were in the middle of a copy.
void leave_marks()
{
  using namespace rdma::software::wire;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
  {
    std::uintptr_t begin = 0;
    if (line.find("boost_rdma link") == std::string::npos
      || std::sscanf(line.c_str(), "%" SCNxPTR, &begin) != 1)
      continue;
    for (unsigned lane = 0; lane != lanes_max; ++lane)
    {
      // NOLINTNEXTLINE(performance-no-int-to-ptr)
      auto* const sides =
        reinterpret_cast<lane_side*>(begin + segment::lanes_at + lane * segment::lane_size);
      for (unsigned end = 0; end != 2; ++end)
        sides[end].touching.store(1, std::memory_order_seq_cst);
    }
  }
}

/// Writes to the peer's memory. If this process can map it, only the first write needs the peer.
void write_twice(const endpoint& e, const memory& m, const end_name& peer)
{
  for (unsigned i = 0; i != 2; ++i)
  {
    must(e.write(i, m.sge(), peer.address, peer.key) == 0, "write");
    must(e.sent().next().status == IBV_WC_SUCCESS, "complete a write");
  }
}

/// Connects, writes, and then claims to be in the middle of a copy.
bool claim_to_copy(const out_of_band& line)
{
  verbs_device d;
  endpoint e(d);
  memory m(d, size);
  const end_name peer = line.exchange(e.name(m));
  connect_to(e, peer);
  write_twice(e, m, peer);
  leave_marks();
  line.meet();
  line.meet(); // until this process is killed
  return true;
}

/// Connects, and writes to each of two regions.
bool write_to_two(const out_of_band& line)
{
  verbs_device d;
  endpoint e(d);
  memory m(d, size);
  end_name peer = line.exchange(e.name(m));
  connect_to(e, peer);
  write_twice(e, m, peer);
  peer = line.exchange(peer); // the second region
  write_twice(e, m, peer);
  line.meet();
  line.meet();
  return true;
}

/// Makes a call in another thread. On failure, `rescue` makes it return.
bool returns(const std::function<void()>& call, const std::function<void()>& rescue)
{
  std::atomic<bool> returned{false};
  std::thread thread(
    [&]
    {
      call();
      returned = true;
    });
  const bool result = until([&] { return returned.load(); });
  if (!result)
    rescue();
  thread.join();
  return result;
}

/// Keeps the device at work until the other process has met.
void serve_until_met(const endpoint& e, const out_of_band& line)
{
  std::atomic<bool> met{false};
  std::thread thread(
    [&]
    {
      line.meet();
      met = true;
    });
  CHECK(until(
    [&]
    {
      (void)e.sent().poll();
      return met.load();
    }));
  thread.join();
}

} // namespace

TEST_CASE("a region can be deregistered while a peer is stopped in the middle of a write to it")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  child other(&claim_to_copy);
  verbs_device d;
  endpoint e(d);
  SECTION("memory that the peer maps")
  {
    shared_region m(d, size);
    connect_to(e, other.line().exchange(m.named(e.name())));
    serve_until_met(e, other.line());
    other.stop();
    CHECK(returns([&] { m.deregister(); }, [&] { other.kill(); }));
    // The pool does not reuse such memory until the process is gone.
    CHECK(rdma::software::late_writers::may_write(m.data(), size));
    other.kill();
    CHECK(until([&] { return !rdma::software::late_writers::may_write(m.data(), size); }));
  }
  SECTION("the program's own memory")
  {
    auto m = std::make_unique<memory>(d, size);
    connect_to(e, other.line().exchange(e.name(*m)));
    serve_until_met(e, other.line());
    other.stop();
    CHECK(returns([&] { m.reset(); }, [&] { other.kill(); }));
  }
  SECTION("the end of the queue pair")
  {
    shared_region m(d, size);
    connect_to(e, other.line().exchange(m.named(e.name())));
    serve_until_met(e, other.line());
    other.stop();
    CHECK(returns([&] { must(e.to(IBV_QPS_RESET) == 0, "reset"); }, [&] { other.kill(); }));
  }
}

TEST_CASE("a peer that claims to copy for ever does not delay others")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  child hostile(&claim_to_copy);
  child honest(&write_to_two);
  verbs_device d;
  endpoint to_hostile(d);
  endpoint to_honest(d);
  shared_region claimed(d, size);
  shared_region first(d, size);
  shared_region second(d, size);
  connect_to(to_hostile, hostile.line().exchange(claimed.named(to_hostile.name())));
  serve_until_met(to_hostile, hostile.line());
  connect_to(to_honest, honest.line().exchange(first.named(to_honest.name())));
  std::thread deregisters([&] { claimed.deregister(); });
  // The honest peer is served meanwhile, and its access ends.
  (void)honest.line().exchange(second.named(to_honest.name()));
  serve_until_met(to_honest, honest.line());
  CHECK(returns(
    [&]
    {
      first.deregister();
      second.deregister();
    },
    [&] { hostile.kill(); }));
  deregisters.join();
}

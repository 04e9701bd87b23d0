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
#include <array>
#include <atomic>
#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

using namespace test;
using rdma::software::wire::lane_side;

namespace {

constexpr std::size_t size = 64 * 1024;

/// Calls visit(memory, address) for both ends of all lanes of this process: the descriptor of its
/// memory, and the address of the lane_side. The engine may unmap a link meanwhile.
template <class Visit>
void visit_sides(Visit visit)
{
  using namespace rdma::software::wire;
  const descriptor memory(::open("/proc/self/mem", O_RDWR | O_CLOEXEC));
  must(static_cast<bool>(memory), "open /proc/self/mem");
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
  {
    std::uint64_t begin = 0;
    if (line.find("boost_rdma link") == std::string::npos
      || std::sscanf(line.c_str(), "%" SCNx64, &begin) != 1)
      continue;
    for (unsigned lane = 0; lane != lanes_max; ++lane)
      for (unsigned end = 0; end != 2; ++end)
        visit(memory.get(),
          static_cast<off_t>(
            begin + segment::lanes_at + lane * segment::lane_size + end * sizeof(lane_side)));
  }
}

/// Sets the mark of an access by the first grant, in all lanes of this process: as if the peer,
/// which does nothing now, were in the middle of a copy.
void leave_marks()
{
  unsigned left = 0;
  visit_sides(
    [&](int memory, off_t side)
    {
      const std::uint32_t mark = 1;
      const auto at = side + static_cast<off_t>(offsetof(lane_side, touching));
      left += ::pwrite(memory, &mark, sizeof mark, at) == sizeof mark ? 1 : 0;
    });
  must(left != 0, "leave a mark");
}

/// Returns true if there is a first grant.
bool has_grant()
{
  bool found = false;
  visit_sides(
    [&](int memory, off_t side)
    {
      std::uint32_t generation = 0;
      const auto at = side + static_cast<off_t>(offsetof(lane_side, grants));
      found = found
        || (::pread(memory, &generation, sizeof generation, at) == sizeof generation
          && generation != 0);
    });
  return found;
}

void write_once(const endpoint& e, const memory& m, const end_name& peer)
{
  must(e.write(1, m.sge(), peer.address, peer.key) == 0, "write");
  must(e.sent().next().status == IBV_WC_SUCCESS, "complete a write");
}

/// Writes to the peer's memory. If this process can map it, only the first write needs the peer.
void write_twice(const endpoint& e, const memory& m, const end_name& peer)
{
  for (unsigned i = 0; i != 2; ++i)
    write_once(e, m, peer);
}

/// Returns the number of descriptors of other processes, see pidfd_open(2).
std::ptrdiff_t process_descriptors()
{
  namespace fs = std::filesystem;
  std::ptrdiff_t found = 0;
  for (const auto& each : fs::directory_iterator("/proc/self/fd"))
  {
    std::error_code gone; // the iterator's own one
    const std::string target = fs::read_symlink(each.path(), gone).string();
    found += target.find("pidfd") != std::string::npos ? 1 : 0;
  }
  return found;
}

/// Connects, and writes until there is enough().
bool write_until(const out_of_band& line, bool (*enough)())
{
  verbs_device d;
  endpoint e(d);
  memory m(d, size);
  const end_name peer = line.exchange(e.name(m));
  connect_to(e, peer);
  must(until(
         [&]
         {
           write_once(e, m, peer);
           return enough();
         }),
    "write enough");
  line.meet();
  line.meet(); // until this process is killed
  return true;
}

/// Writes to memory that this process can map.
bool write_directly(const out_of_band& line)
{
  return write_until(line, &has_grant);
}

/// Writes to memory that only its owner accesses.
bool write_by_frames(const out_of_band& line)
{
  return write_until(line, [] { return true; });
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
  child other(&write_directly);
  verbs_device d;
  endpoint e(d);
  SECTION("the end of the region")
  {
    shared_region m(d, size);
    connect_to(e, other.line().exchange(m.named(e.name())));
    serve_until_met(e, other.line());
    other.stop();
    leave_marks();
    CHECK(returns([&] { m.deregister(); }, [&] { other.kill(); }));
    // The pool does not reuse such memory until the process is gone.
    CHECK(rdma::software::late_writers::may_write(m.data(), size));
    other.kill();
    CHECK(until([&] { return !rdma::software::late_writers::may_write(m.data(), size); }));
  }
  SECTION("the end of the queue pair")
  {
    shared_region m(d, size);
    connect_to(e, other.line().exchange(m.named(e.name())));
    serve_until_met(e, other.line());
    other.stop();
    leave_marks();
    CHECK(returns([&] { must(e.to(IBV_QPS_RESET) == 0, "reset"); }, [&] { other.kill(); }));
  }
}

TEST_CASE(
  "a region of the program's memory can be deregistered while a peer that has written is stopped")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  child other(&write_by_frames);
  verbs_device d;
  endpoint e(d);
  auto m = std::make_unique<memory>(d, size);
  connect_to(e, other.line().exchange(e.name(*m)));
  serve_until_met(e, other.line());
  other.stop();
  CHECK(returns([&] { m.reset(); }, [&] { other.kill(); }));
}

TEST_CASE("peers that were killed in the middle of a write hold no descriptors")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  using peer = child<bool (*)(const out_of_band&)>;
  std::array<std::unique_ptr<peer>, 3> others;
  for (auto& each : others)
    each = std::make_unique<peer>(&write_directly);
  verbs_device d;
  shared_region m(d, size);
  for (auto& each : others)
  {
    endpoint e(d);
    connect_to(e, each->line().exchange(m.named(e.name())));
    serve_until_met(e, each->line());
    each->stop();
    leave_marks();
    each->kill();
    must(e.to(IBV_QPS_RESET) == 0, "reset");
  }
  CHECK(process_descriptors() <= 1); // of the last one
}

TEST_CASE("a peer that claims to copy for ever does not delay others")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  child hostile(&write_directly);
  child honest(&write_to_two);
  verbs_device d;
  endpoint to_hostile(d);
  endpoint to_honest(d);
  shared_region claimed(d, size);
  shared_region first(d, size);
  shared_region second(d, size);
  connect_to(to_hostile, hostile.line().exchange(claimed.named(to_hostile.name())));
  serve_until_met(to_hostile, hostile.line());
  leave_marks();
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

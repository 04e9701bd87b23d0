//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests links, which carry all queue pairs between two contexts, on both wires.

#include "software/verbs_processes.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <tuple>
#include <vector>

#include <sys/mman.h>
#include <sys/socket.h>

using namespace test;

namespace {

rdma::software::device_settings on_wire(const std::string& name)
{
  rdma::software::device_settings result;
  result.wires = {name};
  return result;
}

std::ptrdiff_t count_descriptors()
{
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

/// Returns the number of segments that this process has mapped: one for each link.
std::size_t count_segments()
{
  std::size_t count = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    count += line.find("memfd:boost_rdma link") != std::string::npos ? 1 : 0;
  return count;
}

/// Returns the number of TCP connections of which this process has both ends.
std::size_t count_connections()
{
  std::size_t ends = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd"))
  {
    const int fd = std::stoi(each.path().filename());
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    const bool connected = ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0;
    ends += connected && peer.ss_family != AF_UNIX ? 1 : 0;
  }
  return ends / 2;
}

struct pair
{
  pair(const verbs_device& near, const verbs_device& far, const pair_options& with)
    : a(near, with)
    , b(far, with)
  {
    connect(a, b);
  }

  endpoint a;
  endpoint b;
};

/// Two contexts with queue pairs between them.
struct linked_contexts
{
  pair& add()
  {
    pairs.emplace_back(near, far, options);
    return pairs.back();
  }

  /// Sends a message each way.
  void exchange(const pair& with)
  {
    for (const auto& [from, to, source, target] :
      {std::tuple{&with.a, &with.b, &m, &into}, std::tuple{&with.b, &with.a, &into, &m}})
    {
      REQUIRE(to->receive(1, target->sge()) == 0);
      REQUIRE(from->send(2, source->sge()) == 0);
      CHECK(from->sent().next().status == IBV_WC_SUCCESS);
      CHECK(to->received().next().status == IBV_WC_SUCCESS);
    }
  }

  std::size_t count_links() const
  {
    return wire == "local" ? count_segments() : count_connections();
  }

  const std::string wire = GENERATE(as<std::string>(), "local", "tcp");
  pair_options options{.depth = 4};
  verbs_device near{on_wire(wire)};
  verbs_device far{on_wire(wire)};
  memory m{near, 64};
  memory into{far, 64};
  std::deque<pair> pairs;
};

} // namespace

TEST_CASE("a further queue pair between two contexts needs no descriptor and no mapping")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  linked_contexts c;
  c.exchange(c.add());
  REQUIRE(c.count_links() == 1);
  const auto descriptors = count_descriptors();
  for (unsigned i = 0; i != 20; ++i)
    c.exchange(c.add());
  // A grant under way carries a descriptor.
  CHECK(until([&] { return count_descriptors() <= descriptors; }));
  CHECK(c.count_links() == 1);
}

TEST_CASE("queue pairs to different contexts use different links")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  linked_contexts c;
  c.exchange(c.add());
  const verbs_device third(on_wire(c.wire));
  memory there(third, 64);
  const pair other(c.near, third, c.options);
  REQUIRE(other.b.receive(1, there.sge()) == 0);
  REQUIRE(other.a.send(2, c.m.sge()) == 0);
  CHECK(other.a.sent().next().status == IBV_WC_SUCCESS);
  CHECK(other.b.received().next().status == IBV_WC_SUCCESS);
  CHECK(c.count_links() == 2);
}

TEST_CASE("a link over TCP comes from the address of its GID")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  auto settings = on_wire("tcp");
  settings.addresses = {"127.0.0.2"}; // not the address that the host would choose
  const verbs_device near(settings);
  settings.addresses = {"127.0.0.3"};
  const verbs_device far(settings);
  const pair linked(near, far, {});
  memory from(near, 8);
  memory to(far, 8);
  REQUIRE(linked.b.receive(1, to.sge()) == 0);
  REQUIRE(linked.a.send(2, from.sge()) == 0);
  CHECK(linked.a.sent().next().status == IBV_WC_SUCCESS);
}

TEST_CASE("a link ends when its last queue pair has ended")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  linked_contexts c;
  const auto before = count_descriptors();
  c.exchange(c.add());
  c.exchange(c.add());
  c.exchange(c.pairs.front());
  c.pairs.pop_front();
  c.exchange(c.pairs.front());
  CHECK(c.count_links() == 1);
  c.pairs.clear();
  CHECK(until([&] { return c.count_links() == 0; }));
  // The listeners of both contexts remain, one for each wire that they permit.
  CHECK(until([&] { return count_descriptors() <= before + 2; }));
  c.exchange(c.add());
}

TEST_CASE("a lane of a link is used again and again")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  linked_contexts c;
  c.exchange(c.add()); // keeps the link
  for (unsigned i = 0; i != 600; ++i)
  {
    c.exchange(c.add());
    c.pairs.pop_back();
  }
  CHECK(c.count_links() == 1);
  c.exchange(c.pairs.front());
}

TEST_CASE("more queue pairs than a link has lanes use a further link")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  linked_contexts c;
  for (unsigned i = 0; i != 260; ++i)
    c.add();
  for (const pair& each : c.pairs)
    c.exchange(each);
  CHECK(c.count_links() == 2);
}

TEST_CASE("a queue pair without a receive does not delay other queue pairs of its link")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  linked_contexts c;
  const pair& stuck = c.add();
  const pair& other = c.add();
  c.exchange(other);
  for (unsigned i = 0; i != 4; ++i)
    REQUIRE(stuck.a.send(i, c.m.sge()) == 0);
  for (unsigned i = 0; i != 50; ++i)
    c.exchange(other);
  CHECK_FALSE(stuck.a.sent().poll());
  for (unsigned i = 0; i != 4; ++i)
    REQUIRE(stuck.b.receive(i, c.into.sge()) == 0);
  for (unsigned i = 0; i != 4; ++i)
    CHECK(stuck.a.sent().next().status == IBV_WC_SUCCESS);
}

TEST_CASE("a queue pair that fails leaves the other queue pairs of its link connected")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  linked_contexts c;
  const pair& other = c.add();
  c.exchange(other);
  for (unsigned i = 0; i != 20; ++i)
  {
    const pair& failing = c.add();
    REQUIRE(failing.a.write(1, c.m.sge(), 0x1000, 0xbad) == 0); // a wrong key
    CHECK(failing.a.sent().next().status == IBV_WC_REM_ACCESS_ERR);
    c.exchange(other);
    c.pairs.pop_back();
  }
  CHECK(c.count_links() == 1);
}

TEST_CASE("a queue pair that ends in the middle of large messages does not disturb its link")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  linked_contexts c;
  constexpr std::size_t size = 3'000'000;
  memory from(c.near, size);
  memory to(c.far, size);
  const pair& other = c.add();
  c.exchange(other);
  for (unsigned i = 0; i != 10; ++i)
  {
    const pair& cut = c.add();
    for (unsigned j = 0; j != 4; ++j)
      REQUIRE((j % 2 == 0 ? cut.a.write(j, from.sge(), to.address(), to.key())
                          : cut.b.read(j, to.sge(), from.address(), from.key()))
        == 0);
    c.exchange(other); // through the socket that the large ones fill
    c.pairs.pop_back();
    for (unsigned j = 0; j != 3; ++j)
      c.exchange(other);
  }
  CHECK(c.count_links() == 1);
}

TEST_CASE("queue pairs of a link that are always busy share it")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  linked_contexts c;
  c.options.depth = 16;
  constexpr std::size_t size = 1 << 20;
  memory from(c.near, size);
  memory to(c.far, size);
  std::vector<const pair*> busy;
  std::vector<unsigned> done(3);
  for (unsigned i = 0; i != done.size(); ++i)
    busy.push_back(&c.add());
  const auto write = [&](unsigned i)
  { REQUIRE(busy[i]->a.write(i, from.sge(), to.address(), to.key()) == 0); };
  for (unsigned i = 0; i != done.size(); ++i)
    for (unsigned j = 0; j != c.options.depth; ++j)
      write(i);
  // Each of them goes on until all have completed this many.
  CHECK(until(
    [&]
    {
      for (unsigned i = 0; i != done.size(); ++i)
        if (const auto wc = busy[i]->a.sent().poll())
        {
          REQUIRE(wc->status == IBV_WC_SUCCESS);
          ++done[i];
          write(i);
        }
      return *std::min_element(done.begin(), done.end()) >= 100;
    }));
}

TEST_CASE("memory that is unmapped in part ends only the queue pair that sends it")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  linked_contexts c;
  constexpr std::size_t size = 1 << 20;
  const pair& other = c.add();
  const pair& failing = c.add();
  c.exchange(other);
  void* const at =
    ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(at != MAP_FAILED);
  ibv_mr* const region = c.near.api().reg_mr(c.near.pd(), at, size, IBV_ACCESS_LOCAL_WRITE);
  REQUIRE(region != nullptr);
  REQUIRE(::munmap(static_cast<char*>(at) + size / 16, size - size / 16) == 0);
  memory to(c.far, size);
  const ibv_sge all{reinterpret_cast<std::uintptr_t>(at), size, region->lkey};
  REQUIRE(failing.a.write(1, all, to.address(), to.key()) == 0);
  CHECK(failing.a.sent().next().status == IBV_WC_LOC_PROT_ERR);
  c.exchange(other);
  CHECK(c.count_links() == 1);
  CHECK(c.near.api().dereg_mr(region) == 0);
  CHECK(::munmap(at, size / 16) == 0);
}

TEST_CASE("a queue pair that is destroyed while its peer is stopped does not disturb its link")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  constexpr std::size_t size = 32 << 20; // more than a socket stores
  const std::string wire = GENERATE("local", "tcp");
  const auto settings = [&]
  {
    auto result = on_wire(wire);
    result.retry_time_min = patience;
    return result;
  };
  child other(
    [&](const out_of_band& line)
    {
      verbs_device d(settings());
      memory m(d, size);
      const endpoint ends[2]{endpoint(d), endpoint(d)};
      for (const endpoint& each : ends)
        connect_to(each, line.exchange(each.name(m)));
      line.meet();
      line.meet(); // until this process is killed
      return true;
    });
  verbs_device d(settings());
  memory m(d, size);
  endpoint ends[2]{endpoint(d), endpoint(d)};
  end_name peer;
  for (endpoint& each : ends)
  {
    peer = other.line().exchange(each.name());
    connect_to(each, peer);
  }
  other.line().meet();
  for (const endpoint& each : ends)
    CHECK(until([&] { return wire == rdma::software::wire_name(each.qp()); }));
  other.stop();
  for (const endpoint& each : ends)
    REQUIRE(each.write(1, m.sge(), peer.address, peer.key) == 0);
  ends[0].destroy();
  other.resume();
  CHECK(ends[1].sent().next().status == IBV_WC_SUCCESS);
}

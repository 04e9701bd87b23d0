//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests accesses of two ends on one host to each other's memory.

#include "common/in_child.hpp"
#include "software/shared_region.hpp"
#include "software/verbs_fixture.hpp"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

using namespace test;

namespace {

void bind(endpoint& e, ibv_mw* window, std::uint32_t key, const shared_region& m)
{
  request r(IBV_WR_BIND_MW);
  r.wr.bind_mw.mw = window;
  r.wr.bind_mw.rkey = key;
  r.wr.bind_mw.bind_info = {m.mr(), m.address(), m.size(), IBV_ACCESS_REMOTE_WRITE};
  must(e.post(r.wr) == 0, "post a bind");
  must(e.sent().next().status == IBV_WC_SUCCESS, "bind");
}

} // namespace

TEST_CASE("two ends that write to each other's windows and invalidate their own do not deadlock")
{
  BOOST_RDMA_TEST_NEEDS(memory_windows);
  // A queue pair that was refused before its invalidation is destroyed with a bound window.
  BOOST_RDMA_TEST_NEEDS(unbinds_on_destroy);
  constexpr std::size_t size = 256 * 1024;
  verbs_device near_device;
  verbs_device far_device;
  memory near(near_device, size);
  memory far(far_device, size);
  shared_region near_open(near_device, size);
  shared_region far_open(far_device, size);
  const unsigned rounds = emulated() ? 10 : 100;
  std::atomic<unsigned> wrong{0};
  for (unsigned round = 0; round != rounds; ++round)
  {
    ibv_mw* const near_window =
      near_device.context()->ops.alloc_mw(near_device.pd(), IBV_MW_TYPE_2);
    ibv_mw* const far_window = far_device.context()->ops.alloc_mw(far_device.pd(), IBV_MW_TYPE_2);
    REQUIRE(near_window != nullptr);
    REQUIRE(far_window != nullptr);
    const std::uint32_t near_key = ibv_inc_rkey(near_window->rkey);
    const std::uint32_t far_key = ibv_inc_rkey(far_window->rkey);
    {
      endpoint a(near_device);
      endpoint b(far_device);
      connect(a, b);
      bind(a, near_window, near_key, near_open);
      bind(b, far_window, far_key, far_open);
      // Afterwards the peer has mapped this end's memory, and later writes need no message for
      // that.
      for (unsigned i = 0; i != 3; ++i)
      {
        REQUIRE(a.write(i, near.sge(), far_open.address(), far_key) == 0);
        REQUIRE(a.sent().next().status == IBV_WC_SUCCESS);
        REQUIRE(b.write(i, far.sge(), near_open.address(), near_key) == 0);
        REQUIRE(b.sent().next().status == IBV_WC_SUCCESS);
      }
      const auto end = [&wrong](endpoint& e, const memory& from, std::uint64_t to,
                         std::uint32_t key, std::uint32_t own)
      {
        request w(IBV_WR_RDMA_WRITE, {from.sge()}, 1);
        request i(IBV_WR_LOCAL_INV, {}, 2);
        w.remote(to, key);
        i.wr.invalidate_rkey = own;
        w.wr.next = &i.wr;
        if (e.post(w.wr) != 0)
          ++wrong;
      };
      std::thread other([&] { end(b, far, near_open.address(), near_key, far_key); });
      end(a, near, far_open.address(), far_key, near_key);
      other.join();
      // The order of a write and the peer's invalidation is random; both ends must continue in
      // either case.
      for (endpoint* e : {&a, &b})
      {
        const ibv_wc_status written = e->sent().next().status;
        const ibv_wc_status invalidated = e->sent().next().status;
        // RETRY_EXC_ERR: the other end was refused and destroyed before it answered this one.
        const bool through = written == IBV_WC_SUCCESS || written == IBV_WC_REM_ACCESS_ERR
          || written == IBV_WC_WR_FLUSH_ERR || written == IBV_WC_RETRY_EXC_ERR;
        if (!through
          || (written == IBV_WC_SUCCESS && invalidated != IBV_WC_SUCCESS
            && invalidated != IBV_WC_WR_FLUSH_ERR))
          ++wrong;
      }
    }
    CHECK(near_device.context()->ops.dealloc_mw(near_window) == 0);
    CHECK(far_device.context()->ops.dealloc_mw(far_window) == 0);
  }
  CHECK(wrong == 0);
}

TEST_CASE("long operations make progress without polling")
{
  connected c;
  SECTION("a large read through a key that is new to the peer")
  {
    constexpr std::size_t size = 24 << 20;
    memory near(c.near, size);
    memory far(c.far, size);
    far.fill(sent_byte);
    REQUIRE(c.a.read(1, near.sge(), far.address(), far.key()) == 0);
    CHECK(c.a.sent().next().status == IBV_WC_SUCCESS);
    CHECK(near.holds(sent_byte));
  }
  SECTION("many small writes with a different key each")
  {
    pair_options deep;
    deep.depth = 1024;
    deep.completions = 2048;
    connected d(deep);
    memory near(d.near, 8);
    near.fill(sent_byte);
    std::vector<std::unique_ptr<memory>> far;
    for (unsigned i = 0; i != 1000; ++i)
      far.push_back(std::make_unique<memory>(d.far, 8));
    for (unsigned i = 0; i != far.size(); ++i)
      REQUIRE(d.a.write(i, near.sge(), far[i]->address(), far[i]->key()) == 0);
    for (unsigned i = 0; i != far.size(); ++i)
      REQUIRE(d.a.sent().next().status == IBV_WC_SUCCESS);
    CHECK(
      std::all_of(far.begin(), far.end(), [](const auto& each) { return each->holds(sent_byte); }));
  }
  SECTION("large writes, also after a reset")
  {
    constexpr std::size_t size = 8 << 20;
    memory near(c.near, size);
    memory far(c.far, size);
    near.fill(sent_byte);
    for (unsigned round = 0; round != 3; ++round)
    {
      for (unsigned i = 0; i != 4; ++i)
        REQUIRE(c.a.write(i, near.sge(), far.address(), far.key()) == 0);
      if (round == 1)
      {
        REQUIRE(c.a.to(IBV_QPS_RESET) == 0); // while the writes are in progress
        REQUIRE(c.b.to(IBV_QPS_RESET) == 0);
        connect(c.a, c.b);
        continue;
      }
      // The engine's thread makes progress; this thread only polls completions.
      for (unsigned i = 0; i != 4; ++i)
        REQUIRE(c.a.sent().next().status == IBV_WC_SUCCESS);
    }
    CHECK(far.holds(sent_byte));
  }
}

TEST_CASE("a child of fork() that uses its parent's queue pair has no effect on the connection")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  connected c;
  memory near(c.near, 64);
  memory far(c.far, 64);
  near.fill(sent_byte);
  const auto write = [&]
  {
    REQUIRE(c.a.write(1, near.sge(), far.address(), far.key()) == 0);
    CHECK(c.a.sent().next().status == IBV_WC_SUCCESS);
  };
  for (int i = 0; i != 3; ++i) // later ones use the peer's memory directly
    write();
  far.fill(kept_byte);
  const std::string end = in_child(
    [&]
    {
      // It waits for ever if a thread of its parent held a lock of the device during fork().
      ::alarm(5);
      (void)c.a.write(2, near.sge(), far.address(), far.key());
      for (int i = 0; i != 100; ++i)
        (void)c.a.sent().poll();
      return std::string();
    });
  CHECK((end.empty() || end == " (wait status " + std::to_string(SIGALRM) + ")"));
  CHECK(far.holds(kept_byte));
  write();
  CHECK(far.holds(sent_byte));
}

TEST_CASE("a peer that writes continuously cannot access deregistered memory")
{
  connected c;
  memory near(c.near, 4096);
  near.fill(sent_byte);
  std::atomic<bool> stop{false};
  const unsigned rounds = emulated() ? 20 : 300;
  for (unsigned round = 0; round != rounds; ++round)
  {
    if (c.a.state() == IBV_QPS_ERR)
    {
      REQUIRE(c.a.to(IBV_QPS_RESET) == 0);
      REQUIRE(c.b.to(IBV_QPS_RESET) == 0);
      connect(c.a, c.b);
    }
    memory far(c.far, 4096);
    stop = false;
    std::atomic<unsigned> written{0};
    const std::uint64_t address = far.address();
    const std::uint32_t key = far.key();
    std::thread writer(
      [&]
      {
        while (!stop)
        {
          if (c.a.write(1, near.sge(), address, key) == 0
            && c.a.sent().next().status != IBV_WC_SUCCESS)
            return;
          ++written;
        }
      });
    CHECK(until([&] { return written > 3; }));
    far.deregister();
    far.fill(kept_byte);
    CHECK(until([&] { return c.a.state() == IBV_QPS_ERR; }));
    CHECK(far.holds(kept_byte));
    stop = true;
    writer.join();
    while (c.a.sent().poll())
    {
    }
  }
}

TEST_CASE("a queue pair that has written directly starts no write outside RTS")
{
  connected c;
  memory near(c.near, 64);
  shared_region far(c.far, 64);
  near.fill(sent_byte);
  const auto post = [&](std::uint64_t id)
  { return c.a.write(id, near.sge(), far.address(), far.mr()->rkey); };
  const auto holds = [&](std::uint8_t value)
  {
    return std::all_of(
      far.data(), far.data() + far.size(), [&](std::byte b) { return b == std::byte{value}; });
  };
  for (unsigned i = 0; i != 8; ++i) // later ones use the peer's memory directly
  {
    REQUIRE(post(i) == 0);
    REQUIRE(c.a.sent().next().status == IBV_WC_SUCCESS);
  }
  std::fill_n(far.data(), far.size(), std::byte{kept_byte});
  SECTION("the error state flushes it")
  {
    REQUIRE(c.a.to(IBV_QPS_ERR) == 0);
    REQUIRE(post(1) == 0);
    CHECK(c.a.sent().next().status == IBV_WC_WR_FLUSH_ERR);
    CHECK(holds(kept_byte));
  }
  SECTION("SQD keeps it for RTS")
  {
    REQUIRE(c.a.to(IBV_QPS_SQD) == 0);
    REQUIRE(post(1) == 0);
    CHECK_FALSE(c.a.sent().poll());
    CHECK(holds(kept_byte));
    REQUIRE(c.a.to(IBV_QPS_RTS) == 0);
    if (!has(feature::drained_queue_resumes))
      REQUIRE(post(2) == 0);
    CHECK(c.a.sent().next().status == IBV_WC_SUCCESS);
    CHECK(holds(sent_byte));
  }
  SECTION("a reset forgets it")
  {
    REQUIRE(c.a.to(IBV_QPS_RESET) == 0);
    CHECK(post(1) == EINVAL);
    CHECK_FALSE(c.a.sent().poll());
    CHECK(holds(kept_byte));
  }
}

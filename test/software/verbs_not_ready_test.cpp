//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/verbs_fixture.hpp"

#include "verbs/software/software.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

// Tests messages that find no receive: they are refused, and repeated when a receive is posted.

using namespace test;

namespace {

constexpr std::uint8_t longest_timer = 0; // 655 ms

struct receive_pool
{
  explicit receive_pool(const verbs_device& on)
    : device(on)
  {
    ibv_srq_init_attr with{};
    with.attr = {64, 1, 0};
    srq = on.api().create_srq(on.pd(), &with);
    REQUIRE(srq != nullptr);
  }
  ~receive_pool() { device.api().destroy_srq(srq); }
  receive_pool(const receive_pool&) = delete;
  receive_pool& operator=(const receive_pool&) = delete;

  int post(std::uint64_t id, ibv_sge into, unsigned count = 1) const
  {
    std::vector<ibv_recv_wr> list(count);
    for (unsigned i = 0; i != count; ++i)
      list[i] = {id + i, i + 1 != count ? &list[i + 1] : nullptr, &into, 1};
    ibv_recv_wr* bad = nullptr;
    return ibv_post_srq_recv(srq, list.data(), &bad);
  }

  const verbs_device& device;
  ibv_srq* srq = nullptr;
};

// The peer's engine refuses without a call of the program.
void wait_for_refusal(const endpoint& sender)
{
  REQUIRE(until([&] { return rdma::software::receiver_not_ready(sender.qp()); }));
}

} // namespace

TEST_CASE("a refused message is repeated when a receive is posted")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  pair_options o;
  o.rnr_timer = longest_timer;
  connected c(o);
  const std::size_t size = GENERATE(std::size_t{8}, std::size_t{700'000});
  memory near(c.near, size);
  memory far(c.far, size);
  near.fill(sent_byte);
  request what(GENERATE(IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM), {near.sge()});
  REQUIRE(c.a.post(what.remote(far.address(), far.key()).wr) == 0);
  wait_for_refusal(c.a);
  REQUIRE(c.b.receive(1, far.sge()) == 0);
  CHECK(c.a.sent().next().status == IBV_WC_SUCCESS);
  CHECK(c.b.received().next().status == IBV_WC_SUCCESS);
  CHECK(far.holds(sent_byte));
}

TEST_CASE("receives of a shared queue wake the queue pairs that were refused")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  constexpr unsigned pairs = 12;
  verbs_device near;
  verbs_device far;
  const receive_pool queue(far);
  pair_options o;
  o.rnr_timer = longest_timer;
  o.rnr_retry = 6; // too few if each receive woke all, and enough for a thread that is paused
  pair_options shares = o;
  shares.shared = queue.srq;
  std::vector<std::unique_ptr<endpoint>> senders;
  std::vector<std::unique_ptr<endpoint>> receivers;
  for (unsigned i = 0; i != pairs; ++i)
  {
    senders.push_back(std::make_unique<endpoint>(near, o));
    receivers.push_back(std::make_unique<endpoint>(far, shares));
    connect(*senders.back(), *receivers.back());
  }
  memory from(near, 8);
  memory into(far, 8);
  for (const auto& each : senders)
    REQUIRE(each->send(1, from.sge()) == 0);
  for (const auto& each : senders)
    wait_for_refusal(*each);
  SECTION("all posted at once")
  {
    REQUIRE(queue.post(1, into.sge(), pairs) == 0);
  }
  SECTION("one posted at a time")
  {
    for (unsigned i = 0; i != pairs; ++i)
      REQUIRE(queue.post(1, into.sge()) == 0);
  }
  for (const auto& each : senders)
    CHECK(each->sent().next().status == IBV_WC_SUCCESS);
  receivers.clear();
}

TEST_CASE("a message arrives that is sent while its receive is posted")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  pair_options o;
  o.rnr_timer = longest_timer;
  connected c(o);
  memory near(c.near, 8);
  memory far(c.far, 8);
  constexpr unsigned rounds = 1000;
  std::atomic<unsigned> sent{0};
  std::thread sender(
    [&]
    {
      for (unsigned i = 0; i != rounds; ++i)
      {
        sent.store(i + 1);
        if (c.a.send(i, near.sge()) != 0 || c.a.sent().next().status != IBV_WC_SUCCESS)
          std::abort();
      }
    });
  for (unsigned i = 0; i != rounds; ++i)
  {
    // The receive comes before the message, with it, or after it.
    while (sent.load() <= i)
      std::this_thread::yield();
    for (volatile unsigned spins = i % 100 * 100; spins != 0;)
      spins = spins - 1;
    REQUIRE(c.b.receive(i, far.sge()) == 0);
    const ibv_wc wc = c.b.received().next();
    CHECK(wc.status == IBV_WC_SUCCESS);
    CHECK(wc.wr_id == i);
  }
  sender.join();
}

TEST_CASE("the retry count limits refusals and not repetitions that a receive has caused")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  verbs_device near;
  verbs_device far;
  const receive_pool queue(far);
  pair_options o;
  o.rnr_timer = 20; // 10 ms
  o.rnr_retry = 1;
  pair_options shares = o;
  shares.shared = queue.srq;
  endpoint a(near, o);
  endpoint b(far, shares);
  endpoint other_a(near, o);
  endpoint other_b(far, shares);
  connect(a, b);
  connect(other_a, other_b);
  memory from(near, 8);
  memory into(far, 8);
  REQUIRE(a.send(1, from.sge()) == 0);
  CHECK(a.sent().next().status == IBV_WC_RNR_RETRY_EXC_ERR);
  REQUIRE(queue.post(1, into.sge()) == 0);
  REQUIRE(other_a.send(1, from.sge()) == 0);
  CHECK(other_a.sent().next().status == IBV_WC_SUCCESS);
}

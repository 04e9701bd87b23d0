//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests two processes that represent two hosts.

#include "software/verbs_channel.hpp"
#include "software/verbs_processes.hpp"

#include <algorithm>
#include <csignal>
#include <memory>
#include <random>
#include <vector>

using namespace test;

namespace {

/// A process that connects and then does nothing until it is killed or stopped.
bool wait_connected(const out_of_band& line)
{
  verbs_device d;
  endpoint e(d);
  memory m(d, 8);
  connect_to(e, line.exchange(e.name(m)));
  line.meet();
  line.meet(); // never returns
  return true;
}

/// A queue pair whose requests have no time limit, and a peer in another process.
struct end_without_timers
{
  static pair_options options(const channel& events)
  {
    pair_options result = with_events(events);
    result.timeout = 0;
    return result;
  }

  child<bool (*)(const out_of_band&)> other{&wait_connected};
  verbs_device d;
  channel events{d};
  endpoint e{d, options(events)};
  memory m{d, 8};
  end_name peer = other.line().exchange(e.name(m));
};

} // namespace

TEST_CASE("two processes exchange messages and access each other's memory")
{
  const unsigned rounds = emulated() ? 50 : 500;
  constexpr std::size_t size = 100'000;
  child other(
    [rounds](const out_of_band& line)
    {
      verbs_device d;
      endpoint e(d);
      memory m(d, size);
      memory small(d, 8);
      std::fill(m.bytes().begin(), m.bytes().end(), std::uint8_t{7});
      const end_name peer = line.exchange(e.name(m));
      connect_to(e, peer);
      must(e.receive(0, small.sge()) == 0, "receive");
      line.meet();
      bool good = true;
      for (unsigned i = 0; i < rounds && good; ++i)
      {
        good = e.received().next().status == IBV_WC_SUCCESS && e.receive(0, small.sge()) == 0
          && e.send(0, small.sge()) == 0 && e.sent().next().status == IBV_WC_SUCCESS;
      }
      line.meet();
      return good;
    });
  verbs_device d;
  endpoint e(d);
  memory m(d, size);
  memory small(d, 8);
  const end_name peer = other.line().exchange(e.name(m));
  connect_to(e, peer);
  other.line().meet();
  for (unsigned i = 0; i < rounds; ++i)
  {
    REQUIRE(e.receive(0, small.sge()) == 0);
    REQUIRE(e.read(1, m.sge(), peer.address, peer.key) == 0);
    // Fenced: writes the data of the read.
    REQUIRE(e.write(2, m.sge(), peer.address, peer.key, IBV_SEND_FENCE) == 0);
    REQUIRE(e.send(3, small.sge()) == 0);
    for (std::uint64_t id : {1u, 2u, 3u})
    {
      const ibv_wc wc = e.sent().next();
      REQUIRE(wc.status == IBV_WC_SUCCESS);
      REQUIRE(wc.wr_id == id);
    }
    REQUIRE(e.received().next().status == IBV_WC_SUCCESS);
  }
  CHECK(std::all_of(m.bytes().begin(), m.bytes().end(), [](std::uint8_t b) { return b == 7; }));
  other.line().meet();
  CHECK(other.succeeded());
}

TEST_CASE("outstanding requests fail with RETRY_EXC_ERR when the peer is killed")
{
  child other(&wait_connected);
  verbs_device d;
  pair_options o;
  o.rnr_retry = 7;
  endpoint e(d, o);
  memory m(d, 8);
  connect_to(e, other.line().exchange(e.name(m)));
  other.line().meet();
  for (unsigned i = 0; i < 3; ++i)
    REQUIRE(e.receive(10 + i, m.sge()) == 0);
  REQUIRE(e.send(1, m.sge()) == 0); // never finds a receive
  REQUIRE(e.send(2, m.sge()) == 0);
  other.kill();
  const ibv_wc wc = e.sent().next();
  CHECK(wc.status == IBV_WC_RETRY_EXC_ERR);
  CHECK(wc.wr_id == 1);
  CHECK(e.sent().next().status == IBV_WC_WR_FLUSH_ERR);
  for (unsigned i = 0; i < 3; ++i)
    CHECK(e.received().next().wr_id == 10 + i);
}

TEST_CASE("a request fails with RETRY_EXC_ERR when the peer has been stopped for too long")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  child other(
    [](const out_of_band& line)
    {
      verbs_device d;
      endpoint e(d);
      memory m(d, 8);
      connect_to(e, line.exchange(e.name(m)));
      for (std::uint64_t id = 0; id != 8; ++id)
        if (e.receive(id, m.sge()) != 0)
          return false;
      line.meet();
      ::raise(SIGSTOP);
      return true;
    });
  rdma::software::device_settings quick;
  quick.retry_time_min = std::chrono::milliseconds(100);
  verbs_device d(quick);
  pair_options o;
  o.rnr_retry = 7;
  endpoint e(d, o);
  memory m(d, 8);
  connect_to(e, other.line().exchange(e.name(m)));
  other.line().meet();
  REQUIRE(until(
    [&]
    {
      // It answers until it has stopped. (With shared memory, a write would not need an answer.)
      if (e.state() == IBV_QPS_ERR)
        return true;
      (void)e.send(1, m.sge());
      const ibv_wc wc = e.sent().next();
      return wc.status == IBV_WC_RETRY_EXC_ERR;
    }));
}

TEST_CASE("eight processes can send to one process and count in its memory concurrently")
{
  constexpr unsigned processes = 8;
  constexpr unsigned rounds = 20;
  constexpr std::size_t size = 1000;
  const auto talk = [](const out_of_band& line)
  {
    verbs_device d;
    endpoint e(d);
    memory out(d, size);
    memory in(d, size);
    memory count(d, 8);
    const end_name peer = line.exchange(e.name(in));
    connect_to(e, peer);
    must(e.receive(0, in.sge()) == 0, "receive");
    line.meet();
    std::mt19937 random(static_cast<unsigned>(::getpid()));
    bool good = true;
    for (unsigned i = 0; i < rounds && good; ++i)
    {
      // An individual message, which must come back unchanged.
      const auto text = static_cast<std::uint8_t>(random());
      out.fill(text);
      request add(IBV_WR_ATOMIC_FETCH_AND_ADD, {count.sge()}, 1);
      good = e.post(add.atomic(peer.address, peer.key, 1).wr) == 0 && e.send(2, out.sge()) == 0
        && e.sent().next().status == IBV_WC_SUCCESS && *count.word() < processes * rounds
        && e.sent().next().status == IBV_WC_SUCCESS && e.received().next().status == IBV_WC_SUCCESS
        && in.holds(text) && e.receive(0, in.sge()) == 0;
    }
    line.meet();
    return good;
  };
  // All children are forked before this process opens a device.
  std::vector<std::unique_ptr<child<decltype(talk)>>> others;
  for (unsigned i = 0; i < processes; ++i)
    others.push_back(std::make_unique<child<decltype(talk)>>(talk));

  verbs_device d;
  memory count(d, 8);
  struct served_client
  {
    explicit served_client(const verbs_device& on)
      : e(on)
      , text(on, size)
    {
    }
    endpoint e;
    memory text;
    unsigned answered = 0;
  };
  std::vector<std::unique_ptr<served_client>> clients;
  for (unsigned i = 0; i < processes; ++i)
  {
    clients.push_back(std::make_unique<served_client>(d));
    served_client& s = *clients.back();
    connect_to(s.e, others[i]->line().exchange(s.e.name(count)));
    REQUIRE(s.e.receive(0, s.text.sge()) == 0);
  }
  for (const auto& each : others)
    each->line().meet();
  unsigned left = processes * rounds;
  const auto serve = [&]
  {
    for (const auto& each : clients)
    {
      const auto wc = each->e.received().poll();
      if (!wc)
        continue;
      REQUIRE(wc->status == IBV_WC_SUCCESS);
      REQUIRE(wc->byte_len == size);
      // Sent from the receive buffer: no receive is posted meanwhile.
      REQUIRE(each->e.send(1, each->text.sge()) == 0);
      REQUIRE(each->e.sent().next().status == IBV_WC_SUCCESS);
      // The next message waits until this receive is posted.
      REQUIRE(each->e.receive(0, each->text.sge()) == 0);
      ++each->answered;
      --left;
      return true;
    }
    return false;
  };
  // Each answer has the full time limit.
  while (left != 0)
    REQUIRE(until(serve));
  for (const auto& each : clients)
    CHECK(each->answered == rounds);
  CHECK(*count.word() == processes * rounds);
  for (const auto& each : others)
    each->line().meet();
  for (const auto& each : others)
    CHECK(each->succeeded());
}

TEST_CASE("a waiting program that polled before receives the event when its peer stops")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  child other(&wait_connected);
  rdma::software::device_settings quick;
  quick.retry_time_min = std::chrono::milliseconds(60);
  verbs_device d(quick);
  const channel events(d);
  pair_options o = with_events(events);
  o.timeout = 17; // for a peer that is late, but not stopped
  const endpoint e(d, o);
  const memory m(d, 8);
  const end_name peer = other.line().exchange(e.name(m));
  connect_to(e, peer);
  other.line().meet();
  o.timeout = 1;
  // Several times the device's limit for a silent peer, so that its timers are set and expire:
  // requests to a queue pair that never answers fail meanwhile.
  const verbs_device far;
  const endpoint silent(far);
  for (int i = 0; i < 4; ++i)
  {
    endpoint lost(d, o);
    connect_to(lost, silent.name());
    REQUIRE(lost.write(1, m.sge(), peer.address, peer.key) == 0);
    std::optional<ibv_wc> failed;
    REQUIRE(until(
      [&]
      {
        REQUIRE(e.write(1, m.sge(), peer.address, peer.key) == 0);
        REQUIRE(e.sent().next().status == IBV_WC_SUCCESS);
        failed = lost.sent().poll();
        return failed.has_value();
      }));
    CHECK(failed->status == IBV_WC_RETRY_EXC_ERR);
  }
  other.stop();
  arm(e.sent());
  REQUIRE(e.send(2, m.sge()) == 0); // a write may not need the peer on the same host
  REQUIRE(events.is_readable(patience));
  CHECK(events.take() == e.sent().get());
  CHECK(e.sent().next().status == IBV_WC_RETRY_EXC_ERR);
}

TEST_CASE("a waiting program receives the event when its peer is killed")
{
  BOOST_RDMA_TEST_NEEDS(software_device); // a NIC notices by time limits only
  std::unique_ptr<end_without_timers> end;
  // The end with the smaller number connects. Its timer for that would find the end of the peer.
  do
    end = std::make_unique<end_without_timers>();
  while (end->e.qp()->qp_num < end->peer.qp);
  const endpoint& e = end->e;
  const memory& m = end->m;
  connect_to(e, end->peer);
  end->other.line().meet();
  REQUIRE(e.write(1, m.sge(), end->peer.address, end->peer.key) == 0);
  REQUIRE(e.sent().next().status == IBV_WC_SUCCESS); // connected
  arm(e.sent());
  end->other.stop(); // so that it does not answer, and no timer repeats the request
  REQUIRE(e.send(2, m.sge()) == 0);
  end->other.kill();
  REQUIRE(end->events.is_readable(patience));
  CHECK(end->events.take() == e.sent().get());
  CHECK(e.sent().next().status == IBV_WC_RETRY_EXC_ERR);
}

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests completion channels and progress without polling.

#include "software/verbs_channel.hpp"

#include "common/allocations.hpp"
#include "common/sleeping_threads.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

using namespace test;

namespace {

/// Two connected queue pairs; completions of the far one raise events.
struct watched_pair
{
  explicit watched_pair(std::size_t size = 8)
    : m(near, size)
    , into(far, size)
  {
    connect(a, b);
  }

  verbs_device near;
  verbs_device far;
  channel ch{far};
  endpoint a{near};
  endpoint b{far, with_events(ch)};
  memory m;
  memory into;
};

/// Two connected queue pairs. Completions of the far one raise events on a channel whose descriptor
/// a program watches; its context has another channel, whose thread waits for the sockets.
struct two_channels
{
  two_channels() { connect(a, b); }

  void receive_armed(unsigned id)
  {
    REQUIRE(b.receive(id, into.sge()) == 0);
    arm(b.received());
  }

  /// Waits for an event of the watched channel. `look`: the work of the other channel's thread.
  void wait_for_event(unsigned id, const std::function<void()>& look = {}) const
  {
    std::array<pollfd, 2> readable{
      pollfd{watched.get()->fd, POLLIN, 0}, pollfd{sockets_and_event, POLLIN, 0}};
    while (readable[0].revents == 0)
    {
      REQUIRE(::poll(readable.data(), look ? 2 : 1,
                static_cast<int>(std::chrono::milliseconds(patience).count()))
        > 0);
      if (readable[0].revents == 0)
        look();
    }
    CHECK(watched.take() == b.received().get());
    CHECK(b.received().next().wr_id == id);
  }

  static rdma::software::device_settings patient()
  {
    rdma::software::device_settings result;
    result.engine_delay = std::chrono::hours(1);
    return result;
  }

  verbs_device near;
  verbs_device far{patient()};
  channel watched{far};
  channel on_sockets{far};
  const int sockets_and_event = rdma::software::wait_descriptor(on_sockets.get());
  endpoint a{near};
  endpoint b{far, with_events(watched)};
  memory m{near, 8};
  memory into{far, 8};
};

} // namespace

TEST_CASE("an armed completion queue raises one event and an unarmed one raises none")
{
  watched_pair w;
  w.ch.unblock();
  for (unsigned i = 0; i < 4; ++i)
    REQUIRE(w.b.receive(i, w.into.sge()) == 0);
  REQUIRE(w.a.send(0, w.m.sge()) == 0);
  CHECK(w.a.sent().next().status == IBV_WC_SUCCESS);
  CHECK(w.ch.take() == nullptr);
  CHECK(errno == EAGAIN);
  arm(w.b.received());
  REQUIRE(w.a.send(1, w.m.sge()) == 0);
  REQUIRE(w.a.send(2, w.m.sge()) == 0);
  ibv_cq* cq = nullptr;
  CHECK(until([&] { return (cq = w.ch.take()) != nullptr; }));
  CHECK(cq == w.b.received().get());
  for (unsigned i = 0; i < 3; ++i)
    CHECK(w.b.received().next().wr_id == i);
  CHECK(w.ch.take() == nullptr);
  CHECK(w.a.sent().next().wr_id == 1);
  CHECK(w.a.sent().next().wr_id == 2);
}

// As on mlx5. UCX arms a queue after an empty poll, and waits without another poll.
TEST_CASE("arming a completion queue raises an event for completions that raised none")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  watched_pair w;
  w.ch.unblock();
  const ibv_cq* const queue = w.b.received().get();
  unsigned arrived = 0;
  const auto receive = [&](unsigned flags = 0)
  {
    REQUIRE(w.b.receive(arrived, w.into.sge()) == 0);
    REQUIRE(w.a.send(arrived++, w.m.sge(), flags) == 0);
    CHECK(w.a.sent().next().status == IBV_WC_SUCCESS);
    CHECK(w.ch.take() == nullptr); // brings the completion into the queue
  };
  unsigned polled = 0;
  const auto poll_all = [&]
  {
    for (; polled != arrived; ++polled)
      CHECK(w.b.received().next().wr_id == polled);
  };

  receive();
  arm(w.b.received());
  CHECK(w.ch.take() == queue);
  arm(w.b.received(), true); // the completion has raised its event
  CHECK(w.ch.take() == nullptr);
  poll_all();
  receive(); // not solicited
  poll_all();
  arm(w.b.received(), true);
  CHECK(w.ch.take() == nullptr);
  receive();
  arm(w.b.received(), true);
  CHECK(w.ch.take() == nullptr);
  arm(w.b.received());
  CHECK(w.ch.take() == queue);
  receive(IBV_SEND_SOLICITED);
  receive();
  arm(w.b.received(), true);
  CHECK(w.ch.take() == queue);
  poll_all();
  receive(IBV_SEND_SOLICITED);
  receive();
  CHECK(w.b.received().next().wr_id == polled++); // the solicited one
  arm(w.b.received(), true);
  CHECK(w.ch.take() == nullptr);
  poll_all();
  arm(w.b.received());
  CHECK(w.ch.take() == nullptr);
  arm(w.b.received(), true); // it stays armed for any completion
  REQUIRE(w.b.receive(arrived, w.into.sge()) == 0);
  REQUIRE(w.a.send(arrived, w.m.sge()) == 0);
  CHECK(w.ch.is_readable(patience));
  CHECK(w.ch.take() == queue);
}

TEST_CASE("a completion queue has one event in its channel, however often it is armed")
{
  BOOST_RDMA_TEST_NEEDS(software_device); // a NIC adds one for each
  watched_pair w;
  w.ch.unblock();
  for (unsigned id = 0; id != 3; ++id)
  {
    REQUIRE(w.b.receive(id, w.into.sge()) == 0);
    arm(w.b.received());
    REQUIRE(w.a.send(id, w.m.sge()) == 0);
    CHECK(w.ch.is_readable(patience));
    CHECK(w.b.received().next().wr_id == id);
  }
  CHECK(w.ch.take() == w.b.received().get());
  CHECK(w.ch.take() == nullptr);
}

TEST_CASE("a completion queue that is destroyed takes its event out of the channel")
{
  const verbs_device near;
  const verbs_device far;
  const channel ch(far);
  ch.unblock();
  const endpoint a(near);
  std::optional<endpoint> b(std::in_place, far, with_events(ch));
  connect(a, *b);
  CHECK(far.api().destroy_comp_channel(ch.get()) == EBUSY);
  memory m(near, 8);
  memory into(far, 8);
  REQUIRE(b->receive(1, into.sge()) == 0);
  arm(b->received());
  REQUIRE(a.send(1, m.sge()) == 0);
  REQUIRE(ch.is_readable(patience));
  b.reset();
  CHECK_FALSE(ch.is_readable(std::chrono::milliseconds(0)));
  CHECK(ch.take() == nullptr);
}

TEST_CASE("the destruction of a completion queue waits until its events have been acknowledged")
{
  const verbs_device near;
  const verbs_device far;
  const channel ch(far);
  const endpoint a(near);
  std::optional<endpoint> b(std::in_place, far, with_events(ch));
  connect(a, *b);
  memory m(near, 8);
  memory into(far, 8);
  REQUIRE(b->receive(1, into.sge()) == 0);
  arm(b->received());
  REQUIRE(a.send(1, m.sge()) == 0);
  ibv_cq* cq = nullptr;
  void* user = nullptr;
  REQUIRE(far.api().get_cq_event(ch.get(), &cq, &user) == 0);
  std::atomic<bool> destroyed{false};
  std::thread destroyer(
    [&]
    {
      b.reset();
      destroyed = true;
    });
  wait_for_sleeping_threads();
  CHECK_FALSE(destroyed);
  far.api().ack_cq_events(cq, 1);
  destroyer.join();
}

TEST_CASE("a completion that a poll of an armed completion queue finds raises an event")
{
  watched_pair w;
  w.ch.unblock();
  const unsigned count = emulated() ? 50 : 300; // often the engine finds it first
  for (unsigned id = 0; id != count; ++id)
  {
    REQUIRE(w.b.receive(id, w.into.sge()) == 0);
    arm(w.b.received());
    REQUIRE(w.a.send(id, w.m.sge()) == 0);
    CHECK(w.b.received().next().wr_id == id);
    REQUIRE(w.ch.is_readable(patience));
    CHECK(w.ch.take() == w.b.received().get());
    CHECK(w.a.sent().next().status == IBV_WC_SUCCESS);
  }
}

TEST_CASE("a completion channel is readable exactly while it has an event")
{
  watched_pair w;
  w.ch.unblock();
  const unsigned count = emulated() ? 50 : 300;
  unsigned without_event = 0;
  for (unsigned i = 0; i != count; ++i)
  {
    REQUIRE(w.b.receive(i, w.into.sge()) == 0);
    REQUIRE(w.a.send(i, w.m.sge()) == 0);
    std::optional<ibv_wc> received;
    REQUIRE(until(
      [&]
      {
        without_event += w.ch.is_readable(std::chrono::milliseconds(0)) ? 1 : 0;
        return (received = w.b.received().poll()).has_value();
      }));
    CHECK(w.a.sent().next().status == IBV_WC_SUCCESS);
  }
  CHECK(without_event == 0);
  for (unsigned i = 0; i != count; ++i)
  {
    REQUIRE(w.b.receive(i, w.into.sge()) == 0);
    arm(w.b.received());
    REQUIRE(w.a.send(i, w.m.sge()) == 0);
    REQUIRE(w.ch.is_readable(patience));
    REQUIRE(w.ch.take() == w.b.received().get());
    CHECK_FALSE(w.ch.is_readable(std::chrono::milliseconds(0)));
    CHECK(w.b.received().next().wr_id == i);
    CHECK(w.a.sent().next().status == IBV_WC_SUCCESS);
  }
}

TEST_CASE("an edge-triggered watch of a completion channel reports each event")
{
  verbs_device on;
  channel ch(on);
  ch.unblock();
  memory m(on, 8);
  std::deque<endpoint> ends;
  const int watching = ::epoll_create1(EPOLL_CLOEXEC);
  REQUIRE(watching >= 0);
  epoll_event e{};
  e.events = EPOLLIN | EPOLLET;
  REQUIRE(::epoll_ctl(watching, EPOLL_CTL_ADD, ch.get()->fd, &e) == 0);
  constexpr unsigned count = 3;
  for (unsigned i = 0; i != count; ++i)
  {
    const endpoint& each = ends.emplace_back(on, with_events(ch));
    REQUIRE(each.to_init() == 0);
    REQUIRE(each.receive(i, m.sge()) == 0);
    arm(each.received());
    REQUIRE(each.to(IBV_QPS_ERR) == 0); // flushes the receive
    constexpr std::chrono::milliseconds limit = patience;
    CHECK(::epoll_wait(watching, &e, 1, static_cast<int>(limit.count())) == 1);
  }
  for (const endpoint& each : ends)
    CHECK(ch.take() == each.received().get());
  CHECK(ch.take() == nullptr);
  ::close(watching);
}

TEST_CASE("an event of a watched channel does not wait for the engine's delay")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  two_channels all;
  const completions other(all.far);
  for (unsigned i = 0; i != 3; ++i)
  {
    all.receive_armed(i);
    // A program has polled a moment ago, and waits for its channel from now on.
    CHECK_FALSE(other.poll());
    REQUIRE(all.a.send(i, all.m.sge()) == 0);
    all.wait_for_event(i);
  }
}

TEST_CASE("a thread that waits for the sockets produces the events of watched channels")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  two_channels all;
  all.on_sockets.unblock();
  const completions standing_by(all.far, 16, all.on_sockets.get());
  for (unsigned i = 0; i != 3; ++i)
  {
    arm(standing_by);
    all.receive_armed(i);
    CHECK_FALSE(standing_by.poll()); // so the engine leaves the work to this thread
    REQUIRE(all.a.send(i, all.m.sge()) == 0);
    all.wait_for_event(i, [&] { CHECK(all.on_sockets.take() == nullptr); });
  }
}

TEST_CASE(
  "an event of a watched channel does not wait for a thread that has waited for the sockets")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  two_channels all;
  for (unsigned i = 0; i != 20; ++i)
  {
    std::optional<completions> standing_by(std::in_place, all.far, 16, all.on_sockets.get());
    arm(*standing_by);
    all.receive_armed(i);
    CHECK_FALSE(standing_by->poll());
    REQUIRE(all.a.send(i, all.m.sge()) == 0);
    standing_by.reset();
    arm(all.b.received());
    all.wait_for_event(i);
  }
}

TEST_CASE("a completion queue armed for solicited events waits for one or for an error")
{
  watched_pair w;
  w.ch.unblock();
  for (unsigned i = 0; i < 4; ++i)
    REQUIRE(w.b.receive(i, w.into.sge()) == 0);
  arm(w.b.received(), true);
  REQUIRE(w.a.send(0, w.m.sge()) == 0);
  CHECK(w.a.sent().next().status == IBV_WC_SUCCESS);
  CHECK(w.ch.take() == nullptr);
  SECTION("solicited")
  {
    REQUIRE(w.a.send(0, w.m.sge(), IBV_SEND_SOLICITED) == 0);
    CHECK(until([&] { return w.ch.take() != nullptr; }));
  }
  SECTION("an error")
  {
    REQUIRE(w.b.to(IBV_QPS_ERR) == 0);
    CHECK(w.ch.take() != nullptr);
  }
}

TEST_CASE("a completion wakes a blocked get_cq_event")
{
  watched_pair w;
  for (unsigned i = 0; i < 50; ++i)
  {
    REQUIRE(w.b.receive(i, w.into.sge()) == 0);
    arm(w.b.received());
    ibv_cq* taken = nullptr;
    std::thread waiting([&] { taken = w.ch.take(); });
    REQUIRE(w.a.send(i, w.m.sge()) == 0);
    waiting.join();
    CHECK(taken == w.b.received().get());
    CHECK(w.b.received().next().wr_id == i);
    CHECK(w.a.sent().next().wr_id == i);
  }
}

namespace {

/// Waits for events like Asio: edge-triggered, and polling until the queue is empty.
class edge_waiter
{
public:
  edge_waiter(const channel& of, const completions& cq)
    : channel_(of)
    , cq_(cq)
    , epoll_(::epoll_create1(0))
  {
    of.unblock();
    epoll_event e{};
    e.events = EPOLLIN | EPOLLET;
    must(::epoll_ctl(epoll_, EPOLL_CTL_ADD, of.get()->fd, &e) == 0, "epoll_ctl");
  }
  ~edge_waiter() { ::close(epoll_); }
  edge_waiter(const edge_waiter&) = delete;
  edge_waiter& operator=(const edge_waiter&) = delete;

  /// Returns the next completion, or nothing if a wake-up was lost.
  std::optional<ibv_wc> next()
  {
    for (;;)
    {
      if (auto wc = cq_.poll())
        return wc;
      arm(cq_);
      if (auto wc = cq_.poll())
        return wc;
      for (;;)
      {
        constexpr std::chrono::milliseconds limit = patience;
        epoll_event e{};
        if (::epoll_wait(epoll_, &e, 1, static_cast<int>(limit.count())) == 0)
          return std::nullopt;
        bool any = false;
        while (channel_.take() != nullptr)
          any = true;
        if (any)
          break;
      }
    }
  }

private:
  const channel& channel_;
  const completions& cq_;
  int epoll_;
};

} // namespace

TEST_CASE("no wake-up is lost when a channel is watched edge-triggered")
{
  // With keys that the peer has not used before, some wires exchange more packets than the
  // messages.
  const bool shows_keys = GENERATE(false, true);
  CAPTURE(shows_keys);
  verbs_device near;
  verbs_device far;
  channel near_channel(near);
  channel far_channel(far);
  endpoint a(near, with_events(near_channel));
  endpoint b(far, with_events(far_channel));
  connect(a, b);
  memory m(near, 8);
  memory into(far, 8);
  const unsigned count = emulated() ? 1'000 : shows_keys ? 5'000 : 20'000;
  std::atomic<bool> lost{false};
  std::thread server(
    [&]
    {
      edge_waiter wait(far_channel, b.received());
      for (unsigned i = 0; i < count && !lost; ++i)
      {
        if (b.receive(i, into.sge()) != 0 || !wait.next() || b.send(i, into.sge()) != 0)
          lost = true;
        if (!b.sent().poll())
          std::this_thread::yield();
        while (b.sent().poll())
        {
        }
      }
    });
  edge_waiter wait(near_channel, a.received());
  for (unsigned i = 0; i < count && !lost; ++i)
  {
    if (a.receive(i, m.sge()) != 0)
      lost = true;
    std::optional<memory> fresh;
    if (shows_keys)
    {
      fresh.emplace(far, 8);
      if (a.write(i, m.sge(), fresh->address(), fresh->key()) != 0)
        lost = true;
    }
    while (a.send(i, m.sge()) == ENOMEM)
    {
      while (a.sent().poll())
      {
      }
    }
    if (!wait.next())
      lost = true;
    while (a.sent().poll())
    {
    }
  }
  server.join();
  CHECK_FALSE(lost);
}

TEST_CASE("events arrive on hundreds of completion channels, watched or waited for")
{
  // Linux limits the nesting depth of epoll sets that watch a socket.
  verbs_device near;
  verbs_device far;
  std::deque<channel> channels;
  const int watching = ::epoll_create1(EPOLL_CLOEXEC);
  REQUIRE(watching >= 0);
  const int count = emulated() ? 20 : 300;
  for (int i = 0; i < count; ++i)
  {
    epoll_event e{};
    e.events = EPOLLIN | EPOLLET;
    REQUIRE(::epoll_ctl(watching, EPOLL_CTL_ADD, channels.emplace_back(near).get()->fd, &e) == 0);
  }
  for (const bool waits : {false, true})
  {
    for (const channel& each : channels)
    {
      endpoint a(near, with_events(each));
      endpoint b(far);
      connect(a, b);
      memory m(near, 8);
      memory into(far, 8);
      REQUIRE(b.receive(1, into.sge()) == 0);
      arm(a.sent());
      REQUIRE(a.send(1, m.sge()) == 0);
      if (!waits)
      {
        constexpr std::chrono::milliseconds limit = patience;
        epoll_event e{};
        REQUIRE(::epoll_wait(watching, &e, 1, static_cast<int>(limit.count())) == 1);
      }
      CHECK(each.take() == a.sent().get());
      CHECK(a.sent().next().wr_id == 1);
      CHECK(b.received().next().wr_id == 1);
    }
  }
  ::close(watching);
}

TEST_CASE("writes, reads and atomics complete when the peer's program never polls")
{
  connected c; // no thread ever polls b's queues
  memory near(c.near, 4096);
  memory far(c.far, 4096);
  const unsigned rounds = emulated() ? 500 : 2000;
  for (unsigned i = 0; i < rounds; ++i)
  {
    REQUIRE(c.a.write(1, near.sge(), far.address(), far.key()) == 0);
    REQUIRE(c.a.read(2, near.sge(), far.address(), far.key()) == 0);
    request add(IBV_WR_ATOMIC_FETCH_AND_ADD, {near.sge(0, 8)}, 3);
    REQUIRE(c.a.post(add.atomic(far.address(8), far.key(), 0).wr) == 0);
    for (std::uint64_t id : {1u, 2u, 3u})
    {
      const ibv_wc wc = c.a.sent().next();
      REQUIRE(wc.status == IBV_WC_SUCCESS);
      REQUIRE(wc.wr_id == id);
    }
  }
}

TEST_CASE("the event of a send precedes the event of the peer's answer to it")
{
  BOOST_RDMA_TEST_NEEDS(software_device); // the specification does not require it
  verbs_device near;
  verbs_device far;
  const channel ch(near);
  const endpoint a(near, with_events(ch));
  const endpoint b(far);
  const memory m(near, 8);
  const memory into(far, 8);
  connect(a, b);
  for (unsigned i = 0; i != 200; ++i)
  {
    REQUIRE(a.receive(i, m.sge()) == 0);
    REQUIRE(b.receive(i, into.sge()) == 0);
    arm(a.sent());
    arm(a.received());
    REQUIRE(a.send(i, m.sge()) == 0);
    REQUIRE(b.received().next().status == IBV_WC_SUCCESS);
    REQUIRE(b.send(i, into.sge()) == 0);
    REQUIRE(ch.take() == a.sent().get());
    REQUIRE(a.sent().poll());
    REQUIRE(ch.take() == a.received().get());
    REQUIRE(a.received().poll());
    REQUIRE(b.sent().next().status == IBV_WC_SUCCESS);
  }
}

TEST_CASE("a sender's completion does not wait for the receiver to poll")
{
  connected c;
  memory near(c.near, 8);
  memory far(c.far, 8);
  for (unsigned i = 0; i < 60; ++i)
  {
    REQUIRE(c.b.receive(i, far.sge()) == 0);
    REQUIRE(c.a.send(i, near.sge()) == 0);
    // The receiver polls until it has this message, and not again before the sender's completion.
    CHECK(c.b.received().next().wr_id == i);
    CHECK(c.a.sent().next().wr_id == i);
  }
}

TEST_CASE("posting, polling and waiting allocate nothing from the heap")
{
  watched_pair w(100'000);
  w.ch.unblock();
  auto exchange = [&](unsigned rounds)
  {
    bool good = true;
    ibv_sge to = w.into.sge();
    ibv_sge from = w.m.sge();
    ibv_recv_wr receive{};
    receive.sg_list = &to;
    receive.num_sge = 1;
    ibv_send_wr send{};
    send.sg_list = &from;
    send.num_sge = 1;
    for (unsigned i = 0; i < rounds; ++i)
    {
      ibv_recv_wr* bad_receive = nullptr;
      ibv_send_wr* bad_send = nullptr;
      good = good && w.b.qp()->context->ops.post_recv(w.b.qp(), &receive, &bad_receive) == 0;
      arm(w.b.received());
      from.length = i % 2 == 0 ? 64 : 100'000;
      send.opcode = IBV_WR_SEND;
      good = good && w.a.qp()->context->ops.post_send(w.a.qp(), &send, &bad_send) == 0;
      send.opcode = IBV_WR_RDMA_READ;
      send.wr.rdma.remote_addr = w.into.address();
      send.wr.rdma.rkey = w.into.key();
      good = good && w.a.qp()->context->ops.post_send(w.a.qp(), &send, &bad_send) == 0;
      while (w.ch.take() == nullptr)
      {
      }
      while (!w.b.received().poll())
      {
      }
      for (unsigned n = 0; n < 2;)
      {
        if (w.a.sent().poll())
          ++n;
      }
    }
    return good;
  };
  CHECK(exchange(200));
  allocation_count count;
  const bool good = exchange(emulated() ? 200 : 2000);
  count.stop();
  CHECK(good);
  INFO(first_stack());
  CHECK(count.value() == 0);
}

TEST_CASE("many threads can use queue pairs of one device concurrently")
{
  verbs_device near;
  verbs_device far;
  std::atomic<unsigned> failures{0};
  auto work = [&](unsigned seed)
  {
    for (unsigned round = 0; round < 3; ++round)
    {
      endpoint a(near);
      endpoint b(far);
      connect(a, b);
      memory m(near, 50'000);
      memory into(far, 50'000);
      for (unsigned i = 0; i < 200; ++i)
      {
        const std::size_t size = (i * 977 + seed) % 50'000;
        if (b.receive(i, into.sge()) != 0 || a.send(i, m.sge(0, size)) != 0
          || a.read(i, m.sge(0, size), into.address(), into.key()) != 0)
          ++failures;
        if (b.received().next().byte_len != size || a.sent().next().status != IBV_WC_SUCCESS
          || a.sent().next().status != IBV_WC_SUCCESS)
          ++failures;
      }
      if (round == 1)
        (void)a.send(7, m.sge()); // destroyed while a request is outstanding
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i)
    threads.emplace_back(work, i * 31);
  for (std::thread& t : threads)
    t.join();
  CHECK(failures == 0);
}

TEST_CASE("several threads can post to one queue pair while others poll and query it")
{
  pair_options o;
  o.depth = 256;
  o.completions = 1024;
  connected c(o);
  memory near(c.near, 64);
  memory far(c.far, 64);
  const unsigned each = emulated() ? 500 : 5000;
  std::atomic<unsigned> done{0};
  std::atomic<bool> failed{false};
  auto post = [&]
  {
    for (unsigned i = 0; i < each; ++i)
    {
      int error = 0;
      while ((error = c.a.write(i, near.sge(), far.address(), far.key())) == ENOMEM && !failed)
        std::this_thread::yield();
      if (error != 0)
        failed = true;
    }
  };
  auto poll = [&]
  {
    while (done < 2 * each && !failed)
    {
      if (const auto wc = c.a.sent().poll())
      {
        ++done;
        if (wc->status != IBV_WC_SUCCESS)
          failed = true;
      }
    }
  };
  auto ask = [&]
  {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    while (done < 2 * each && !failed)
      c.near.api().query_qp(c.a.qp(), &attr, 0, &init);
  };
  std::thread threads[] = {
    std::thread(post), std::thread(post), std::thread(poll), std::thread(poll), std::thread(ask)};
  for (std::thread& t : threads)
    t.join();
  CHECK_FALSE(failed);
  CHECK(done == 2 * each);
}

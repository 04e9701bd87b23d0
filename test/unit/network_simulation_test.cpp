//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/device_traits.hpp"
#include "common/figures.hpp"
#include "unit/agenda.hpp"
#include "unit/simulated_program.hpp"
#include "unit/simulated_seeds.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <random>
#include <span>
#include <utility>
#include <vector>

// Two reliable queue pairs on two hosts, in one thread on simulated time. Their frames travel in
// order, as by TCP, with delays and as far as the peer has room. A seed decides about the times of
// all steps, and about an end that stops, dies or withdraws memory, or a network that is cut. The
// real requester and responder run.

namespace network_simulation {
namespace {

using namespace simulation;

constexpr std::int64_t patience = 2000 * ms; // with a peer from which nothing arrives

enum class fault
{
  none,
  stop, // of an end for a while
  cut,  // of the network for a while
  deregistration,
  death,
  rnr_limit,
};
constexpr unsigned faults = 6;

/// A frame with its payload, or the end of the connection.
struct packet
{
  std::vector<std::byte> header;
  std::vector<std::byte> payload;
  [[nodiscard]] bool is_end() const { return header.empty(); }
  [[nodiscard]] std::size_t size() const { return header.size() + payload.size(); }
};

class network_end final : public program
{
public:
  network_end(
    std::uint32_t number, std::uint32_t peer, const kind& is, coverage& found, agenda& times)
    : program(number, peer, is, found)
    , times_(times)
    , window_(times.one_in(2) ? 1 + times.random() % 30'000 : 200'000)
  {
  }

  void connect(network_end& peer) { peer_ = peer_end_ = &peer; }

  /// Posts a receive or a request, or takes a step.
  void act()
  {
    if (over_ || stopped_)
      return;
    if (may_post_receive() && times_.one_in(2))
      program::post_receive();
    else if (may_post())
      post(times_.random);
    work_soon();
  }

  /// From now on there are receives for everything.
  void post_all()
  {
    posts_all_ = true;
    work_soon();
  }

  void stop() { stopped_ = true; }
  void go_on()
  {
    stopped_ = false;
    take_all();
    work();
  }

  void kill()
  {
    if (!over_)
      send({}); // the kernel closes the socket
    over_ = killed_ = true;
  }

  void destroy()
  {
    if (over_)
      return;
    over_ = killed_ = true;
    say_the_last();
  }

  /// The network has carried nothing for too long.
  void give_up()
  {
    if (!over_)
      lose();
  }

  void set_cut(bool on)
  {
    cut_ = on;
    while (!cut_ && !held_.empty())
    {
      const packet next = std::move(held_.front());
      held_.pop_front();
      arrive(next);
    }
  }

private:
  void work_soon()
  {
    times_.at(times_.delay(20 * us), [this] { work(); });
  }

  void work()
  {
    if (over_ || stopped_)
      return;
    while (posts_all_ && may_post_receive())
      program::post_receive();
    transmit();
  }

  void transmit()
  {
    bool some = false;
    while (under_way_ < window_)
    {
      frame next;
      const bool answers = times_.one_in(2);
      if (answers ? !responses.next(next) && !requests.next(next)
                  : !requests.next(next) && !responses.next(next))
        break;
      send_frame(next);
      some = true;
    }
    found_.full_rings += under_way_ >= window_ ? 1 : 0;
    frame last;
    if (responses.next_acknowledgement(last, !some))
      send_frame(last);
    if (requests.failed() || responses.failed())
      end_now();
  }

  void send_frame(const frame& what)
  {
    packet made;
    made.header.assign(what.bytes.begin(), what.bytes.begin() + what.header_size);
    if (what.source != frame::origin::none)
      while (made.payload.size() != what.payload)
      {
        const auto offset = static_cast<std::uint32_t>(made.payload.size());
        pinned_buffers from;
        std::uint64_t done = 0;
        const bool permitted = what.response
          ? responses.gather(what, offset, what.payload - offset, from, done)
          : requests.gather(what, offset, what.payload - offset, from, done);
        if (!permitted)
          return what.response ? responses.unreadable(what, detail_local_key)
                               : requests.unreadable(what, detail_local_key);
        for (const iovec& each : from.view())
        {
          const auto* const bytes = static_cast<const std::byte*>(each.iov_base);
          made.payload.insert(made.payload.end(), bytes, bytes + each.iov_len);
        }
      }
    if (!what.response)
      requests.sent(what);
    send(std::move(made));
  }

  void send(packet what)
  {
    under_way_ += what.size();
    network_end& to = *peer_end_;
    to.next_arrival_ =
      std::max(to.next_arrival_, times_.now + times_.delay(times_.one_in(20) ? 2 * ms : 30 * us));
    times_.at(to.next_arrival_ - times_.now,
      [&to, what = std::move(what)]
      {
        if (to.cut_ || !to.held_.empty())
          to.held_.push_back(what);
        else
          to.arrive(what);
      });
  }

  void arrive(const packet& what)
  {
    inbox_.push_back(what);
    if (!stopped_)
      take_all();
  }

  void take_all()
  {
    while (!inbox_.empty())
    {
      const packet next = std::move(inbox_.front());
      inbox_.pop_front();
      peer_end_->under_way_ -= next.size();
      if (!over_)
        next.is_end() ? lose() : take(next);
    }
    peer_end_->work_soon(); // there is room
    if (!over_)
      work_soon();
  }

  void take(const packet& what)
  {
    const auto h = decode(what.header);
    REQUIRE(h);
    REQUIRE(h->kind == with_.kind);
    const bool is_request = (traits_of(h->op) & trait_request) != 0;
    const verdict how = is_request ? responses.receive(*h) : requests.receive(*h);
    REQUIRE(how != verdict::malformed);
    if (how == verdict::accept)
    {
      if (place(what.payload, is_request))
        is_request ? void(responses.finish()) : void(requests.finish());
      else
        is_request ? responses.unplaceable(detail_local_key)
                   : requests.unplaceable(detail_local_key);
    }
    if (const std::int64_t wait = count_waits(); wait != 0)
      times_.at(wait + times_.delay(us),
        [this, number = ++waits_]
        {
          if (number != waits_ || over_)
            return;
          resume();
          work_soon();
        });
    if (requests.failed())
      end_now();
  }

  bool place(std::span<const std::byte> bytes, bool is_request)
  {
    for (std::uint32_t copied = 0; copied != bytes.size();)
    {
      pinned_buffers to;
      std::uint64_t done = 0;
      const auto left = static_cast<std::uint32_t>(bytes.size() - copied);
      if (!(is_request ? responses.place(copied, left, to, done)
                       : requests.place(copied, left, to, done)))
        return false;
      for (const iovec& each : to.view())
      {
        std::memcpy(each.iov_base, bytes.data() + copied, each.iov_len);
        copied += static_cast<std::uint32_t>(each.iov_len);
      }
    }
    return true;
  }

  void lose()
  {
    lost_ = true;
    if (requests.expecting() && !requests.failed())
      requests.fail(IBV_WC_RETRY_EXC_ERR, detail_connection_lost);
    end_now();
  }

  void end_now()
  {
    over_ = true;
    requests.halt();
    say_the_last();
    requests.flush();
    responses.flush();
  }

  /// The answers to the requests that were carried out, and the end.
  void say_the_last()
  {
    frame last;
    while (responses.next(last) || responses.next_acknowledgement(last, false))
      send_frame(last);
    send({});
  }

  agenda& times_;
  const std::size_t window_; // bytes that may be on their way
  network_end* peer_end_ = nullptr;
  std::size_t under_way_ = 0;
  std::int64_t next_arrival_ = 0;
  std::deque<packet> held_;  // by the network
  std::deque<packet> inbox_; // of an end that is stopped
  std::uint64_t waits_ = 0;
  bool cut_ = false; // nothing arrives at this end
  bool stopped_ = false;
  bool posts_all_ = false;
};

class world
{
public:
  world(unsigned seed, coverage& found)
  {
    times_.random.seed(seed);
    fault_ = times_.one_in(2) ? fault::none : static_cast<fault>(times_.random() % faults);
    constexpr std::array<std::uint32_t, 3> segments{256, 1024, 16384};
    program::kind is;
    is.segment = segments[times_.random() % segments.size()];
    is.is_xrc = times_.one_in(3);
    is.has_direct_access = false;
    for (unsigned i = 0; i != 2; ++i)
    {
      is.shares = times_.one_in(2);
      is.rnr_retry = fault_ == fault::rnr_limit ? times_.random() % 4 : 7;
      is.rnr_timer = 1 + times_.random() % 12; // up to 0.64 ms
      ends_.emplace_back(i + 1, 2 - i, is, found, times_);
    }
    for (unsigned i = 0; i != 2; ++i)
      ends_[i].connect(ends_[1 - i]);
  }

  std::uint64_t run()
  {
    const std::int64_t pace = times_.one_in(2) ? 5 * us : 100 * us;
    std::int64_t last = 0;
    for (network_end& each : ends_)
    {
      std::int64_t when = 0;
      for (unsigned i = times_.random() % 150; i != 0; --i)
        times_.at(when += times_.delay(pace), [&each] { each.act(); });
      last = std::max(last, when);
    }
    times_.at(last,
      [this]
      {
        for (network_end& each : ends_)
          each.post_all();
      });
    times_.at(times_.delay(last), [this] { make_trouble(any()); });
    std::uint64_t steps = 0;
    while (times_.step())
    {
      REQUIRE(++steps != 1'000'000);
      if (steps % 256 == 0)
        check();
    }
    check();
    for (const network_end& each : ends_)
    {
      if (!each.killed())
        each.check_end();
      if (fault_ == fault::none || fault_ == fault::stop)
        REQUIRE_FALSE(each.over());
    }
    return steps;
  }

private:
  network_end& any() { return ends_[times_.random() % 2]; }

  void check()
  {
    for (const network_end& each : ends_)
      each.check();
  }

  void make_trouble(network_end& of)
  {
    switch (fault_)
    {
    case fault::none:
    case fault::rnr_limit:
      return;
    case fault::stop:
      of.stop();
      return times_.at(times_.delay(times_.one_in(2) ? ms : 5000 * ms), [&of] { of.go_on(); });
    case fault::cut:
    {
      set_cut(true);
      const std::int64_t time = times_.delay(times_.one_in(2) ? 10 * ms : 2 * patience);
      for (network_end& each : ends_)
        if (time >= patience)
          times_.at(patience + times_.delay(100 * ms), [&each] { each.give_up(); });
      return times_.at(time, [this] { set_cut(false); });
    }
    case fault::deregistration:
    {
      std::array<region*, 3> which{&of.exposed, &of.sources, &of.targets};
      return which[times_.random() % which.size()]->withdraw();
    }
    case fault::death:
      return times_.one_in(2) ? of.kill() : of.destroy();
    }
  }

  void set_cut(bool on)
  {
    for (network_end& each : ends_)
      each.set_cut(on);
  }

  agenda times_;
  std::deque<network_end> ends_;
  fault fault_ = fault::none;
};

} // namespace

TEST_CASE("simulation: requests between hosts complete once and in order, whatever fails")
{
  const unsigned count = test::exhaustive() ? 8000 : 400; // 400: about 600,000 steps
  coverage found;
  const bool all = test::run_seeds(std::random_device()(), count,
    [&](unsigned seed)
    {
      CAPTURE(seed);
      found.steps += world(seed, found).run();
    });
  if (!all)
    return;
  test::add_figure("steps", found.steps);
  CHECK(found.steps > 100 * count);
  CHECK(found.full_rings != 0);
  CHECK(found.rnr_waits != 0);
  CHECK(found.rnr_failures != 0);
  CHECK(found.remote_failures != 0);
  CHECK(found.local_failures != 0);
  CHECK(found.lost_peers != 0);
}

} // namespace network_simulation

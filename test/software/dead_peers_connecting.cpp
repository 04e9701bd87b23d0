//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/inventory.hpp"
#include "software/still_peer.hpp"

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <thread>
#include <utility>

// Tests peers whose process is killed or stopped, or that disconnect, at any moment of connecting.

namespace {

using namespace test;
using namespace std::chrono_literals;

/// Points in time after connecting began, from immediately to long after its end, on machines of
/// any speed.
class increasing_delays
{
public:
  std::chrono::microseconds next()
  {
    const std::chrono::microseconds now = next_;
    next_ += emulated() ? next_ / 2 + 5ms : next_ / 8 + 100us;
    return now;
  }

private:
  std::chrono::microseconds next_{0};
};

} // namespace

TEST_CASE(
  "async_connect or its connection ends once when the server is killed or stopped at any moment")
{
  need(feature::endpoint_descriptions);
  const int number = GENERATE(SIGKILL, SIGSTOP);
  CAPTURE(number);
  increasing_delays when;
  for (bool connects_before = false; !connects_before;)
  {
    still_peer server;
    asio::io_context io;
    rdma::context context = make_context();
    rdma::queue_pair client(io, context, impatient());
    plain_record connected;
    end_watcher of_client(client);
    client.async_connect(server.endpoint(), connected.handler());
    const auto moment = when.next();
    std::this_thread::sleep_for(moment);
    server.signal(number);
    io.poll();
    connects_before = connected.done() && !connected.ec;
    REQUIRE(run_until(io, [&] { return connected.done() && of_client.done(); }));
    INFO("after " << moment.count() << " us: " << connected.ec.message()
                  << ", then: " << of_client.ended.ec.message());
    CHECK(of_client.received.ec);
    if (connected.ec)
      CHECK(of_client.ended.ec == connected.ec);
    else
      CHECK(is_loss(of_client.ended.ec, number));
    client.close();
    REQUIRE(run_out(io));
    CHECK(connected.calls == 1);
    CHECK(of_client.once());
  }
}

TEST_CASE("no accept fails when a client is killed or stopped at any moment of connecting")
{
  const int number = GENERATE(SIGKILL, SIGSTOP);
  CAPTURE(number);
  rdma::acceptor_options options;
  options.handshake_timeout = 3s;
  options.queue_pair = impatient();
  connect_fixture f(options);
  // Descriptors shared by all queue pairs are open before and after.
  rdma::queue_pair idle_here(f.io, f.server_context), idle_there(f.io, f.client_context);
  static_cast<void>(idle_here.local_endpoint());
  static_cast<void>(idle_there.local_endpoint());
  static_cast<void>(f.server_context.allocate(8)); // a pool's memory has a descriptor, too
  REQUIRE(f.serves_a_good_client());
  const auto descriptors = [] { return inventory::count("/proc/self/fd"); };
  const std::size_t before = descriptors();

  served_clients served(f.acceptor);
  std::deque<still_peer> lost; // stopped clients remain
  increasing_delays when;
  for (bool is_served = false; !is_served;)
  {
    still_peer& client = lost.emplace_back(f.acceptor.local_endpoint());
    std::this_thread::sleep_for(when.next());
    client.signal(number);
    f.io.poll();
    is_served = served.is_last_lost();
    REQUIRE(served.serve_another(f, lost.size()));
  }
  REQUIRE(run_until(f.io, [&] { return served.all_done(); }));
  for (const auto& each : served.all())
  {
    INFO(each.of_peer.ended.ec.message());
    CHECK(each.of_peer.received.ec);
    if (!each.good())
      CHECK(is_loss(each.of_peer.ended.ec, number));
  }
  served.close();
  // Unfinished handshakes end as well while the acceptor stays open.
  // The good client's connection may have been closing when they were counted.
  CHECK(until(
    [&]
    {
      f.io.poll();
      return descriptors() <= before;
    }));
  CHECK(served.failures() == 0);
  f.acceptor.close();
  REQUIRE(run_out(f.io));
  for (const auto& each : served.all())
    CHECK(each.of_peer.once());
}

TEST_CASE("no accept fails when a client disconnects or stays silent at any frame of the handshake")
{
  using rdma::detail::frame_type;
  rdma::acceptor_options options;
  options.handshake_timeout = 3s;
  options.queue_pair = impatient();
  connect_fixture f(options);
  connect_fixture::accepted server;
  f.acceptor.async_accept(server.handler());
  std::deque<plain_peer> silent;
  for (const bool goes : {true, false})
    for (int steps = 0; steps < 2; ++steps)
    {
      rdma::queue_pair own(f.io, f.client_context);
      plain_peer peer = plain_peer::connect(f.io, f.acceptor.local_endpoint());
      peer.send(good_request(own.local_endpoint()));
      const std::string answer = peer.read_header();
      REQUIRE_FALSE(answer.empty());
      if (steps > 0)
        connect_as_client(own, endpoint_in(answer));
      if (!goes)
        silent.push_back(std::move(peer));
    }
  for (plain_peer& each : silent)
    CHECK(each.read_end());
  f.io.poll();
  CHECK(server.calls == 0);
  CHECK(f.serves_a_good_client(server));
}

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/inventory.hpp"
#include "software/stepped_peer.hpp"
#include "software/still_peer.hpp"

#include <boost_rdma/acceptor.hpp>

#include <climits>
#include <csignal>
#include <cstdint>
#include <random>
#include <string>

// Tests peers that are stopped or killed at a system call of a handshake, or some instructions
// behind it.

namespace test::handshakes_under_ptrace {
namespace {

using action = trace_order::action;
using place = trace_report::place;

rdma::context context_with(const std::string& wire)
{
  rdma::context_options options;
  options.software.wires = {wire};
  return make_context(options);
}

/// The peer: connects to the port that it receives, and waits for the end of the connection.
bool be_client(const packet_line& line, const std::string& wire)
{
  asio::io_context io;
  const rdma::context context = context_with(wire);
  rdma::queue_pair own(io, context, impatient());
  end_watcher of_own(own);
  plain_record connected;
  rdma::connect_options options;
  options.data = "traced";
  const auto port = static_cast<std::uint16_t>(std::stoul(line.receive().value()));
  begin_steps();
  own.async_connect(loopback(port), options, connected.handler());
  if (!run_until(io, [&] { return connected.done(); }))
    return false;
  end_steps();
  return run_until(io, [&] { return of_own.done(); }) && of_own.once() && connected.calls == 1;
}

/// The peer: accepts a client, and waits for the end of the connection.
bool be_server(const packet_line& line, const std::string& wire)
{
  asio::io_context io;
  const rdma::context context = context_with(wire);
  rdma::acceptor_options options;
  options.queue_pair = impatient();
  rdma::acceptor acceptor(io, context, loopback(), options);
  connect_fixture::accepted client;
  acceptor.async_accept(client.handler());
  line.send(std::to_string(acceptor.local_endpoint().port()));
  begin_steps();
  if (!run_until(io, [&] { return client.calls != 0; }) || client.ec)
    return false;
  end_steps();
  end_watcher of_client(*client.peer);
  return run_until(io, [&] { return of_client.done(); }) && of_client.once();
}

/// Numbers of system calls, and of steps behind them.
struct moment
{
  unsigned calls = 0;
  unsigned steps = 0;
  bool kill = false;
};

/// An acceptor whose clients are stopped or killed while they connect.
struct handshakes_with_clients
{
  explicit handshakes_with_clients(const std::string& wire)
    : peer(peer_io, [wire](const packet_line& line) { return be_client(line, wire); })
    , f(options())
    , served(f.acceptor)
  {
    REQUIRE(served.serve_another(f, ++good));
  }
  static rdma::acceptor_options options()
  {
    rdma::acceptor_options result;
    result.queue_pair = impatient();
    result.handshake_timeout = std::chrono::seconds(3);
    return result;
  }

  trace_report wait_for_report()
  {
    REQUIRE(run_until(peer_io, f.io, [&] { return peer.reported(); }));
    return peer.report();
  }

  trace_report round(const moment& when)
  {
    peer.order({.what = action::start});
    peer.send(std::to_string(f.acceptor.local_endpoint().port()));
    REQUIRE(wait_for_report().where == place::marked);
    peer.order({.what = action::step, .calls = when.calls, .steps = when.steps});
    const trace_report report = wait_for_report();
    if (when.kill)
    {
      peer.order({.what = action::kill});
      static_cast<void>(wait_for_report());
    }
    for (unsigned i = 0; i != 32; ++i)
      turns.measure([&] { f.io.poll_one(); });
    REQUIRE(served.serve_another(f, ++good));
    REQUIRE(run_until(f.io, [&] { return served.all_done(); }));
    CHECK(served.failures() == 0);
    for (; checked != served.all().size(); ++checked)
    {
      const auto& each = served.all()[checked];
      CHECK(each.of_peer.received.ec);
      if (!each.good())
        CHECK(is_loss(each.of_peer.ended.ec, when.kill ? SIGKILL : SIGSTOP));
    }
    if (!when.kill)
    {
      // It finds that it was lost, or connects now.
      peer.order({.what = action::complete});
      REQUIRE(run_until(peer_io, f.io,
        [&]
        {
          if (!served.all_done())
            served.close();
          return peer.reported();
        }));
      CHECK(peer.report().status == 0);
      checked = served.all().size();
    }
    return report;
  }

  asio::io_context peer_io;
  traced_peer peer;
  connect_fixture f;
  served_clients served;
  std::size_t good = 0;
  std::size_t checked = 0;
  measured_pauses turns;
};

/// Clients of an acceptor that is stopped or killed while it accepts.
struct handshakes_with_servers
{
  explicit handshakes_with_servers(const std::string& wire)
    : peer(io, [wire](const packet_line& line) { return be_server(line, wire); })
    , context(make_context())
  {
  }

  trace_report wait_for_report()
  {
    REQUIRE(run_until(io, [&] { return peer.reported(); }));
    return peer.report();
  }

  trace_report round(const moment& when)
  {
    peer.order({.what = action::start});
    REQUIRE(run_until(io, [&] { return peer.has_text() && peer.reported(); }));
    REQUIRE(peer.report().where == place::marked);
    const auto port = static_cast<std::uint16_t>(std::stoul(peer.take_text()));
    rdma::queue_pair own(io, context, impatient());
    plain_record connected;
    end_watcher of_own(own);
    peer.order({.what = action::step, .calls = when.calls, .steps = when.steps});
    own.async_connect(loopback(port), connected.handler());
    const trace_report report = wait_for_report();
    if (when.kill)
    {
      peer.order({.what = action::kill});
      static_cast<void>(wait_for_report());
    }
    for (unsigned i = 0; i != 32; ++i)
      turns.measure([&] { io.poll_one(); });
    REQUIRE(run_until(io, [&] { return connected.done() && of_own.done(); }));
    CAPTURE(connected.ec, of_own.ended.ec);
    CHECK(of_own.received.ec);
    if (connected.ec)
      CHECK(of_own.ended.ec == connected.ec);
    else
      CHECK(is_loss(of_own.ended.ec, when.kill ? SIGKILL : SIGSTOP));
    if (!when.kill)
    {
      peer.order({.what = action::kill});
      static_cast<void>(wait_for_report());
    }
    own.close();
    io.poll();
    CHECK(connected.calls == 1);
    CHECK(of_own.once());
    return report;
  }

  asio::io_context io;
  traced_peer peer;
  rdma::context context;
  measured_pauses turns;
};

/// Stops or kills peers at system calls of a handshake, and a few instructions behind them.
template <class Handshakes>
void check_handshakes(const std::string& wire)
{
  const auto value = seed_of_steps();
  CAPTURE(value, wire);
  std::minstd_rand random(value);
  Handshakes all(wire);
  const trace_report whole = all.round({.calls = UINT_MAX, .kill = true});
  REQUIRE(whole.where == place::marked);
  all.round({.calls = UINT_MAX});
  const holdings before;
  for_steps(whole.calls, 10, random,
    [&](unsigned calls)
    {
      const moment when{calls, static_cast<unsigned>(random() % 2000), random() % 4 != 0};
      CAPTURE(when.calls, when.steps, when.kill);
      all.round(when);
    });
  CHECK(settled(before) <= before);
  all.turns.print("the peer is stopped");
  CHECK(all.turns.slow <= 2 + all.turns.count / 1000);
}

} // namespace

TEST_CASE("no accept fails when a client is stopped or killed at any system call of a handshake")
{
  BOOST_RDMA_TEST_TRACES();
  check_handshakes<handshakes_with_clients>(GENERATE("local", "tcp"));
}

TEST_CASE("async_connect ends once when the server is stopped or killed at any system call")
{
  BOOST_RDMA_TEST_TRACES();
  check_handshakes<handshakes_with_servers>(GENERATE("local", "tcp"));
}

} // namespace test::handshakes_under_ptrace

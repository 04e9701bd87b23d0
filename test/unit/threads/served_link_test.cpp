//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests a link of an engine that several threads serve at a time.

#include "verbs/software/wire/engine.hpp"
#include "verbs/software/wire/served_link.hpp"

#include "common/catch.hpp"
#include "common/patience.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include <sys/socket.h>

namespace wire = rdma::software::wire;

namespace {

/// A queue pair for whose link there is more work whenever it is served, a number of times.
class busy_target final : public wire::progress_target
{
public:
  static constexpr unsigned times = 20; // more often than one thread serves in a row

  busy_target(wire::local_link& peer, wire::lane_use lane, wire::served_link& by)
    : peer_(peer)
    , lane_(lane)
    , by_(by)
  {
  }

  unsigned served() const noexcept { return served_; }

  // progress_target
  void serve(wire::mover, std::uint32_t) override
  {
    if (++served_ >= times)
      return;
    peer_.ring(lane_.lane);
    by_.serve(wire::mover::poller); // as by another thread: returns at once
  }
  void meet() override {}

private:
  wire::local_link& peer_;
  const wire::lane_use lane_;
  wire::served_link& by_;
  std::atomic<unsigned> served_{0};
};

} // namespace

TEST_CASE("the engine does the work that a thread leaves after some rounds for others")
{
  wire::engine engine{rdma::software::device_settings{}};
  ibv_gid loopback{};
  loopback.raw[10] = loopback.raw[11] = 0xff;
  loopback.raw[12] = 127;
  loopback.raw[15] = 1;
  std::vector<ibv_gid> gids{loopback};
  REQUIRE(engine.start(gids, true) == 0);
  std::array<int, 2> sockets{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets.data()) == 0);
  wire::descriptor memory_fd;
  const auto memory = wire::segment::create(memory_fd);
  wire::local_link peer(wire::descriptor{sockets[0]}, memory, 0);
  const auto lane = peer.take(5);
  REQUIRE(lane);
  wire::served_link link(engine, wire::descriptor(sockets[1]), memory, wire::path{});
  busy_target target(peer, *lane, link);
  std::uint32_t number = 0;
  REQUIRE(engine.add(target, number) == 0);
  REQUIRE(engine.add_socket(link) != 0);
  REQUIRE(link.adopt(*lane, number, wire::route{}));
  peer.ring(lane->lane);
  link.serve(wire::mover::poller);
  CHECK(test::until([&] { return target.served() == busy_target::times; }));
  engine.remove(link);
  engine.remove(target);
}

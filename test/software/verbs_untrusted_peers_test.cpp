//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests a peer on this host that names addresses for direct access.

#include "software/raw_peer.hpp"

#include "verbs/software/wire/direct_access.hpp"
#include "verbs/software/wire/local_link.hpp"
#include "verbs/software/wire/local_socket.hpp"
#include "verbs/software/wire/ring.hpp"
#include "verbs/software/wire/segment.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>

using namespace test;

namespace {

namespace wire = rdma::software::wire;

// As in local_wire_grants.cpp.
constexpr std::uint8_t key_kind = 0xc0;

/// The connecting end of a local link, whose records the test writes.
class local_raw_peer
{
public:
  explicit local_raw_peer(const target_endpoint& v)
    : link_(connect(v), segment_, 0, std::move(fd_))
  {
    const auto taken = link_.take(5);
    must(taken.has_value(), "a lane");
    lane_ = *taken;
    mine_ = &segment_->side(lane_.lane, 0);
    requests_ = wire::ring::reader(
      segment_->requests_of(lane_.lane, 1), wire::segment::ring_size, mine_->requests_taken);
    protocol::hello_bytes bytes;
    const protocol::hello mine = v.hello();
    encode(mine, bytes);
    must(link_.send(lane_, bytes), "hello");
    must(until(
           [&]
           {
             wire::attach_message hello;
             link_.hear(hello);
             return link_.take_message(lane_, bytes);
           }),
      "an answer");
    const auto answer = protocol::decode_hello(bytes);
    must(answer.has_value(), "a hello");
    must(link_.send(lane_, protocol::confirmation({}, mine.nonce, answer->nonce)), "confirm");
    mine_->read_depth = 16;
    mine_->rights = all_access;
  }

  /// Returns the next record of the target's requests, or nothing.
  std::vector<std::byte> next_request()
  {
    const auto body = requests_.front();
    std::vector<std::byte> record(body.begin(), body.end());
    if (!record.empty())
      requests_.pop();
    return record;
  }

  void grant(const wire::grant_message& what, const wire::descriptor& memory)
  {
    mine_->grants[what.index] = what.generation;
    must(link_.send(lane_, what, memory.get()), "grant");
  }

  void acknowledge(std::uint32_t psn)
  {
    mine_->acknowledged = psn | wire::lane_side::acknowledged_bit;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    link_.ring(lane_.lane);
  }

private:
  static wire::descriptor connect(const target_endpoint& v)
  {
    wire::descriptor socket = wire::make_local_socket();
    const wire::address at = wire::to_local_address(v.device.gid(), v.port());
    must(::connect(socket.get(), at.get(), at.size) == 0, "connect");
    return socket;
  }

  wire::descriptor fd_;
  std::shared_ptr<wire::segment> segment_ = wire::segment::create(fd_);
  wire::local_link link_;
  wire::lane_use lane_;
  wire::lane_side* mine_ = nullptr;
  wire::ring::reader requests_;
};

} // namespace

TEST_CASE("direct access uses no address that a peer claims to have in this process")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  // The peer's socket is this process's own, as with a listener that another process inherited.
  const bool writes = GENERATE(true, false);
  CAPTURE(writes);
  target_endpoint v(nullptr, 0);
  local_raw_peer attacker(v);
  std::vector<std::uint8_t> victim(4096, kept_byte);
  constexpr std::uint64_t address = 0x10000;
  constexpr std::uint32_t key = 77;
  const auto access = [&](std::uint64_t id)
  {
    REQUIRE((writes ? v.e.write(id, v.m.sge(0, 8), address, key)
                    : v.e.read(id, v.m.sge(0, 8), address, key))
      == 0);
  };
  REQUIRE(v.e.write(1, v.m.sge(0, 8), address, key) == 0);
  bool shown = false;
  bool sent = false;
  REQUIRE(until(
    [&]
    {
      (void)v.e.sent().poll();
      const auto record = attacker.next_request();
      if (!record.empty())
        (record[0] == std::byte{key_kind} ? shown : sent) = true;
      return shown && sent;
    }));
  wire::grant_message grant;
  grant.key = key;
  grant.generation = 1;
  grant.rights = all_access;
  grant.address = address;
  grant.length = victim.size();
  grant.place = reinterpret_cast<std::uintptr_t>(victim.data());
  const wire::descriptor memory(::memfd_create("untrusted", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(memory.get(), 4096) == 0);
  REQUIRE(::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
  attacker.grant(grant, memory);
  attacker.acknowledge(endpoint::first_psn);
  REQUIRE(v.e.sent().next().status == IBV_WC_SUCCESS); // and it has seen the grant before
  access(2);
  // The second request travels as a frame, as the first one did.
  CHECK(until(
    [&]
    {
      const bool completed = v.e.sent().poll().has_value();
      return completed || !attacker.next_request().empty();
    }));
  CHECK(
    std::all_of(victim.begin(), victim.end(), [](std::uint8_t byte) { return byte == kept_byte; }));
  CHECK(v.m.holds(0x5a, 0, 8));
}

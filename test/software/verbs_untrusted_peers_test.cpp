//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests a peer on this host that names addresses for direct access.

#include "software/raw_peer.hpp"

#include "verbs/software/wire/direct_access.hpp"
#include "verbs/software/wire/local_socket.hpp"
#include "verbs/software/wire/ring.hpp"
#include "verbs/software/wire/segment.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

using namespace test;

namespace {

namespace wire = rdma::software::wire;

// As in local_wire_grants.cpp.
constexpr std::uint8_t key_kind = 0xc0;
constexpr std::uint8_t grant_kind = 0xc1;
constexpr std::size_t grant_offset = 8;

/// The connecting end of a local link, whose records the test writes.
class local_raw_peer
{
public:
  explicit local_raw_peer(const target_endpoint& v)
    : socket_(wire::make_local_socket())
    , mine_(segment_->side(0))
    , requests_(segment_->requests_of(1), wire::segment::request_ring_size, mine_.requests_taken)
    , responses_(segment_->responses_of(0), wire::segment::response_ring_size,
        segment_->side(1).responses_taken, 0)
  {
    const wire::address at = wire::to_local_address(v.device.gid(), v.port());
    must(::connect(socket_.get(), at.get(), at.size) == 0, "connect");
    protocol::hello_bytes bytes;
    const protocol::hello mine = v.hello();
    encode(mine, bytes);
    must(wire::send_with_descriptor(socket_.get(), bytes, fd_.get()) == sizeof bytes, "hello");
    must(until([&] { return ::recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0; }),
      "an answer");
    const auto answer = protocol::decode_hello(bytes);
    must(answer.has_value(), "a hello");
    bytes = protocol::confirmation({}, mine.nonce, answer->nonce);
    must(::send(socket_.get(), bytes.data(), bytes.size(), 0) == sizeof bytes, "confirm");
    mine_.read_depth = 16;
    mine_.rights = all_access;
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

  void grant(const wire::grant_message& what)
  {
    mine_.grants[what.index] = what.generation;
    std::array<std::byte, 120> note{};
    note[0] = std::byte{grant_kind};
    std::memcpy(note.data() + grant_offset, &what, sizeof what);
    std::byte* const at = responses_.begin(note.size(), true);
    must(at != nullptr, "room");
    std::memcpy(at, note.data(), note.size());
    responses_.end(note.size());
  }

  void acknowledge(std::uint32_t psn)
  {
    mine_.acknowledged = psn | wire::segment_side::acknowledged_bit;
    constexpr char wake = 0;
    (void)::send(socket_.get(), &wake, 1, MSG_NOSIGNAL);
  }

private:
  wire::descriptor socket_;
  wire::descriptor fd_;
  std::shared_ptr<wire::segment> segment_ = wire::segment::create(fd_);
  wire::segment_side& mine_;
  wire::ring::reader requests_;
  wire::ring::writer responses_;
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
  grant.area = ~std::uint64_t{0}; // no memory that the peer has sent
  grant.place = reinterpret_cast<std::uintptr_t>(victim.data());
  attacker.grant(grant);
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

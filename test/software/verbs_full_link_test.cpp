//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests what queue pairs send over TCP to a peer that the test controls, and their end while the
// link is full, because the peer reads nothing.

#include "software/raw_peer.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

using namespace test;

namespace {

constexpr std::uint32_t mebibyte = 1024 * 1024;

/// A queue pair that answers the peer's requests.
struct answering
{
  answering(const verbs_device& on, unsigned lane, const pair_options& with)
    : target(on, lane, with)
  {
  }

  target_endpoint target;
  std::uint32_t psn = endpoint::first_psn; ///< of the next request
};

/// A device, and a peer that attaches queue pairs to one link and fills it.
struct full_link
{
  full_link() { m.fill(sent_byte); }

  answering& add()
  {
    pair_options with;
    with.max_peer_read_atomic = 32;
    with.timeout = 0; // no request is repeated because of the time
    const auto lane = static_cast<unsigned>(all.size());
    answering& made = all.emplace_back(device, lane, with);
    if (!peer)
      peer = std::make_unique<raw_peer>(made.target.port(), 256 * 1024);
    REQUIRE(made.target.handshake(*peer, made.target.hello()));
    return made;
  }

  /// Fills the link with the answer to a request, when all queue pairs are attached.
  void fill() { read(filler, m.bytes().size()); }

  void request(answering& of, protocol::header h, std::uint32_t frames = 1)
  {
    h.dest_qp = of.target.e.qp()->qp_num;
    h.psn = of.psn;
    h.ack_request = true;
    protocol::header_bytes bytes;
    const std::size_t size = encode(h, bytes);
    requests.insert(requests.end(), bytes.begin(), bytes.begin() + size);
    requests.resize(requests.size() + h.payload);
    of.psn = protocol::psn_add(of.psn, frames);
  }

  void read(answering& of, std::size_t size) { read(of, m, size); }

  void read(answering& of, const memory& from, std::size_t size)
  {
    protocol::header h;
    h.op = protocol::opcode::read_request;
    h.address = from.address();
    h.key = from.key();
    h.length = static_cast<std::uint32_t>(size);
    request(of, h, protocol::frame_count(size, segment));
  }

  void write(answering& of)
  {
    protocol::header h;
    h.op = protocol::opcode::write_only;
    h.address = of.target.m.address();
    h.key = of.target.m.key();
    h.length = h.payload = 8;
    request(of, h);
  }

  void send(answering& of)
  {
    protocol::header h;
    h.op = protocol::opcode::send_only;
    h.payload = 8;
    request(of, h);
  }

  /// Says that there is no receive for the request with this number, which is then repeated.
  void refuse(const answering& of, std::uint32_t psn)
  {
    protocol::header h;
    h.dest_qp = of.target.e.qp()->qp_num;
    h.psn = psn;
    h.syndrome = protocol::syndrome_rnr | 1; // 10 us
    protocol::header_bytes bytes;
    const std::size_t size = encode(h, bytes);
    requests.insert(requests.end(), bytes.begin(), bytes.begin() + size);
  }

  /// Fills the link, and returns when this queue pair has to wait for it.
  void fill_before(answering& waiting)
  {
    fill();
    send(waiting);
    post();
    await_message(waiting);
  }

  /// Sends the requests. The device reads all of them with one call.
  void post()
  {
    peer->send(requests.data(), requests.size());
    requests.clear();
  }

  /// Waits for the message that was sent last: what was requested before is carried out as well.
  static void await_message(const answering& of)
  {
    CHECK(of.target.e.received().next().status == IBV_WC_SUCCESS);
  }

  /// Reads from the link. Frames are whole and have the bytes of `m`.
  raw_peer::item next() const
  {
    raw_peer::item what = peer->next();
    REQUIRE((what.is == raw_peer::item::kind::frame || what.is == raw_peer::item::kind::detach));
    REQUIRE(std::all_of(what.payload.begin(), what.payload.end(),
      [](std::byte b) { return b == std::byte{sent_byte}; }));
    return what;
  }

  /// Reads up to the next frame for this queue pair that is not an acknowledgement, or refuses a
  /// request.
  protocol::header next_of(const answering& which) const
  {
    for (;;)
    {
      const raw_peer::item what = next();
      REQUIRE(what.is == raw_peer::item::kind::frame);
      if (what.frame.dest_qp == which.target.peer_number()
        && (what.frame.op != protocol::opcode::acknowledge
          || !protocol::is_ack(what.frame.syndrome)))
        return what.frame;
    }
  }

  static constexpr std::uint32_t segment = 256 * 1024; // as in target_endpoint::hello()

  verbs_device device;
  memory m{device, 32 * mebibyte}; // more than a socket stores
  std::deque<answering> all;
  std::unique_ptr<raw_peer> peer;
  std::vector<std::byte> requests;
  answering& filler = add();
};

} // namespace

TEST_CASE("a send is acknowledged before the answer of the program is sent")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  full_link link;
  answering& of = link.filler;
  for (unsigned i = 0; i != 2; ++i) // requests and answers alternate
  {
    link.send(of);
    link.post();
    link.await_message(of);
    REQUIRE(of.target.e.send(i, link.m.sge(0, 8)) == 0);
    const protocol::header first = link.next().frame;
    CHECK(first.op == protocol::opcode::acknowledge);
    CHECK(protocol::psn_add(first.psn, 1) == of.psn);
    CHECK(link.next().frame.op == protocol::opcode::send_only);
  }
}

TEST_CASE("requests of more than one turn leave although no program calls the device")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  constexpr std::size_t count = 3000; // a turn sends at most 16 times 63 frames
  verbs_device device;
  pair_options with;
  with.timeout = 0; // no timer
  with.depth = count;
  with.completions = count;
  const target_endpoint target(device, 0, with);
  const raw_peer peer(target.port());
  REQUIRE(target.handshake(peer, target.hello()));
  const memory m(device, 8);
  ibv_sge element = m.sge();
  std::vector<ibv_send_wr> list(count);
  for (std::size_t i = 0; i != count; ++i)
  {
    list[i].next = i + 1 != count ? &list[i + 1] : nullptr;
    list[i].sg_list = &element;
    list[i].num_sge = 1;
    list[i].opcode = IBV_WR_SEND;
  }
  REQUIRE(target.e.post(list[0]) == 0);
  for (std::size_t i = 0; i != count; ++i)
    REQUIRE(peer.next().frame.op == protocol::opcode::send_only);
}

TEST_CASE("a frame that waits for its link is dropped when an earlier request is repeated")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  full_link link;
  answering& of = link.add();
  REQUIRE(of.target.e.send(1, link.m.sge(0, 8)) == 0);
  const std::uint32_t psn = link.next_of(of).psn;
  link.fill_before(of);
  REQUIRE(of.target.e.send(2, link.m.sge(0, 100 * 1024)) == 0);
  link.refuse(of, psn);
  link.send(of);
  link.post();
  link.await_message(of);
  CHECK(link.next_of(of).psn == psn);
  const protocol::header second = link.next_of(of);
  CHECK(second.psn == protocol::psn_add(psn, 1));
  CHECK(second.payload == 100 * 1024);
}

TEST_CASE("a frame that waits for its link is not sent when its memory has been deregistered")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  full_link link;
  answering& of = link.add();
  memory gone(link.device, 64 * 1024);
  SECTION("a request")
  {
    link.fill_before(of);
    REQUIRE(of.target.e.send(1, gone.sge()) == 0);
    gone.deregister();
    while (of.target.e.state() == IBV_QPS_RTS)
      link.next();
    CHECK(of.target.e.sent().next().status == IBV_WC_LOC_PROT_ERR);
  }
  SECTION("an answer")
  {
    link.fill();
    link.read(of, gone, gone.bytes().size());
    link.send(of);
    link.post();
    link.await_message(of);
    gone.deregister();
    const protocol::header answer = link.next_of(of);
    CHECK(answer.op == protocol::opcode::acknowledge);
    CHECK(answer.syndrome == protocol::nak_remote_access);
  }
}

TEST_CASE("the last answers of a queue pair arrive when it is destroyed while its link is full")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  full_link link;
  answering& last = link.add();
  link.fill();
  // As many frames as a queue pair prepares at a time: answers, and an acknowledgement.
  constexpr unsigned reads = 31;
  link.write(last);
  for (unsigned i = 0; i != reads; ++i)
    link.read(last, 16 * 1024);
  link.write(link.filler); // the frames before it are served together
  link.send(last);
  link.post();
  link.await_message(last);
  last.target.e.destroy();

  unsigned answers = 0;
  std::uint32_t acknowledged = 0;
  raw_peer::item what = link.next();
  for (; what.is == raw_peer::item::kind::frame; what = link.next())
  {
    if (what.frame.dest_qp != last.target.peer_number())
      continue;
    answers += what.frame.op == protocol::opcode::read_response_only ? 1 : 0;
    acknowledged = what.frame.psn;
  }
  CHECK(what.lane == last.target.lane);
  CHECK(answers == reads);
  CHECK(protocol::psn_add(acknowledged, 1) == last.psn);
}

TEST_CASE("queue pairs keep their link when others are destroyed while the peer reads nothing")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  full_link link;
  answering& kept = link.add();
  // Their last answers are more than the link stores.
  constexpr unsigned destroyed = 20;
  for (unsigned i = 0; i != destroyed; ++i)
    link.add();
  link.fill();
  for (answering& each : link.all)
  {
    if (&each != &link.filler)
      link.read(each, mebibyte);
    link.send(each);
  }
  link.post();
  for (const answering& each : link.all)
    link.await_message(each);
  // Also the one whose frame has left in part.
  for (answering& each : link.all)
    if (&each != &kept)
      each.target.e.destroy();

  link.send(kept);
  link.post();
  unsigned detached = 0;
  std::uint32_t read_bytes = 0;
  std::uint32_t acknowledged = 0;
  while (detached != destroyed + 1 || protocol::psn_add(acknowledged, 1) != kept.psn)
  {
    const raw_peer::item what = link.next();
    if (what.is == raw_peer::item::kind::detach)
      ++detached;
    else if (what.frame.dest_qp == kept.target.peer_number())
    {
      read_bytes += what.frame.payload;
      acknowledged = what.frame.psn;
    }
  }
  CHECK(read_bytes == mebibyte);
  link.await_message(kept);
  CHECK(kept.target.e.state() == IBV_QPS_RTS);
}

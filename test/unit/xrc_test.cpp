//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "unit/protocol_fixture.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

// Tests the packets and state machines of extended reliable connections (IBA annex A14).

namespace protocol_test {
namespace {

constexpr std::uint32_t number = 0x123456;

/// A responder whose domain has one shared receive queue, and requests that name it.
struct xrc_target : target
{
  xrc_target()
    : target(service_xrc)
  {
    told.queue = number;
    told.shares = true;
  }

  header request(opcode what, std::uint32_t length, std::uint32_t payload = 0) const
  {
    header h = target::request(what, length, payload);
    h.kind = service_xrc;
    h.srq = number;
    return h;
  }
};

} // namespace

TEST_CASE("requests of XRC name a shared receive queue behind the BTH, and answers do not")
{
  for (unsigned op = 0; op != 0x20; ++op)
  {
    const auto whole = static_cast<std::uint8_t>(op | service_xrc);
    const bool request = (traits_of(whole) & trait_request) != 0;
    CAPTURE(op);
    REQUIRE(header_size(whole)
      == header_size(static_cast<std::uint8_t>(op)) + (request ? std::size_t{4} : 0));
    if (header_size(whole) == 0)
      continue;
    header h;
    h.op = static_cast<opcode>(op);
    h.kind = service_xrc;
    h.srq = number;
    h.address = 0x0102030405060708;
    h.key = 0x11223344;
    h.immediate = 77;
    header_bytes bytes;
    const std::size_t size = encode(h, bytes);
    REQUIRE(size == header_size(whole));
    CHECK(static_cast<std::uint8_t>(bytes[0]) == whole);
    const auto read = decode({bytes.data(), size});
    REQUIRE(read);
    CHECK(read->op == h.op);
    CHECK(read->kind == service_xrc);
    CHECK(read->srq == (request ? number : 0));
    if ((traits_of(whole) & (trait_reth | trait_atomic)) != 0)
      CHECK(read->address == h.address);
    if ((traits_of(whole) & trait_immediate) != 0)
      CHECK(read->immediate == h.immediate);
    if (!request)
      continue;
    bytes[base_header_size] = std::byte{1}; // reserved
    CHECK_FALSE(decode({bytes.data(), size}));
  }
}

TEST_CASE("each frame of an XRC request names its queue")
{
  for (const ibv_wr_opcode what :
    {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD})
  {
    sender s(service_xrc);
    s.post(what, what == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : 2 * segment).srq = number;
    const std::vector<frame> frames = s.take_all();
    REQUIRE_FALSE(frames.empty());
    for (const frame& f : frames)
    {
      const auto h = decode({f.bytes.data(), f.header_size});
      REQUIRE(h);
      CHECK(h->kind == service_xrc);
      CHECK(h->srq == number);
    }
  }
}

TEST_CASE("an XRC responder refuses a request for a queue that its domain does not have")
{
  for (const opcode what : {opcode::send_only, opcode::write_only, opcode::read_request,
         opcode::fetch_add, opcode::atomic_write})
  {
    xrc_target t;
    t.post_receive(64);
    header h = t.request(what, 8, (traits_of(what) & trait_payload) != 0 ? 8 : 0);
    h.srq = number + 1;
    CHECK(t.take(h) == verdict::discard);
    CHECK(t.next_answer().syndrome == nak_invalid_request);
    CHECK(t.answers.failed());
    CHECK(t.answers.take_event() == IBV_EVENT_QP_REQ_ERR);
    CHECK(t.told.received.empty());
    CHECK(t.told.receives.size() == 1);
  }
}

TEST_CASE("an XRC responder answers with XRC opcodes and without credits")
{
  xrc_target t;
  t.post_receive(64);
  REQUIRE(t.take(t.request(opcode::send_only, 0, 8)) == verdict::accept);
  REQUIRE(t.told.received.size() == 1);
  frame f;
  REQUIRE(t.answers.next_acknowledgement(f, true));
  const auto h = decode({f.bytes.data(), f.header_size});
  REQUIRE(h);
  CHECK(h->kind == service_xrc);
  CHECK(h->op == opcode::acknowledge);
  CHECK(h->syndrome == no_credits);
}

TEST_CASE("all frames of an XRC message must name the same queue")
{
  xrc_target t;
  t.post_receive(4 * segment);
  REQUIRE(t.take(t.request(opcode::send_first, 0, segment)) == verdict::accept);
  header h = t.request(opcode::send_last, 0, 8);
  h.srq = number - 1;
  CHECK(t.take(h) == verdict::malformed);
}

TEST_CASE("an XRC message whose queue is destroyed is refused and completes no receive")
{
  xrc_target t;
  t.post_receive(4 * segment);
  REQUIRE(t.take(t.request(opcode::send_first, 0, segment)) == verdict::accept);
  t.told.queue = 0;
  t.answers.lose_receive();
  CHECK(t.take(t.request(opcode::send_last, 0, 8)) == verdict::discard);
  CHECK(t.next_answer().syndrome == nak_invalid_request);
  t.answers.flush();
  CHECK(t.told.received.empty());
}

TEST_CASE("an XRC read's answer uses the queue of the read, and the message behind it its own")
{
  xrc_target t;
  REQUIRE(t.take(t.request(opcode::read_request, 8)) == verdict::discard);
  t.told.queue = number + 1;
  header h = t.request(opcode::send_first, 0, segment);
  h.srq = number + 1;
  t.post_receive(4 * segment);
  REQUIRE(t.take(h) == verdict::accept);
  frame f;
  REQUIRE(t.answers.next(f));
  t.told.selected.clear();
  pinned_buffers to;
  std::uint64_t done = 0;
  t.answers.gather(f, 0, 8, to, done);
  CHECK(t.told.selected == std::vector{number, number + 1});
}

} // namespace protocol_test

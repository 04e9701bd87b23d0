//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests deregistration of memory during a message of several frames. The test acts as one side when
// the moment matters: the device's acknowledgements show what has arrived.

#include "software/raw_peer.hpp"
#include "software/verbs_failure.hpp"

#include <algorithm>
#include <optional>
#include <vector>

namespace test::verbs_middle_test {
namespace {

constexpr std::uint32_t segment_bytes = 256 * 1024;

/// More than the socket buffers hold: the device cannot finish while the test does not read.
constexpr std::uint32_t unread_bytes = std::uint32_t{64} << 20;

/// Returns the header of the n-th frame that the test sends.
protocol::header frame(
  const target_endpoint& v, protocol::opcode op, std::uint32_t n, std::uint32_t payload = 0)
{
  protocol::header h;
  h.op = op;
  h.dest_qp = v.e.qp()->qp_num;
  h.psn = protocol::psn_add(endpoint::first_psn, n);
  h.payload = payload;
  h.ack_request = true;
  return h;
}

void send_frame(const raw_peer& s, const protocol::header& h)
{
  protocol::header_bytes bytes;
  s.send(bytes.data(), encode(h, bytes));
  const std::vector<std::uint8_t> payload(h.payload, sent_byte);
  s.send(payload.data(), payload.size());
}

std::optional<protocol::header> receive_header(const raw_peer& s, protocol::opcode op)
{
  const auto bytes = s.receive(protocol::header_size(static_cast<std::uint8_t>(op)));
  return protocol::decode(bytes);
}

/// Requests a read of unread_bytes as the first request of the connection.
void request_all(const raw_peer& s, const target_endpoint& v, const memory& region)
{
  auto h = frame(v, protocol::opcode::read_request, 0);
  h.address = region.address();
  h.key = region.key();
  h.length = unread_bytes;
  send_frame(s, h);
}

void check_answer(const raw_peer& s, std::uint8_t syndrome, std::uint32_t n)
{
  const auto h = receive_header(s, protocol::opcode::acknowledge);
  REQUIRE(h.has_value());
  CHECK(h->op == protocol::opcode::acknowledge);
  // An acknowledgement has any credits.
  CHECK((protocol::is_ack(syndrome) ? protocol::is_ack(h->syndrome) : h->syndrome == syndrome));
  CHECK(h->psn == protocol::psn_add(endpoint::first_psn, n));
}

} // namespace

TEST_CASE("a write is refused at the frame after which its region is deregistered")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  target_endpoint v;
  memory region(v.device, 2 * segment_bytes);
  region.fill(kept_byte);
  const raw_peer s(v.port());
  REQUIRE(v.handshake(s, v.hello()));
  auto h = frame(v, protocol::opcode::write_first, 0, segment_bytes);
  h.address = region.address();
  h.key = region.key();
  h.length = 2 * segment_bytes;
  send_frame(s, h);
  check_answer(s, protocol::syndrome_ack, 0);
  region.deregister();
  send_frame(s, frame(v, protocol::opcode::write_last, 1, segment_bytes));
  check_answer(s, protocol::nak_remote_access, 1);
  CHECK(v.device.event() == IBV_EVENT_QP_ACCESS_ERR);
  check_flushed(v.e.received(), {0, 1, 2, 3, 4, 5, 6, 7});
  check_ended(v.e);
  CHECK(s.is_left());
  CHECK_FALSE(v.device.has_event());
  CHECK(region.holds(sent_byte, 0, segment_bytes));
  CHECK(region.holds(kept_byte, segment_bytes));
}

TEST_CASE("a receive fails on both sides when its region is deregistered during the message")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  target_endpoint v(nullptr, 0);
  memory region(v.device, 2 * segment_bytes);
  region.fill(kept_byte);
  REQUIRE(v.e.receive(5, region.sge()) == 0);
  REQUIRE(v.e.receive(6, v.m.sge()) == 0);
  const raw_peer s(v.port());
  REQUIRE(v.handshake(s, v.hello()));
  send_frame(s, frame(v, protocol::opcode::send_first, 0, segment_bytes));
  check_answer(s, protocol::syndrome_ack, 0);
  region.deregister();
  send_frame(s, frame(v, protocol::opcode::send_last, 1, segment_bytes));
  check_answer(s, protocol::nak_remote_operation, 1);
  check_error(v.e.received(), 5, IBV_WC_LOC_PROT_ERR);
  check_flushed(v.e.received(), {6});
  check_ended(v.e);
  CHECK(s.is_left());
  CHECK_FALSE(v.device.has_event());
  CHECK(region.holds(sent_byte, 0, segment_bytes));
  CHECK(region.holds(kept_byte, segment_bytes));
  CHECK(v.m.holds(0x5a));
}

TEST_CASE("a read ends both sides when its region is deregistered during the response")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  target_endpoint v;
  memory region(v.device, unread_bytes);
  region.fill(kept_byte);
  const raw_peer s(v.port());
  REQUIRE(v.handshake(s, v.hello()));
  request_all(s, v, region);
  const auto first = receive_header(s, protocol::opcode::read_response_first);
  REQUIRE(first.has_value());
  CHECK(first->op == protocol::opcode::read_response_first);
  region.deregister();
  // Data that was sent before still arrives, and then the end of the stream.
  std::size_t received = 0;
  for (std::size_t n = 1; n != 0; received += n)
    n = s.receive(1 << 20).size();
  CHECK(received < unread_bytes);
  CHECK(v.device.event() == IBV_EVENT_QP_ACCESS_ERR);
  check_flushed(v.e.received(), {0, 1, 2, 3, 4, 5, 6, 7});
  check_ended(v.e);
  CHECK_FALSE(v.device.has_event());
}

TEST_CASE("a refusal ends the queue pair when the peer has disconnected before it is sent")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  target_endpoint v;
  memory region(v.device, unread_bytes);
  region.fill(kept_byte);
  const raw_peer s(v.port());
  REQUIRE(v.handshake(s, v.hello()));
  // The refusal waits behind an answer that the test does not read.
  request_all(s, v, region);
  auto h =
    frame(v, protocol::opcode::write_only, protocol::frame_count(unread_bytes, segment_bytes), 8);
  h.address = region.address();
  h.key = region.key() ^ 0x10000;
  h.length = 8;
  send_frame(s, h);
  s.finish();
  CHECK(v.device.event() == IBV_EVENT_QP_ACCESS_ERR);
  CHECK(v.e.state() == IBV_QPS_ERR);
  check_flushed(v.e.received(), {0, 1, 2, 3, 4, 5, 6, 7});
  check_ended(v.e);
  CHECK_FALSE(v.device.has_event());
  CHECK(region.holds(kept_byte));
}

TEST_CASE("a read fails locally when its target region is deregistered during the response")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  target_endpoint v;
  memory region(v.device, 2 * segment_bytes);
  region.fill(kept_byte);
  const raw_peer s(v.port());
  REQUIRE(v.handshake(s, v.hello()));
  REQUIRE(v.e.read(1, region.sge(), 0x1000, 0x2000) == 0);
  REQUIRE(receive_header(s, protocol::opcode::read_request).has_value());
  auto h = frame(v, protocol::opcode::read_response_first, 0, segment_bytes);
  h.syndrome = protocol::syndrome_ack;
  send_frame(s, h);
  // A response is not acknowledged, but a message after it is, which shows that the response has
  // arrived.
  send_frame(s, frame(v, protocol::opcode::send_only, 0));
  check_answer(s, protocol::syndrome_ack, 0);
  CHECK(v.e.received().next().status == IBV_WC_SUCCESS);
  region.deregister();
  h = frame(v, protocol::opcode::read_response_last, 1, segment_bytes);
  h.syndrome = protocol::syndrome_ack;
  send_frame(s, h);
  check_error(v.e.sent(), 1, IBV_WC_LOC_PROT_ERR);
  check_flushed(v.e.received(), {1, 2, 3, 4, 5, 6, 7});
  check_ended(v.e);
  CHECK(s.is_left());
  CHECK_FALSE(v.device.has_event());
  CHECK(region.holds(sent_byte, 0, segment_bytes));
  CHECK(region.holds(kept_byte, segment_bytes));
}

TEST_CASE("a send fails locally and delivers no message when its region is deregistered meanwhile")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  // The last frame finds no receive and must be repeated, regardless of the frames already sent.
  pair_options o;
  o.rnr_timer = 20; // 10 ms
  connected c(o);
  memory from(c.near, 3 * segment_bytes);
  memory into(c.far, 3 * segment_bytes);
  from.fill(sent_byte);
  REQUIRE(c.a.write(0, from.sge(0, 1), into.address(), into.key()) == 0);
  CHECK(c.a.sent().next().status == IBV_WC_SUCCESS);
  into.fill(kept_byte);
  memory small(c.near, 8);
  request r(IBV_WR_RDMA_WRITE_WITH_IMM, {from.sge()});
  REQUIRE(c.a.post(r.remote(into.address(), into.key()).wr) == 0);
  REQUIRE(c.a.write(2, small.sge(), into.address(), into.key()) == 0);
  from.deregister();
  check_error(c.a.sent(), 1, IBV_WC_LOC_PROT_ERR);
  check_flushed(c.a.sent(), {2});
  check_ended(c.a);
  CHECK_FALSE(c.near.has_event());
  CHECK_FALSE(c.b.received().poll());
  CHECK(c.b.state() == IBV_QPS_RTS);
  REQUIRE(c.b.receive(7, into.sge()) == 0);
  REQUIRE(c.b.send(8, into.sge(0, 1)) == 0);
  check_error(c.b.sent(), 8, IBV_WC_RETRY_EXC_ERR);
  check_flushed(c.b.received(), {7});
  check_ended(c.b);
  CHECK_FALSE(c.far.has_event());
  // The target contains only the beginning of the message: the frames that arrived before the
  // region was deregistered, at most all except the last one.
  const auto& bytes = into.bytes();
  const auto end = std::find(bytes.begin(), bytes.end(), kept_byte);
  CHECK(end != bytes.end());
  CHECK(std::all_of(bytes.begin(), end, [](std::uint8_t b) { return b == sent_byte; }));
  CHECK(std::all_of(end, bytes.end(), [](std::uint8_t b) { return b == kept_byte; }));
}

} // namespace test::verbs_middle_test

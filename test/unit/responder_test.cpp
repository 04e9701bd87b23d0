//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "unit/protocol_fixture.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

// Tests the responder without a wire: the test passes requests by hand.

namespace protocol_test {

TEST_CASE("the responder acknowledges an executed request once")
{
  target t;
  t.take(t.request(opcode::write_only, 0));
  CHECK(t.answers.take_acknowledgement() == 0u);
  CHECK_FALSE(t.answers.take_acknowledgement());
}

TEST_CASE("the responder does not acknowledge a read that it refuses while it sends the response")
{
  target t;
  t.take(t.request(opcode::write_only, 0));
  t.take(t.request(opcode::read_request, 8));
  CHECK_FALSE(t.answers.take_acknowledgement()); // the response is still to be sent
  frame response;
  REQUIRE(t.answers.next(response));
  REQUIRE(response.source == frame::origin::response);
  key_table::revoke(*t.slot);
  t.answers.unreadable(response, detail_local_key);
  CHECK_FALSE(t.answers.take_acknowledgement());
  frame none;
  CHECK_FALSE(t.answers.next_acknowledgement(none, false));
  frame refusal;
  REQUIRE(t.answers.next(refusal));
  CHECK(refusal.psn == 1);
  CHECK(t.answers.failed());
  CHECK_FALSE(t.answers.take_acknowledgement());
}

TEST_CASE("the responder carries out nothing of a request that it checks in advance")
{
  target t;
  const auto what = GENERATE(opcode::write_first, opcode::read_request);
  const header h = t.request(what, 2 * segment);
  CHECK(t.answers.would_permit(h));
  CHECK_FALSE(t.answers.has_next());
  CHECK_FALSE(t.answers.take_acknowledgement());
  CHECK(t.answers.accepted_key() == 0);
  CHECK(t.take(t.request(opcode::write_only, 8, 8)) == verdict::accept); // the PSN is the same
}

TEST_CASE("the responder refuses nothing that it checks in advance")
{
  target t;
  header h = t.request(GENERATE(opcode::write_first, opcode::read_request), segment);
  SECTION("wrong key")
  {
    h.key ^= 1;
  }
  SECTION("not enabled")
  {
    t.with.access = 0;
  }
  SECTION("beyond the memory")
  {
    h.address += 1u << 20;
  }
  SECTION("empty")
  {
    h.length = 0;
  }
  SECTION("too long")
  {
    t.slot->length = 2 * max_message;
    h.length = max_message + 1;
  }
  CHECK_FALSE(t.answers.would_permit(h));
  CHECK_FALSE(t.answers.failed());
  CHECK_FALSE(t.answers.has_next());
}

TEST_CASE("the responder permits nothing in advance behind a refusal")
{
  target t;
  SECTION("an RNR refusal that is still to be sent")
  {
    t.take(t.request(opcode::send_only, 0, 8));
  }
  SECTION("a final one")
  {
    header wrong = t.request(opcode::write_only, 8, 8);
    wrong.key ^= 1u << 30;
    t.take(wrong);
    t.next_answer();
  }
  CHECK_FALSE(t.answers.would_permit(t.request(opcode::write_first, 2 * segment)));
}

TEST_CASE("the responder receives nothing until its RNR refusal has been sent")
{
  target t;
  const header h = t.request(opcode::send_only, 0, 8);
  t.take(h);
  t.post_receive(8);
  const std::array<std::byte, 8> payload{};
  CHECK_FALSE(t.answers.receive_short(h, payload.data()));
  CHECK(t.answers.receive(h) == verdict::discard);
  CHECK(is_rnr(t.next_answer().syndrome));
  CHECK(t.take(h) == verdict::accept);
}

TEST_CASE("an atomic's address and its place must be aligned")
{
  target t;
  header h = t.request(GENERATE(opcode::fetch_add, opcode::atomic_write), 8);
  SECTION("address")
  {
    t.slot->address += 4; // as a zero based region in the middle of a word
    h.address += 4;
  }
  SECTION("place")
  {
    t.slot->memory += 4;
  }
  CHECK(t.take(h) == verdict::discard);
  CHECK(t.next_answer().syndrome == nak_invalid_request);
}

TEST_CASE("an atomic write needs the right to write, and another atomic its own")
{
  target t;
  const auto op = GENERATE(opcode::fetch_add, opcode::compare_swap, opcode::atomic_write);
  const bool permitted = GENERATE(true, false);
  const bool writes = (op == opcode::atomic_write) == permitted;
  const unsigned right = writes ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_ATOMIC;
  SECTION("of the queue pair")
  {
    t.with.access = right;
    t.take(t.request(op, 8));
    CHECK((t.next_answer().op == opcode::atomic_acknowledge) == permitted);
  }
  SECTION("of the key")
  {
    t.slot->access = right;
    t.take(t.request(op, 8));
    CHECK((t.next_answer().op == opcode::atomic_acknowledge) == permitted);
  }
}

TEST_CASE("the responder refuses a message that is longer than the longest")
{
  target t;
  t.with.segment = 1u << 30;
  t.post_receive(3u << 30); // nothing accesses it
  for (const opcode op : {opcode::send_first, opcode::send_middle})
  {
    header h = t.request(op, 0, t.with.segment);
    h.psn = t.psn++;
    REQUIRE(t.answers.receive(h) == verdict::accept);
    REQUIRE(t.answers.finish() == verdict::accept);
  }
  header h = t.request(opcode::send_last, 0, 1);
  CHECK(t.answers.receive(h) == verdict::discard);
  CHECK(t.next_answer().syndrome == nak_invalid_request);
}

TEST_CASE("the rights of memory are checked for each part of a message") // ibv_rereg_mr(3)
{
  target t;
  pinned_buffers to;
  std::uint64_t done = 0;
  SECTION("a write, and the memory may not be written any more")
  {
    REQUIRE(t.take(t.request(opcode::write_first, segment + 8, segment)) == verdict::accept);
    REQUIRE(t.answers.receive(t.request(opcode::write_last, 0, 8)) == verdict::accept);
    t.slot->access = IBV_ACCESS_REMOTE_READ;
    CHECK_FALSE(t.answers.place(0, 8, to, done));
  }
  SECTION("a write, and the region is smaller")
  {
    REQUIRE(t.take(t.request(opcode::write_first, segment + 8, segment)) == verdict::accept);
    REQUIRE(t.answers.receive(t.request(opcode::write_last, 0, 8)) == verdict::accept);
    t.slot->length = segment + 7;
    CHECK_FALSE(t.answers.place(0, 8, to, done));
  }
  SECTION("a send")
  {
    t.post_receive(8);
    REQUIRE(t.answers.receive(t.request(opcode::send_only, 0, 8)) == verdict::accept);
    t.slot->access = IBV_ACCESS_REMOTE_WRITE;
    CHECK_FALSE(t.answers.place(0, 8, to, done));
  }
  SECTION("a read")
  {
    t.take(t.request(opcode::read_request, 8));
    frame response;
    REQUIRE(t.answers.next(response));
    t.slot->access = IBV_ACCESS_REMOTE_WRITE;
    CHECK_FALSE(t.answers.gather(response, 0, 8, to, done));
  }
}

TEST_CASE("a key permits access to its addresses only, wherever they are")
{
  target t;
  constexpr std::uint64_t size = 100;
  t.slot->length = size;
  t.slot->address = GENERATE(as<std::uint64_t>(), 0, 4096, ~std::uint64_t{0} - (size - 1));
  const auto permitted = [&t](std::uint64_t offset, std::uint64_t length)
  {
    return static_cast<bool>(key_pin(t.keys.pin_remote(
      t.key, &t.pd, t.with.qp, t.slot->address + offset, length, IBV_ACCESS_REMOTE_READ)));
  };
  CHECK(permitted(0, size));
  CHECK(permitted(10, 8));
  CHECK(permitted(size - 8, 8));
  CHECK_FALSE(permitted(size - 8, 9));
  CHECK_FALSE(permitted(size + 1, 1));
  CHECK_FALSE(permitted(~std::uint64_t{0}, 1)); // the byte before
  CHECK_FALSE(permitted(~std::uint64_t{0}, 2));
  CHECK_FALSE(permitted(8, ~std::uint64_t{0} - 7));
}

TEST_CASE("the rest of a frame that cannot be placed completes nothing")
{
  target t;
  t.post_receive(8);
  REQUIRE(t.answers.receive(t.request(opcode::send_only, 0, 8)) == verdict::accept);
  t.answers.unplaceable(detail_local_key);
  CHECK(t.answers.finish() == verdict::discard);
  REQUIRE(t.told.received.size() == 1);
  CHECK(t.told.received[0].status == IBV_WC_LOC_PROT_ERR);
}

TEST_CASE("the responder announces the receive that an arriving message uses")
{
  target t;
  t.post_receive(2 * segment);
  REQUIRE(t.take(t.request(opcode::send_first, 0, segment)) == verdict::accept);
  frame f;
  REQUIRE(t.answers.next_acknowledgement(f, false));
  const auto h = decode({f.bytes.data(), f.header_size});
  REQUIRE(h);
  CHECK(credits_of(h->syndrome & credit_mask) == 1);
}

TEST_CASE("reads behind one whose memory cannot be read are not answered")
{
  target t;
  t.with.max_peer_read_atomic = 2;
  t.answers.start();
  t.take(t.request(opcode::read_request, 8));
  t.take(t.request(opcode::read_request, 8));
  frame response;
  REQUIRE(t.answers.next(response));
  t.answers.unreadable(response, detail_local_key);
  const header refusal = t.next_answer();
  CHECK(refusal.syndrome == nak_remote_access);
  CHECK(refusal.psn == 0);
  CHECK_FALSE(t.answers.has_next());
}

TEST_CASE("the responder raises comm_est for a request that it checks in advance")
{
  target t;
  t.answers.announce(true);
  CHECK(t.answers.would_permit(t.request(opcode::write_first, 2 * segment)));
  CHECK(t.told.events == std::vector{IBV_EVENT_COMM_EST});
  CHECK(t.answers.direct_rights() == registered_memory::remote);
}

TEST_CASE("the responder receives a short send as a whole")
{
  target t;
  t.post_receive(64);
  const std::array payload{std::byte{1}, std::byte{2}, std::byte{3}};
  header h = t.request(opcode::send_only_immediate, 0, payload.size());
  REQUIRE(t.answers.receive_short(h, payload.data()));
  REQUIRE(t.told.received.size() == 1);
  CHECK(t.told.received[0].status == IBV_WC_SUCCESS);
  CHECK(t.told.received[0].byte_len == payload.size());
  CHECK(t.told.received[0].imm_data == 0x1234);
  CHECK(t.told.solicited);
  CHECK(std::equal(payload.begin(), payload.end(), t.bytes.data()));
  CHECK(t.answers.acknowledgement_wanted());
  CHECK((t.answers.take_acknowledgement().value_or(1) & psn_mask) == 0);
}

TEST_CASE("the responder leaves a short send to receive() if anything is unusual")
{
  target t;
  header h = t.request(opcode::send_only, 0, 8);
  const std::array<std::byte, 8> payload{};
  ibv_wc_status status = IBV_WC_SUCCESS; // of the receive, after receive() of the same header
  bool carried_out = true;
  SECTION("no receive")
  {
    carried_out = false;
  }
  SECTION("a receive that is too small")
  {
    t.post_receive(7);
    status = IBV_WC_LOC_LEN_ERR;
  }
  SECTION("a receive in memory that is not registered any more")
  {
    t.post_receive(64);
    key_table::revoke(*t.slot);
    status = IBV_WC_LOC_PROT_ERR;
  }
  SECTION("another PSN")
  {
    t.post_receive(64);
    h.psn = GENERATE(1u, psn_mask);
    carried_out = false;
  }
  SECTION("comm_est")
  {
    t.post_receive(64);
    t.answers.announce(true);
  }
  SECTION("within a message")
  {
    t.post_receive(2 * segment);
    REQUIRE(t.take(t.request(opcode::send_first, 0, segment)) == verdict::accept);
    h.psn = t.psn;
    CHECK_FALSE(t.answers.receive_short(h, payload.data()));
    CHECK(t.answers.receive(h) == verdict::malformed);
    return;
  }
  CHECK_FALSE(t.answers.receive_short(h, payload.data()));
  CHECK(t.told.received.empty());
  CHECK(t.told.events.empty());
  t.take(h);
  REQUIRE(t.told.received.size() == (carried_out ? 1 : 0));
  if (carried_out)
    CHECK(t.told.received[0].status == status);
}

} // namespace protocol_test

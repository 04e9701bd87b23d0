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
    h.length = max_message + 1;
  }
  CHECK_FALSE(t.answers.would_permit(h));
  CHECK_FALSE(t.answers.failed());
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

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "unit/protocol_fixture.hpp"

// Tests the requester without a wire: the test passes frames and answers by hand.

namespace protocol_test {

TEST_CASE("the requester completes a refused request only after it stopped sending it")
{
  sender s;
  s.post(IBV_WR_RDMA_WRITE, 4096);
  s.post(IBV_WR_SEND, 10);
  s.take();
  frame under_way;
  REQUIRE(s.requests.next(under_way));
  s.answer(nak_remote_access, 0);
  CHECK(s.requests.failed());
  // The requester still needs the slot and the memory: half of this frame may have been sent.
  CHECK(s.told.sent.empty());
  pinned_buffers from;
  std::uint64_t done = 0;
  CHECK(s.requests.gather(under_way, 0, segment, from, done));
  CHECK(done == segment);
  from.clear();

  SECTION("while the memory stays registered") {}
  SECTION("when the memory is deregistered meanwhile")
  {
    key_table::revoke(*s.slot);
    s.requests.unreadable(under_way, detail_local_key);
    CHECK(s.told.sent.empty());
  }
  s.requests.halt();
  frame none;
  CHECK_FALSE(s.requests.next(none));
  s.requests.flush();
  REQUIRE(s.told.sent.size() == 2);
  CHECK(s.told.sent[0].wr_id == 100);
  CHECK(s.told.sent[0].status == IBV_WC_REM_ACCESS_ERR);
  CHECK(s.told.sent[1].wr_id == 101);
  CHECK(s.told.sent[1].status == IBV_WC_WR_FLUSH_ERR);
}

TEST_CASE("a draining requester repeats a request after RNR but starts no other")
{
  sender s;
  s.post(IBV_WR_SEND, 10);
  s.post(IBV_WR_SEND, 10);
  s.take();
  s.requests.drain(true);
  CHECK_FALSE(s.requests.drained());
  s.answer(syndrome_rnr | 1, 0);
  CHECK(s.requests.take_wait() == 10'000);
  CHECK_FALSE(s.requests.drained());
  CHECK(s.requests.expecting());
  s.requests.resume();
  CHECK(s.take().psn == 0);
  frame none;
  CHECK_FALSE(s.requests.next(none));
  s.answer(syndrome_ack, 0);
  CHECK(s.requests.drained());
  CHECK_FALSE(s.requests.expecting());
  REQUIRE(s.told.sent.size() == 1);
  CHECK(s.told.sent[0].status == IBV_WC_SUCCESS);
  s.requests.drain(false);
  CHECK(s.take().psn == 1);
}

TEST_CASE("the requester fails with bad_resp_err when an answer is for a frame it has not sent")
{
  sender s;
  s.post(IBV_WR_SEND, 2000);
  s.take();
  s.answer(syndrome_ack, 1);
  CHECK(s.requests.failed());
  s.requests.flush();
  REQUIRE(s.told.sent.size() == 1);
  CHECK(s.told.sent[0].status == IBV_WC_BAD_RESP_ERR);
}

TEST_CASE("a request that is partly sent can be refused but not acknowledged")
{
  sender s;
  s.post(IBV_WR_SEND, 2000);
  frame under_way;
  REQUIRE(s.requests.next(under_way));
  SECTION("RNR before the headers are sent is a protocol error")
  {
    s.answer(syndrome_rnr | 1, 0);
    CHECK(s.requests.failed());
    return;
  }
  s.requests.begun(under_way);
  SECTION("an acknowledgement after RNR and before the repetition is a protocol error")
  {
    s.answer(syndrome_rnr | 1, 0);
    CHECK(s.requests.take_wait() == 10'000);
    s.requests.sent(under_way); // the remaining bytes, which the peer ignores
    s.answer(syndrome_ack, 0);
    CHECK(s.requests.failed());
  }
  SECTION("an acknowledgement after RNR and the repetition completes the request")
  {
    s.answer(syndrome_rnr | 1, 0);
    s.requests.sent(under_way);
    s.requests.resume();
    CHECK(s.take().psn == 0);
    CHECK(s.take().psn == 1);
    s.answer(syndrome_ack, 1);
    CHECK_FALSE(s.requests.failed());
    CHECK(s.told.sent.size() == 1);
  }
  SECTION("a fatal NAK fails the request")
  {
    s.answer(nak_invalid_request, 0);
    CHECK(s.requests.failed());
    s.requests.flush();
    CHECK(s.told.sent.at(0).status == IBV_WC_REM_INV_REQ_ERR);
  }
  SECTION("an acknowledgement is a protocol error")
  {
    s.answer(syndrome_ack, 0);
    CHECK(s.requests.failed());
    s.requests.flush();
    CHECK(s.told.sent.at(0).status == IBV_WC_BAD_RESP_ERR);
  }
}

} // namespace protocol_test

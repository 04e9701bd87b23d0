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

TEST_CASE("a request that has not been sent cannot be refused")
{
  sender s;
  s.post(IBV_WR_SEND, 2000);
  frame under_way;
  REQUIRE(s.requests.next(under_way));
  s.answer(syndrome_rnr | 1, 0);
  CHECK(s.requests.failed());
}

TEST_CASE("after RNR only the repetition of a request counts")
{
  sender s;
  s.post(IBV_WR_SEND, 2000);
  s.take();
  SECTION("an acknowledgement after RNR and before the repetition is a protocol error")
  {
    s.answer(syndrome_rnr | 1, 0);
    CHECK(s.requests.take_wait() == 10'000);
    s.answer(syndrome_ack, 0);
    CHECK(s.requests.failed());
  }
  SECTION("an acknowledgement after RNR and the repetition completes the request")
  {
    s.answer(syndrome_rnr | 1, 0);
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
}

TEST_CASE("frames from before an RNR refusal count neither as sent nor as unreadable")
{
  sender s;
  s.post(IBV_WR_SEND, 4 * segment);
  s.take();
  s.take();
  frame old;
  REQUIRE(s.requests.next(old));
  const std::uint32_t generation = s.requests.generation();
  s.answer(syndrome_rnr | 1, 1);
  CHECK(s.requests.generation() != generation); // the wire drops the frames that it still holds
  s.requests.unreadable(old, detail_local_key);
  CHECK_FALSE(s.requests.failed());
  s.requests.resume();
  CHECK(s.take().psn == 1);
  s.requests.sent(old);
  s.answer(syndrome_ack, 2);
  CHECK(s.requests.failed());
}

TEST_CASE("an RNR refusal sends the requests behind it again")
{
  sender s;
  s.with.max_read_atomic = 1;
  s.post(IBV_WR_SEND, 8);
  SECTION("a read")
  {
    s.post(IBV_WR_RDMA_READ, 8);
    REQUIRE(s.take_all().size() == 2);
    s.answer(syndrome_rnr | 1, 0);
    s.requests.resume();
    CHECK(s.take_all().size() == 2);
  }
  SECTION("one that could not be sent")
  {
    s.post(IBV_WR_SEND, 8).elements_begin()[0].lkey ^= 1u << 30;
    REQUIRE(s.take_all().size() == 1);
    s.answer(syndrome_rnr | 1, 0);
    s.requests.resume();
    CHECK(s.take_all().size() == 1);
  }
}

TEST_CASE("RNR refusals are counted for each request")
{
  sender s;
  s.with.rnr_retry = 1;
  s.requests.start();
  s.post(IBV_WR_SEND, 8);
  s.post(IBV_WR_SEND, 8);
  for (const std::uint32_t psn : {0u, 1u})
  {
    s.take_all();
    s.answer(syndrome_rnr | 1, psn);
    s.requests.resume();
    s.take_all();
    if (psn == 0)
      s.answer(syndrome_ack, psn);
    REQUIRE_FALSE(s.requests.failed());
  }
  s.answer(syndrome_rnr | 1, 1);
  s.requests.flush();
  REQUIRE(s.told.sent.size() == 2);
  CHECK(s.told.sent[0].status == IBV_WC_SUCCESS);
  CHECK(s.told.sent[1].status == IBV_WC_RNR_RETRY_EXC_ERR);
}

TEST_CASE("a refusal completes the requests before the refused one")
{
  sender s;
  s.post(IBV_WR_SEND, 8);
  s.post(IBV_WR_SEND, 8);
  s.take_all();
  s.answer(nak_remote_access, 1);
  s.requests.flush();
  REQUIRE(s.told.sent.size() == 2);
  CHECK(s.told.sent[0].status == IBV_WC_SUCCESS);
  CHECK(s.told.sent[1].status == IBV_WC_REM_ACCESS_ERR);
}

TEST_CASE("a frame that has been acknowledged cannot be refused")
{
  sender s;
  s.post(IBV_WR_SEND, 2 * segment);
  s.take_all();
  s.answer(syndrome_ack, 0);
  s.answer(static_cast<std::uint8_t>(GENERATE(int{nak_remote_access}, syndrome_rnr | 1)), 0);
  s.requests.flush();
  REQUIRE(s.told.sent.size() == 1);
  CHECK(s.told.sent[0].status == IBV_WC_BAD_RESP_ERR);
}

TEST_CASE("the requester accepts no answer of another form or order than that of its request")
{
  sender s;
  SECTION("a response to a send")
  {
    s.post(IBV_WR_SEND, 8);
    s.take_all();
    s.answer(syndrome_ack, 0, opcode::atomic_acknowledge);
  }
  SECTION("an acknowledgement of a read")
  {
    s.post(IBV_WR_RDMA_READ, 8);
    s.post(IBV_WR_SEND, 8);
    s.take_all();
    s.answer(syndrome_ack, GENERATE(0u, 1u));
  }
  SECTION("a response that refuses")
  {
    s.post(IBV_WR_RDMA_READ, 8);
    s.take_all();
    s.answer(nak_remote_access, 0, opcode::read_response_only, 8);
  }
  SECTION("the response to another read")
  {
    s.post(IBV_WR_RDMA_READ, 8);
    s.post(IBV_WR_RDMA_READ, 8);
    s.take_all();
    s.answer(syndrome_ack, 1, opcode::read_response_only, 8);
  }
  s.requests.flush();
  REQUIRE_FALSE(s.told.sent.empty());
  CHECK(s.told.sent[0].status == IBV_WC_BAD_RESP_ERR);
}

TEST_CASE("memory for a response must be writable when the request begins and when it ends")
{
  sender s;
  const auto what = GENERATE(IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD);
  s.post(what, 8);
  const auto forbid = [&s] { s.slot->access &= ~unsigned{IBV_ACCESS_LOCAL_WRITE}; };
  SECTION("when it begins")
  {
    forbid();
    CHECK(s.take_all().empty());
  }
  SECTION("when it ends") // ibv_rereg_mr(3)
  {
    s.take();
    const bool reads = what == IBV_WR_RDMA_READ;
    REQUIRE(s.answer(syndrome_ack, 0,
              reads ? opcode::read_response_only : opcode::atomic_acknowledge, reads ? 8 : 0)
      == verdict::accept);
    forbid();
    pinned_buffers to;
    std::uint64_t done = 0;
    if (!reads)
      CHECK(s.requests.finish() == verdict::discard);
    else if (!s.requests.place(0, 8, to, done))
      s.requests.unplaceable(detail_local_key);
  }
  s.requests.flush();
  REQUIRE(s.told.sent.size() == 1);
  CHECK(s.told.sent[0].status == IBV_WC_LOC_PROT_ERR);
}

TEST_CASE("a request that cannot be sent fails behind those before it, and only the first does")
{
  sender s;
  for (int i = 0; i != 3; ++i)
    s.post(IBV_WR_SEND, 8);
  SECTION("its key is wrong")
  {
    s.queue[1].elements_begin()[0].lkey ^= 1u << 30;
    REQUIRE(s.take_all().size() == 1);
    CHECK_FALSE(s.requests.failed());
    s.answer(syndrome_ack, 0);
  }
  SECTION("its bytes and those of the next one cannot be read")
  {
    const auto frames = s.take_all();
    REQUIRE(frames.size() == 3);
    s.requests.unreadable(frames[1], detail_local_key);
    s.requests.unreadable(frames[2], detail_local_key);
    CHECK_FALSE(s.requests.failed());
    s.answer(syndrome_ack, GENERATE(0u, 1u)); // also if the peer pretends that it has arrived
  }
  CHECK(s.requests.failed());
  s.requests.flush();
  REQUIRE(s.told.sent.size() == 3);
  CHECK(s.told.sent[0].status == IBV_WC_SUCCESS);
  CHECK(s.told.sent[1].status == IBV_WC_LOC_PROT_ERR);
  CHECK(s.told.sent[2].status == IBV_WC_WR_FLUSH_ERR);
}

TEST_CASE("an atomic of another length than eight bytes fails")
{
  sender s;
  s.post(GENERATE(IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, wr_atomic_write),
    GENERATE(4u, 16u));
  CHECK(s.take_all().empty());
  s.requests.flush();
  REQUIRE(s.told.sent.size() == 1);
  CHECK(s.told.sent[0].status == IBV_WC_LOC_LEN_ERR);
}

TEST_CASE("the requester limits what is under way")
{
  sender s;
  SECTION("reads")
  {
    for (int i = 0; i != 3; ++i)
      s.post(IBV_WR_RDMA_READ, 8);
    CHECK(s.take_all().size() == s.with.max_read_atomic);
  }
  SECTION("packet sequence numbers")
  {
    s.with.max_read_atomic = 4;
    s.slot->length = max_message; // nothing accesses it
    for (int i = 0; i != 3; ++i)
      s.post(IBV_WR_RDMA_READ, static_cast<std::uint32_t>(max_message - segment));
    CHECK(s.take_all().size() == 2); // of 2^21 - 1 each
  }
}

TEST_CASE("a message that has begun to leave is part of a drain")
{
  sender s;
  s.post(IBV_WR_SEND, 2 * segment);
  s.take();
  s.requests.drain(true);
  CHECK_FALSE(s.requests.drained());
  s.take();
  s.answer(syndrome_ack, 1);
  CHECK(s.requests.drained());
}

namespace {

struct scripted_path final : direct_path
{
  outcome run(send_request& what) noexcept override
  {
    psn = what.first_psn;
    return next;
  }
  bool look_ahead(const send_request& what) noexcept override
  {
    const bool is_new = std::find(looked_at.begin(), looked_at.end(), what.id) == looked_at.end();
    if (is_new)
      looked_at.push_back(what.id);
    return is_new;
  }
  bool prefers(const send_request&) const noexcept override { return waits; }
  bool write_short(const send_request&) noexcept override { return writes_short; }
  void let_go() noexcept override { ++let_go_calls; }

  bool waits = false;
  bool writes_short = false;
  outcome next = outcome::asks;
  std::uint32_t psn = 0;
  unsigned let_go_calls = 0;
  std::vector<std::uint64_t> looked_at; // wr_id
};

} // namespace

TEST_CASE("a request that the peer is asked about in advance cannot be answered")
{
  sender s;
  scripted_path path;
  s.requests.set_direct_path(&path);
  const bool reads = GENERATE(false, true);
  CAPTURE(reads);
  s.post(reads ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 2000);
  s.post(IBV_WR_SEND, 8);
  CHECK(s.take_all().empty()); // it waits, and so does the one behind it
  CHECK(path.psn == 0);
  CHECK_FALSE(s.requests.unfinished());
  CHECK(s.requests.expecting()); // so the retry timer runs
  const auto syndrome = static_cast<std::uint8_t>(
    GENERATE(int{nak_remote_access}, int{syndrome_ack}, syndrome_rnr | 1));
  if (syndrome == syndrome_ack && reads)
    s.answer(syndrome, 0, opcode::read_response_first, segment);
  else
    s.answer(syndrome, 0);
  REQUIRE(s.requests.failed());
  s.requests.flush();
  REQUIRE(s.told.sent.size() == 2);
  CHECK(s.told.sent[0].status == IBV_WC_BAD_RESP_ERR);
  CHECK(s.told.sent[1].status == IBV_WC_WR_FLUSH_ERR);
}

TEST_CASE("the direct path sees the writes and reads behind a large one before that is carried out")
{
  sender s;
  scripted_path path;
  path.waits = true; // they are large
  path.next = direct_path::outcome::done;
  s.requests.set_direct_path(&path);
  s.post(IBV_WR_RDMA_READ, 2000);
  s.post(IBV_WR_RDMA_WRITE, 2000);
  const bool sends = GENERATE(false, true);
  CAPTURE(sends);
  s.post(sends ? IBV_WR_SEND : IBV_WR_RDMA_READ, 8);
  s.post(IBV_WR_RDMA_WRITE, 2000);
  s.post(IBV_WR_RDMA_WRITE, 2000);
  CHECK(s.take_all().empty());
  CHECK(s.told.sent.empty()); // the wire can send something first
  CHECK(s.requests.unfinished());
  // Not those behind a send, and four at a time.
  CHECK(path.looked_at.size() == (sends ? 2 : 4));
  while (s.requests.unfinished())
    CHECK(s.take_all().size() <= 1);
  CHECK(s.told.sent.size() == (sends ? 2 : 5));
}

TEST_CASE("a request that prefers the direct path waits until those before it have completed")
{
  sender s;
  scripted_path path;
  s.requests.set_direct_path(&path);
  path.next = direct_path::outcome::done;
  path.waits = GENERATE(true, false);
  CAPTURE(path.waits);
  s.post(IBV_WR_SEND, 8);
  s.post(IBV_WR_RDMA_WRITE, 2000);
  CHECK(s.take_all().size() == (path.waits ? 1 : 3));
  CHECK(s.told.sent.empty());
  s.answer(syndrome_ack, 0);
  CHECK(s.take_all().empty());
  CHECK(s.requests.unfinished() == path.waits); // the path has looked ahead
  CHECK(s.take_all().empty());
  CHECK(s.told.sent.size() == (path.waits ? 2 : 1)); // directly, or its frames are under way
}

TEST_CASE("a request that has waited for the direct path continues with the PSN that it had")
{
  sender s;
  scripted_path path;
  s.requests.set_direct_path(&path);
  s.post(IBV_WR_RDMA_WRITE, 2000);
  CHECK(s.take_all().empty());
  SECTION("as frames")
  {
    path.next = direct_path::outcome::no;
    const auto frames = s.take_all();
    REQUIRE(frames.size() == 2);
    CHECK(frames[0].psn == 0);
    s.answer(syndrome_ack, 1);
  }
  SECTION("directly, and the peer can no longer refuse it")
  {
    path.next = direct_path::outcome::done;
    CHECK(s.take_all().empty());
    REQUIRE(s.told.sent.size() == 1);
    s.post(IBV_WR_SEND, 8);
    frame next;
    REQUIRE(s.requests.next(next));
    CHECK(next.psn == 0); // a direct request takes no PSN
    s.answer(nak_remote_access, 0);
    s.requests.flush();
    REQUIRE(s.told.sent.size() == 2);
    CHECK(s.told.sent[1].status == IBV_WC_BAD_RESP_ERR);
  }
  SECTION("after a drain")
  {
    s.requests.drain(true);
    CHECK(s.requests.drained());
    path.next = direct_path::outcome::done;
    CHECK(s.take_all().empty());
    CHECK(s.told.sent.empty());
    s.requests.drain(false);
    CHECK(s.take_all().empty());
  }
  REQUIRE_FALSE(s.told.sent.empty());
  CHECK(s.told.sent[0].status == IBV_WC_SUCCESS);
}

namespace {

// Sends the next request by the short way, if it may go there.
bool send_short(sender& s)
{
  send_request* const r = s.requests.next_short(512);
  if (r != nullptr)
    s.requests.short_sent(*r);
  return r != nullptr;
}

} // namespace

TEST_CASE("a short send takes the next PSN and completes when it is acknowledged")
{
  sender s;
  s.post(IBV_WR_SEND, 2000);
  CHECK(s.requests.next_short(512) == nullptr); // too long
  CHECK(s.take_all().size() == 2);
  s.post(GENERATE(IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_SEND_WITH_INV), GENERATE(0u, 512u));
  CHECK(s.requests.short_psn() == 2);
  REQUIRE(send_short(s));
  CHECK_FALSE(s.requests.has_next());
  CHECK(s.told.sent.empty());
  s.answer(syndrome_ack, 2);
  REQUIRE(s.told.sent.size() == 2);
  CHECK(s.told.sent[1].status == IBV_WC_SUCCESS);
}

TEST_CASE("a short send that finds no receive is repeated")
{
  sender s;
  s.post(IBV_WR_SEND, 8);
  s.post(IBV_WR_SEND, 8);
  REQUIRE(send_short(s));
  REQUIRE(send_short(s));
  s.answer(syndrome_rnr | 1, 0);
  CHECK(s.requests.next_short(512) == nullptr); // it waits for the timer
  s.requests.resume();
  CHECK(s.requests.short_psn() == 0);
  REQUIRE(send_short(s));
  REQUIRE(send_short(s));
  s.answer(syndrome_ack, 1);
  CHECK(s.told.sent.size() == 2);
}

TEST_CASE("a request that may not go the short way stays for the other")
{
  sender s;
  SECTION("another operation")
  {
    s.post(GENERATE(IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ), 8);
  }
  SECTION("a fence behind a read")
  {
    s.post(IBV_WR_RDMA_READ, 8);
    s.take_all();
    s.post(IBV_WR_SEND, 8).flags |= IBV_SEND_FENCE;
  }
  SECTION("a drain")
  {
    s.requests.drain(true);
    s.post(IBV_WR_SEND, 8);
  }
  SECTION("a message in parts whose first part has left")
  {
    s.post(IBV_WR_SEND, 2000);
    s.take();
  }
  SECTION("no credit")
  {
    s.post(IBV_WR_SEND, 8);
    REQUIRE(send_short(s));
    header h;
    h.op = opcode::acknowledge;
    h.dest_qp = s.with.qp;
    h.syndrome = 0; // an acknowledgement that announces no receives
    s.requests.receive(h);
    s.post(IBV_WR_SEND, 8);
    CHECK_FALSE(send_short(s));
    CHECK(s.take_all().size() == 1); // one message finds out
    return;
  }
  CHECK_FALSE(send_short(s));
  CHECK(s.told.sent.empty());
}

TEST_CASE("a local request ends the direct access first")
{
  sender s;
  scripted_path path;
  s.requests.set_direct_path(&path);
  send_request& r = s.post(IBV_WR_LOCAL_INV, 0);
  r.immediate = s.bind();
  CHECK(s.take_all().empty());
  CHECK(path.let_go_calls == 1);
  REQUIRE(s.told.sent.size() == 1);
  CHECK(s.told.sent[0].status == IBV_WC_SUCCESS);
}

TEST_CASE("a short write on the direct path completes at once, behind completed requests only")
{
  sender s;
  scripted_path path;
  path.writes_short = true;
  s.requests.set_direct_path(&path);
  s.post(IBV_WR_RDMA_WRITE, 8);
  CHECK_FALSE(send_short(s));
  REQUIRE(s.told.sent.size() == 1);
  CHECK(s.told.sent[0].opcode == IBV_WC_RDMA_WRITE);
  s.post(IBV_WR_SEND, 8);
  REQUIRE(send_short(s));
  s.post(IBV_WR_RDMA_WRITE, 8);
  CHECK_FALSE(send_short(s));
  CHECK(s.told.sent.size() == 1);
  s.answer(syndrome_ack, 0);
  CHECK_FALSE(send_short(s));
  CHECK(s.told.sent.size() == 3);
}

TEST_CASE("the peer cannot refuse a short write that it was asked about and that was done directly")
{
  sender s;
  scripted_path path;
  s.requests.set_direct_path(&path);
  s.post(IBV_WR_RDMA_WRITE, 8);
  CHECK(s.take_all().empty()); // it waits for the answer
  path.writes_short = true;
  CHECK_FALSE(send_short(s));
  REQUIRE(s.told.sent.size() == 1);
  s.post(IBV_WR_SEND, 8);
  s.answer(nak_remote_access, 0); // the PSN of the send, which has not been sent
  s.requests.flush();
  REQUIRE(s.told.sent.size() == 2);
  CHECK(s.told.sent[1].status == IBV_WC_BAD_RESP_ERR);
}

} // namespace protocol_test

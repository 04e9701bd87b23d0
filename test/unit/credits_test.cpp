//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "unit/protocol_fixture.hpp"

#include <array>

// Tests the flow control of requester and responder (IBA 9.7.7.2) without a wire.

namespace protocol_test {

namespace {

constexpr std::uint8_t rnr_nak = syndrome_rnr | 1; // 10 us
constexpr std::int64_t rnr_time = 10'000;

header header_of(const frame& f)
{
  const auto h = decode({f.bytes.data(), f.header_size});
  REQUIRE(h);
  return *h;
}

/// A requester that has completed one send, whose acknowledgement had this credit code.
struct credited_sender : sender
{
  explicit credited_sender(std::uint8_t code)
  {
    post(IBV_WR_SEND, 8);
    take();
    answer(code, 0);
    REQUIRE(told.sent.size() == 1);
    queue.take_back(1); // its completion was polled
  }
};

/// A responder whose peer sent a message without a receive, and was refused.
struct refusing_target : target
{
  refusing_target()
  {
    with.min_rnr_timer = 1;
    CHECK(take(request(opcode::send_only, 0, 8)) == verdict::discard);
    --psn;
    CHECK(next_answer().syndrome == rnr_nak);
    CHECK(answers.awaits_receive());
    CHECK_FALSE(answers.has_next());
  }
};

} // namespace

TEST_CASE("a credit code announces the largest number of its table that is not above the count")
{
  constexpr std::array<std::uint32_t, 31> table = {0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96,
    128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576,
    32768};
  for (std::uint8_t code = 0; code != table.size(); ++code)
  {
    CHECK(credits_of(code) == table[code]);
    CHECK(credit_code(table[code]) == code);
    const std::uint32_t next = code + 1u != table.size() ? table[code + 1u] : 1u << 31;
    CHECK(credit_code(next - 1) == code);
  }
  CHECK(credit_code(~std::uint64_t{0}) == table.size() - 1);
}

TEST_CASE("the requester has no limit before the first acknowledgement and with a shared queue")
{
  sender s;
  SECTION("before the first acknowledgement") {}
  SECTION("with a shared queue")
  {
    s.post(IBV_WR_SEND, 8);
    s.take();
    s.answer(no_credits, 0);
    s.queue.take_back(1);
  }
  for (unsigned i = 0; i != 4; ++i)
    s.post(IBV_WR_SEND, 8);
  CHECK(s.take_all().size() == 4);
}

TEST_CASE("the requester sends as many messages as it has credits, and one frame without")
{
  for (const std::uint8_t credits : {0, 1, 2})
    for (const ibv_wr_opcode what : {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_SEND_WITH_INV})
    {
      credited_sender s(credits);
      for (unsigned i = 0; i != 4; ++i)
        s.post(what, 2 * segment);
      const std::vector<frame> frames = s.take_all();
      REQUIRE(frames.size() == 2u * credits + 1);
      CHECK(header_of(frames.back()).ack_request);
      CHECK_FALSE(s.requests.has_next());
      // The answer counts the receive that the message is arriving in.
      s.answer(1, frames.back().psn);
      CHECK(s.take().psn == frames.back().psn + 1);
      CHECK(s.requests.failed() == false);
    }
}

TEST_CASE("the requester sends the next frame without credit when the last one is acknowledged")
{
  credited_sender s(0);
  for (unsigned i = 0; i != 3; ++i)
    s.post(IBV_WR_SEND, 8);
  for (std::uint32_t psn = 1; psn != 4; ++psn)
  {
    CHECK(s.take_all().size() == 1);
    s.answer(0, psn);
  }
  CHECK(s.told.sent.size() == 4);
}

TEST_CASE("an acknowledgement that brings credit lets the requester go on behind a frame without")
{
  credited_sender s(0);
  for (unsigned i = 0; i != 4; ++i)
    s.post(IBV_WR_SEND, 8);
  CHECK(s.take_all().size() == 1);
  s.answer(1, 0);
  CHECK(s.take_all().size() == 1);
  s.answer(4, 0);
  CHECK(s.take_all().size() == 2);
}

TEST_CASE("requests that use no receive need no credit")
{
  credited_sender s(0);
  s.post(IBV_WR_RDMA_WRITE, 2 * segment);
  s.post(IBV_WR_RDMA_READ, 8);
  s.post(IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
  CHECK(s.take_all().size() == 4);
}

TEST_CASE("a write with immediate data needs credit for its last frame")
{
  credited_sender s(0);
  s.post(IBV_WR_RDMA_WRITE_WITH_IMM, 3 * segment);
  s.post(IBV_WR_RDMA_WRITE, 8);
  CHECK(s.take_all().size() == 3);
  s.answer(rnr_nak, 3);
  s.answer(1, 2);
  const std::vector<frame> again = s.take_all();
  REQUIRE(again.size() == 2);
  CHECK(again[0].psn == 3);
  s.answer(0, 4);
  CHECK(s.told.sent.size() == 3);
}

TEST_CASE("a read's response brings credit")
{
  credited_sender s(0);
  s.post(IBV_WR_RDMA_READ, 8);
  s.post(IBV_WR_SEND, 8);
  s.post(IBV_WR_SEND, 8);
  CHECK(s.take_all().size() == 2);
  REQUIRE(s.answer(2, 1, opcode::read_response_only, 8) == verdict::accept);
  CHECK(s.requests.finish() == verdict::accept);
  CHECK(s.take_all().size() == 1);
}

TEST_CASE("the requester repeats a refused message at once when credit comes")
{
  const std::uint8_t code = GENERATE(std::uint8_t{1}, no_credits);
  credited_sender s(0);
  s.post(IBV_WR_SEND, 8);
  s.take();
  s.answer(rnr_nak, 1);
  CHECK(s.requests.take_wait() == rnr_time);
  CHECK(s.requests.waiting());
  SECTION("not without credit")
  {
    s.answer(0, 0);
    CHECK(s.take_all().empty());
  }
  SECTION("not by an older acknowledgement")
  {
    s.answer(code, psn_mask);
    CHECK(s.take_all().empty());
  }
  s.answer(code, 0);
  CHECK(s.take_all().size() == 1);
  CHECK(s.requests.waiting()); // the time goes on
  s.answer(0, 1);
  CHECK_FALSE(s.requests.waiting());
  CHECK(s.told.sent.size() == 2);
}

TEST_CASE("an early repetition that is refused counts as no retry and continues the wait")
{
  credited_sender s(0);
  s.with.rnr_retry = 1;
  s.requests.reset();
  s.requests.start();
  s.queue.reset();
  s.post(IBV_WR_SEND, 8);
  s.take();
  s.answer(rnr_nak, 0);
  CHECK(s.requests.take_wait() == rnr_time);
  for (unsigned i = 0; i != 3; ++i)
  {
    s.answer(no_credits, psn_mask);
    s.take();
    s.answer(rnr_nak, 0);
    CHECK_FALSE(s.requests.failed());
    CHECK(s.requests.take_wait() == 0);
    CHECK(s.requests.waiting());
    CHECK_FALSE(s.requests.has_next());
  }
  SECTION("the next refusal after the wait fails the request")
  {
    s.requests.resume();
    s.take();
  }
  SECTION("so does the refusal of an early repetition after the wait")
  {
    s.answer(no_credits, psn_mask);
    s.take();
    s.requests.resume();
    CHECK_FALSE(s.requests.has_next()); // which was repeated already
  }
  s.answer(rnr_nak, 0);
  CHECK(s.requests.failed());
  s.requests.flush();
  CHECK(s.told.sent.back().status == IBV_WC_RNR_RETRY_EXC_ERR);
}

TEST_CASE("a refusal fails the request at once when no retries are permitted")
{
  sender s;
  s.with.rnr_retry = 0;
  s.requests.start();
  s.post(IBV_WR_SEND, 8);
  s.take();
  s.answer(rnr_nak, 0);
  CHECK(s.requests.failed());
}

TEST_CASE("credits that fall at one PSN take none away")
{
  credited_sender s(4);
  s.answer(1, 0);
  for (unsigned i = 0; i != 4; ++i)
    s.post(IBV_WR_SEND, 8);
  CHECK(s.take_all().size() == 4);
}

TEST_CASE("every sequence of credit codes completes requests in order or fails them")
{
  for (unsigned first = 0; first <= credit_mask; ++first)
    for (unsigned second = 0; second <= credit_mask; ++second)
      for (const bool refused : {false, true})
      {
        credited_sender s(static_cast<std::uint8_t>(first));
        for (unsigned i = 0; i != 3; ++i)
          s.post(IBV_WR_SEND, 2 * segment);
        std::uint32_t psn = s.take_all().back().psn;
        if (refused)
          s.answer(rnr_nak, psn);
        s.answer(static_cast<std::uint8_t>(second), refused ? psn - 1 : psn);
        s.requests.resume();
        for (psn = 1; psn != 7; ++psn)
        {
          for (frame f; s.requests.next(f);)
            s.requests.sent(f);
          s.answer(1, psn);
        }
        CHECK_FALSE(s.requests.failed());
        CHECK(s.told.sent.size() == 4);
      }
}

TEST_CASE("the responder announces the receives that are posted")
{
  target t;
  for (unsigned i = 0; i != 5; ++i)
    t.post_receive(8192);
  SECTION("in an acknowledgement")
  {
    t.take(t.request(opcode::send_only, 0, 8));
    frame f;
    REQUIRE(t.answers.next_acknowledgement(f, true));
    CHECK(header_of(f).syndrome == credit_code(4));
  }
  SECTION("in an acknowledgement that rides along")
  {
    t.take(t.request(opcode::send_only, 0, 8));
    CHECK(t.answers.take_acknowledgement() == std::uint32_t{credit_code(4)} << psn_bits);
  }
  SECTION("with the one that a message is arriving in")
  {
    t.take(t.request(opcode::send_first, 0, segment));
    CHECK(t.answers.take_acknowledgement() == std::uint32_t{credit_code(4 + 1)} << psn_bits);
  }
  SECTION("in a response")
  {
    t.take(t.request(opcode::fetch_add, 8));
    CHECK(t.next_answer().syndrome == credit_code(5));
    t.take(t.request(opcode::read_request, 8));
    CHECK(t.next_answer().syndrome == credit_code(5));
  }
  SECTION("unless the queue is shared")
  {
    t.told.shares = true;
    t.take(t.request(opcode::send_only, 0, 8));
    CHECK(t.answers.take_acknowledgement() == std::uint32_t{no_credits} << psn_bits);
  }
}

TEST_CASE("the responder acknowledges after a refusal when a receive is posted")
{
  refusing_target t;
  t.told.shares = GENERATE(false, true);
  t.post_receive(8192);
  t.answers.receive_posted();
  CHECK_FALSE(t.answers.awaits_receive());
  REQUIRE(t.answers.has_next());
  const header h = t.next_answer();
  CHECK(h.op == opcode::acknowledge);
  CHECK(h.psn == psn_mask); // nothing was carried out
  CHECK(h.syndrome == (t.told.shares ? no_credits : 1));
  CHECK_FALSE(t.answers.has_next());
  CHECK(t.take(t.request(opcode::send_only, 0, 8)) == verdict::accept);
  CHECK(t.told.received.size() == 1);
}

TEST_CASE("the responder refuses a message before it announces the receive that came meanwhile")
{
  target t;
  t.take(t.request(opcode::send_only, 0, 8));
  REQUIRE(t.answers.awaits_receive());
  t.post_receive(8192);
  t.answers.receive_posted();
  CHECK(is_rnr(t.next_answer().syndrome));
  CHECK(t.next_answer().syndrome == 1);
}

TEST_CASE("the responder announces no receive for a message that came again")
{
  refusing_target t;
  SECTION("before the receive was announced")
  {
    t.post_receive(8192);
    t.answers.receive_posted();
  }
  SECTION("before the queue pair was served")
  {
    t.post_receive(8192);
  }
  REQUIRE(t.take(t.request(opcode::send_only, 0, 8)) == verdict::accept);
  CHECK_FALSE(t.answers.awaits_receive());
  CHECK_FALSE(t.answers.has_next());
}

TEST_CASE("a message that is refused again waits for the next receive")
{
  refusing_target t;
  t.answers.receive_posted(); // and another queue pair took it
  CHECK(is_ack(t.next_answer().syndrome));
  CHECK(t.take(t.request(opcode::send_only, 0, 8)) == verdict::discard);
  CHECK(is_rnr(t.next_answer().syndrome));
  CHECK(t.answers.awaits_receive());
}

TEST_CASE("new receives ride along with other frames after the peer was told of none")
{
  target t;
  t.post_receive(8192);
  t.take(t.request(opcode::send_only, 0, 8));
  CHECK(t.answers.take_acknowledgement() == 0u); // code 0
  CHECK_FALSE(t.answers.take_acknowledgement());
  t.post_receive(8192);
  CHECK_FALSE(t.answers.acknowledgement_wanted());
  CHECK(t.answers.take_acknowledgement() == 1u << psn_bits);
  CHECK_FALSE(t.answers.take_acknowledgement());
}

TEST_CASE("the end of a queue pair forgets a refused message")
{
  refusing_target t;
  t.answers.receive_posted();
  SECTION("by the error state")
  {
    t.answers.flush();
  }
  SECTION("by RESET")
  {
    t.answers.reset();
  }
  SECTION("by a final refusal, which is sent instead")
  {
    header h = t.request(opcode::write_only, 8, 8);
    h.key ^= 1u << 30;
    t.take(h);
    CHECK(t.next_answer().syndrome == nak_remote_access);
  }
  CHECK_FALSE(t.answers.awaits_receive());
  CHECK_FALSE(t.answers.has_next());
}

} // namespace protocol_test

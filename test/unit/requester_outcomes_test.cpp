//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "unit/protocol_fixture.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <string>

// Every work request, in every split, with every result.

namespace protocol_test::requester_outcomes {

namespace {

struct work_request
{
  const char* name;
  ibv_wr_opcode opcode;
  ibv_wc_opcode completion;
};

constexpr work_request messages[] = {
  {"SEND", IBV_WR_SEND, IBV_WC_SEND}, {"SEND_WITH_IMM", IBV_WR_SEND_WITH_IMM, IBV_WC_SEND},
  {"RDMA_WRITE", IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE},
  {"RDMA_WRITE_WITH_IMM", IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RDMA_WRITE},
  {"SEND_WITH_INV", IBV_WR_SEND_WITH_INV, IBV_WC_SEND}, // the last: UC does not have it
};

constexpr work_request fetches[] = {
  {"RDMA_READ", IBV_WR_RDMA_READ, IBV_WC_RDMA_READ},
  {"ATOMIC_CMP_AND_SWP", IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_COMP_SWAP},
  {"ATOMIC_FETCH_AND_ADD", IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_FETCH_ADD},
};

constexpr work_request local_operations[] = {
  {"BIND_MW", IBV_WR_BIND_MW, IBV_WC_BIND_MW},
  {"LOCAL_INV", IBV_WR_LOCAL_INV, IBV_WC_LOCAL_INV},
};

enum cause : unsigned
{
  carried_out,
  nak_invalid,
  nak_access,
  nak_operation,
  nak_unknown,
  not_ready,
  wrong_kind,
  not_sent_yet,
  key_gone,
  too_long,
  no_depth,
  peer_silent,
  flushed,
  causes,
};

constexpr const char* cause_names[causes] = {"carried out", "NAK invalid request",
  "NAK remote access", "NAK remote operation", "NAK sequence", "RNR, no retries", "wrong answer",
  "answer too early", "local key gone", "too long", "no read depth", "no answer", "flushed"};

/// "-" in the table: the cause does not exist for the request.
constexpr int none = -1;
using row = std::array<int, causes>;

constexpr row message_row = {IBV_WC_SUCCESS, IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_ACCESS_ERR,
  IBV_WC_REM_OP_ERR, IBV_WC_BAD_RESP_ERR, IBV_WC_RNR_RETRY_EXC_ERR, IBV_WC_BAD_RESP_ERR,
  IBV_WC_BAD_RESP_ERR, IBV_WC_LOC_PROT_ERR, IBV_WC_LOC_LEN_ERR, none, IBV_WC_RETRY_EXC_ERR,
  IBV_WC_WR_FLUSH_ERR};
constexpr row fetch_row = {IBV_WC_SUCCESS, IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_ACCESS_ERR,
  IBV_WC_REM_OP_ERR, IBV_WC_BAD_RESP_ERR, IBV_WC_BAD_RESP_ERR, IBV_WC_BAD_RESP_ERR,
  IBV_WC_BAD_RESP_ERR, IBV_WC_LOC_PROT_ERR, IBV_WC_LOC_LEN_ERR, IBV_WC_LOC_QP_OP_ERR,
  IBV_WC_RETRY_EXC_ERR, IBV_WC_WR_FLUSH_ERR};
// "Wrong answer": the window's key is not one that the request may change.
constexpr row local_row = {IBV_WC_SUCCESS, none, none, none, none, none, IBV_WC_MW_BIND_ERR, none,
  none, none, none, none, IBV_WC_WR_FLUSH_ERR};

opcode answer_of(ibv_wr_opcode to, bool wrong)
{
  if (to == IBV_WR_RDMA_READ)
    return wrong ? opcode::atomic_acknowledge : opcode::read_response_only;
  if (to == IBV_WR_ATOMIC_CMP_AND_SWP || to == IBV_WR_ATOMIC_FETCH_AND_ADD)
    return wrong ? opcode::read_response_only : opcode::atomic_acknowledge;
  return wrong ? opcode::read_response_only : opcode::acknowledge;
}

void post_with(sender& s, ibv_wr_opcode what, cause why)
{
  send_request& r = s.post(what, why == too_long ? (1u << 31) + 1 : 8);
  r.bind = {0, s.key, IBV_ACCESS_REMOTE_WRITE, s.begin(), 8};
  const std::uint32_t bound = s.bind();
  r.bind.window = s.window->first_key;
  r.rkey = bound ^ 2;
  r.immediate = bound;
  if (what == IBV_WR_BIND_MW)
    REQUIRE(invalidate_window(s.keys, bound, &s.pd, s.with.qp)); // it can be bound again
  if (why == wrong_kind && r.is_local())
  {
    r.immediate = s.key; // of a region
    r.bind.window = s.key;
  }
  if (why == key_gone)
    key_table::revoke(*s.slot);
}

/// Posts the request, makes the cause happen and returns the only completion.
ibv_wc complete(ibv_wr_opcode what, cause why)
{
  sender s;
  s.with.max_read_atomic = why == no_depth ? 0 : 1;
  s.with.rnr_retry = 0;
  s.requests.start();
  post_with(s, what, why);
  if (why != flushed)
    s.take_all();
  const bool local = what == IBV_WR_BIND_MW || what == IBV_WR_LOCAL_INV;
  switch (why)
  {
  case carried_out:
  case wrong_kind:
    if (!local
      && s.answer(syndrome_ack, 0, answer_of(what, why == wrong_kind),
           what == IBV_WR_RDMA_READ && why == carried_out ? 8 : 0)
        == verdict::accept)
      (void)s.requests.finish();
    break;
  case nak_invalid:
    s.answer(nak_invalid_request, 0);
    break;
  case nak_access:
    s.answer(nak_remote_access, 0);
    break;
  case nak_operation:
    s.answer(nak_remote_operation, 0);
    break;
  case nak_unknown:
    s.answer(nak_sequence, 0);
    break;
  case not_ready:
    s.answer(syndrome_rnr | 1, 0);
    break;
  case not_sent_yet:
    s.answer(syndrome_ack, 1);
    break;
  case peer_silent:
    s.requests.fail(IBV_WC_RETRY_EXC_ERR, detail_no_answer);
    break;
  default:
    break;
  }
  CHECK(s.requests.failed() == (why != carried_out && why != flushed));
  s.requests.halt();
  s.requests.flush();
  REQUIRE(s.told.sent.size() == 1);
  CHECK(s.told.sent[0].wr_id == 100);
  return s.told.sent[0];
}

void check_row(const work_request& what, const row& expected, std::string& table)
{
  table += what.name;
  for (unsigned why = 0; why != causes; ++why)
  {
    if (expected[why] == none)
    {
      table += "; -";
      continue;
    }
    INFO(what.name << ", " << cause_names[why]);
    const ibv_wc wc = complete(what.opcode, static_cast<cause>(why));
    CHECK(wc.status == expected[why]);
    CHECK(wc.opcode == what.completion);
    table += "; " + std::to_string(wc.status);
  }
  table += '\n';
}

/// The opcodes of a message's first, middle, last and only frame.
std::array<opcode, 4> opcodes_of(ibv_wr_opcode what)
{
  switch (what)
  {
  case IBV_WR_SEND:
    return {opcode::send_first, opcode::send_middle, opcode::send_last, opcode::send_only};
  case IBV_WR_SEND_WITH_IMM:
    return {opcode::send_first, opcode::send_middle, opcode::send_last_immediate,
      opcode::send_only_immediate};
  case IBV_WR_SEND_WITH_INV:
    return {opcode::send_first, opcode::send_middle, opcode::send_last_invalidate,
      opcode::send_only_invalidate};
  case IBV_WR_RDMA_WRITE:
    return {opcode::write_first, opcode::write_middle, opcode::write_last, opcode::write_only};
  case IBV_WR_RDMA_WRITE_WITH_IMM:
    return {opcode::write_first, opcode::write_middle, opcode::write_last_immediate,
      opcode::write_only_immediate};
  default:
    return {opcode::read_response_first, opcode::read_response_middle, opcode::read_response_last,
      opcode::read_response_only};
  }
}

opcode opcode_of_frame(ibv_wr_opcode what, std::size_t index, std::size_t count)
{
  const auto all = opcodes_of(what);
  return count == 1 ? all[3] : index == 0 ? all[0] : index + 1 == count ? all[2] : all[1];
}

void check_split(service kind, const work_request& what, std::uint32_t length)
{
  INFO(what.name << " of " << length << " bytes");
  sender s(kind);
  s.post(what.opcode, length);
  const std::vector<frame> frames = s.take_all();
  REQUIRE(frames.size() == frame_count(length, segment));
  std::uint32_t sent = 0;
  for (std::size_t i = 0; i != frames.size(); ++i)
  {
    const bool last = i + 1 == frames.size();
    const auto op = static_cast<std::uint8_t>(frames[i].bytes[0]);
    CHECK(op == (static_cast<unsigned>(opcode_of_frame(what.opcode, i, frames.size())) | kind));
    const auto h = decode({frames[i].bytes.data(), frames[i].header_size});
    REQUIRE(h);
    CHECK(h->psn == i);
    CHECK(h->payload == (last ? length - sent : segment));
    CHECK(frames[i].offset == sent);
    CHECK(h->solicited == last);
    CHECK(h->ack_request == (last && kind == service_rc));
    sent += h->payload;
    if (last && what.opcode == IBV_WR_SEND_WITH_INV)
      CHECK(h->key == 0x1234);
    if (last && (what.opcode == IBV_WR_SEND_WITH_IMM || what.opcode == IBV_WR_RDMA_WRITE_WITH_IMM))
      CHECK(h->immediate == 0x1234);
    const bool write = what.completion == IBV_WC_RDMA_WRITE;
    if (i == 0 && write)
      CHECK((h->length == length && h->address == 0x10000 && h->key == 77));
  }
  CHECK(sent == length);
}

} // namespace

TEST_CASE("each work request completes with the status of what happened to it")
{
  std::string table = "status by request";
  for (const char* name : cause_names)
    table += std::string("; ") + name;
  table += '\n';
  for (const work_request& each : messages)
    check_row(each, message_row, table);
  for (const work_request& each : fetches)
    check_row(each, fetch_row, table);
  for (const work_request& each : local_operations)
    check_row(each, local_row, table);
  std::printf("%s", table.c_str());
}

TEST_CASE("the requester splits each message into first, middle and last or into an only frame")
{
  for (const std::uint32_t length : split_lengths)
    for (const work_request& each : messages)
    {
      check_split(service_rc, each, length);
      if (each.opcode != IBV_WR_SEND_WITH_INV)
        check_split(service_uc, each, length);
    }
}

TEST_CASE("the requester repeats a message from the frame that was refused with RNR")
{
  for (const std::uint32_t length : split_lengths)
    for (const work_request& each : messages)
      for (std::uint32_t refused = 0; refused != frame_count(length, segment); ++refused)
      {
        INFO(each.name << " of " << length << " bytes, frame " << refused);
        sender s;
        s.post(each.opcode, length);
        const std::size_t count = s.take_all().size();
        s.answer(syndrome_rnr | 1, refused);
        CHECK(s.requests.receiver_not_ready());
        CHECK(s.take_all().empty()); // it waits
        s.requests.resume();
        const std::vector<frame> again = s.take_all();
        REQUIRE(again.size() == count - refused);
        CHECK(again[0].psn == refused);
        CHECK(again[0].offset == std::uint64_t{refused} * segment);
        s.answer(syndrome_ack, static_cast<std::uint32_t>(count - 1));
        CHECK_FALSE(s.requests.receiver_not_ready());
        REQUIRE(s.told.sent.size() == 1);
        CHECK(s.told.sent[0].status == IBV_WC_SUCCESS);
      }
}

TEST_CASE("the requester accepts a read's response in its frames and nothing else")
{
  constexpr opcode responses[] = {opcode::read_response_first, opcode::read_response_middle,
    opcode::read_response_last, opcode::read_response_only, opcode::atomic_acknowledge};
  for (const std::uint32_t length : split_lengths)
  {
    const std::uint32_t count = frame_count(length, segment);
    for (std::uint32_t bad = 0; bad <= count; ++bad) // the frame to get wrong; count: none
      for (const opcode given : responses)
        for (const int more : {0, 1})
        {
          sender s;
          s.post(IBV_WR_RDMA_READ, length);
          const frame request = s.take();
          CHECK(static_cast<opcode>(request.bytes[0]) == opcode::read_request);
          CHECK(request.covered == count);
          CHECK(request.payload == 0);
          for (std::uint32_t i = 0; i != count && !s.requests.failed(); ++i)
          {
            const opcode right = opcode_of_frame(IBV_WR_RDMA_READ, i, count);
            const std::uint32_t payload = std::min(segment, length - i * segment);
            const bool wrong = i == bad && (given != right || more != 0);
            const verdict what = s.answer(syndrome_ack, i, i == bad ? given : right,
              payload + (i == bad ? static_cast<std::uint32_t>(more) : 0));
            INFO("read of " << length << " bytes, frame " << i);
            REQUIRE((what == verdict::accept) == !wrong);
            if (what == verdict::accept)
              CHECK(s.requests.finish() == verdict::accept);
          }
          s.requests.flush();
          REQUIRE(s.told.sent.size() == 1);
          const bool is_right =
            bad == count || (given == opcode_of_frame(IBV_WR_RDMA_READ, bad, count) && more == 0);
          CHECK(s.told.sent[0].status == (is_right ? IBV_WC_SUCCESS : IBV_WC_BAD_RESP_ERR));
        }
  }
}

TEST_CASE("the requester stores the original value of an atomic")
{
  for (const work_request& each : {fetches[1], fetches[2]})
  {
    sender s;
    s.post(each.opcode, 8);
    s.take();
    REQUIRE(s.answer(syndrome_ack, 0, opcode::atomic_acknowledge) == verdict::accept);
    CHECK(s.requests.finish() == verdict::accept);
    std::uint64_t value = 0;
    std::memcpy(&value, s.bytes.data(), sizeof value);
    CHECK(value == 4711);
  }
}

TEST_CASE("the requester fails with loc_prot_err when the place of a response is gone")
{
  sender s;
  SECTION("a read")
  {
    s.post(IBV_WR_RDMA_READ, 8);
    s.take();
    REQUIRE(s.answer(syndrome_ack, 0, opcode::read_response_only, 8) == verdict::accept);
    key_table::revoke(*s.slot);
    pinned_buffers to;
    std::uint64_t done = 0;
    CHECK_FALSE(s.requests.place(0, 8, to, done));
    s.requests.unplaceable(detail_local_key);
  }
  SECTION("an atomic")
  {
    s.post(IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
    s.take();
    REQUIRE(s.answer(syndrome_ack, 0, opcode::atomic_acknowledge) == verdict::accept);
    key_table::revoke(*s.slot);
    CHECK(s.requests.finish() == verdict::discard);
  }
  s.requests.flush();
  REQUIRE(s.told.sent.size() == 1);
  CHECK(s.told.sent[0].status == IBV_WC_LOC_PROT_ERR);
}

TEST_CASE("an unreliable requester completes a message when it has left")
{
  for (const work_request& each : messages)
  {
    if (each.opcode == IBV_WR_SEND_WITH_INV)
      continue;
    INFO(each.name);
    sender sent(service_uc);
    sent.post(each.opcode, 2 * segment);
    sent.take();
    CHECK(sent.told.sent.empty());
    sent.take();
    sender halfway(service_uc); // loses its connection
    halfway.post(each.opcode, 2 * segment);
    halfway.take();
    halfway.requests.vanish();
    sender alone(service_uc); // never has a connection
    alone.post(each.opcode, 2 * segment);
    alone.requests.discard();
    for (const sender* s : {&sent, &halfway, &alone})
    {
      REQUIRE(s->told.sent.size() == 1);
      CHECK(s->told.sent[0].status == IBV_WC_SUCCESS);
      CHECK(s->told.sent[0].opcode == each.completion);
    }
  }
}

TEST_CASE("an unreliable requester goes on after an error of its own when it has recovered")
{
  sender s(service_uc);
  s.post(IBV_WR_SEND, 8).elements_begin()[0].lkey ^= 1u << 30;
  s.post(IBV_WR_SEND, 8);
  CHECK(s.take_all().empty());
  CHECK(s.requests.failed());
  s.requests.flush();
  REQUIRE(s.told.sent.size() == 2);
  CHECK(s.told.sent[0].status == IBV_WC_LOC_PROT_ERR);
  CHECK(s.told.sent[1].status == IBV_WC_WR_FLUSH_ERR);
  s.requests.recover();
  s.post(IBV_WR_SEND, 8);
  CHECK(s.take_all().size() == 1);
  REQUIRE(s.told.sent.size() == 3);
  CHECK(s.told.sent[2].status == IBV_WC_SUCCESS);
}

TEST_CASE("a fence waits for the reads and atomics before it")
{
  for (const work_request& each : fetches)
  {
    INFO(each.name);
    sender s;
    s.post(each.opcode, 8);
    s.post(IBV_WR_SEND, 8).flags |= IBV_SEND_FENCE;
    CHECK(s.take_all().size() == 1);
    REQUIRE(s.answer(syndrome_ack, 0, answer_of(each.opcode, false),
              each.opcode == IBV_WR_RDMA_READ ? 8 : 0)
      == verdict::accept);
    (void)s.requests.finish();
    CHECK(s.take_all().size() == 1);
  }
}

} // namespace protocol_test::requester_outcomes

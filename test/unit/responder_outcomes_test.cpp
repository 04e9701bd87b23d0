//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "unit/protocol_fixture.hpp"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>

// Every request, in every split, with every result.

namespace protocol_test::responder_outcomes {

namespace {

struct request
{
  const char* name;
  opcode op;
};

constexpr request requests[] = {{"send_first", opcode::send_first},
  {"send_middle", opcode::send_middle}, {"send_last", opcode::send_last},
  {"send_last_immediate", opcode::send_last_immediate},
  {"send_last_invalidate", opcode::send_last_invalidate}, {"send_only", opcode::send_only},
  {"send_only_immediate", opcode::send_only_immediate},
  {"send_only_invalidate", opcode::send_only_invalidate}, {"write_first", opcode::write_first},
  {"write_middle", opcode::write_middle}, {"write_last", opcode::write_last},
  {"write_last_immediate", opcode::write_last_immediate}, {"write_only", opcode::write_only},
  {"write_only_immediate", opcode::write_only_immediate}, {"read_request", opcode::read_request},
  {"compare_swap", opcode::compare_swap}, {"fetch_add", opcode::fetch_add},
  {"atomic_write", opcode::atomic_write}};

bool has(opcode op, unsigned trait)
{
  return (traits_of(op) & trait) != 0;
}

/// A frame that fits its place: full unless it ends its message.
header frame_of(const target& t, opcode op)
{
  const bool first_only = has(op, trait_starts) && !has(op, trait_ends);
  const std::uint32_t payload = !has(op, trait_payload) ? 0 : has(op, trait_ends) ? 8 : segment;
  return t.request(op, first_only ? segment + 8 : 8, payload);
}

/// Receives the first frame of a message that `op` continues; nothing if it starts one.
void begin_message(target& t, opcode op)
{
  if (has(op, trait_starts))
    return;
  const opcode first = has(op, trait_send) ? opcode::send_first : opcode::write_first;
  const std::uint32_t all = has(op, trait_ends) ? segment + 8 : 2 * segment + 8;
  REQUIRE(t.take(t.request(first, all, segment)) == verdict::accept);
}

enum cause : unsigned
{
  carried_out,
  right_missing,
  key_unknown,
  beyond_region,
  too_long,
  depth_exceeded,
  misaligned,
  no_receive,
  receive_too_small,
  place_gone,
  place_unmapped,
  no_window,
  causes,
};

constexpr const char* cause_names[causes] = {"carried out", "right missing", "key unknown",
  "beyond region", "too long", "depth exceeded", "misaligned", "no receive", "receive too small",
  "place gone", "place unmapped", "no window"};

/// The syndrome of the answer; nothing if the cause does not exist for the request.
std::optional<unsigned> expected_syndrome(opcode op, cause why)
{
  const bool send = has(op, trait_send);
  const bool write = has(op, trait_write);
  const bool starts = has(op, trait_starts);
  const bool atomic = has(op, trait_atomic);
  const bool fetch = atomic || op == opcode::read_request;
  const auto if_possible = [](bool possible, unsigned syndrome)
  { return possible ? std::optional(syndrome) : std::nullopt; };
  switch (why)
  {
  case carried_out:
    return syndrome_ack;
  case right_missing:
    return if_possible((write && starts) || fetch, nak_invalid_request);
  case too_long:
    return if_possible((write && starts) || op == opcode::read_request, nak_invalid_request);
  case key_unknown:
  case beyond_region:
    return if_possible((write && starts) || fetch, nak_remote_access);
  case depth_exceeded:
    return if_possible(fetch, nak_invalid_request);
  case misaligned:
    return if_possible(atomic, nak_invalid_request);
  case no_receive:
    return if_possible((send && starts) || (write && has(op, trait_immediate)), syndrome_rnr | 1);
  case receive_too_small:
    return if_possible(send, nak_invalid_request);
  case place_gone:
    return if_possible(send || write, send ? nak_remote_operation : nak_remote_access);
  case place_unmapped:
    return if_possible(send || write, nak_remote_operation);
  default:
    return if_possible(has(op, trait_invalidate), nak_invalid_request);
  }
}

/// Makes the cause happen and receives the frame. Returns what the responder answers.
unsigned answer_to(target& t, opcode op, cause why)
{
  t.with.min_rnr_timer = 1;
  t.with.max_peer_read_atomic = why == depth_exceeded ? 0 : 1;
  if (why != no_receive)
    t.post_receive(why != receive_too_small ? 8192 : has(op, trait_starts) ? 1 : segment);
  begin_message(t, op);
  header h = frame_of(t, op);
  if (has(op, trait_invalidate))
    h.key = why == no_window ? t.key : t.bind();
  if (why == right_missing)
    t.with.access = 0;
  if (why == key_unknown)
    h.key ^= 1u << 30;
  if (why == beyond_region)
    h.address = t.begin() + t.bytes.size() - 4 - (t.begin() + t.bytes.size() - 4) % 8 + 8;
  if (why == too_long)
    h.length = static_cast<std::uint32_t>(max_message) + 1;
  if (why == misaligned)
    h.address += 4;
  if (why == place_unmapped)
  {
    REQUIRE(t.answers.receive(h) == verdict::accept);
    t.answers.unplaceable(detail_local_fault);
  }
  else if (why == place_gone)
  {
    REQUIRE(t.answers.receive(h) == verdict::accept);
    key_table::revoke(*t.slot);
    pinned_buffers to;
    std::uint64_t done = 0;
    REQUIRE_FALSE(t.answers.place(0, h.payload, to, done));
    t.answers.unplaceable(detail_local_key);
  }
  else
  {
    REQUIRE(t.take(h) != verdict::malformed);
  }
  frame f;
  if (!t.answers.next(f))
    REQUIRE(t.answers.next_acknowledgement(f, true));
  const std::uint8_t syndrome = decode({f.bytes.data(), f.header_size})->syndrome;
  return is_ack(syndrome) ? syndrome_ack : syndrome; // the credits have tests of their own
}

std::vector<ibv_event_type> expected_events(opcode op, cause why)
{
  switch (why)
  {
  case right_missing:
  case too_long:
  case depth_exceeded:
  case misaligned:
    return {IBV_EVENT_QP_REQ_ERR};
  case key_unknown:
  case beyond_region:
  case place_gone:
    if (has(op, trait_send) || has(op, trait_immediate))
      return {}; // the receive's completion reports it
    return {IBV_EVENT_QP_ACCESS_ERR};
  case place_unmapped:
    if (has(op, trait_send) || has(op, trait_immediate))
      return {};
    return {IBV_EVENT_QP_FATAL};
  default:
    return {};
  }
}

/// The status of the receive that the request completes; nothing if it completes none.
std::optional<ibv_wc_status> expected_receive(opcode op, cause why)
{
  const bool completes = (has(op, trait_send) && has(op, trait_ends)) || has(op, trait_immediate);
  switch (why)
  {
  case carried_out:
    return completes ? std::optional(IBV_WC_SUCCESS) : std::nullopt;
  case receive_too_small:
    return IBV_WC_LOC_LEN_ERR;
  case key_unknown:
  case beyond_region:
    return has(op, trait_immediate) ? std::optional(IBV_WC_LOC_ACCESS_ERR) : std::nullopt;
  case place_gone:
  case place_unmapped:
    if (has(op, trait_send))
      return IBV_WC_LOC_PROT_ERR;
    return has(op, trait_immediate) ? std::optional(IBV_WC_LOC_ACCESS_ERR) : std::nullopt;
  case no_window:
    return IBV_WC_REM_INV_REQ_ERR;
  default:
    return std::nullopt;
  }
}

void check_outcome(opcode op, cause why, unsigned syndrome)
{
  target t;
  CHECK(answer_to(t, op, why) == syndrome);
  const bool final = syndrome != syndrome_ack && !is_rnr(static_cast<std::uint8_t>(syndrome));
  CHECK(t.answers.failed() == final);
  const auto event = t.answers.take_event();
  CHECK((event ? std::vector{*event} : std::vector<ibv_event_type>{}) == expected_events(op, why));
  const auto receive = expected_receive(op, why);
  REQUIRE(t.told.received.size() == (receive ? 1 : 0));
  if (receive)
    CHECK(t.told.received[0].status == *receive);
  if (final) // nothing behind it is carried out
    CHECK(t.answers.receive(t.request(opcode::write_only, 0)) == verdict::discard);
}

/// The frames of a message of `length` bytes, as a requester makes them.
std::vector<header> message_of(
  const target& t, opcode first, opcode middle, opcode last, opcode only, std::uint32_t length)
{
  const std::uint32_t count = frame_count(length, segment);
  std::vector<header> frames;
  for (std::uint32_t i = 0; i != count; ++i)
  {
    const opcode op = count == 1 ? only : i == 0 ? first : i + 1 == count ? last : middle;
    frames.push_back(t.request(op, length, std::min(segment, length - i * segment)));
    frames.back().psn = i;
  }
  return frames;
}

} // namespace

TEST_CASE("the responder answers each request according to what happened to it")
{
  std::string table = "syndrome by request";
  for (const char* name : cause_names)
    table += std::string("; ") + name;
  table += '\n';
  for (const request& each : requests)
  {
    table += each.name;
    for (unsigned why = 0; why != causes; ++why)
    {
      INFO(each.name << ", " << cause_names[why]);
      const auto syndrome = expected_syndrome(each.op, static_cast<cause>(why));
      if (syndrome)
        check_outcome(each.op, static_cast<cause>(why), *syndrome);
      char text[8];
      std::snprintf(text, sizeof text, syndrome ? "; 0x%02x" : "; -", syndrome.value_or(0));
      table += text;
    }
    table += '\n';
  }
  std::printf("%s", table.c_str());
}

TEST_CASE("the responder reports a refused write with immediate data by an event without a receive")
{
  target t;
  header h = t.request(opcode::write_only_immediate, 8, 8);
  h.key ^= 1u << 30;
  CHECK(t.take(h) == verdict::discard);
  CHECK(t.next_answer().syndrome == nak_remote_access);
  CHECK(t.answers.take_event() == IBV_EVENT_QP_ACCESS_ERR);
  CHECK(t.told.received.empty());
}

TEST_CASE("the responder accepts first, middle and last frames only in this order and of one kind")
{
  for (const opcode before : {opcode::send_first, opcode::write_first, opcode::acknowledge})
    for (const request& each : requests)
    {
      INFO("after opcode " << static_cast<unsigned>(before) << ": " << each.name);
      target t;
      t.post_receive(8192);
      if (before != opcode::acknowledge) // which stands for: between messages
        REQUIRE(t.take(t.request(before, 2 * segment + 8, segment)) == verdict::accept);
      const verdict what = t.answers.receive(frame_of(t, each.op));
      const bool starts = has(each.op, trait_starts);
      const bool goes_on = !starts && before != opcode::acknowledge
        && has(each.op, trait_send) == has(before, trait_send);
      // A write's frames make up the length in its first one.
      const bool too_short = goes_on && has(each.op, trait_write) && has(each.op, trait_ends);
      const bool fits = before == opcode::acknowledge ? starts : goes_on && !too_short;
      CHECK((what == verdict::malformed) == !fits);
    }
}

TEST_CASE("the responder refuses frames of a wrong size as malformed")
{
  target t;
  t.post_receive(8192);
  CHECK(t.answers.receive(t.request(opcode::send_only, 0, segment + 1)) == verdict::malformed);
  CHECK(t.answers.receive(t.request(opcode::send_first, 0, segment - 1)) == verdict::malformed);
  CHECK(t.answers.receive(t.request(opcode::write_only, 9, 8)) == verdict::malformed);
  CHECK(t.answers.receive(t.request(opcode::write_first, segment, segment)) == verdict::malformed);
  REQUIRE(t.take(t.request(opcode::send_first, 0, segment)) == verdict::accept);
  CHECK(t.answers.receive(t.request(opcode::send_last, 0, 0)) == verdict::malformed);
}

TEST_CASE("the responder acknowledges a duplicate again and drops what is ahead")
{
  for (const request& each : requests)
  {
    INFO(each.name);
    target t;
    t.take(t.request(opcode::write_only, 0));
    REQUIRE(t.answers.take_acknowledgement() == 0u);
    header h = frame_of(t, each.op);
    h.psn = 2;
    CHECK(t.answers.receive(h) == verdict::discard);
    CHECK_FALSE(t.answers.take_acknowledgement());
    h.psn = 0;
    CHECK(t.answers.receive(h) == verdict::discard);
    CHECK(t.answers.take_acknowledgement() == 0u);
    t.answers.reset();
    h.psn = 1;
    CHECK(t.answers.receive(h) == verdict::discard);
  }
}

TEST_CASE("the responder places each split of a message and completes it once")
{
  struct shape
  {
    const char* name;
    opcode first, middle, last, only;
  };
  constexpr shape shapes[] = {
    {"send", opcode::send_first, opcode::send_middle, opcode::send_last, opcode::send_only},
    {"send with immediate", opcode::send_first, opcode::send_middle, opcode::send_last_immediate,
      opcode::send_only_immediate},
    {"send with invalidate", opcode::send_first, opcode::send_middle, opcode::send_last_invalidate,
      opcode::send_only_invalidate},
    {"write", opcode::write_first, opcode::write_middle, opcode::write_last, opcode::write_only},
    {"write with immediate", opcode::write_first, opcode::write_middle,
      opcode::write_last_immediate, opcode::write_only_immediate}};
  for (const service kind : {service_rc, service_uc})
    for (const shape& each : shapes)
      for (const std::uint32_t length : split_lengths)
      {
        if (kind == service_uc && has(each.only, trait_invalidate))
          continue;
        INFO(each.name << " of " << length << " bytes, service " << kind);
        target t(kind);
        t.post_receive(8192);
        const std::uint32_t window = t.bind();
        unsigned first = 0;
        auto frames = message_of(t, each.first, each.middle, each.last, each.only, length);
        for (header& h : frames)
        {
          CHECK(t.told.received.empty());
          if (has(h.op, trait_invalidate))
            h.key = window;
          REQUIRE(t.take(h, first) == verdict::accept);
          first += h.payload;
        }
        for (std::uint32_t i = 0; i != length; ++i)
          if (t.bytes.data()[i] != static_cast<std::byte>(i))
            FAIL("byte " << i << " is wrong");
        const bool send = has(each.only, trait_send);
        const bool immediate = has(each.only, trait_immediate);
        const bool invalidate = has(each.only, trait_invalidate);
        REQUIRE(t.told.received.size() == (send || immediate ? 1 : 0));
        if (send || immediate)
        {
          const ibv_wc& wc = t.told.received[0];
          CHECK(wc.status == IBV_WC_SUCCESS);
          CHECK(wc.wr_id == 200);
          CHECK(wc.byte_len == length);
          CHECK(wc.opcode == (send ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM));
          CHECK(((wc.wc_flags & IBV_WC_WITH_IMM) != 0) == immediate);
          CHECK(((wc.wc_flags & IBV_WC_WITH_INV) != 0) == invalidate);
          CHECK((!immediate || wc.imm_data == 0x1234));
          CHECK((!invalidate || wc.invalidated_rkey == window));
          CHECK(t.told.solicited);
        }
        CHECK(t.window->bound == !invalidate);
        const auto psn = t.answers.take_acknowledgement();
        CHECK(psn.has_value() == (kind == service_rc));
        CHECK((!psn || (*psn & psn_mask) == frames.size() - 1));
      }
}

TEST_CASE("the responder sends a read's response in its frames, and acknowledges behind it")
{
  for (const std::uint32_t length : split_lengths)
  {
    INFO("read of " << length << " bytes");
    const std::uint32_t count = frame_count(length, segment);
    target t;
    REQUIRE(t.take(t.request(opcode::read_request, length)) == verdict::discard); // no payload
    header behind = t.request(opcode::write_only, 0);
    behind.psn = count;
    REQUIRE(t.take(behind) == verdict::accept);
    for (std::uint32_t i = 0; i != count; ++i)
    {
      CHECK_FALSE(t.answers.take_acknowledgement());
      frame f;
      REQUIRE(t.answers.next(f));
      const auto h = decode({f.bytes.data(), f.header_size});
      REQUIRE(h);
      const bool last = i + 1 == count;
      CHECK(h->op
        == (count == 1 ? opcode::read_response_only
            : i == 0   ? opcode::read_response_first
            : last     ? opcode::read_response_last
                       : opcode::read_response_middle));
      CHECK(h->psn == i);
      CHECK(h->payload == std::min(segment, length - i * segment));
      if (h->payload == 0)
        continue;
      pinned_buffers to;
      std::uint64_t done = 0;
      REQUIRE(t.answers.gather(f, 0, h->payload, to, done));
      CHECK(done == h->payload);
      CHECK(
        static_cast<std::byte*>(to.data()->iov_base) == t.bytes.data() + std::size_t{i} * segment);
    }
    CHECK(t.answers.take_acknowledgement() == count);
  }
}

TEST_CASE("the responder carries out atomics and answers with the original value")
{
  for (const opcode op : {opcode::compare_swap, opcode::fetch_add})
  {
    target t;
    auto* const word = reinterpret_cast<std::uint64_t*>(t.bytes.data());
    *word = 40;
    header h = t.request(op, 8);
    h.compare = 40;
    h.swap_add = 2;
    t.take(h);
    CHECK(*word == (op == opcode::fetch_add ? 42u : 2u));
    const header answer = t.next_answer();
    CHECK(answer.op == opcode::atomic_acknowledge);
    CHECK(answer.swap_add == 40);
  }
}

TEST_CASE("the responder stores the bytes of an atomic write in their order on the wire")
{
  target t;
  header h = t.request(opcode::atomic_write, 8);
  h.swap_add = 0x0102030405060708;
  t.take(h);
  for (std::size_t i = 0; i != 8; ++i)
    CHECK(t.bytes.data()[i] == static_cast<std::byte>(i + 1));
  CHECK(t.next_answer().op == opcode::atomic_acknowledge);
}

TEST_CASE("an unreliable responder drops what it cannot carry out and takes the next message")
{
  for (const opcode op : {opcode::send_only, opcode::send_only_immediate, opcode::write_only,
         opcode::write_only_immediate})
    for (const cause why : {right_missing, key_unknown, receive_too_small, no_receive})
    {
      if (!expected_syndrome(op, why))
        continue;
      INFO("opcode " << static_cast<unsigned>(op) << ", " << cause_names[why]);
      target t(service_uc);
      if (why == receive_too_small)
        t.post_receive(1);
      header h = frame_of(t, op);
      if (why == key_unknown)
        h.key ^= 1u << 30;
      if (why == right_missing)
        t.with.access = 0;
      CHECK(t.take(h) == verdict::discard);
      CHECK_FALSE(t.answers.has_next());
      CHECK_FALSE(t.answers.awaits_receive());
      CHECK_FALSE(t.answers.failed());
      CHECK(t.told.received.empty());
      t.with.access = registered_memory::remote;
      CHECK(t.take(t.request(opcode::write_only, 8, 8)) == verdict::accept);
    }
}

TEST_CASE("an unreliable responder refuses frames of a wrong size or order as malformed")
{
  target t(service_uc);
  t.post_receive(8192);
  CHECK(t.answers.receive(t.request(opcode::send_only, 0, segment + 1)) == verdict::malformed);
  CHECK(t.answers.receive(t.request(opcode::send_first, 0, segment - 1)) == verdict::malformed);
  REQUIRE(t.take(t.request(opcode::send_first, 0, segment)) == verdict::accept);
  CHECK(t.answers.receive(t.request(opcode::send_last, 0, 0)) == verdict::malformed);
  CHECK(t.answers.receive(t.request(opcode::send_first, 0, segment)) == verdict::malformed);
}

TEST_CASE("an unreliable responder drops a message of which a frame is missing")
{
  target t(service_uc);
  t.post_receive(8192);
  REQUIRE(t.take(t.request(opcode::send_first, 0, segment)) == verdict::accept);
  ++t.psn; // a middle frame is missing
  CHECK(t.take(t.request(opcode::send_last, 0, 8)) == verdict::discard);
  CHECK(t.told.received.empty());
  CHECK(t.take(t.request(opcode::send_only, 0, 8)) == verdict::accept);
  REQUIRE(t.told.received.size() == 1); // into the same receive
  CHECK(t.told.received[0].byte_len == 8);
}

TEST_CASE("the responder flushes a receive that a message has begun to fill")
{
  target t;
  t.post_receive(8192);
  REQUIRE(t.take(t.request(opcode::send_first, 0, segment)) == verdict::accept);
  t.answers.flush();
  REQUIRE(t.told.received.size() == 1);
  CHECK(t.told.received[0].status == IBV_WC_WR_FLUSH_ERR);
}

} // namespace protocol_test::responder_outcomes

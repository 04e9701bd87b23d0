//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/protocol/requester.hpp"

#include "common/catch.hpp"

#include <vector>

// Tests the requester without a wire: the test passes frames and answers by hand.

using namespace rdma::software;
using namespace rdma::software::protocol;

namespace {

struct recorder final : host
{
  void send_completed(const ibv_wc& wc, std::uint64_t) override { completions.push_back(wc); }
  void receive_completed(const ibv_wc&, bool) override {}
  void raise(ibv_event_type) override {}
  bool take_receive(receive_work&) override { return false; }

  std::vector<ibv_wc> completions;
};

/// A requester that sends from 4 KiB of registered memory in frames of 1 KiB.
struct sender
{
  static constexpr std::uint32_t segment = 1024;

  sender()
  {
    with.keys = &keys;
    with.pd = &pd;
    with.qp = 5;
    with.peer_qp = 6;
    with.segment = segment;
    with.rnr_retry = 7;
    slot = keys.allocate(key);
    slot->memory = memory.data();
    slot->address = reinterpret_cast<std::uintptr_t>(memory.data());
    slot->length = memory.size();
    slot->pd = &pd;
    key_table::publish(*slot, key);
    requests.start();
  }

  void post(ibv_wr_opcode what, std::uint32_t bytes)
  {
    const std::uint64_t index = queue.posted.load();
    send_request& r = *queue.enter(index);
    r.id = 100 + index;
    r.opcode = what;
    r.flags = IBV_SEND_SIGNALED;
    r.length = bytes;
    r.elements = 1;
    r.elements_begin()[0] = {reinterpret_cast<std::uintptr_t>(memory.data()), bytes, key};
    queue.posted.store(index + 1);
  }

  /// Returns the next frame and marks it as sent.
  frame take()
  {
    frame f;
    REQUIRE(requests.next(f));
    requests.sent(f);
    return f;
  }

  void answer(std::uint8_t syndrome, std::uint32_t psn)
  {
    header h;
    h.op = opcode::acknowledge;
    h.dest_qp = with.qp;
    h.psn = psn;
    h.syndrome = syndrome;
    (void)requests.receive(h);
  }

  key_table keys;
  ibv_pd pd{};
  std::uint32_t key = 0;
  key_slot* slot = nullptr;
  std::vector<std::byte> memory = std::vector<std::byte>(4096);
  parameters with;
  send_queue queue{4, sizeof(ibv_sge)};
  recorder told;
  requester requests{queue, with, told};
};

} // namespace

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
  CHECK(s.told.completions.empty());
  pinned_buffers from;
  std::uint64_t done = 0;
  CHECK(s.requests.gather(under_way, 0, sender::segment, from, done));
  CHECK(done == sender::segment);
  from.clear();

  SECTION("while the memory stays registered") {}
  SECTION("when the memory is deregistered meanwhile")
  {
    key_table::revoke(*s.slot);
    s.requests.unreadable(under_way, detail_local_key);
    CHECK(s.told.completions.empty());
  }
  s.requests.halt();
  frame none;
  CHECK_FALSE(s.requests.next(none));
  s.requests.flush();
  REQUIRE(s.told.completions.size() == 2);
  CHECK(s.told.completions[0].wr_id == 100);
  CHECK(s.told.completions[0].status == IBV_WC_REM_ACCESS_ERR);
  CHECK(s.told.completions[1].wr_id == 101);
  CHECK(s.told.completions[1].status == IBV_WC_WR_FLUSH_ERR);
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
  REQUIRE(s.told.completions.size() == 1);
  CHECK(s.told.completions[0].status == IBV_WC_SUCCESS);
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
  REQUIRE(s.told.completions.size() == 1);
  CHECK(s.told.completions[0].status == IBV_WC_BAD_RESP_ERR);
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
    CHECK(s.told.completions.size() == 1);
  }
  SECTION("a fatal NAK fails the request")
  {
    s.answer(nak_invalid_request, 0);
    CHECK(s.requests.failed());
    s.requests.flush();
    CHECK(s.told.completions.at(0).status == IBV_WC_REM_INV_REQ_ERR);
  }
  SECTION("an acknowledgement is a protocol error")
  {
    s.answer(syndrome_ack, 0);
    CHECK(s.requests.failed());
    s.requests.flush();
    CHECK(s.told.completions.at(0).status == IBV_WC_BAD_RESP_ERR);
  }
}

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/protocol/responder.hpp"

#include "common/catch.hpp"

#include <vector>

// Tests the responder without a wire: the test passes requests by hand.

using namespace rdma::software;
using namespace rdma::software::protocol;

namespace {

struct deaf final : host
{
  void send_completed(const ibv_wc&, std::uint64_t) override {}
  void receive_completed(const ibv_wc&, bool) override {}
  void raise(ibv_event_type) override {}
  bool take_receive(receive_work&) override { return false; }
};

/// A responder with a page that the peer may read and write.
struct target
{
  target()
  {
    with.keys = &keys;
    with.pd = &pd;
    with.qp = 5;
    with.peer_qp = 6;
    with.segment = 1024;
    with.access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    with.max_peer_read_atomic = 1;
    slot = keys.allocate(key);
    slot->memory = memory.data();
    slot->address = reinterpret_cast<std::uintptr_t>(memory.data());
    slot->length = memory.size();
    slot->pd = &pd;
    slot->access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    key_table::publish(*slot, key);
    answers.start();
  }

  void take(opcode what, std::uint32_t psn, std::uint32_t length)
  {
    header h;
    h.op = what;
    h.ack_request = true;
    h.psn = psn;
    h.address = slot->address;
    h.key = key;
    h.length = length;
    if (answers.receive(h) == verdict::accept)
      REQUIRE(answers.finish() != verdict::malformed);
  }

  key_table keys;
  ibv_pd pd{};
  std::uint32_t key = 0;
  key_slot* slot = nullptr;
  std::vector<std::byte> memory = std::vector<std::byte>(4096);
  parameters with;
  deaf nobody;
  responder answers{with, nobody, 1};
};

} // namespace

TEST_CASE("the responder acknowledges an executed request once")
{
  target t;
  t.take(opcode::write_only, 0, 0);
  CHECK(t.answers.take_acknowledgement() == 0u);
  CHECK_FALSE(t.answers.take_acknowledgement());
}

TEST_CASE("the responder does not acknowledge a read that it refuses while it sends the response")
{
  target t;
  t.take(opcode::write_only, 0, 0);
  t.take(opcode::read_request, 1, 8);
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

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "unit/protocol_fixture.hpp"

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

} // namespace protocol_test

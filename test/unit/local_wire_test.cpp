//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "unit/local_wire_fixture.hpp"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>

// Tests one end of the local wire. The test writes the bytes of the other end, which is hostile.

using namespace local_wire_test;

TEST_CASE("one call of local_wire::receive reads few messages of the socket for many grants")
{
  wire_and_peer w;
  constexpr unsigned messages = 100;
  for (unsigned i = 0; i != messages; ++i)
    REQUIRE(w.send("x", 1));
  // Each grant names memory whose descriptor has not arrived.
  grant_note granted;
  for (unsigned i = 0; i != messages; ++i)
    REQUIRE(w.respond(&granted, sizeof granted));
  REQUIRE(w.under_test.receive(0, false));
  CHECK(w.under_test.unfinished());
  CHECK(w.read_rest() >= messages - 16);
  // Without further messages the grants are dropped.
  REQUIRE(w.under_test.receive(0, false));
  w.under_test.take_heard();
  CHECK_FALSE(w.under_test.unfinished());
}

TEST_CASE("the local wire grants a key only after a permitted request with this key")
{
  wire_and_peer w;
  key_note asked;
  asked.key = w.key;
  header h;
  h.op = opcode::write_only;
  h.key = w.key;
  h.length = h.payload = 8;
  SECTION("without a request")
  {
    REQUIRE(w.ask(&asked, sizeof asked));
    CHECK(w.run());
    CHECK_FALSE(w.has_granted());
  }
  SECTION("after a write")
  {
    REQUIRE(w.ask(h));
    REQUIRE(w.ask(&asked, sizeof asked));
    CHECK(w.run());
    CHECK(w.has_granted());
  }
  SECTION("after a read")
  {
    h.op = opcode::read_request;
    h.payload = 0;
    REQUIRE(w.ask(h));
    REQUIRE(w.ask(&asked, sizeof asked));
    CHECK(w.run());
    CHECK(w.has_granted());
  }
  SECTION("after an empty write, which needs no key")
  {
    h.length = h.payload = 0;
    REQUIRE(w.ask(h));
    REQUIRE(w.ask(&asked, sizeof asked));
    CHECK(w.run());
    CHECK_FALSE(w.has_granted());
  }
  SECTION("after a duplicate, which is not carried out")
  {
    w.psn = psn_mask;
    h.op = opcode::read_request;
    h.payload = 0;
    REQUIRE(w.ask(h));
    REQUIRE(w.ask(&asked, sizeof asked));
    CHECK(w.run());
    CHECK_FALSE(w.has_granted());
  }
  SECTION("after a request with a wrong key, which ends the queue pair")
  {
    h.key ^= 1;
    REQUIRE(w.ask(h));
    REQUIRE(w.ask(&asked, sizeof asked));
    CHECK(w.run());
    CHECK_FALSE(w.has_granted());
    CHECK(w.answers.failed());
    CHECK(w.answers.take_event() == IBV_EVENT_QP_ACCESS_ERR);
  }
}

TEST_CASE("a wake-up that the socket refuses is sent later")
{
  wire_and_peer w;
  while (::send(w.sockets[1], "x", 1, MSG_DONTWAIT) == 1)
  {
  }
  header h;
  h.op = opcode::write_only;
  h.key = w.key;
  h.length = h.payload = 8;
  REQUIRE(w.ask(h));
  REQUIRE(w.shared->side(0).asleep.load() == 1);
  REQUIRE(w.run()); // acknowledges
  CHECK(w.shared->side(0).asleep.load() == 1);
  CHECK(w.under_test.wake_again_at() != 0);
  for (char c = 0; ::recv(w.sockets[0], &c, 1, MSG_DONTWAIT) == 1;)
  {
  }
  REQUIRE(w.run());
  char c = 0;
  CHECK(::recv(w.sockets[0], &c, 1, MSG_DONTWAIT) == 1);
  CHECK(w.shared->side(0).asleep.load() == 0);
  CHECK(w.under_test.wake_again_at() == 0);
}

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

namespace {

/// Through the socket, with the descriptor of the memory.
struct area_note
{
  std::uint64_t name = 0;
};

/// Returns a memfd of this size with these seals.
descriptor sealed(const char* name, off_t size, int seals = F_SEAL_SHRINK | F_SEAL_GROW)
{
  descriptor made(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(made.get(), size) == 0);
  REQUIRE(::fcntl(made.get(), F_ADD_SEALS, seals) == 0);
  return made;
}

struct mapped
{
  unsigned count = 0;
  std::uint64_t bytes = 0;
};

/// Returns what this process has mapped under this name.
mapped mapped_as(const std::string& name)
{
  mapped found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
  {
    if (line.find("memfd:" + name + " ") == std::string::npos)
      continue;
    std::istringstream range(line);
    std::uint64_t first = 0;
    std::uint64_t end = 0;
    char dash = 0;
    range >> std::hex >> first >> dash >> end;
    ++found.count;
    found.bytes += end - first;
  }
  return found;
}

std::size_t open_descriptors()
{
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

/// Makes the wire ask for a grant: memory that is sent unasked is not mapped.
void make_it_ask(wire_and_peer& w)
{
  send_request& r = *w.queue.enter(0);
  r.opcode = IBV_WR_RDMA_WRITE;
  r.rkey = 77;
  r.remote = 0x10000;
  r.length = 8;
  r.elements = 1;
  r.elements_begin()[0] = {w.begin(), 8, w.key};
  w.queue.posted.store(1);
  w.shared->side(0).rights.store(registered_memory::remote);
  REQUIRE(w.run());
}

} // namespace

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

TEST_CASE("the local wire closes descriptors that a message must not have and ends the connection")
{
  wire_and_peer w;
  make_it_ask(w);
  const std::size_t before = open_descriptors();
  {
    const descriptor memory = sealed("unwanted", 4096);
    const std::array<int, 2> twice{memory.get(), memory.get()};
    const std::span one = std::span(twice).first(1);
    const area_note note{1};
    SECTION("a wake-up with a descriptor")
    {
      REQUIRE(w.send("x", 1, one));
    }
    SECTION("memory with two descriptors")
    {
      REQUIRE(w.send(&note, sizeof note, twice));
    }
    SECTION("memory without a descriptor")
    {
      REQUIRE(w.send(&note, sizeof note));
    }
    SECTION("a message of another length")
    {
      REQUIRE(w.send("xyz", 3));
    }
  }
  CHECK(w.under_test.hear());
  CHECK_FALSE(w.under_test.receive(0, false));
  CHECK(mapped_as("unwanted").count == 0);
  CHECK(open_descriptors() == before);
}

TEST_CASE("the local wire maps a bounded part of what its peer offers")
{
  wire_and_peer w;
  make_it_ask(w);
  const std::uint64_t host = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES))
    * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const auto offer = [&w](const descriptor& what, std::uint64_t name)
  {
    const area_note note{name};
    const int fd = what.get();
    REQUIRE(w.send(&note, sizeof note, std::span(&fd, 1)));
    REQUIRE(w.under_test.hear());
    CHECK(w.under_test.receive(0, false)); // an offer is no error
  };
  for (unsigned i = 1; i != 600; ++i)
    offer(sealed("many", 4096), i);
  CHECK(mapped_as("many").count > 0);
  CHECK(mapped_as("many").count <= 256);
  for (unsigned i = 0; i != 5; ++i)
    offer(sealed("large", static_cast<off_t>(host / 2 / 4096 * 4096)), 1000 + i);
  CHECK(mapped_as("large").bytes <= host);
  offer(sealed("huge", static_cast<off_t>((host / 4096 + 1) * 4096)), 2000);
  CHECK(mapped_as("huge").count == 0);
  offer(sealed("open", 4096, F_SEAL_GROW), 2001);
  CHECK(mapped_as("open").count == 0);
}

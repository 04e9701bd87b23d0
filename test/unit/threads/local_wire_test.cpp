//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "unit/local_wire_fixture.hpp"

#include "common/mapping_thread.hpp"
#include "verbs/software/memory/huge_pages.hpp"

#include <cstdint>
#include <cstring>
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

constexpr std::uint32_t peers_key = 77;
constexpr std::uint64_t peers_address = 0x10000;

/// Lets the wire write to the peer's memory.
void post_write(
  wire_and_peer& w, std::uint64_t index, std::uint32_t key = peers_key, std::uint32_t length = 8)
{
  send_request& r = *w.queue.enter(index);
  r.opcode = IBV_WR_RDMA_WRITE;
  r.rkey = key;
  r.remote = peers_address;
  r.length = length;
  r.elements = 1;
  r.elements_begin()[0] = {w.begin(), length, w.key};
  w.queue.posted.store(index + 1);
  REQUIRE(w.run());
}

/// Makes the wire ask for a grant: memory that is sent unasked is not mapped.
void make_it_ask(wire_and_peer& w)
{
  w.shared->side(w.lane.lane, 0).rights.store(registered_memory::remote);
  post_write(w, 0);
}

/// Acknowledges the first writes up to this one.
void acknowledge(wire_and_peer& w, std::uint32_t psn)
{
  w.shared->side(w.lane.lane, 0)
    .acknowledged.store(lane_side::acknowledged_bit | std::uint32_t{no_credits} << psn_bits | psn);
  REQUIRE(w.run());
}

/// Grants all rights to this memory.
void grant(wire_and_peer& w, int memory, std::uint32_t key, std::uint32_t index)
{
  grant_answer offer{w.lane, {}};
  offer.what.key = key;
  offer.what.index = index;
  offer.what.generation = 1;
  offer.what.rights = registered_memory::remote;
  offer.what.address = peers_address;
  offer.what.length = large;
  w.shared->side(w.lane.lane, 0).grants[index].store(1);
  REQUIRE(w.send(&offer, sizeof offer, std::span(&memory, 1)));
  REQUIRE(w.hear());
  REQUIRE(w.run());
}

/// Takes what the wire has sent. Returns the keys of its questions for grants.
std::vector<std::uint32_t> asked_keys(wire_and_peer& w)
{
  std::vector<std::uint32_t> found;
  for (auto record = w.requests_in.front(); !record.empty(); record = w.requests_in.front())
  {
    key_note note;
    std::memcpy(&note, record.data(), sizeof note);
    if (note.kind == key_note().kind)
      found.push_back(note.what.key);
    w.requests_in.pop();
  }
  return found;
}

/// Takes what the wire has sent. Returns true if it has asked for a grant with this key.
bool has_asked(wire_and_peer& w, std::uint32_t key)
{
  const auto keys = asked_keys(w);
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

} // namespace

TEST_CASE("one call of local_link::hear_some reads few messages")
{
  wire_and_peer w;
  constexpr unsigned messages = 100;
  attach_message hello{};
  hello.lane.lane = w.lane.lane + 1u;
  hello.lane.number = 1;
  for (unsigned i = 0; i != messages; ++i)
    REQUIRE(w.send(&hello, sizeof hello));
  unsigned heard = 0;
  w.link->hear_some([&](const attach_message&) { ++heard; });
  CHECK(heard == 16);
  unsigned left = 0;
  for (char c = 0; ::recv(w.link->socket(), &c, 1, MSG_DONTWAIT) == 1;)
    ++left;
  CHECK(left == messages - 16);
}

TEST_CASE("a request for a grant waits while the socket is full")
{
  wire_and_peer w;
  while (::send(w.link->socket(), "x", 1, MSG_DONTWAIT) == 1)
  {
  }
  key_note asked;
  asked.what.key = w.key;
  header h;
  h.op = opcode::write_only;
  h.key = w.key;
  h.length = h.payload = 8;
  REQUIRE(w.ask(h));
  REQUIRE(w.ask(&asked, sizeof asked));
  REQUIRE(w.run());
  CHECK(w.under_test.wake_again_at() != 0);
  CHECK_FALSE(w.under_test.unfinished()); // the engine does not try again at once
  CHECK_FALSE(w.has_granted());
  REQUIRE(w.run());
  CHECK(w.has_granted());
}

TEST_CASE("an unreliable queue pair takes no acknowledgement")
{
  wire_and_peer w;
  w.with.kind = rdma::software::protocol::service_uc;
  w.shared->side(w.lane.lane, 0).acknowledged = lane_side::acknowledged_bit | 1;
  CHECK_FALSE(w.under_test.receive(false));
}

TEST_CASE("a link keeps a bounded number of descriptors that its queue pairs have not taken")
{
  wire_and_peer w;
  make_it_ask(w);
  const std::size_t before = open_descriptors();
  {
    const descriptor memory = sealed("offered", 4096);
    const int fd = memory.get();
    const grant_answer offer{w.lane, {}};
    for (unsigned i = 0; i != 100; ++i)
    {
      REQUIRE(w.send(&offer, sizeof offer, std::span(&fd, 1)));
      REQUIRE(w.hear());
    }
  }
  CHECK(open_descriptors() <= before + 64);
  CHECK(w.under_test.receive(false));
  CHECK(open_descriptors() == before);
}

TEST_CASE("a link closes the descriptors that arrive for a lane without a queue pair")
{
  wire_and_peer w;
  make_it_ask(w);
  const std::size_t before = open_descriptors();
  {
    const descriptor memory = sealed("offered", 4096);
    const int fd = memory.get();
    for (const lane_use which :
      {lane_use{w.lane.lane + 1u, w.lane.number}, lane_use{w.lane.lane, w.lane.number + 1u}})
    {
      const grant_answer offer{which, {}};
      REQUIRE(w.send(&offer, sizeof offer, std::span(&fd, 1)));
    }
    REQUIRE(w.hear());
  }
  CHECK(open_descriptors() == before);
}

TEST_CASE("the local wire grants a key only after a permitted request with this key")
{
  wire_and_peer w;
  key_note asked;
  asked.what.key = w.key;
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
  SECTION("after a write and a request with a wrong key")
  {
    REQUIRE(w.ask(h));
    w.psn = (w.psn + 1) & psn_mask;
    h.key ^= 1;
    REQUIRE(w.ask(h));
    REQUIRE(w.ask(&asked, sizeof asked));
    CHECK(w.run());
    CHECK_FALSE(w.has_granted());
    CHECK(w.answers.failed());
  }
}

TEST_CASE("the local wire grants a key with the rights that it has when it is asked")
{
  wire_and_peer w;
  ibv_pd other{};
  key_note asked;
  header h;
  h.op = opcode::write_only;
  h.length = h.payload = 8;
  asked.what.key = h.key = w.bind();
  w.slot->access |= IBV_ACCESS_REMOTE_WRITE;
  bool granted = false;
  // Peers that may not write can only be granted memory that nobody but its owner can write to.
  const test::shared_bytes owned(4096, rdma::software::writers::owner);
  REQUIRE(w.ask(h));
  REQUIRE(w.run());
  SECTION("unchanged")
  {
    granted = true;
  }
  SECTION("in another protection domain")
  {
    w.window->pd = &other;
  }
  SECTION("without a remote right")
  {
    w.window->access = 0;
    w.window->shared = {0, owned.size(), owned.data()};
  }
  SECTION("through a window of another queue pair")
  {
    w.window->owner_qp = w.with.qp + 1;
  }
  SECTION("through a window that is not bound")
  {
    w.window->bound = false;
  }
  REQUIRE(w.ask(&asked, sizeof asked));
  CHECK(w.run());
  CHECK(w.has_granted() == granted);
}

TEST_CASE("the local wire answers no question of an unreliable queue pair")
{
  wire_and_peer w;
  w.with.kind = service_uc;
  key_note asked;
  asked.what.key = w.key;
  asked.what.in_advance = GENERATE(0, 1);
  asked.what.length = 8;
  asked.what.address = w.begin();
  REQUIRE(w.ask(&asked, sizeof asked));
  CHECK(w.run());
  CHECK_FALSE(w.has_granted());
  CHECK(w.responses_in.front().empty());
}

TEST_CASE("the local wire grants reading only of memory that peers cannot write to")
{
  wire_and_peer w;
  const bool reads = GENERATE(true, false);
  const auto who = GENERATE(rdma::software::writers::owner, rdma::software::writers::all);
  CAPTURE(reads, static_cast<int>(who));
  const test::shared_bytes memory(4096, who);
  w.slot->memory = memory.data();
  w.slot->length = memory.size();
  w.slot->shared = {0, memory.size(), memory.data()};
  w.slot->access =
    IBV_ACCESS_LOCAL_WRITE | (reads ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE);
  header h;
  h.op = reads ? opcode::read_request : opcode::write_only;
  h.key = w.key;
  h.length = 8;
  h.payload = reads ? 0 : 8;
  key_note asked;
  asked.what.key = w.key;
  REQUIRE(w.ask(h));
  REQUIRE(w.ask(&asked, sizeof asked));
  CHECK(w.run());
  CHECK_FALSE(w.answers.failed());
  CHECK(w.has_granted() == (reads == (who == rdma::software::writers::owner)));
}

TEST_CASE("the local wire writes by frames to memory that the peer has sealed")
{
  wire_and_peer w;
  const bool is_sealed = GENERATE(true, false);
  const descriptor memory =
    sealed("offered", large, F_SEAL_SHRINK | F_SEAL_GROW | (is_sealed ? F_SEAL_FUTURE_WRITE : 0));
  make_it_ask(w);
  grant(w, memory.get(), peers_key, 0);
  acknowledge(w, 0);
  w.bytes.data()[0] = std::byte{1};
  post_write(w, 1);
  char first = 0;
  REQUIRE(::pread(memory.get(), &first, 1, 0) == 1);
  CHECK(first == (is_sealed ? 0 : 1));
}

TEST_CASE("the local wire accesses the peer's memory only as the grant and the peer permit")
{
  wire_and_peer w;
  const descriptor memory = sealed("offered", large);
  lane_side& peer = w.shared->side(w.lane.lane, 0);
  make_it_ask(w);
  grant(w, memory.get(), peers_key, 0);
  acknowledge(w, 0);
  asked_keys(w);
  ibv_wr_opcode what = GENERATE(IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD);
  const bool reads = what != IBV_WR_RDMA_WRITE;
  peer.read_depth.store(w.with.max_read_atomic);
  std::uint64_t remote = peers_address;
  bool directly = false;
  SECTION("the first bytes")
  {
    directly = true;
  }
  SECTION("the last bytes")
  {
    remote += large - 8;
    directly = true;
  }
  SECTION("beyond the end")
  {
    remote += GENERATE(large - 4, large, large + 8);
  }
  SECTION("before the beginning")
  {
    remote -= GENERATE(4, 8);
  }
  SECTION("the peer's queue pair does not permit it")
  {
    peer.rights.store(0);
  }
  SECTION("another right than that of the request")
  {
    peer.rights.store(reads ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_READ);
  }
  SECTION("the peer permits fewer reads at once")
  {
    peer.read_depth.store(w.with.max_read_atomic - 1u);
    directly = !reads;
  }
  SECTION("not aligned")
  {
    remote += 4;
    directly = what != IBV_WR_ATOMIC_FETCH_AND_ADD;
  }
  SECTION("the grant has ended")
  {
    peer.grants[0].store(0);
  }
  send_request& r = *w.queue.enter(1);
  r.opcode = what;
  r.flags = IBV_SEND_SIGNALED;
  r.rkey = peers_key;
  r.remote = remote;
  r.length = 8;
  r.elements = 1;
  r.elements_begin()[0] = {w.begin(), 8, w.key};
  w.queue.posted.store(2);
  REQUIRE(w.run());
  CHECK(w.told.sent.size() == (directly ? 1 : 0));
  CHECK(w.requests_in.front().empty() == directly); // otherwise as a frame
}

TEST_CASE("the local wire ignores a grant that is out of range")
{
  wire_and_peer w;
  const descriptor memory = sealed("range", 4096);
  const int fd = memory.get();
  grant_answer offer{w.lane, {}};
  offer.what.key = peers_key;
  offer.what.length = 8;
  bool good = false;
  SECTION("within the memory")
  {
    offer.what.place = 4088;
    good = true;
  }
  SECTION("an index that the page does not have")
  {
    offer.what.index = lane_side::grants_max;
  }
  SECTION("addresses that wrap around")
  {
    offer.what.address = ~std::uint64_t{0} - 3;
  }
  SECTION("beyond the memory")
  {
    offer.what.place = GENERATE(as<std::uint64_t>(), 4089, 4096, 4097, ~std::uint64_t{0});
  }
  make_it_ask(w);
  REQUIRE(w.send(&offer, sizeof offer, std::span(&fd, 1)));
  REQUIRE(w.hear());
  CHECK(w.under_test.receive(false));
  CHECK(mapped_as("range").count == (good ? 1 : 0));
}

TEST_CASE("the local wire unmaps an ended grant with the next one and asks for its key again")
{
  wire_and_peer w;
  const descriptor first = sealed("first", large);
  const descriptor second = sealed("second", large);
  make_it_ask(w);
  CHECK(has_asked(w, peers_key));
  grant(w, first.get(), peers_key, 0);
  acknowledge(w, 0);
  CHECK(mapped_as("first").count == 1);
  w.shared->side(w.lane.lane, 0).grants[0].store(0);
  constexpr std::uint32_t other_key = peers_key + 1;
  post_write(w, 1, other_key);
  CHECK(has_asked(w, other_key));
  grant(w, second.get(), other_key, 1);
  acknowledge(w, 1);
  CHECK(mapped_as("first").count == 0);
  CHECK(mapped_as("second").count == 1);
  post_write(w, 2);
  CHECK(has_asked(w, peers_key));
}

TEST_CASE("a wake-up that the socket refuses is sent later")
{
  wire_and_peer w;
  while (::send(w.link->socket(), "x", 1, MSG_DONTWAIT) == 1)
  {
  }
  header h;
  h.op = opcode::write_only;
  h.key = w.key;
  h.length = h.payload = 8;
  REQUIRE(w.ask(h));
  REQUIRE(w.run()); // acknowledges
  CHECK(w.under_test.wake_again_at() != 0);
  for (char c = 0; ::recv(w.sockets[0], &c, 1, MSG_DONTWAIT) == 1;)
  {
  }
  REQUIRE(w.run());
  char c = 0;
  CHECK(::recv(w.sockets[0], &c, 1, MSG_DONTWAIT) == 1);
  CHECK(w.under_test.wake_again_at() == 0);
}

TEST_CASE("an end that does not poll a lane gets a bell for each lane and a wake-up for each sleep")
{
  wire_and_peer w;
  link_side& peer = w.shared->side(0);
  const auto count_wake_ups = [&]
  {
    unsigned count = 0;
    for (char c = 0; ::recv(w.sockets[0], &c, 1, MSG_DONTWAIT) == 1;)
      ++count;
    return count;
  };
  CHECK(w.link->ring(3));
  CHECK(w.link->ring(3));
  CHECK(w.link->ring(70));
  CHECK(peer.bells[0].load() == 1u << 3);
  CHECK(peer.bells[1].load() == 1u << (70 - 64));
  CHECK(count_wake_ups() == 1);
  peer.epoch = 3; // it has slept again
  CHECK(w.link->ring(3));
  CHECK(count_wake_ups() == 1);
  peer.epoch = 4; // it polls
  CHECK(w.link->ring(5));
  CHECK(count_wake_ups() == 0);
  CHECK(peer.bells[0].load() == (1u << 3 | 1u << 5));
}

TEST_CASE("a link reports each rung lane once")
{
  wire_and_peer w;
  link_side& mine = w.shared->side(1);
  CHECK_FALSE(w.link->has_bells());
  mine.bells[0] = 1u << 3 | 1;
  mine.bells[3] = std::uint64_t{1} << 63;
  CHECK(w.link->has_bells());
  std::vector<unsigned> lanes;
  const auto visit = [&](unsigned lane) { lanes.push_back(lane); };
  w.link->take_bells(visit);
  w.link->take_bells(visit);
  CHECK(lanes == std::vector<unsigned>{0, 3, 255});
  CHECK_FALSE(w.link->has_bells());
}

TEST_CASE("a sleep of a link has a number of its own")
{
  wire_and_peer w;
  const auto& epoch = w.shared->side(1).epoch;
  const std::uint32_t first = epoch;
  CHECK(first % 2 == 1); // nobody polls
  w.link->rearm();
  CHECK(epoch == first + 2);
  w.link->look(true);
  CHECK(epoch == first + 3);
  w.link->look(true);
  w.link->rearm(); // not asleep
  CHECK(epoch == first + 3);
  w.link->look(false);
  CHECK(epoch == first + 4);
}

TEST_CASE("a lane is free again when both ends have detached")
{
  std::array<int, 2> sockets{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets.data()) == 0);
  descriptor fd;
  const auto memory = rdma::software::wire::segment::create(fd);
  REQUIRE(memory);
  local_link maker(descriptor{sockets[0]}, memory, 0);
  local_link other(descriptor{sockets[1]}, memory, 1);
  std::vector<lane_use> all;
  for (unsigned i = 0; i != lanes_max; ++i)
  {
    const auto taken = maker.take(100 + i);
    REQUIRE(taken);
    all.push_back(*taken);
  }
  CHECK_FALSE(maker.take(1)); // the link is full
  const lane_use lane = all[7];
  CHECK(maker.user_of(lane.lane) == 107);
  REQUIRE(other.adopt(lane, 5));
  CHECK_FALSE(other.adopt(lane, 6)); // it is in use
  CHECK_FALSE(maker.is_over(lane));
  SECTION("the maker first")
  {
    CHECK(maker.release(lane));
    CHECK(other.is_over(lane));
    CHECK_FALSE(maker.take(1));
    CHECK(other.release(lane));
  }
  SECTION("the other end first")
  {
    CHECK(other.release(lane));
    CHECK(maker.is_over(lane));
    CHECK_FALSE(maker.take(1));
    CHECK(maker.release(lane));
  }
  const auto again = maker.take(2);
  REQUIRE(again);
  CHECK(again->lane == lane.lane);
  CHECK(again->number != lane.number);
  CHECK_FALSE(maker.is_over(*again));
  CHECK(maker.release(lane)); // of the earlier use: nothing happens
  CHECK(maker.user_of(lane.lane) == 2);
  // A lane that the peer refuses is free without the peer.
  rdma::software::protocol::hello_bytes message{};
  REQUIRE(other.send(*again, rdma::software::protocol::not_ready()));
  attach_message hello;
  while (maker.hear(hello) != local_link::heard::nothing)
  {
  }
  CHECK(maker.take_message(*again, message));
  CHECK(maker.release(*again));
  const auto last = maker.take(3);
  REQUIRE(last);
  // No queue pair attaches to a link that has ended.
  other.shut_down();
  CHECK_FALSE(other.adopt(*last, 7));
  local_link::heard heard = local_link::heard::nothing;
  do
    heard = maker.hear(hello);
  while (heard == local_link::heard::message || heard == local_link::heard::wake);
  CHECK(heard == local_link::heard::end);
  CHECK(maker.is_over(*last));
}

TEST_CASE("a message for an earlier use of a lane does not reach its user")
{
  lane_table lanes(0);
  const auto lane = lanes.take(
    5, [](unsigned) { return true; }, [](unsigned) {});
  REQUIRE(lane);
  attach_message late{*lane, rdma::software::protocol::not_ready()};
  --late.lane.number;
  rdma::software::protocol::hello_bytes found{};
  CHECK(lanes.receive(late) == lane_table::purpose::none);
  CHECK_FALSE(lanes.take_message(*lane, found));
  CHECK(lanes.receive({*lane, late.bytes}) == lane_table::purpose::user);
  CHECK(lanes.take_message(*lane, found));
  CHECK_FALSE(lanes.is_attached(late.lane));
  CHECK(lanes.leave(late.lane) == 0);
  CHECK(lanes.leave(*lane) == 5);
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
    const grant_answer note{w.lane, {}};
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
    SECTION("a message of a handshake with a descriptor")
    {
      const attach_message message{w.lane, {}};
      REQUIRE(w.send(&message, sizeof message, one));
    }
    SECTION("a message of another length")
    {
      REQUIRE(w.send("xyz", 3));
    }
  }
  CHECK_FALSE(w.hear());
  CHECK(w.link->ended());
  CHECK(mapped_as("unwanted").count == 0);
  CHECK(open_descriptors() == before);
}

TEST_CASE("a link maps only a segment whose size is fixed and right")
{
  constexpr int fixed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  constexpr off_t size = wire::segment::size;
  CHECK(wire::segment::map(sealed("segment", size, fixed)) != nullptr);
  CHECK(wire::segment::map(sealed("segment", size - 4096, fixed)) == nullptr);
  CHECK(wire::segment::map(sealed("segment", size + 4096, fixed)) == nullptr);
  for (const int missing : {F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_SEAL})
    CHECK(wire::segment::map(sealed("segment", size, fixed & ~missing)) == nullptr);
  CHECK(wire::segment::map(descriptor()) == nullptr);
}

TEST_CASE("a link maps a bounded part of what its peer offers")
{
  peer_areas areas;
  const std::uint64_t host = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES))
    * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  std::vector<std::shared_ptr<mapped_area>> used;
  const auto offer = [&](const descriptor& what) { used.push_back(areas.map(what)); };
  const descriptor first = sealed("many", 4096);
  for (unsigned i = 0; i != 600; ++i)
    offer(first);
  CHECK(mapped_as("many").count == 1); // the same memory
  for (unsigned i = 0; i != 600; ++i)
    offer(sealed("many", 4096));
  CHECK(mapped_as("many").count == 256);
  used.clear();
  CHECK(mapped_as("many").count == 0);
  for (unsigned i = 0; i != 5; ++i)
    offer(sealed("large", static_cast<off_t>(host / 2 / 4096 * 4096)));
  CHECK(mapped_as("large").count != 0);
  CHECK(mapped_as("large").bytes <= host);
  offer(sealed("huge", static_cast<off_t>((host / 4096 + 1) * 4096)));
  CHECK(mapped_as("huge").count == 0);
  offer(sealed("open", 4096, F_SEAL_GROW));
  CHECK(mapped_as("open").count == 0);
}

TEST_CASE("a link that cannot map its peer's memory leaves the memory of other threads mapped")
{
  // Without free huge pages, the kernel refuses the mapping when it has removed what was there.
  constexpr off_t size = rdma::software::huge_page_bytes;
  const descriptor memory(::memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB));
  if (::ftruncate(memory.get(), size) != 0)
  {
    WARN("skipped here: the kernel has no huge pages, or larger ones");
    return;
  }
  REQUIRE(::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
  test::mapping_thread other(size + rdma::software::huge_page_bytes);
  for (unsigned i = 0; i != 20'000; ++i)
    (void)mapped_area::map(memory);
  CHECK(other.lost() == 0);
}

TEST_CASE("the local wire maps only memory that it has asked for")
{
  wire_and_peer w;
  const descriptor memory = sealed("asked", 4096);
  const int fd = memory.get();
  grant_answer offer{w.lane, {}};
  offer.what.key = 77;
  offer.what.length = 8;
  const bool asks = GENERATE(true, false);
  if (asks)
    make_it_ask(w);
  REQUIRE(w.send(&offer, sizeof offer, std::span(&fd, 1)));
  REQUIRE(w.hear());
  CHECK(w.under_test.receive(false));
  CHECK(mapped_as("asked").count == (asks ? 1 : 0));
}

TEST_CASE("the local wire takes an acknowledgement with credits and none with unused bits")
{
  wire_and_peer w;
  constexpr std::uint32_t before = psn_mask;
  constexpr std::uint32_t valid = lane_side::acknowledged_bit;
  const std::uint32_t good = GENERATE(0u, 1u << psn_bits, std::uint32_t{no_credits} << psn_bits);
  w.shared->side(w.lane.lane, 0).acknowledged.store(valid | before | good);
  CHECK(w.run());
  CHECK_FALSE(w.requests.failed());
  w.shared->side(w.lane.lane, 0).acknowledged.store(valid | before | GENERATE(1u << 29, 1u << 30));
  CHECK_FALSE(w.run());
}

namespace {

/// A short send, as local_wire.cpp has it, with eight bytes of payload.
struct short_record
{
  std::uint8_t kind = 0xc1;
  std::uint8_t op = static_cast<std::uint8_t>(opcode::send_only);
  std::uint8_t flags = 0;
  std::uint8_t unused = 0;
  std::uint32_t psn = 0;
  std::uint32_t payload = 8;
  std::uint32_t extra = 0;
  std::array<std::byte, 8> bytes{};
};

} // namespace

TEST_CASE("the local wire takes a short send and ends the connection at a malformed one")
{
  wire_and_peer w;
  w.told.receives.push_back({w.begin(), 64, w.key});
  short_record r;
  bool good = false;
  SECTION("well-formed")
  {
    good = true;
  }
  SECTION("an operation that is none of the sends")
  {
    r.op = static_cast<std::uint8_t>(
      GENERATE(opcode::write_only, opcode::send_first, opcode::acknowledge, opcode{0xff}));
  }
  SECTION("unknown flags")
  {
    r.flags = 2;
  }
  SECTION("an unused field")
  {
    r.unused = 1;
  }
  SECTION("a PSN of more than 24 bits")
  {
    r.psn = 1u << 24;
  }
  SECTION("more payload than the record has")
  {
    r.payload = GENERATE(41u, 512u, 513u, 0xffffffffu);
  }
  SECTION("another service than RC")
  {
    w.with.kind = GENERATE(service_uc, service_xrc);
  }
  REQUIRE(w.ask(&r, sizeof r));
  CHECK(w.under_test.receive(false) == good);
  CHECK(w.told.received.size() == (good ? 1 : 0));
}

TEST_CASE("the local wire takes a short send of at most 512 bytes")
{
  wire_and_peer w;
  w.told.receives.push_back({w.begin(), 4096, w.key});
  short_record r;
  r.payload = GENERATE(512u, 513u);
  std::vector<std::byte> record(sizeof r - sizeof r.bytes + r.payload);
  std::memcpy(record.data(), &r, sizeof r);
  REQUIRE(w.ask(record.data(), record.size()));
  CHECK(w.under_test.receive(false) == (r.payload == 512));
}

TEST_CASE("the local wire ends the connection at a frame that does not belong there")
{
  wire_and_peer w;
  w.told.receives.push_back({w.begin(), 4096, w.key});
  header h;
  h.op = opcode::send_only;
  h.dest_qp = w.with.qp;
  h.payload = 8;
  std::uint32_t bytes = h.payload; // in the record
  bool request = true;
  bool good = false;
  SECTION("well-formed")
  {
    good = true;
  }
  SECTION("another queue pair's")
  {
    h.dest_qp ^= 1;
  }
  SECTION("another service's")
  {
    h.kind = service_uc;
  }
  SECTION("more payload than the record has")
  {
    h.payload = w.with.segment;
  }
  SECTION("a response among the requests")
  {
    h.op = opcode::read_response_only;
  }
  SECTION("a request among the responses")
  {
    request = false;
  }
  header_bytes headers;
  const std::size_t size = encode(h, headers);
  std::vector<std::byte> frame(headers.begin(), headers.begin() + static_cast<long>(size));
  frame.resize(size + bytes);
  const bool sent =
    request ? w.ask(frame.data(), frame.size()) : w.respond(frame.data(), frame.size());
  REQUIRE(sent);
  CHECK(w.under_test.receive(false) == good);
  CHECK(w.told.received.size() == (good ? 1 : 0));
  CHECK_FALSE(w.requests.failed());
}

TEST_CASE("the local wire takes all responses before an acknowledgement behind them")
{
  wire_and_peer w;
  for (std::uint64_t i = 0; i != 2; ++i)
  {
    send_request& r = *w.queue.enter(i);
    r.opcode = i == 0 ? IBV_WR_RDMA_READ : IBV_WR_SEND;
    r.flags = IBV_SEND_SIGNALED;
    r.rkey = peers_key;
    r.remote = peers_address;
    r.length = 8;
    r.elements = 1;
    r.elements_begin()[0] = {w.begin(), 8, w.key};
    w.queue.posted.store(i + 1);
  }
  REQUIRE(w.run());
  header h;
  h.dest_qp = w.with.qp;
  header_bytes bytes{};
  // More old acknowledgements than the wire takes at once, then the response to the read.
  h.op = opcode::acknowledge;
  h.syndrome = syndrome_ack;
  h.psn = psn_mask;
  for (unsigned i = 0; i != 300; ++i)
    REQUIRE(w.respond(bytes.data(), encode(h, bytes)));
  h.op = opcode::read_response_only;
  h.psn = 0;
  h.payload = 8;
  std::array<std::byte, max_header_size + 8> response{};
  const std::size_t size = encode(h, bytes);
  std::memcpy(response.data(), bytes.data(), size);
  REQUIRE(w.respond(response.data(), size + 8));
  // A message with the acknowledgement of the send.
  h.op = opcode::write_only;
  h.payload = 0;
  const std::size_t message = encode(h, bytes);
  std::byte* const at = w.requests_out.begin(message, false);
  REQUIRE(at != nullptr);
  std::memcpy(at, bytes.data(), message);
  w.requests_out.end(
    message, lane_side::acknowledged_bit | std::uint32_t{no_credits} << psn_bits | 1);
  REQUIRE(w.run());
  REQUIRE(w.run());
  CHECK_FALSE(w.requests.failed());
  REQUIRE(w.told.sent.size() == 2);
  CHECK(w.told.sent[1].status == IBV_WC_SUCCESS);
}

TEST_CASE("the local wire refuses a short send without a receive and takes it when it is repeated")
{
  wire_and_peer w;
  const short_record r;
  REQUIRE(w.ask(&r, sizeof r));
  REQUIRE(w.run());
  CHECK(w.told.received.empty());
  CHECK_FALSE(w.responses_in.front().empty()); // RNR
  w.told.receives.push_back({w.begin(), 64, w.key});
  REQUIRE(w.ask(&r, sizeof r));
  REQUIRE(w.run());
  CHECK(w.told.received.size() == 1);
}

TEST_CASE("the local wire sends a message without the short form if that is switched off")
{
  wire_and_peer w;
  w.with.has_short_sends = GENERATE(true, false);
  send_request& r = *w.queue.enter(0);
  r.opcode = IBV_WR_SEND;
  r.length = 8;
  r.elements = 1;
  r.elements_begin()[0] = {w.begin(), 8, w.key};
  w.queue.posted.store(1);
  REQUIRE(w.run());
  const auto record = w.requests_in.front();
  REQUIRE_FALSE(record.empty());
  CHECK((record.front() == std::byte{0xc1}) == w.with.has_short_sends);
}

TEST_CASE("the local wire is not blocked any more when it repeats short sends in a ring with room")
{
  wire_and_peer w;
  const auto& blocked = w.shared->side(w.lane.lane, 1).waits.blocked;
  const auto post = [&](std::uint64_t index)
  {
    send_request& r = *w.queue.enter(index);
    r.opcode = IBV_WR_SEND;
    r.length = 512;
    r.elements = 1;
    r.elements_begin()[0] = {w.begin(), 512, w.key};
    w.queue.posted.store(index + 1);
    REQUIRE(w.run());
  };
  // The peer acknowledges the messages but takes none out of the ring. The last one finds no room,
  // and the one before it finds no receive.
  post(0);
  std::uint32_t last = 0;
  while (blocked == 0)
  {
    post(++last);
    w.queue.take_back(last - 1);
    if (blocked == 0)
      acknowledge(w, last - 1);
  }
  CHECK(w.under_test.ready());
  header h;
  h.op = opcode::acknowledge;
  h.dest_qp = w.with.qp;
  h.psn = last - 1;
  h.syndrome = syndrome_rnr | 1;
  header_bytes bytes;
  REQUIRE(w.respond(bytes.data(), encode(h, bytes)));
  REQUIRE(w.run());
  REQUIRE(w.requests.waiting());
  has_asked(w, 0); // takes all records
  w.requests.resume();
  REQUIRE(w.run());
  CHECK_FALSE(w.requests_in.front().empty());
  CHECK_FALSE(w.requests.has_next());
  CHECK_FALSE(w.under_test.ready());
  CHECK(blocked == 0);
}

TEST_CASE("a large write with a new key waits for the peer's answer and sends no frame before it")
{
  wire_and_peer w;
  w.shared->side(w.lane.lane, 0).rights.store(registered_memory::remote);
  w.bytes.data()[0] = std::byte{1};
  post_write(w, 0, peers_key, large);
  key_note note;
  REQUIRE(w.requests_in.front().size() >= sizeof note);
  std::memcpy(&note, w.requests_in.front().data(), sizeof note);
  CHECK(note.kind == key_note().kind);
  CHECK(note.what.key == peers_key);
  CHECK(note.what.in_advance == 1);
  CHECK(note.what.reads == 0);
  CHECK(note.what.address == peers_address);
  CHECK(note.what.length == large);
  w.requests_in.pop();
  REQUIRE(w.run());
  CHECK(w.requests_in.front().empty());
  CHECK(w.under_test.wake_again_at() != 0);
  CHECK_FALSE(w.under_test.unfinished());
  SECTION("a grant lets it write directly")
  {
    const descriptor memory = sealed("offered", large);
    grant(w, memory.get(), peers_key, 0);
    char first = 0;
    REQUIRE(::pread(memory.get(), &first, 1, 0) == 1);
    CHECK(first == 1);
    CHECK(w.requests_in.front().empty());
    CHECK_FALSE(w.requests.outstanding());
    CHECK(w.under_test.wake_again_at() == 0);
  }
  SECTION("a grant that it cannot use lets it send frames")
  {
    const descriptor memory = sealed("offered", large, 0); // the peer could truncate it
    grant(w, memory.get(), peers_key, 0);
    CHECK_FALSE(w.requests_in.front().empty());
  }
  SECTION("an answer without a grant lets it and the next one send frames")
  {
    declined_note answer;
    answer.key = peers_key;
    REQUIRE(w.respond(&answer, sizeof answer));
    REQUIRE(w.run());
    CHECK_FALSE(has_asked(w, peers_key));
    acknowledge(w, 1);
    CHECK_FALSE(w.requests.outstanding());
    post_write(w, 1, peers_key, large);
    CHECK_FALSE(w.requests_in.front().empty());
  }
  SECTION("an answer for another key does not end the wait")
  {
    declined_note answer;
    answer.key = peers_key + 1;
    REQUIRE(w.respond(&answer, sizeof answer));
    REQUIRE(w.run());
    CHECK(w.requests_in.front().empty());
  }
  SECTION("without an answer it sends frames after a while")
  {
    while (rdma::software::wire::now() < w.under_test.wake_again_at())
      ::usleep(1000);
    REQUIRE(w.run());
    CHECK_FALSE(w.requests_in.front().empty());
    CHECK(w.under_test.wake_again_at() == 0);
  }
  SECTION("an answer to a frame that has not left fails it")
  {
    header h;
    h.op = opcode::acknowledge;
    h.dest_qp = w.with.qp;
    h.syndrome = nak_remote_access;
    header_bytes bytes;
    const std::size_t size = encode(h, bytes);
    REQUIRE(w.respond(bytes.data(), size));
    REQUIRE(w.run());
    REQUIRE(w.requests.failed());
    // No other answer follows. The wait for it ends, and nothing wakes the engine again.
    while (rdma::software::wire::now() < w.under_test.wake_again_at())
      ::usleep(1000);
    REQUIRE(w.run());
    REQUIRE(w.run());
    CHECK(w.under_test.wake_again_at() == 0);
    w.requests.flush();
    REQUIRE(w.told.sent.size() == 1);
    CHECK(w.told.sent[0].status == IBV_WC_BAD_RESP_ERR);
  }
}

TEST_CASE("the questions for several large writes leave together, and are answered in any order")
{
  wire_and_peer w;
  w.shared->side(w.lane.lane, 0).rights.store(registered_memory::remote);
  w.bytes.data()[0] = std::byte{1};
  post_write(w, 0, peers_key, large);
  post_write(w, 1, peers_key + 1, large);
  CHECK(asked_keys(w) == std::vector{peers_key, peers_key + 1});
  const descriptor first = sealed("first", large);
  const descriptor second = sealed("second", large);
  const auto is_written = [](const descriptor& memory)
  {
    char at_0 = 0;
    return ::pread(memory.get(), &at_0, 1, 0) == 1 && at_0 == 1;
  };
  grant(w, second.get(), peers_key + 1, 1);
  CHECK_FALSE(is_written(second)); // they are carried out in their order
  grant(w, first.get(), peers_key, 0);
  CHECK(is_written(first));
  REQUIRE(w.run());
  CHECK(is_written(second));
  CHECK(w.requests_in.front().empty());
  CHECK_FALSE(w.requests.outstanding());
}

TEST_CASE("a large write waits for the answer to the question of a small one with its key")
{
  wire_and_peer w;
  make_it_ask(w);
  CHECK(has_asked(w, peers_key));
  acknowledge(w, 0);
  w.bytes.data()[0] = std::byte{1};
  post_write(w, 1, peers_key, large);
  CHECK(w.requests_in.front().empty());
  const descriptor memory = sealed("offered", large);
  grant(w, memory.get(), peers_key, 0);
  char first = 0;
  REQUIRE(::pread(memory.get(), &first, 1, 0) == 1);
  CHECK(first == 1);
  CHECK(w.requests_in.front().empty());
}

TEST_CASE("the local wire declines a grant when its full response ring has room again")
{
  wire_and_peer w;
  std::vector<std::byte> own(16384); // not shared, so there is no grant
  w.slot->memory = own.data();
  w.slot->shared = {};
  const auto& blocked = w.shared->side(w.lane.lane, 1).waits.blocked;
  header h;
  h.op = opcode::read_request;
  h.key = w.key;
  h.length = 4 * w.with.segment;
  while (blocked == 0)
  {
    REQUIRE(w.ask(h));
    REQUIRE(w.run());
    w.psn += 4;
  }
  h.op = opcode::write_only;
  h.length = h.payload = 8;
  key_note asked;
  asked.what.key = w.key;
  REQUIRE(w.ask(h));
  REQUIRE(w.ask(&asked, sizeof asked));
  REQUIRE(w.run());
  unsigned declined = 0;
  const auto take_responses = [&]
  {
    for (auto record = w.responses_in.front(); !record.empty(); record = w.responses_in.front())
    {
      declined_note note;
      std::memcpy(&note, record.data(), sizeof note);
      declined += note.kind == declined_note().kind && note.key == w.key ? 1 : 0;
      w.responses_in.pop();
    }
  };
  take_responses();
  CHECK(declined == 0);
  REQUIRE(w.run());
  take_responses();
  CHECK(declined == 1);
  REQUIRE(w.run());
  CHECK(blocked == 0);
  CHECK_FALSE(w.answers.failed());
  take_responses();
  CHECK(declined == 1);
}

TEST_CASE("the local wire checks a request that it is asked about in advance")
{
  wire_and_peer w;
  const bool reads = GENERATE(true, false);
  CAPTURE(reads);
  key_note asked;
  asked.what.key = w.key;
  asked.what.in_advance = 1;
  asked.what.reads = reads ? 1 : 0;
  asked.what.length = large;
  asked.what.address = w.begin();
  // Reads are granted only of sealed memory.
  const test::shared_bytes memory(16384, rdma::software::writers::owner);
  if (reads)
  {
    w.slot->memory = memory.data();
    w.slot->shared = {0, memory.size(), memory.data()};
    w.slot->access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
  }
  const auto ask = [&](const key_note& what)
  {
    REQUIRE(w.ask(&what, sizeof what));
    REQUIRE(w.run());
  };
  const auto is_declined = [&](std::uint32_t key)
  {
    declined_note answer;
    if (w.responses_in.front().size() < sizeof answer)
      return false;
    std::memcpy(&answer, w.responses_in.front().data(), sizeof answer);
    w.responses_in.pop();
    return answer.kind == declined_note().kind && answer.key == key && !w.has_granted();
  };
  const auto rights = w.slot->access;
  SECTION("permitted")
  {
    ask(asked);
    CHECK(w.has_granted());
    CHECK(w.responses_in.front().empty());
  }
  SECTION("memory that is not shared")
  {
    std::vector<std::byte> own(16384);
    w.slot->memory = own.data();
    w.slot->shared = {};
    ask(asked);
    CHECK(is_declined(w.key));
  }
  SECTION("not permitted: there are no grants any more")
  {
    key_note wrong = asked;
    SECTION("wrong key")
    {
      wrong.what.key ^= 1;
    }
    SECTION("beyond the region")
    {
      wrong.what.length = 16385;
    }
    SECTION("empty")
    {
      wrong.what.length = 0;
    }
    SECTION("without the right")
    {
      w.slot->access = IBV_ACCESS_LOCAL_WRITE;
    }
    SECTION("not enabled for the queue pair")
    {
      w.with.access = 0;
    }
    ask(wrong);
    CHECK(is_declined(wrong.what.key));
    w.slot->access = rights;
    w.with.access = registered_memory::remote;
    ask(asked);
    CHECK(is_declined(w.key));
  }
  CHECK_FALSE(w.answers.failed());
}

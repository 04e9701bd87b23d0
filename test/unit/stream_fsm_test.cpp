//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "stream/stream_fsm.hpp"

#include "common/catch.hpp"

#include <array>
#include <deque>
#include <random>
#include <string>
#include <vector>

// Two ends of a stream without I/O: messages in queues, rings in vectors.

namespace test::stream_protocol {
namespace {

using namespace rdma::detail;
using rdma::remote_buffer;
using arrival = stream_fsm::arrival;

constexpr std::uint32_t receives = 16;
constexpr std::uint32_t first_ring = stream_fsm::ring_min;
constexpr std::uint32_t largest_ring = 8 * first_ring;

remote_buffer ring_of(std::uint32_t size)
{
  return {rdma::device_kind::software, 4096, size, 1};
}

/// A message as it travels: with its bytes.
struct packet
{
  std::vector<std::byte> head;
  std::string bytes;
};

packet pack(const stream_message& m, std::string bytes = {})
{
  packet p{std::vector<std::byte>(m.size()), std::move(bytes)};
  m.encode(p.head);
  return p;
}

struct end
{
  stream_fsm fsm{receives, first_ring};
  std::array<std::string, 2> rings{std::string(first_ring, '.'), std::string()};
  std::deque<std::pair<bool, std::string>> unread; // in a receive's buffer; the bytes
  std::deque<std::pair<bool, stream_fsm::range>> in_rings;
  std::string got;
  bool finished = false;
  std::deque<packet> out;

  void greet() { out.push_back(pack(fsm.hello(ring_of(first_ring)))); }

  arrival take(const packet& p)
  {
    std::vector<std::byte> all = p.head;
    for (const char c : p.bytes)
      all.push_back(static_cast<std::byte>(c));
    const auto m = stream_message::decode(all);
    REQUIRE(m);
    const arrival what = fsm.receive(*m);
    if (what == arrival::data)
    {
      unread.emplace_back(true, p.bytes);
      return what;
    }
    if (what == arrival::written)
    {
      const auto [odd, bytes] = fsm.arrived();
      unread.emplace_back(false, rings[odd ? 1 : 0].substr(bytes.offset, bytes.size));
    }
    finished = finished || what == arrival::finished;
    fsm.reposted();
    return what;
  }

  void read_one()
  {
    const auto [in_receive, bytes] = unread.front();
    unread.pop_front();
    got += bytes;
    if (in_receive)
      fsm.reposted();
    else
      fsm.read(static_cast<std::uint32_t>(bytes.size()));
  }

  void tell()
  {
    if (const auto size = fsm.wanted_ring(first_ring, largest_ring); size != 0)
    {
      const stream_message m = fsm.ring(ring_of(size));
      rings[m.odd_ring ? 1 : 0] = std::string(size, '.');
      out.push_back(pack(m));
    }
    if (fsm.credit_due())
      out.push_back(pack(fsm.credit()));
  }

  /// Writes up to `size` bytes of `from`, from `at` on. `to` is the peer.
  void write(const std::string& from, std::size_t& at, std::size_t size, end& to, bool odd)
  {
    size = std::min(size, from.size() - at);
    if (size == 0)
      return;
    if (size <= stream_message::data_max)
    {
      if (!fsm.can_send_bytes())
        return;
      out.push_back(pack(fsm.data(size), from.substr(at, size)));
      at += size;
      return;
    }
    const auto room = fsm.writable();
    const auto part = std::min<std::size_t>(size, room.size);
    if (part == 0)
      return;
    to.rings[odd ? 1 : 0].replace(room.offset, part, from, at, part);
    out.push_back(pack(fsm.written(static_cast<std::uint32_t>(part))));
    at += part;
  }
};

/// Greets in both directions.
void greet(end& a, end& b)
{
  a.greet();
  b.greet();
  REQUIRE(b.take(a.out.front()) == arrival::nothing);
  REQUIRE(a.take(b.out.front()) == arrival::nothing);
  a.out.clear();
  b.out.clear();
}

bool uses_odd(end& a)
{
  // The flag of the next message that names a ring.
  stream_fsm copy = a.fsm;
  return copy.written(1).odd_ring;
}

} // namespace

TEST_CASE("streams: two ends carry random bytes in random steps, in order")
{
  std::mt19937 random(GENERATE(1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u));
  const auto below = [&](std::size_t n)
  { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  std::array<end, 2> ends;
  std::array<std::string, 2> sent;
  std::array<std::size_t, 2> at{};
  for (std::string& each : sent)
    for (int i = 0; i != 200'000; ++i)
      each += static_cast<char>('a' + below(26));
  greet(ends[0], ends[1]);
  int rounds = 0;
  const auto done = [&](int i)
  { return ends[1 - i].finished && ends[1 - i].unread.empty() && ends[1 - i].got == sent[i]; };
  while (!done(0) || !done(1))
  {
    REQUIRE(++rounds < 1'000'000); // otherwise both wait for each other
    const std::size_t i = below(2);
    end& mine = ends[i];
    end& peer = ends[1 - i];
    switch (below(4))
    {
    case 0:
      mine.write(sent[i], at[i], 1 + below(below(2) == 0 ? 300 : 4000), peer, uses_odd(mine));
      break;
    case 1:
      if (!peer.out.empty())
      {
        REQUIRE(mine.take(peer.out.front()) != arrival::violation);
        peer.out.pop_front();
      }
      break;
    case 2:
      if (!mine.unread.empty())
        mine.read_one();
      break;
    default:
      mine.tell();
      if (at[i] == sent[i].size() && mine.fsm.can_finish())
        mine.out.push_back(pack(mine.fsm.finish()));
    }
  }
}

TEST_CASE("streams: an end whose peer reads nothing stops, and goes on when the peer reads")
{
  end a;
  end b;
  greet(a, b);
  const std::string text(100'000, 'x');
  std::size_t at = 0;
  const auto fill = [&](std::size_t size)
  {
    for (std::size_t before = at + 1; before != at;)
    {
      before = at;
      a.write(text, at, size, b, false);
    }
  };
  fill(1);
  CHECK(at == receives - 1 - stream_fsm::reserve); // one for the first message
  CHECK_FALSE(a.fsm.can_send_bytes());
  CHECK(a.fsm.can_finish());
  while (!a.out.empty())
  {
    CHECK(b.take(a.out.front()) == arrival::data);
    a.out.pop_front();
  }
  CHECK_FALSE(b.fsm.credit_due());
  while (!b.fsm.credit_due())
    b.read_one();
  b.tell();
  CHECK(a.take(b.out.front()) == arrival::nothing);
  CHECK(a.fsm.can_send_bytes());
}

TEST_CASE(
  "streams: a ring grows when the peer fills it, and shrinks when the peer uses little of it")
{
  end a;
  end b;
  greet(a, b);
  const std::string text(1'000'000, 'x');
  std::size_t at = 0;
  // a writes; b reads at once, and the messages of b arrive.
  const auto exchange = [&](std::size_t size)
  {
    a.write(text, at, size, b, uses_odd(a));
    while (!a.out.empty())
    {
      REQUIRE(b.take(a.out.front()) != arrival::violation);
      a.out.pop_front();
    }
    while (!b.unread.empty())
      b.read_one();
    b.tell();
    while (!b.out.empty())
    {
      REQUIRE(a.take(b.out.front()) == arrival::nothing);
      b.out.pop_front();
    }
  };
  for (const std::uint32_t size : {4 * first_ring, largest_ring})
  {
    exchange(first_ring);
    CHECK(a.fsm.peer_ring().size() == size);
    CHECK_FALSE(b.fsm.unused_ring()); // a has not used the new one yet
  }
  exchange(first_ring);
  CHECK(b.fsm.unused_ring() == true);

  const auto send_small = [&]
  {
    for (std::uint32_t i = 0; i != stream_fsm::messages_before_shrinking; ++i)
      exchange(1);
  };
  send_small(); // the count that includes the write ends,
  exchange(1);  // and another one begins
  for (const std::uint32_t size : {largest_ring / 4, first_ring, first_ring})
  {
    send_small();
    CHECK(a.fsm.peer_ring().size() == size);
    exchange(1); // names the new ring although it has no bytes for it
    CHECK(b.fsm.unused_ring());
  }
  exchange(first_ring);
  CHECK(a.fsm.peer_ring().size() == 4 * first_ring);
  CHECK(b.got.size() == at);
}

TEST_CASE("streams: the end may follow the first message, before the peer's")
{
  end a;
  end b;
  CHECK_FALSE(a.fsm.can_finish());
  a.greet();
  CHECK_FALSE(a.fsm.can_send_bytes());
  REQUIRE(a.fsm.can_finish());
  a.out.push_back(pack(a.fsm.finish()));
  CHECK_FALSE(a.fsm.can_finish());
  b.greet();
  CHECK(b.take(a.out[0]) == arrival::nothing);
  CHECK(b.take(a.out[1]) == arrival::finished);
}

TEST_CASE("streams: on iWARP one end sends first, and nothing else before the other's hello")
{
  const remote_buffer ring(rdma::device_kind::nic, 4096, first_ring, 1,
    rdma::access::remote_write | rdma::access::remote_read);
  stream_fsm first(receives, first_ring, stream_fsm::order::first);
  stream_fsm second(receives, first_ring, stream_fsm::order::second);
  CHECK(first.hello_due());
  CHECK_FALSE(second.hello_due());
  CHECK_FALSE(second.can_finish());
  REQUIRE(second.receive(first.hello(ring)) == arrival::nothing);
  second.reposted();
  CHECK_FALSE(first.hello_due());
  CHECK_FALSE(first.can_send_bytes());
  CHECK_FALSE(first.can_finish());
  CHECK(second.hello_due());
  CHECK_FALSE(second.can_send_bytes());
  REQUIRE(first.receive(second.hello(ring)) == arrival::nothing);
  first.reposted();
  CHECK_FALSE(second.hello_due());
  for (const stream_fsm* each : {&first, &second})
  {
    CHECK(each->can_send_bytes());
    CHECK(each->can_finish());
  }
}

TEST_CASE("streams: on iWARP a ring must permit remote reads")
{
  const remote_buffer ring(rdma::device_kind::nic, 4096, first_ring, 1, rdma::access::remote_write);
  const auto which = GENERATE(stream_fsm::order::none, stream_fsm::order::second);
  stream_fsm fsm(receives, first_ring, which);
  const stream_message m = stream_fsm(receives, first_ring).hello(ring);
  CHECK((fsm.receive(m) == arrival::nothing) == (which == stream_fsm::order::none));
}

TEST_CASE("streams: violations of the protocol are found")
{
  end a;
  end b;
  SECTION("a message before the first one")
  {
    stream_message m;
    m.type = stream_message_type::credit;
    CHECK(a.fsm.receive(m) == arrival::violation);
  }
  SECTION("few receives or a small ring")
  {
    stream_message m =
      stream_fsm(stream_fsm::receives_min - 1, first_ring).hello(ring_of(first_ring));
    CHECK(a.fsm.receive(m) == arrival::violation);
    m = stream_fsm(receives, first_ring).hello(ring_of(stream_fsm::ring_min - 1));
    CHECK(b.fsm.receive(m) == arrival::violation);
  }
  SECTION("after the first one")
  {
    greet(a, b);
    stream_message m;
    SECTION("a second first one")
    {
      m = b.fsm.hello(ring_of(first_ring));
    }
    SECTION("more received than was sent")
    {
      m = b.fsm.credit();
      m.received = 2;
    }
    SECTION("more read than was written")
    {
      m = b.fsm.credit();
      m.read = 1;
    }
    SECTION("more written than the ring has room for")
    {
      m = b.fsm.written(first_ring);
      m.count = first_ring + 1;
    }
    SECTION("written to a ring that was not offered")
    {
      m = b.fsm.written(1);
      m.odd_ring = true;
    }
    SECTION("an offer of the ring in use")
    {
      m = b.fsm.credit();
      m.type = stream_message_type::ring;
      m.ring = ring_of(first_ring);
    }
    SECTION("a ring in use that was not offered")
    {
      m = b.fsm.credit();
      m.odd_ring = true;
    }
    SECTION("bytes after the end")
    {
      REQUIRE(a.fsm.receive(b.fsm.finish()) == arrival::finished);
      a.fsm.reposted();
      m = b.fsm.data(1);
    }
    SECTION("more messages than receives")
    {
      m = b.fsm.data(1);
      for (std::uint32_t i = 0; i != receives; ++i)
        REQUIRE(a.fsm.receive(m) == arrival::data);
    }
    CHECK(a.fsm.receive(m) == arrival::violation);
  }
}

TEST_CASE("streams: malformed messages are refused")
{
  stream_fsm fsm(receives, first_ring);
  const packet good = pack(fsm.hello(ring_of(first_ring)));
  REQUIRE(stream_message::decode(good.head));
  for (std::size_t size = 0; size != good.head.size(); ++size)
    CHECK_FALSE(stream_message::decode(std::span(good.head).first(size)));
  for (const std::size_t at : {0u, 1u, 2u, 3u}) // version, type, flags, zero
  {
    auto bytes = good.head;
    bytes[at] = std::byte{0xff};
    CHECK_FALSE(stream_message::decode(bytes));
  }
  stream_message data;
  data.type = stream_message_type::data;
  data.count = 2;
  CHECK_FALSE(stream_message::decode(pack(data).head)); // without its bytes
  data.count = 0;
  CHECK_FALSE(stream_message::decode(pack(data).head));
}

namespace {

/// An end without memory. Its messages wait in `out`.
struct counting_end
{
  counting_end(std::uint32_t receive_count, std::uint32_t ring_size)
    : fsm(receive_count, ring_size)
    , size(ring_size)
  {
    out.push_back(fsm.hello(ring_of(size)));
  }

  void take(const stream_message& m)
  {
    const arrival what = fsm.receive(m);
    REQUIRE(what != arrival::violation);
    if (what == arrival::data)
      ++unread_messages;
    else
      fsm.reposted();
    if (what == arrival::written)
      unread += m.count;
    CHECK(unread <= size);
  }

  void read(std::uint32_t bytes)
  {
    fsm.read(bytes);
    unread -= bytes;
  }
  void read_messages()
  {
    for (; unread_messages != 0; --unread_messages)
      fsm.reposted();
  }
  void tell()
  {
    while (fsm.credit_due())
      out.push_back(fsm.credit());
  }
  void write(std::uint32_t most)
  {
    if (const auto room = fsm.writable(); room.size != 0)
      out.push_back(fsm.written(std::min(room.size, most)));
  }

  stream_fsm fsm;
  const std::uint32_t size;
  std::uint32_t unread = 0; // in the ring
  std::uint32_t unread_messages = 0;
  std::deque<stream_message> out;
};

/// Delivers what waits, in turns, until both ends have nothing to say. Their programs do nothing.
void settle(counting_end& a, counting_end& b)
{
  std::size_t delivered = 0;
  do
  {
    a.tell();
    b.tell();
    for (const auto& [from, to] : {std::pair(&a, &b), std::pair(&b, &a)})
      if (!from->out.empty())
      {
        const stream_message m = from->out.front();
        from->out.pop_front();
        to->take(m);
      }
    REQUIRE(++delivered < 100'000); // otherwise they answer each other forever
  } while (!a.out.empty() || !b.out.empty() || a.fsm.credit_due() || b.fsm.credit_due());
}

} // namespace

TEST_CASE("streams: a ring is never overwritten, also when the totals have wrapped around")
{
  const std::uint32_t size = GENERATE(as<std::uint32_t>(), 1u << 30, 1u << 20);
  counting_end a(receives, size);
  counting_end b(receives, size);
  settle(a, b);
  std::mt19937 random(1);
  std::uint64_t total = 0;
  const std::uint32_t part = size / 16;
  while (total < (std::uint64_t{5} << 30))
  {
    a.write(part); // faster than the peer reads, so that the ring is mostly full
    a.write(part);
    settle(a, b);
    const auto read = std::min<std::uint32_t>(b.unread, random() % (2 * part));
    b.read(read);
    total += read;
    settle(a, b);
  }
  CHECK(b.unread > size / 2);
}

TEST_CASE("streams: two ends go on when one reads, or both, after both had no room")
{
  const auto [count, size, piece] = GENERATE(table<std::uint32_t, std::uint32_t, std::uint32_t>(
    {{8, 1024, 16}, {32, 1 << 20, 1 << 16}, {32, 8192, 2048}, {1024, 1 << 20, 1 << 16}}));
  const bool both = GENERATE(false, true);
  counting_end a(count, size);
  counting_end b(count, size);
  settle(a, b);
  // Both fill the other's ring, and then the other's receives.
  for (const auto& [from, to] : {std::pair(&a, &b), std::pair(&b, &a)})
    while (to->unread != to->size && from->fsm.can_send_bytes())
    {
      from->write(size / 4);
      settle(a, b);
    }
  for (counting_end* const each : {&a, &b})
    while (each->fsm.can_send_bytes())
    {
      each->out.push_back(each->fsm.data(100));
      settle(a, b);
    }
  // Both rings are read before any message about it arrives.
  for (counting_end* const each : {&a, &b})
    while ((each == &a || both) && each->unread != 0)
    {
      each->read(std::min(each->unread, piece));
      each->tell();
    }
  settle(a, b);
  a.read_messages();
  if (both)
    b.read_messages();
  settle(a, b);
  CHECK(b.fsm.can_send_bytes());
  CHECK(b.fsm.writable().size != 0);
  CHECK(a.fsm.can_finish());
  if (both)
    CHECK(a.fsm.can_send_bytes());
}

TEST_CASE("streams: whatever two programs did, a program that reads lets the other one write")
{
  for (unsigned seed = 1; seed != 300; ++seed)
  {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto chance = [&](unsigned of) { return random() % of == 0; };
    counting_end a(8 + random() % 32, 1024);
    counting_end b(8 + random() % 32, 1024);
    const unsigned reads = random() % 5; // one of so many times; 0: never
    for (int i = 0; i != 1000; ++i)
      for (const auto& [self, peer] : {std::pair(&a, &b), std::pair(&b, &a)})
      {
        if (chance(3) && self->fsm.can_send_bytes())
          self->out.push_back(self->fsm.data(1 + random() % stream_message::data_max));
        if (chance(3))
          self->write(1 + random() % 1024);
        if (reads != 0 && chance(reads))
          self->read_messages();
        if (reads != 0 && chance(reads))
          self->read(self->unread == 0 ? 0 : 1 + random() % self->unread);
        if (chance(2) && !self->out.empty())
        {
          const stream_message m = self->out.front();
          self->out.pop_front();
          peer->take(m);
        }
        if (chance(2))
          self->tell();
      }
    do
    {
      b.read(std::min(b.unread, 100u));
      b.read_messages();
      settle(a, b);
    } while (b.unread != 0 || b.unread_messages != 0);
    CHECK(a.fsm.can_send_bytes());
    CHECK(a.fsm.writable().size != 0);
    CHECK(b.fsm.can_finish());
  }
}

} // namespace test::stream_protocol

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "verbs/software/wire/tcp_output.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include <sys/mman.h>

// The sending half of a link over TCP, with a socket that takes as many bytes as the test says.

namespace tcp_output_test {
namespace {

using rdma::software::wire::output_socket;
using rdma::software::wire::tcp_output;
using bytes = std::vector<std::byte>;

class narrow_socket final : public output_socket
{
public:
  std::ptrdiff_t write(std::span<const iovec> what) noexcept override
  {
    std::size_t taken = 0;
    for (const iovec& each : what)
    {
      const std::size_t part = error != 0 ? 0 : std::min(each.iov_len, room);
      const auto* const from = static_cast<const std::byte*>(each.iov_base);
      arrived.insert(arrived.end(), from, from + part);
      room -= part;
      taken += part;
    }
    errno = error != 0 ? error : EAGAIN;
    return taken != 0 ? static_cast<std::ptrdiff_t>(taken) : -1;
  }
  void watch_for_room(bool on) noexcept override { watched = on; }
  void shut_down() noexcept override { shut = true; }

  std::size_t room = 0;
  int error = 0; // of all writes
  bytes arrived;
  bool watched = false;
  bool shut = false;
};

/// Frames, of which each byte tells its place.
struct frames
{
  explicit frames(const std::vector<std::size_t>& sizes)
  {
    for (const std::size_t size : sizes)
    {
      for (std::size_t i = 0; i != size; ++i)
        all.push_back(std::byte(all.size() * 31 / 7));
      ends.push_back(all.size());
    }
  }

  /// Sends the frames from this byte on, each as a header and a payload. Returns the byte up to
  /// which they have been taken.
  std::size_t send(tcp_output& by, std::size_t from = 0, unsigned lane = 0)
  {
    std::vector<iovec> vectors;
    std::vector<std::size_t> left;
    std::size_t begin = from;
    for (const std::size_t end : ends)
    {
      if (end <= from)
        continue;
      const std::size_t header = std::min<std::size_t>(end - begin, 12);
      vectors.push_back({all.data() + begin, header});
      vectors.push_back({all.data() + begin + header, end - begin - header});
      left.push_back(end - from);
      begin = end;
    }
    if (left.empty())
      return from; // a turn of a lane whose last frame has gone in two parts
    const std::ptrdiff_t n = by.send(lane, vectors, left);
    if (n < 0)
    {
      CHECK(errno == EAGAIN);
      CHECK(by.is_waiting(lane));
      return from;
    }
    return from + static_cast<std::size_t>(n);
  }

  bytes all;
  std::vector<std::size_t> ends;
};

constexpr std::size_t unlimited = 1u << 30;

iovec buffer(bytes& of)
{
  return {of.data(), of.size()};
}

} // namespace

TEST_CASE("frames arrive whole and in order, whatever part of them the socket takes")
{
  const bool in_turn = GENERATE(false, true);
  frames f(GENERATE(as<std::vector<std::size_t>>(), std::vector<std::size_t>{40, 9000, 12, 60},
    std::vector<std::size_t>{12, 20}, std::vector<std::size_t>{5000}));
  frames before({24, 16});
  const std::size_t size = f.all.size() + (in_turn ? before.all.size() : 0);
  for (std::size_t room = 0; room <= size; ++room)
  {
    narrow_socket socket;
    tcp_output output(socket);
    socket.room = room;
    bytes all;
    if (in_turn)
    {
      output.begin_turn();
      CHECK(before.send(output) == before.all.size());
      CHECK(socket.arrived.empty());
      all = before.all;
    }
    all.insert(all.end(), f.all.begin(), f.all.end());
    std::size_t taken = f.send(output);
    // A frame of which a part has left is taken.
    CHECK((taken == 0 || std::ranges::find(f.ends, taken) != f.ends.end()));
    CHECK(taken + (all.size() - f.all.size()) >= socket.arrived.size());
    if (in_turn)
      output.end_turn();
    CHECK(socket.arrived.size() == std::min(room, all.size() - f.all.size() + taken));
    CHECK(socket.watched == (taken != f.all.size() || socket.arrived.size() != all.size()));

    socket.room = unlimited;
    output.use_room([&](unsigned lane) { taken = f.send(output, taken, lane); });
    if (taken != f.all.size())
      taken = f.send(output, taken); // the socket took all frames before, and no turn was needed
    CHECK(taken == f.all.size());
    REQUIRE(socket.arrived == all);
    CHECK(!socket.watched);
    CHECK(!output.is_waiting(0));
  }
}

TEST_CASE("a link that ends returns the bytes that its socket has not taken")
{
  frames f({100, 3000, 50});
  for (std::size_t room = 1; room <= f.all.size(); ++room)
  {
    narrow_socket socket;
    tcp_output output(socket);
    socket.room = room;
    const std::size_t taken = f.send(output);
    socket.room = 7;
    output.use_room([](unsigned) {}); // a part of what is stored
    const bytes rest = output.end();
    socket.arrived.insert(socket.arrived.end(), rest.begin(), rest.end());
    REQUIRE(std::equal(
      socket.arrived.begin(), socket.arrived.end(), f.all.begin(), f.all.begin() + taken));

    bytes more(10);
    const iovec last = buffer(more);
    CHECK(!output.put({&last, 1}, tcp_output::stored_last_max));
    CHECK(output.send(0, {&last, 1}, std::array{more.size()}) == -1);
    CHECK(errno == EPIPE);
    CHECK(output.end().empty());
  }
}

TEST_CASE("queue pairs wait while a link stores as many bytes as it may")
{
  narrow_socket socket;
  tcp_output output(socket);
  bytes frame(1000);
  const iovec one = buffer(frame);
  std::size_t stored = 0;
  while (output.send(3, {&one, 1}, std::array{frame.size()}) > 0)
    REQUIRE((stored += frame.size()) <= tcp_output::stored_max);
  CHECK(errno == EAGAIN);
  CHECK(output.is_waiting(3));
  CHECK(stored + frame.size() > tcp_output::stored_max);
  CHECK(socket.watched);

  // The bound is on what is unsent.
  socket.room = 5 * frame.size();
  output.use_room([](unsigned) {});
  unsigned again = 0;
  while (output.send(3, {&one, 1}, std::array{frame.size()}) > 0)
    ++again;
  CHECK(again == 5);
}

TEST_CASE("messages of a link are dropped behind their bound, and a link that cannot detach ends")
{
  narrow_socket socket;
  tcp_output output(socket);
  bytes message(10'000);
  const iovec one = buffer(message);
  const auto put_all = [&](std::size_t most)
  {
    std::size_t count = 0;
    while (output.put({&one, 1}, most))
      ++count;
    return count * message.size();
  };
  // A message is stored if no more than the bound is stored before it.
  std::size_t stored = put_all(tcp_output::stored_max);
  CHECK(stored > tcp_output::stored_max);
  CHECK(stored <= tcp_output::stored_max + message.size());
  stored += put_all(tcp_output::stored_last_max);
  CHECK(stored > tcp_output::stored_last_max);
  CHECK(stored <= tcp_output::stored_last_max + message.size());
  CHECK(!socket.shut);
  stored += put_all(tcp_output::stored_broken);
  CHECK(stored > tcp_output::stored_broken);
  CHECK(stored <= tcp_output::stored_broken + message.size());
  CHECK(socket.shut);
  CHECK(output.end().empty());
}

TEST_CASE("queue pairs that wait for a link take turns")
{
  narrow_socket socket;
  tcp_output output(socket);
  frames f({GENERATE(std::size_t{100'000}, std::size_t{900})}); // the small one is stored
  constexpr std::array<unsigned, 4> lanes{1, 2, 70, 255};
  for (const unsigned lane : lanes)
    if (f.send(output, 0, lane) != 0)
      output.wait_for_turn(lane);
  CHECK(!output.is_waiting(3));
  CHECK(output.has_others_waiting(1));
  // Each time there is room for a frame and a half.
  std::vector<unsigned> served;
  while (served.size() < 12)
  {
    REQUIRE(socket.watched);
    socket.room = f.all.size() * 3 / 2;
    output.use_room(
      [&](unsigned lane)
      {
        CHECK(!socket.watched); // it has taken all so far
        if (f.send(output, 0, lane) == f.all.size())
          served.push_back(lane);
        if (!output.is_waiting(lane))
          output.wait_for_turn(lane);
      });
  }
  for (std::size_t i = 0; i != served.size(); ++i)
    CHECK(served[i] == lanes[i % lanes.size()]);
  for (const unsigned lane : lanes)
    CHECK(output.is_waiting(lane));
}

TEST_CASE("a queue pair that wants a further turn gets it when there is room")
{
  narrow_socket socket;
  tcp_output output(socket);
  socket.room = unlimited;
  output.wait_for_turn(7);
  CHECK(!output.has_others_waiting(7));
  CHECK(output.has_others_waiting(6));
  unsigned turns = 0;
  while (turns < 3)
  {
    REQUIRE(socket.watched);
    output.use_room(
      [&](unsigned lane)
      {
        CHECK(lane == 7);
        if (++turns < 3)
          output.wait_for_turn(lane);
        CHECK(!socket.watched); // until all have had their turn
      });
  }
  CHECK(!socket.watched);
  CHECK(!output.has_others_waiting(6));
}

TEST_CASE("a link ends if the rest of a frame cannot be read")
{
  constexpr std::size_t half = 128 * 1024; // the rest is checked before it is read
  void* const memory =
    ::mmap(nullptr, 2 * half, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  REQUIRE(::mprotect(static_cast<std::byte*>(memory) + half, half, PROT_NONE) == 0);
  narrow_socket socket;
  tcp_output output(socket);
  const iovec both{memory, 2 * half};
  socket.room = half / 2;
  CHECK(output.send(0, {&both, 1}, std::array{2 * half}) == std::ptrdiff_t{2 * half});
  CHECK(socket.shut);
  CHECK(output.end().empty());
  ::munmap(memory, 2 * half);
}

TEST_CASE("errors of a socket are lack of room, memory that cannot be read, or the end of a link")
{
  narrow_socket socket;
  tcp_output output(socket);
  const bool small = GENERATE(false, true);
  frames f({small ? 20u : 20'000u});
  for (const int lack : {EAGAIN, ENOBUFS, ENOMEM})
  {
    socket.error = lack;
    CHECK(f.send(output) == (small ? f.all.size() : 0));
    CHECK(socket.watched);
    socket.error = 0;
    socket.room = unlimited;
    socket.arrived.clear();
    output.use_room([&](unsigned lane) { f.send(output, 0, lane); });
    CHECK(socket.arrived == f.all);
  }
  const iovec all = buffer(f.all);
  const auto send = [&] { return output.send(0, {&all, 1}, std::array{f.all.size()}); };
  if (!small)
  {
    socket.error = EFAULT;
    CHECK(send() == -1);
    CHECK(errno == EFAULT);
    CHECK(!output.is_waiting(0));
  }
  socket.error = ECONNRESET;
  // A small frame is stored, and lost.
  CHECK(send() == (small ? static_cast<std::ptrdiff_t>(f.all.size()) : -1));
  CHECK(send() == -1);
  CHECK(errno == EPIPE);
  CHECK(!socket.shut); // what the peer sent before can be read
}

// Each byte of a frame is its lane, its number or a byte of its size.
TEST_CASE("frames of many queue pairs arrive whole and in order in random turns")
{
  std::mt19937 random(std::random_device{}());
  const auto below = [&](unsigned limit) { return static_cast<unsigned>(random() % limit); };
  constexpr unsigned lanes = 20;
  narrow_socket socket;
  tcp_output output(socket);
  struct queue
  {
    std::vector<bytes> frames;
    unsigned made = 0;
  };
  std::array<queue, lanes> queues;
  const auto transmit = [&](unsigned lane)
  {
    auto& waiting = queues[lane].frames;
    while (!waiting.empty() && !output.is_waiting(lane))
    {
      std::vector<iovec> vectors;
      std::vector<std::size_t> ends;
      for (bytes& each : waiting)
      {
        vectors.push_back(buffer(each));
        ends.push_back((ends.empty() ? 0 : ends.back()) + each.size());
      }
      const std::ptrdiff_t n = output.send(lane, vectors, ends);
      if (n < 0)
        break;
      const auto last = std::ranges::find(ends, static_cast<std::size_t>(n));
      REQUIRE(last != ends.end());
      waiting.erase(waiting.begin(), waiting.begin() + (last - ends.begin()) + 1);
    }
  };
  const auto act = [&]
  {
    const unsigned lane = below(lanes);
    queue& of = queues[lane];
    if (of.frames.size() < 5)
    {
      const unsigned size = 8 + below(below(8) == 0 ? 200'000 : 2000);
      bytes made(size, std::byte(lane));
      const std::array<unsigned, 2> head{of.made++ << 8 | lane, size};
      std::memcpy(made.data(), head.data(), 8);
      of.frames.push_back(std::move(made));
    }
    transmit(lane);
  };
  for (unsigned i = 0; i != 3000; ++i)
  {
    const bool in_turn = below(2) == 0;
    if (in_turn)
      output.begin_turn();
    if (socket.watched && below(2) == 0)
    {
      socket.room = below(3) == 0 ? unlimited : below(100'000);
      output.use_room(transmit);
    }
    for (unsigned k = below(4); k != 0; --k)
      act();
    if (in_turn)
      output.end_turn();
  }
  socket.room = unlimited;
  for (unsigned turns = 0; socket.watched; ++turns)
  {
    REQUIRE(turns != 100);
    output.use_room(transmit);
  }

  std::array<unsigned, lanes> seen{};
  std::size_t at = 0;
  while (at != socket.arrived.size())
  {
    std::array<unsigned, 2> head{};
    REQUIRE(at + sizeof head <= socket.arrived.size());
    std::memcpy(head.data(), socket.arrived.data() + at, sizeof head);
    const unsigned lane = head[0] & 0xff;
    REQUIRE(lane < lanes);
    REQUIRE(head[0] >> 8 == seen[lane]++);
    REQUIRE(at + head[1] <= socket.arrived.size());
    REQUIRE(std::all_of(socket.arrived.begin() + at + 8, socket.arrived.begin() + at + head[1],
      [&](std::byte b) { return b == std::byte(lane); }));
    at += head[1];
  }
  for (unsigned lane = 0; lane != lanes; ++lane)
  {
    CHECK(queues[lane].frames.empty());
    CHECK(seen[lane] == queues[lane].made);
  }
}

} // namespace tcp_output_test

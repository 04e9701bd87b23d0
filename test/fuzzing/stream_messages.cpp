//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "fuzzing/common/require.hpp"
#include "stream/stream_fsm.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

// Fuzzes the messages of a stream's peer (doc/stream_protocol.md). The input is a sequence of
// messages, each after a byte with its size. Between them this end sends and reads what it may.

using namespace rdma::detail;
using test::require;

namespace {

constexpr std::uint32_t receives = 8;
constexpr std::uint32_t ring_size = 1024;

// The memory of this end.
struct memory
{
  std::uint32_t unread = 0;                         // in rings
  std::uint32_t waiting = 0;                        // messages whose receives are not posted
  std::array<std::uint64_t, 2> rings{ring_size, 0}; // sizes
};

// Returns false if the peer has violated the protocol.
bool take(stream_fsm& fsm, memory& mine, const stream_message& m)
{
  switch (fsm.receive(m))
  {
  case stream_fsm::arrival::violation:
  case stream_fsm::arrival::reset:
    return false;
  case stream_fsm::arrival::data:
    require(m.count != 0 && m.count <= stream_message::data_max, "data is in the message");
    ++mine.waiting;
    require(mine.waiting <= receives, "no more messages arrive than there are receives");
    return true;
  case stream_fsm::arrival::written:
  {
    const auto [odd, bytes] = fsm.arrived();
    require(std::uint64_t{bytes.offset} + bytes.size <= mine.rings[odd ? 1 : 0],
      "written bytes are in a ring that this end has");
    mine.unread += bytes.size;
    break;
  }
  case stream_fsm::arrival::nothing:
  case stream_fsm::arrival::finished:
    break;
  }
  fsm.reposted();
  return true;
}

void send(stream_fsm& fsm, memory& mine)
{
  if (const std::uint32_t size = fsm.wanted_ring(ring_size, 16 * ring_size); size != 0)
  {
    const rdma::remote_buffer offered(rdma::device_kind::software, 4096, size, 1);
    mine.rings[fsm.ring(offered).odd_ring ? 1 : 0] = size;
  }
  if (fsm.can_send_bytes())
    fsm.data(1);
  if (const auto room = fsm.writable(); room.size != 0)
  {
    require(std::uint64_t{room.offset} + room.size <= fsm.peer_ring().size(),
      "this end writes inside the peer's ring");
    fsm.written(room.size);
  }
  if (fsm.credit_due())
    fsm.credit();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  auto bytes = std::as_bytes(std::span(data, size));
  stream_fsm fsm(receives, ring_size);
  fsm.hello(rdma::remote_buffer(rdma::device_kind::software, 4096, ring_size, 1));
  memory mine;
  while (!bytes.empty())
  {
    const auto step = std::to_integer<std::size_t>(bytes.front());
    bytes = bytes.subspan(1);
    const auto part = bytes.first(std::min(step, bytes.size()));
    bytes = bytes.subspan(part.size());
    const std::optional<stream_message> m = stream_message::decode(part);
    if (!m)
      return 0;
    std::array<std::byte, stream_message::size_max> again{};
    m->encode(again);
    require(std::ranges::equal(std::span(again).first(m->size()), part.first(m->size())),
      "a decoded message encodes to the same bytes");
    if (!take(fsm, mine, *m))
      return 0;
    send(fsm, mine);
    if (step % 2 == 0)
      continue;
    // An odd size: this end reads everything.
    fsm.read(mine.unread);
    mine.unread = 0;
    for (; mine.waiting != 0; --mine.waiting)
      fsm.reposted();
  }
  return 0;
}

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/dice.hpp"
#include "fuzzing/common/require.hpp"
#include "stream/stream_fsm.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>

// Fuzzes a stream between two ends. The input decides what the ends send and read, in which order,
// and which messages of the second end are changed, dropped or repeated on the way. Until the first
// such message, both ends must agree; afterwards, the first end must keep within its memory.

using namespace rdma::detail;
using test::require;
using arrival = stream_fsm::arrival;
using order = stream_fsm::order;

namespace {

constexpr std::uint32_t receives = 8;
constexpr std::uint32_t ring_size = stream_fsm::ring_min;
constexpr std::uint32_t largest_ring = 16 * ring_size;

struct end
{
  explicit end(order which)
    : fsm(receives, ring_size, which)
  {
  }

  /// Takes a message of the peer. Returns false if the stream ends.
  bool take(const stream_message& m)
  {
    const arrival what = fsm.receive(m);
    if (what == arrival::violation || what == arrival::reset)
      return false;
    require(m.received - peer_received <= sent - peer_received
        && m.read - peer_read <= written - peer_read,
      "the peer has received and read no more than was sent, and no less than before");
    peer_received = m.received;
    peer_read = m.read;
    require(!finished || (what != arrival::data && what != arrival::written),
      "nothing arrives behind the end");
    if (what == arrival::data)
    {
      require(m.count != 0 && m.count <= stream_message::data_max, "data is in the message");
      ++waiting;
      require(waiting <= receives, "no more messages arrive than there are receives");
      unread.push_back({});
      return true;
    }
    if (what == arrival::written)
    {
      const auto [odd, bytes] = fsm.arrived();
      ring& to = rings[odd ? 1 : 0];
      require(bytes.size != 0 && bytes.offset <= to.size && bytes.size <= to.size - bytes.offset,
        "written bytes are in a ring that this end has");
      to.unread += bytes.size;
      require(to.unread <= to.size, "no unread byte of a ring is written again");
      unread.push_back({odd, bytes.size});
    }
    finished = finished || what == arrival::finished;
    fsm.reposted();
    return true;
  }

  void read_one()
  {
    if (unread.empty())
      return;
    const auto [odd, size] = unread.front();
    unread.pop_front();
    if (size == 0)
    {
      --waiting;
      return fsm.reposted();
    }
    rings[odd ? 1 : 0].unread -= size;
    fsm.read(size);
  }

  /// Sends a message if it may.
  void send(test::dice& random)
  {
    switch (random() % 8)
    {
    case 0:
    case 1:
      if (fsm.can_send_bytes())
        post(fsm.data(random.any(1, stream_message::data_max)));
      return;
    case 2:
    case 3:
      if (const auto room = fsm.writable(); room.size != 0)
      {
        require(room.offset <= fsm.peer_ring().size()
            && room.size <= fsm.peer_ring().size() - room.offset,
          "this end writes inside the peer's ring");
        post(fsm.written(
          random.one_in(2) ? room.size : static_cast<std::uint32_t>(random.any(1, room.size))));
      }
      return;
    case 4:
      if (const std::uint32_t size = fsm.wanted_ring(ring_size, largest_ring); size != 0)
      {
        require(size >= ring_size && size <= largest_ring, "rings are bounded");
        const stream_message m = fsm.ring(ring_of(size));
        ring& memory = rings[m.odd_ring ? 1 : 0];
        require(memory.unread == 0, "a ring that is replaced has been read");
        memory = {size, 0};
        post(m);
      }
      return;
    case 5:
      if (const auto odd = fsm.unused_ring())
      {
        ring& memory = rings[*odd ? 1 : 0];
        require(memory.unread == 0, "a ring that is freed has been read");
        memory = {};
      }
      return;
    case 6:
      if (fsm.can_finish() && random.one_in(4))
        post(fsm.finish(random.one_in(4)));
      return;
    default:
      if (fsm.credit_due())
        post(fsm.credit());
    }
  }

  void post(const stream_message& m)
  {
    out.push_back(m);
    ++sent;
    written += m.type == stream_message_type::written ? m.count : 0;
    require(out.size() <= stream_fsm::receives_max, "a bounded number of messages is under way");
  }

  static rdma::remote_buffer ring_of(std::uint32_t size)
  {
    return {rdma::device_kind::software, 4096, size, 1};
  }

  struct ring
  {
    std::uint32_t size = 0;
    std::uint32_t unread = 0;
  };
  struct part
  {
    bool odd = false;
    std::uint32_t size = 0; // 0: in a receive
  };

  stream_fsm fsm;
  std::array<ring, 2> rings{{{ring_size, 0}, {}}};
  std::deque<part> unread;
  std::uint32_t waiting = 0; // receives that are not posted
  bool finished = false;
  std::deque<stream_message> out;
  std::uint32_t sent = 0;    // messages
  std::uint32_t written = 0; // bytes in the peer's rings
  std::uint32_t peer_received = 0;
  std::uint32_t peer_read = 0;
};

void change(stream_message& m, test::dice& random)
{
  switch (random() % 7)
  {
  case 0:
    m.type = static_cast<stream_message_type>(random.any(1, 7));
    break;
  case 1:
    m.odd_ring = !m.odd_ring;
    break;
  case 2:
    m.received += random.one_in(2) ? ~0u : random();
    break;
  case 3:
    m.read += random.one_in(2) ? ~0u : random();
    break;
  case 4:
    m.count = random();
    break;
  case 5:
    m.ring = end::ring_of(random.one_in(2) ? random() : stream_fsm::ring_max);
    break;
  default:
    m.ring = end::ring_of(static_cast<std::uint32_t>(random.any(0, 8)) * ring_size);
  }
}

// A changed message arrives only if it is one.
std::optional<stream_message> travel(const stream_message& m)
{
  std::array<std::byte, stream_message::size_max> bytes{};
  m.encode(bytes);
  const bool has_data = m.type == stream_message_type::data && m.count <= stream_message::data_max;
  return stream_message::decode(std::span(bytes).first(m.size() + (has_data ? m.count : 0)));
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  test::dice random(std::span(data, size));
  const bool ordered = random.one_in(4);
  std::array<end, 2> ends{
    end(ordered ? order::first : order::none), end(ordered ? order::second : order::none)};
  bool honest = true;
  while (!random.is_over())
  {
    const std::size_t i = random() % 2;
    end& mine = ends[i];
    end& peer = ends[1 - i];
    switch (random() % 8)
    {
    case 0:
    case 1:
    case 2:
      if (peer.out.empty())
        break;
      if (stream_message m = peer.out.front(); i == 0 && random.one_in(20))
      {
        honest = false;
        if (random.one_in(4))
          peer.out.pop_front();
        else if (change(m, random); const auto changed = travel(m))
        {
          if (!mine.take(*changed))
            return 0;
        }
      }
      else
      {
        peer.out.pop_front();
        const bool ends_it = m.type == stream_message_type::reset;
        const bool goes_on = mine.take(m);
        require(!honest || goes_on || ends_it, "an honest peer violates nothing");
        if (!goes_on)
          return 0;
      }
      break;
    case 3:
      mine.read_one();
      break;
    case 4:
      if (mine.fsm.hello_due())
        mine.post(mine.fsm.hello(end::ring_of(ring_size)));
      break;
    default:
      mine.send(random);
    }
  }
  return 0;
}

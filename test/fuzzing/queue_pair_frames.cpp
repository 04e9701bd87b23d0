//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "fuzzing/common/fixture.hpp"
#include "unit/attacked_queue_pair.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

// Fuzzes the requester and the responder of a queue pair with the frames of its peer, as the TCP
// wire passes them (lib/verbs/software/wire/tcp_receive.cpp). The input decides about the frames,
// the requests and receives of the program, and the steps in between.

namespace {

using namespace protocol_test;
using test::require;

struct queue_pair : registered_memory
{
  explicit queue_pair(service kind)
  {
    with.kind = kind;
    answers.start();
    requests.start();
  }

  send_queue queue{depth, sizeof(ibv_sge)};
  requester requests{queue, with, told};
  responder answers{with, told, 1};
};

// Places the payload, as tcp_wire::place_staged() and end_frame().
template <class Side>
verdict place(Side& side, std::uint32_t size)
{
  for (std::uint32_t offset = 0; offset != size;)
  {
    pinned_buffers to;
    std::uint64_t done = 0;
    if (!side.place(offset, size - offset, to, done) || done == 0)
    {
      side.unplaceable(detail_local_key);
      return verdict::discard;
    }
    require(done <= size - offset, "no more is placed than has arrived");
    for (const iovec& each : to.view())
      std::memset(each.iov_base, 0x11, each.iov_len);
    offset += static_cast<std::uint32_t>(done);
  }
  return side.finish();
}

// Returns false if the connection ends.
bool take(queue_pair& of, const header& from, bool truncated)
{
  header_bytes bytes;
  const std::size_t size = encode(from, bytes);
  const auto h = decode(std::span(bytes).first(size));
  if (!h || h->dest_qp != of.with.qp)
    return true;
  if (h->payload > of.with.segment || h->kind != of.with.kind)
    return false;
  const bool is_request = (traits_of(h->op) & trait_request) != 0;
  const verdict what = is_request ? of.answers.receive(*h) : of.requests.receive(*h);
  if (what == verdict::accept && truncated)
    return false;
  if (what == verdict::accept)
    return (is_request ? place(of.answers, h->payload) : place(of.requests, h->payload))
      != verdict::malformed;
  return what != verdict::malformed;
}

template <class Side>
void gather(Side& side, const frame& of)
{
  for (std::uint32_t offset = 0; offset != of.payload;)
  {
    pinned_buffers from;
    std::uint64_t done = 0;
    if (!side.gather(of, offset, of.payload - offset, from, done) || done == 0)
      return side.unreadable(of, detail_local_key);
    std::vector<std::byte> sent(done);
    std::byte* to = sent.data();
    for (const iovec& each : from.view())
      to = std::copy_n(static_cast<const std::byte*>(each.iov_base), each.iov_len, to);
    offset += static_cast<std::uint32_t>(done);
  }
}

void send_next(queue_pair& of, attacking_peer& peer)
{
  frame f;
  if (!of.requests.next(f))
    return;
  require(f.payload <= of.with.segment, "a frame has at most a segment");
  gather(of.requests, f);
  if (f.generation != of.requests.generation())
    return;
  of.requests.sent(f);
  peer.see(std::span(f.bytes).first(f.header_size));
}

void send_answer(queue_pair& of, test::dice& random)
{
  frame f;
  if (of.answers.next(f))
  {
    require(f.payload <= of.with.segment, "a frame has at most a segment");
    if (f.source == frame::origin::response)
      gather(of.answers, f);
  }
  else
    of.answers.next_acknowledgement(f, random.one_in(2));
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  test::dice random(std::span(data, size));
  const bool is_unreliable = random.one_in(8);
  queue_pair of(is_unreliable ? service_uc : service_rc);
  attacked_program program(of, random);
  attacking_peer peer;
  bool goes_on = true;
  while (goes_on && !random.is_over() && !program.is_over())
  {
    switch (random() % 16)
    {
    case 0:
    case 1:
    case 2:
    case 3:
      goes_on = take(of, peer.request(of, random), random.one_in(100));
      break;
    case 4:
    case 5:
    case 6:
      goes_on = take(of, peer.response(of, random), random.one_in(100));
      break;
    case 7:
    case 8:
      program.post_send();
      break;
    case 9:
    case 10:
      program.post_receive();
      break;
    case 11:
    case 12:
      send_next(of, peer);
      break;
    case 13:
      send_answer(of, random);
      break;
    case 14:
      of.requests.resume();
      break;
    default:
      if (const std::uint32_t key = program.bind_or_withdraw(); key != 0)
        peer.window_key = key;
    }
    program.check();
  }
  program.end();
  return 0;
}

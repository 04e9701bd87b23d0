//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_UNIT_HOSTILE_LOCAL_END_HPP
#define BOOST_RDMA_TEST_UNIT_HOSTILE_LOCAL_END_HPP

#include "unit/attacked_queue_pair.hpp"
#include "unit/local_wire_fixture.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>

namespace local_wire_test {

/// Memory of the peer: the first one with the seals that make it safe to map.
inline const std::array<descriptor, 2>& offered_memory()
{
  static const auto made = []
  {
    std::array<descriptor, 2> all;
    for (descriptor& each : all)
    {
      each = descriptor(::memfd_create("offered", MFD_CLOEXEC | MFD_ALLOW_SEALING));
      test::require(::ftruncate(each.get(), exposed) == 0, "memory is there");
    }
    test::require(
      ::fcntl(all[0].get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0, "it is sealed");
    return all;
  }();
  return made;
}

/// The end of a local link that a peer has, and uses as it should not. `Attacked` is the other end
/// as the peer sees it, e.g. local_wire_test::wire_and_peer.
template <class Attacked>
class hostile_local_end
{
public:
  hostile_local_end(Attacked& of, test::dice& random, std::uint32_t first_psn = 0)
    : of_(of)
    , random_(random)
    , side_(of.shared->side(of.lane.lane, 0))
  {
    frames_.request_psn = frames_.answered_psn = first_psn;
  }

  void step()
  {
    switch (random_() % 12)
    {
    case 0:
    case 1:
    case 2:
      return put_frame(of_.requests_out, frames_.request(of_, random_));
    case 3:
    case 4:
      return put_frame(of_.responses_out, frames_.response(of_, random_));
    case 5:
      return side_.acknowledged.store(acknowledgement());
    case 6:
      return change_side();
    case 7:
      return change_memory();
    case 8:
      return send_grant();
    case 9:
      return send_bytes();
    case 10:
      return put_note();
    default:
      return read();
    }
  }

  /// Sends a request as an honest peer does. At most one of those that `reads` may follow another
  /// one before it is answered.
  void request(bool reads)
  {
    header h;
    h.dest_qp = of_.with.qp;
    h.psn = frames_.request_psn;
    h.ack_request = true;
    h.key = of_.key;
    h.address = of_.begin() + random_() % 9 * 64;
    h.payload = h.length = random_() % (random_.one_in(64) ? 512 : 4);
    static constexpr opcode writing[] = {opcode::send_only, opcode::send_only, opcode::send_only,
      opcode::send_only_immediate, opcode::write_only};
    static constexpr opcode reading[] = {
      opcode::read_request, opcode::fetch_add, opcode::compare_swap};
    h.op =
      reads ? reading[random_() % std::size(reading)] : writing[random_() % std::size(writing)];
    if (reads)
      h.payload = 0;
    frames_.request_psn = psn_add(h.psn, 1);
    if (h.op == opcode::send_only)
      return put(of_.requests_out, short_send(h), 0);
    header_bytes headers;
    std::vector<std::byte> record(encode(h, headers) + h.payload);
    std::copy_n(headers.begin(), record.size() - h.payload, record.begin());
    put(of_.requests_out, record, 0);
  }

  /// Takes what the end under test has sent.
  void read()
  {
    for (ring::reader* const from : {&of_.requests_in, &of_.responses_in})
      for (auto record = from->front(); !record.empty(); record = from->front())
      {
        frames_.see(record);
        from->pop();
      }
    of_.has_granted();
  }

  /// Does all that this end needs to access the peer's memory directly, as an honest peer.
  void permit()
  {
    side_.rights.store(registered_memory::remote);
    side_.read_depth.store(16);
    read();
    if (frames_.may_acknowledge)
      side_.acknowledged.store(
        lane_side::acknowledged_bit | std::uint32_t{no_credits} << psn_bits | frames_.answered_psn);
    grant_answer offer{of_.lane, {}};
    offer.what.key = peers_key;
    offer.what.generation = 1;
    offer.what.rights = registered_memory::remote;
    offer.what.address = peers_address;
    offer.what.length = exposed;
    side_.grants[0].store(1);
    const int memory = offered_memory()[0].get();
    of_.send(&offer, sizeof offer, std::span(&memory, 1));
  }

  void use_window(std::uint32_t key) { frames_.window_key = key; }

private:
  std::uint32_t acknowledgement()
  {
    if (random_.one_in(8))
      return random_();
    return lane_side::acknowledged_bit | random_() % 32 << psn_bits
      | psn_add(frames_.answered_psn, random_.one_in(4) ? random_() % 5 - 2 : 0);
  }

  void put(ring::writer& to, std::span<const std::byte> what)
  {
    put(to, what, random_.one_in(4) ? acknowledgement() : 0);
  }

  static void put(
    ring::writer& to, std::span<const std::byte> what, std::uint32_t piggybacked_acknowledgement)
  {
    std::byte* const at = to.begin(what.size(), false);
    if (at == nullptr)
      return;
    std::ranges::copy(what, at);
    to.end(what.size(), piggybacked_acknowledgement);
  }

  void put_frame(ring::writer& to, const header& h)
  {
    if (h.op == opcode::send_only && random_.one_in(2))
      return put(to, short_send(h));
    header_bytes headers;
    const std::size_t size = encode(h, headers);
    std::vector<std::byte> record(headers.begin(), headers.begin() + static_cast<long>(size));
    record.resize(size + (random_.one_in(30) ? 0 : std::min(h.payload, of_.with.segment)));
    if (random_.one_in(20))
      record[random_() % record.size()] = random_.byte();
    put(to, record);
  }

  // As local_wire.cpp has it.
  static std::vector<std::byte> short_send(const header& h)
  {
    struct
    {
      std::uint8_t kind = 0xc1;
      opcode op;
      std::uint8_t flags;
      std::uint8_t unused = 0;
      std::uint32_t psn;
      std::uint32_t payload;
      std::uint32_t extra = 0;
    } s{.op = h.op, .flags = h.solicited, .psn = h.psn, .payload = h.payload};
    const auto bytes = std::as_bytes(std::span(&s, 1));
    std::vector<std::byte> record(bytes.begin(), bytes.end());
    record.resize(record.size() + std::min<std::uint32_t>(h.payload, 600));
    return record;
  }

  void put_note()
  {
    ring::writer& to = random_.one_in(4) ? of_.responses_out : of_.requests_out;
    if (random_.one_in(2))
    {
      declined_note note;
      note.key = random_.one_in(4) ? random_() : peers_key;
      return put(random_.one_in(4) ? of_.requests_out : of_.responses_out,
        std::as_bytes(std::span(&note, 1)));
    }
    key_note note;
    note.what.key = random_.one_in(8) ? random_() : of_.key;
    note.what.in_advance = static_cast<std::uint8_t>(random_() % 3);
    note.what.reads = static_cast<std::uint8_t>(random_() % 3);
    note.what.length = random_.one_in(4) ? random_() : static_cast<std::uint32_t>(exposed);
    note.what.address = of_.begin() + (random_.one_in(4) ? random_() : 0);
    put(to, std::as_bytes(std::span(&note, 1)));
  }

  void change_side()
  {
    switch (random_() % 7)
    {
    case 0:
      return side_.rights.store(random_.one_in(2) ? registered_memory::remote : random_());
    case 1:
      return side_.read_depth.store(random_());
    case 2:
      return side_.grants[random_.one_in(2) ? 0 : random_() % lane_side::grants_max].store(
        random_() % 3);
    case 3:
      return side_.touching.store(random_());
    case 4:
      return side_.requests_taken.store(taken(side_.requests_taken.load()));
    case 5:
      return side_.responses_taken.store(taken(side_.responses_taken.load()));
    default:
      if (random_.one_in(20))
        side_.detached.store(random_() % 3);
    }
  }

  std::uint64_t taken(std::uint64_t now)
  {
    return random_.one_in(8) ? random_() * 0x1'0000'0001ull : now + (random_() % 5 - 1) * 64ull;
  }

  // Any word of the memory that both ends use, this end's too. Half of them are near to where a
  // record begins.
  void change_memory()
  {
    wire::segment& all = *of_.shared;
    const unsigned lane = of_.lane.lane;
    const std::size_t line = random_() % 64 * ring::line;
    const std::size_t word = random_.one_in(2) ? 0 : random_() % 16 * 4;
    std::byte* const places[] = {all.requests_of(lane, 0) + line, all.responses_of(lane, 0) + line,
      all.requests_of(lane, 1) + line, all.responses_of(lane, 1) + line,
      reinterpret_cast<std::byte*>(&all.side(lane, 0)) + line % sizeof(lane_side),
      reinterpret_cast<std::byte*>(&all.side(lane, 1)) + line % sizeof(lane_side),
      reinterpret_cast<std::byte*>(&all.side(0)) + line % sizeof(link_side),
      reinterpret_cast<std::byte*>(&all.side(1)) + line % sizeof(link_side)};
    const std::uint32_t value =
      random_.one_in(2) ? random_() : random_() % 32 * ring::line | random_() % 2;
    std::byte* const at = places[random_() % std::size(places)];
    std::memcpy(at + std::min(word, ring::line - sizeof value), &value, sizeof value);
  }

  lane_use some_lane()
  {
    lane_use to = of_.lane;
    if (random_.one_in(8))
      to.lane = random_() & 0xff;
    if (random_.one_in(8))
      to.number = random_() & 0xffff;
    return to;
  }

  void send_grant()
  {
    grant_answer offer{some_lane(), {}};
    offer.what.key = random_.one_in(8) ? random_() : peers_key;
    offer.what.index = random_.one_in(4) ? random_() % 32 * 16 : 0;
    offer.what.generation = random_() % 3;
    offer.what.rights = random_.one_in(4) ? random_() : registered_memory::remote;
    offer.what.address = random_.one_in(4) ? random_() : peers_address;
    offer.what.length = random_.one_in(4) ? random_() * 0x1'0000'0001ull : exposed;
    offer.what.place = random_.one_in(4) ? random_() * 0x1'0000'0001ull : random_() % 3 * 4096;
    if (offer.what.index < lane_side::grants_max)
      side_.grants[offer.what.index].store(offer.what.generation);
    const std::array descriptors{
      offered_memory()[random_.one_in(4) ? 1 : 0].get(), offered_memory()[0].get()};
    of_.send(&offer, random_.one_in(20) ? random_() % sizeof offer : sizeof offer,
      std::span(descriptors).first(random_.one_in(8) ? 2 : 1));
  }

  void send_bytes()
  {
    attach_message hello{};
    hello.lane = some_lane();
    hello.bytes[random_() % hello.bytes.size()] = random_.byte();
    of_.send(&hello, random_.one_in(2) ? sizeof hello : 1 + random_() % sizeof hello);
  }

  static constexpr std::uint32_t peers_key = attacked_program<Attacked>::peers_key;
  static constexpr std::uint64_t peers_address = attacked_program<Attacked>::peers_address;

  Attacked& of_;
  test::dice& random_;
  lane_side& side_;
  attacking_peer frames_;
};

} // namespace local_wire_test

#endif // BOOST_RDMA_TEST_UNIT_HOSTILE_LOCAL_END_HPP

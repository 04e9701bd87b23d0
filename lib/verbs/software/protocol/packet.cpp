//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/protocol/packet.hpp"

#include "verbs/software/protocol/bytes.hpp"

#include <cstring>

namespace rdma::software::protocol {

namespace {

constexpr std::uint8_t solicited_bit = 0x80;
constexpr std::uint8_t ack_request_bit = 0x80;
constexpr std::uint32_t default_pkey = 0xffff;

constexpr std::size_t opcodes = 0xc0; // all of XRC's are below it
constexpr std::uint8_t opcode_mask = 0x1f;

constexpr std::array<unsigned, opcodes> make_traits()
{
  std::array<unsigned, opcodes> t{};
  auto set = [&t](opcode op, unsigned traits)
  { t[static_cast<std::size_t>(op)] = traits | trait_valid; };
  constexpr unsigned send = trait_request | trait_send | trait_payload;
  constexpr unsigned write = trait_request | trait_write | trait_payload;
  constexpr unsigned response = trait_read_response | trait_payload;
  constexpr unsigned only = trait_starts | trait_ends;
  set(opcode::send_first, send | trait_starts);
  set(opcode::send_middle, send);
  set(opcode::send_last, send | trait_ends);
  set(opcode::send_last_immediate, send | trait_ends | trait_immediate);
  set(opcode::send_last_invalidate, send | trait_ends | trait_invalidate);
  set(opcode::send_only, send | only);
  set(opcode::send_only_immediate, send | only | trait_immediate);
  set(opcode::send_only_invalidate, send | only | trait_invalidate);
  set(opcode::write_first, write | trait_starts | trait_reth);
  set(opcode::write_middle, write);
  set(opcode::write_last, write | trait_ends);
  set(opcode::write_last_immediate, write | trait_ends | trait_immediate);
  set(opcode::write_only, write | only | trait_reth);
  set(opcode::write_only_immediate, write | only | trait_reth | trait_immediate);
  set(opcode::read_request, trait_request | only | trait_reth);
  set(opcode::read_response_first, response | trait_starts | trait_aeth);
  set(opcode::read_response_middle, response);
  set(opcode::read_response_last, response | trait_ends | trait_aeth);
  set(opcode::read_response_only, response | only | trait_aeth);
  set(opcode::acknowledge, trait_aeth);
  set(opcode::atomic_acknowledge, trait_aeth | trait_atomic_ack);
  set(opcode::compare_swap, trait_request | only | trait_atomic);
  set(opcode::fetch_add, trait_request | only | trait_atomic);
  set(opcode::atomic_write, trait_request | only | trait_atomic);
  // UC has the sends and writes of RC, UD the shortest of the sends (IBA 9.2.1).
  for (std::size_t op = 0; op <= static_cast<std::size_t>(opcode::write_only_immediate); ++op)
    t[op | service_uc] = t[op];
  for (const opcode op : {opcode::send_only, opcode::send_only_immediate})
    t[static_cast<std::size_t>(op) | service_ud] = t[static_cast<std::size_t>(op)] | trait_deth;
  // XRC has all of RC's. Its requests name a shared receive queue (IBA annex A14).
  for (std::size_t op = 0; op <= opcode_mask; ++op)
    t[op | service_xrc] = t[op] | ((t[op] & trait_request) != 0 ? unsigned{trait_xrceth} : 0);
  return t;
}

constexpr std::array<unsigned, opcodes> traits_table = make_traits();

constexpr std::array<std::uint8_t, opcodes> make_sizes()
{
  std::array<std::uint8_t, opcodes> sizes{};
  for (std::size_t op = 0; op != opcodes; ++op)
  {
    const unsigned t = traits_table[op];
    if (t != 0)
      sizes[op] = static_cast<std::uint8_t>(base_header_size + (t & trait_reth ? 16 : 0)
        + (t & trait_aeth ? 4 : 0) + (t & trait_atomic ? 28 : 0) + (t & trait_atomic_ack ? 8 : 0)
        + (t & trait_immediate ? 4 : 0) + (t & trait_invalidate ? 4 : 0) + (t & trait_deth ? 8 : 0)
        + (t & trait_xrceth ? 4 : 0));
  }
  return sizes;
}

constexpr std::array<std::uint8_t, opcodes> sizes_table = make_sizes();

} // namespace

unsigned traits_of(std::uint8_t op) noexcept
{
  return op < traits_table.size() ? traits_table[op] : 0;
}

std::size_t header_size(std::uint8_t op) noexcept
{
  return op < sizes_table.size() ? sizes_table[op] : 0;
}

std::size_t encode(const header& from, header_bytes& to) noexcept
{
  const std::uint8_t op = whole_opcode(from);
  const unsigned t = traits_of(op);
  byte_writer out(to.data());
  out.put(op, 1);
  out.put(from.solicited ? solicited_bit : 0, 1);
  out.put(default_pkey, 2);
  out.put(from.dest_qp, 4);
  out.put(from.ack_request ? ack_request_bit : 0, 1);
  out.put(from.psn, 3);
  out.put(from.payload, 4);
  if (t & trait_deth)
  {
    out.put(from.queue_key, 4);
    out.put(from.source_qp, 4); // the first byte is reserved
  }
  if (t & trait_xrceth)
    out.put(from.srq, 4); // likewise
  if (t & trait_reth)
  {
    out.put(from.address, 8);
    out.put(from.key, 4);
    out.put(from.length, 4);
  }
  if (t & trait_aeth)
  {
    out.put(from.syndrome, 1);
    out.put(from.msn, 3);
  }
  if (t & trait_atomic)
  {
    out.put(from.address, 8);
    out.put(from.key, 4);
    out.put(from.swap_add, 8);
    out.put(from.compare, 8);
  }
  if (t & trait_atomic_ack)
    out.put(from.swap_add, 8);
  if (t & trait_immediate)
  {
    // The verbs have it in network order, so its bytes are copied.
    std::memcpy(out.at(), &from.immediate, 4);
    out = byte_writer(out.at() + 4);
  }
  if (t & trait_invalidate)
    out.put(from.key, 4);
  return static_cast<std::size_t>(out.at() - to.data());
}

std::optional<header> decode(std::span<const std::byte> from) noexcept
{
  if (from.size() < base_header_size)
    return std::nullopt;
  const auto op = static_cast<std::uint8_t>(from[0]);
  const std::size_t size = header_size(op);
  if (size == 0 || from.size() < size)
    return std::nullopt;
  const unsigned t = traits_of(op);
  byte_reader in(from.data() + 1);
  header h;
  h.op = static_cast<opcode>(op & opcode_mask);
  h.kind = service_of(op);
  const std::uint32_t flags = in.get32(1);
  const std::uint32_t pkey = in.get32(2);
  h.dest_qp = in.get32();
  const std::uint32_t ack = in.get32(1);
  h.psn = in.get32(3);
  h.payload = in.get32();
  // Fields that this protocol leaves at one value are checked, so that a later version can use
  // them.
  if ((flags & ~std::uint32_t{solicited_bit}) != 0 || pkey != default_pkey || h.dest_qp > psn_mask
    || (ack & ~std::uint32_t{ack_request_bit}) != 0 || (!(t & trait_payload) && h.payload != 0))
    return std::nullopt;
  h.solicited = flags != 0;
  h.ack_request = ack != 0;
  if (t & trait_deth)
  {
    h.queue_key = in.get32();
    h.source_qp = in.get32();
    if (h.source_qp > psn_mask)
      return std::nullopt;
  }
  if (t & trait_xrceth)
  {
    h.srq = in.get32();
    if (h.srq > psn_mask)
      return std::nullopt;
  }
  if (t & trait_reth)
  {
    h.address = in.get(8);
    h.key = in.get32();
    h.length = in.get32();
  }
  if (t & trait_aeth)
  {
    h.syndrome = static_cast<std::uint8_t>(in.get(1));
    h.msn = in.get32(3);
  }
  if (t & trait_atomic)
  {
    h.address = in.get(8);
    h.key = in.get32();
    h.swap_add = in.get(8);
    h.compare = in.get(8);
  }
  if (t & trait_atomic_ack)
    h.swap_add = in.get(8);
  if (t & trait_immediate)
    std::memcpy(&h.immediate, from.data() + size - 4, 4);
  if (t & trait_invalidate)
    h.key = in.get32();
  return h;
}

std::int64_t rnr_wait(std::uint8_t timer) noexcept
{
  // In units of 10 us; code 0 is the longest.
  static constexpr std::array<std::int32_t, 32> table = {65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32,
    48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288,
    16384, 24576, 32768, 49152};
  return std::int64_t{table[timer & 0x1f]} * 10'000;
}

} // namespace rdma::software::protocol

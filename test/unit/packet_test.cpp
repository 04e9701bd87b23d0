//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/protocol/packet.hpp"

#include "common/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

// Tests the bytes of frames' headers. xrc_test.cpp has those of XRC.

namespace packet_test {

namespace {

using namespace rdma::software::protocol;

/// Calls visit(header, bytes, size) for each opcode of each service.
template <class Visit>
void for_each_header(Visit visit)
{
  for (const service kind : {service_rc, service_uc, service_ud, service_xrc})
    for (unsigned op = 0; op != 0x20; ++op)
    {
      header h;
      h.op = static_cast<opcode>(op);
      h.kind = kind;
      if (traits_of(whole_opcode(h)) == 0)
        continue;
      h.dest_qp = 0x123456;
      header_bytes bytes{};
      const std::size_t size = encode(h, bytes);
      CAPTURE(op, kind);
      visit(h, bytes, size);
    }
}

std::optional<header> decode_changed(
  header_bytes bytes, std::size_t size, std::size_t at, std::uint8_t bits)
{
  bytes[at] ^= std::byte{bits};
  return decode(std::span(bytes).first(size));
}

} // namespace

TEST_CASE("decode refuses headers that are cut off")
{
  for_each_header(
    [](const header& h, const header_bytes& bytes, std::size_t size)
    {
      REQUIRE(size == header_size(whole_opcode(h)));
      REQUIRE(decode(std::span(bytes).first(size)).has_value());
      for (std::size_t shorter = 0; shorter != size; ++shorter)
        CHECK_FALSE(decode(std::span(bytes).first(shorter)).has_value());
    });
}

TEST_CASE("decode refuses reserved bits and values that this protocol does not use")
{
  for_each_header(
    [](const header& h, const header_bytes& bytes, std::size_t size)
    {
      const auto refused = [&](std::size_t at, std::uint8_t bits)
      { return !decode_changed(bytes, size, at, bits).has_value(); };
      for (unsigned bit = 0; bit != 8; ++bit)
      {
        const auto bits = static_cast<std::uint8_t>(1u << bit);
        CHECK(refused(1, bits) == (bit != 7)); // solicited event
        CHECK(refused(2, bits));               // partition key
        CHECK(refused(3, bits));
        CHECK(refused(4, bits));               // above a queue pair number
        CHECK(refused(8, bits) == (bit != 7)); // acknowledgement request
      }
      const unsigned traits = traits_of(whole_opcode(h));
      CHECK(refused(15, 1) == ((traits & trait_payload) == 0));
      if ((traits & (trait_deth | trait_xrceth)) != 0)
        CHECK(refused(base_header_size + ((traits & trait_deth) != 0 ? 4 : 0), 1));
    });
}

TEST_CASE("unknown opcodes have no header, and each service has the opcodes of its own")
{
  unsigned known = 0;
  for (unsigned op = 0; op != 0x100; ++op)
  {
    const auto whole = static_cast<std::uint8_t>(op);
    CAPTURE(op);
    CHECK((header_size(whole) == 0) == (traits_of(whole) == 0));
    const bool sends_or_writes = (op & 0x1f) <= 0x0b;
    if (service_of(whole) == service_uc)
      CHECK((traits_of(whole) != 0) == sends_or_writes);
    if (service_of(whole) == service_ud)
      CHECK((traits_of(whole) != 0) == (op == 0x64 || op == 0x65));
    known += traits_of(whole) != 0 ? 1 : 0;
  }
  CHECK(known == 24 + 12 + 2 + 24); // RC, UC, UD, XRC
}

TEST_CASE("the times of RNR refusals rise with their code, and code 0 is the longest")
{
  CHECK(rnr_wait(0) == 655'360'000);
  CHECK(rnr_wait(1) == 10'000);
  CHECK(rnr_wait(31) == 491'520'000);
  for (std::uint8_t code = 2; code != 32; ++code)
    CHECK(rnr_wait(code) > rnr_wait(code - 1));
}

} // namespace packet_test

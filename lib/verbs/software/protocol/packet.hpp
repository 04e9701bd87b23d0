//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_PROTOCOL_PACKET_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_PROTOCOL_PACKET_HPP

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace rdma::software::protocol {

/// The upper three bits of an opcode: the transport service (IBA 9.2.1).
enum service : std::uint8_t
{
  service_rc = 0x00,
  service_uc = 0x20,
  service_ud = 0x60,
  service_xrc = 0xa0, ///< IBA annex A14
};

constexpr service service_of(std::uint8_t op) noexcept
{
  return static_cast<service>(op & 0xe0);
}

/// The lower five bits of an opcode: those of reliable connections (IBA 9.2.1, table "OpCode
/// field"), of which the other services have some, too.
enum class opcode : std::uint8_t
{
  send_first = 0x00,
  send_middle = 0x01,
  send_last = 0x02,
  send_last_immediate = 0x03,
  send_only = 0x04,
  send_only_immediate = 0x05,
  write_first = 0x06,
  write_middle = 0x07,
  write_last = 0x08,
  write_last_immediate = 0x09,
  write_only = 0x0a,
  write_only_immediate = 0x0b,
  read_request = 0x0c,
  read_response_first = 0x0d,
  read_response_middle = 0x0e,
  read_response_last = 0x0f,
  read_response_only = 0x10,
  acknowledge = 0x11,
  atomic_acknowledge = 0x12,
  compare_swap = 0x13,
  fetch_add = 0x14,
  send_last_invalidate = 0x16,
  send_only_invalidate = 0x17,
  atomic_write = 0x1d, ///< here with the header of an atomic (swap: the bytes) and its answer
};

/// Properties of an opcode.
enum trait : unsigned
{
  trait_valid = 1u << 0,
  trait_request = 1u << 1,
  trait_send = 1u << 2,
  trait_write = 1u << 3,
  trait_read_response = 1u << 4,
  trait_payload = 1u << 5,
  trait_starts = 1u << 6, ///< first or only frame of its message
  trait_ends = 1u << 7,   ///< last or only frame of its message
  trait_reth = 1u << 8,
  trait_aeth = 1u << 9,
  trait_atomic = 1u << 10,     ///< AtomicETH
  trait_atomic_ack = 1u << 11, ///< AtomicAckETH
  trait_immediate = 1u << 12,
  trait_invalidate = 1u << 13, ///< IETH
  trait_deth = 1u << 14,       ///< DETH
  trait_xrceth = 1u << 15,     ///< XRCETH
};

/// Returns the traits of a whole opcode from the wire; 0 for an unknown one.
unsigned traits_of(std::uint8_t op) noexcept;

/// Returns the traits that the opcode has without the headers that only another service has.
inline unsigned traits_of(opcode op) noexcept
{
  return traits_of(static_cast<std::uint8_t>(op));
}

/// The fields of a frame's headers, in host order.
struct header
{
  opcode op = opcode::acknowledge;
  service kind = service_rc;
  bool solicited = false;
  bool ack_request = false;
  std::uint32_t dest_qp = 0;
  std::uint32_t psn = 0;
  std::uint32_t payload = 0; ///< bytes that follow the headers

  std::uint32_t srq = 0; ///< XRCETH: the number of the shared receive queue

  std::uint64_t address = 0; ///< RETH, AtomicETH
  std::uint32_t key = 0;     ///< RETH, AtomicETH, IETH
  std::uint32_t length = 0;  ///< RETH

  std::uint32_t queue_key = 0; ///< DETH
  std::uint32_t source_qp = 0; ///< DETH

  std::uint64_t swap_add = 0; ///< AtomicETH; AtomicAckETH: the original value
  std::uint64_t compare = 0;  ///< AtomicETH

  std::uint8_t syndrome = 0;   ///< AETH
  std::uint32_t msn = 0;       ///< AETH
  std::uint32_t immediate = 0; ///< ImmDt, in network order as the verbs have it
};

/// Returns the first byte of the headers.
constexpr std::uint8_t whole_opcode(const header& h) noexcept
{
  return static_cast<std::uint8_t>(static_cast<std::uint8_t>(h.op) | h.kind);
}

/// BTH and the payload's length, which a stream does not have of itself.
inline constexpr std::size_t base_header_size = 16;

/// The longest headers: BTH, XRCETH and AtomicETH.
inline constexpr std::size_t max_header_size = base_header_size + 4 + 28;

using header_bytes = std::array<std::byte, max_header_size>;

/// Returns the bytes of the headers that begin with this opcode; 0 for an unknown one.
std::size_t header_size(std::uint8_t op) noexcept;

/// Writes the headers and returns the number of bytes.
std::size_t encode(const header& from, header_bytes& to) noexcept;

/// Reads headers from untrusted bytes: exactly header_size() of them.
/** Returns nothing if a field has a value that this protocol does not use. */
std::optional<header> decode(std::span<const std::byte> from) noexcept;

// --- packet sequence numbers: 24 bits, compared modulo 2^24 (IBA 9.7.1) ---

inline constexpr unsigned psn_bits = 24;
inline constexpr std::uint32_t psn_mask = (1u << psn_bits) - 1;

constexpr std::uint32_t psn_add(std::uint32_t psn, std::uint32_t n) noexcept
{
  return (psn + n) & psn_mask;
}

/// Returns the distance from `b` to `a`; negative when `a` is behind.
constexpr std::int32_t psn_distance(std::uint32_t a, std::uint32_t b) noexcept
{
  return static_cast<std::int32_t>((a - b) << 8) >> 8;
}

// --- AETH syndromes (IBA 9.7.5.1) ---

inline constexpr std::uint8_t syndrome_ack = 0x1f; ///< low five bits: the credit code
inline constexpr std::uint8_t syndrome_rnr = 0x20; ///< low five bits: the timer
inline constexpr std::uint8_t nak_sequence = 0x60;
inline constexpr std::uint8_t nak_invalid_request = 0x61;
inline constexpr std::uint8_t nak_remote_access = 0x62;
inline constexpr std::uint8_t nak_remote_operation = 0x63;

constexpr bool is_ack(std::uint8_t syndrome) noexcept
{
  return (syndrome & 0xe0) == 0;
}

constexpr bool is_rnr(std::uint8_t syndrome) noexcept
{
  return (syndrome & 0xe0) == syndrome_rnr;
}

// --- credit codes of acknowledgements (IBA table 44) ---

inline constexpr std::uint8_t credit_mask = 0x1f;
inline constexpr std::uint8_t no_credits = 0x1f; ///< no flow control: a shared receive queue

/// Returns the number of posted receives that a code below no_credits announces: 0 to 4, and from
/// there on 2^n and 3 * 2^n.
constexpr std::uint32_t credits_of(std::uint8_t code) noexcept
{
  return code < 2 ? code : (2u | (code & 1u)) << (code / 2 - 1);
}

/// Returns the code of the largest number that is not above the given one.
constexpr std::uint8_t credit_code(std::uint64_t receives) noexcept
{
  if (receives < 2)
    return static_cast<std::uint8_t>(receives);
  const int log = std::bit_width(receives) - 1;
  const std::uint64_t code = 2 * static_cast<unsigned>(log) + (receives >> (log - 1) & 1);
  return static_cast<std::uint8_t>(code < no_credits ? code : no_credits - 1);
}

/// Returns the wait of an RNR timer code (IBA table 45), in nanoseconds.
std::int64_t rnr_wait(std::uint8_t timer) noexcept;

/// Returns the number of frames of a message; an empty message has one.
constexpr std::uint32_t frame_count(std::uint64_t length, std::uint32_t segment) noexcept
{
  return length <= segment ? 1 : static_cast<std::uint32_t>((length + segment - 1) / segment);
}

} // namespace rdma::software::protocol

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_PROTOCOL_PACKET_HPP

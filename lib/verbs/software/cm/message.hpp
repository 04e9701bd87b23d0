//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_CM_MESSAGE_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_CM_MESSAGE_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

// The bytes of the communication manager's messages (IBA 12.6 and 12.11). Each is a management
// datagram of 256 bytes (IBA 13.4.3), and here the payload of one UDP datagram.

namespace rdma::software::cm {

inline constexpr std::size_t message_size = 256;

/// The attribute IDs of class CommMgt (IBA 16.7.2).
enum class message_type : std::uint16_t
{
  request = 0x10,          ///< REQ
  receipt = 0x11,          ///< MRA: message receipt acknowledgement
  reject = 0x12,           ///< REJ
  reply = 0x13,            ///< REP
  ready = 0x14,            ///< RTU: ready to use
  disconnect = 0x15,       ///< DREQ
  disconnected = 0x16,     ///< DREP
  datagram_request = 0x17, ///< SIDR_REQ: service ID resolution request
  datagram_reply = 0x18,   ///< SIDR_REP
};

/// Reasons of a REJ (IBA 12.6.7.2).
enum class reject_reason : std::uint16_t
{
  timeout = 4,
  invalid_communication_id = 6,
  invalid_service_id = 8,
  stale_connection = 10,
  consumer = 28,
};

/// Status of a SIDR_REP (IBA 12.11.2.2).
enum class datagram_status : std::uint8_t
{
  success = 0,
  no_service = 1,
  rejected = 2,
};

/// An IPv6 address, or an IPv4-mapped one, as in a GID of RoCE v2.
using address_bytes = std::array<std::uint8_t, 16>;

inline constexpr address_bytes v4_any{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

/// A message, decoded. Members that its type does not have are zero.
struct message
{
  message_type type{};
  std::uint64_t transaction = 0;
  std::uint32_t local_id = 0;  ///< the sender's communication ID; of SIDR_*: the request ID
  std::uint32_t remote_id = 0; ///< the receiver's communication ID; 0 in a REQ

  // REQ and SIDR_REQ
  std::uint64_t service_id = 0;
  std::uint16_t source_port = 0; ///< IBA annex A11: IP addressing of RDMA CM
  bool is_ipv6 = false;
  address_bytes source{};
  address_bytes destination{};

  // REQ and REP
  std::uint64_t ca_guid = 0;
  std::uint32_t queue_pair = 0; ///< also SIDR_REP; in a DREQ the receiver's
  std::uint32_t starting_psn = 0;
  std::uint32_t qkey = 0; ///< SIDR_REP
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry_count = 0;
  std::uint8_t path_mtu = 0;
  std::uint8_t local_ack_timeout = 0;
  std::uint8_t response_timeout = 0; ///< the receiver answers within 4.096 us * 2^this
  std::uint8_t service_type = 0;     ///< 0: RC, 1: UC
  bool flow_control = false;
  bool srq = false;

  std::uint8_t service_timeout = 0; ///< MRA
  std::uint8_t answered = 0;        ///< MRA, REJ: 0: a REQ, 1: a REP, 2: neither
  std::uint16_t status = 0;         ///< REJ: the reason; SIDR_REP: the status

  std::array<std::byte, 224> private_data{};
  std::uint8_t private_size = 0; ///< after decode(): the size for the type

  bool operator==(const message&) const = default;
};

/// Returns the number of bytes of private data that a message of this type carries.
std::size_t private_data_max(message_type type) noexcept;

/// Encodes a message; private data beyond the maximum is cut.
std::array<std::byte, message_size> encode(const message& from) noexcept;

/// Decodes a peer's datagram. Returns none unless it is a message of the communication manager with
/// values in their ranges.
std::optional<message> decode(std::span<const std::byte> bytes) noexcept;

} // namespace rdma::software::cm

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_CM_MESSAGE_HPP

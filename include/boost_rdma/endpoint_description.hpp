//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_ENDPOINT_DESCRIPTION_HPP
#define BOOST_RDMA_ENDPOINT_DESCRIPTION_HPP

#include <boost_rdma/device.hpp>
#include <boost_rdma/error.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace rdma {

/// Features that a device provides to a peer: bits of endpoint_description::features and
/// transport_choice::features.
/** Later versions may define further bits. */
namespace device_features {
/// The device answers atomics (ibv_device_attr::atomic_cap).
inline constexpr std::uint64_t atomics = 1u << 0;
/// Type 2 memory windows (IBV_DEVICE_MEM_WINDOW_TYPE_2A, 2B).
inline constexpr std::uint64_t memory_windows = 1u << 1;
/// The device delivers immediate data. All devices except iWARP do.
inline constexpr std::uint64_t immediate_data = 1u << 2;
/// The peer reports no features. All are assumed to be present.
inline constexpr std::uint64_t unknown = ~std::uint64_t{0};
} // namespace device_features

/// The data that a peer needs to connect to a queue pair.
/**
 * The program exchanges descriptions itself (by a file, a message, a service registry) and passes
 * the peer's to basic_queue_pair::connect(). A description contains a secret: a program that has
 * both sides' descriptions can impersonate either side. Send it over a channel that you trust as
 * much as the connection itself.
 */
struct endpoint_description
{
  /// Maximum number of bytes of text(), and of the input of parse().
  static constexpr std::size_t text_size_max = 512;

  /// Maximum number of characters of a device name (IBV_SYSFS_NAME_MAX).
  static constexpr std::size_t device_name_max = 64;

  device_kind kind = device_kind::software; ///< must be the same on both sides
  std::array<std::uint8_t, 16> gid{};       ///< GID of the local port
  std::uint16_t lid = 0;                    ///< LID of the local port (ibv_port_attr::lid)
  std::uint32_t queue_pair_number = 0;      ///< 24 bits
  std::uint32_t packet_sequence_number = 0; ///< initial value of this side's send queue; 24 bits
  std::uint32_t path_mtu = 0;               ///< in bytes
  std::uint8_t read_atomic_depth = 0;   ///< reads and atomics that this side answers concurrently
  std::array<std::uint8_t, 16> nonce{}; ///< this side's part of the connection's secret

  /// Must be the same on both sides, if both sides report it.
  rdma::wire wire = rdma::wire::unknown;
  /// queue_pair_options::timeout. The longer one of both sides applies.
  std::uint8_t timeout = 14;
  /// Number of receives that can be posted; 0 if unknown.
  std::uint32_t receive_depth = 0;
  /// Number of work requests that can be posted; 0 if unknown.
  std::uint32_t send_depth = 0;
  /// queue_pair_options::retry_count. Each side uses its own.
  std::uint8_t retry_count = 7;
  /// queue_pair_options::rnr_retry_count. Each side uses its own.
  std::uint8_t rnr_retry_count = 7;
  /// queue_pair_options::min_rnr_timer. The other side waits for this time.
  std::uint8_t min_rnr_timer = 12;
  /// Bits of device_features.
  std::uint64_t features = device_features::unknown;
  /// Name of the device: letters, digits, "-", "_", ".", ":", at most device_name_max characters.
  std::string device;

  /// Returns one line of printable text: "v=1;device=software;gid=...;...".
  [[nodiscard]] std::string text() const;

  /// Parses the result of text() of this version or a later one. Skips unknown fields.
  /** Sets error::malformed_description if a field is missing, repeated or out of range. */
  static endpoint_description parse(std::string_view text, error_code& ec);

  /// Parses the result of text() of this version or a later one. Throws system_error.
  static endpoint_description parse(std::string_view text);

  /// Returns true if all members are equal.
  friend bool operator==(const endpoint_description&, const endpoint_description&) = default;
};

} // namespace rdma

#endif // BOOST_RDMA_ENDPOINT_DESCRIPTION_HPP

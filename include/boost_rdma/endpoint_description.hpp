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

/// What devices can do for a peer, or not: bits of endpoint_description::features and
/// transport_choice::features.
/** Bits that are not listed here are of later versions. */
namespace device_features {
inline constexpr std::uint64_t atomics = 1u << 0; ///< answers them (ibv_device_attr::atomic_cap)
inline constexpr std::uint64_t memory_windows = 1u
  << 1; ///< of type 2 (IBV_DEVICE_MEM_WINDOW_TYPE_2A, 2B)
inline constexpr std::uint64_t immediate_data = 1u << 2; ///< delivers it; all but iWARP's do
inline constexpr std::uint64_t unknown =
  ~std::uint64_t{0}; ///< it does not say: nothing is known to be missing
} // namespace device_features

/// All that a peer must know to connect to a queue pair.
/**
 * Exchange these by means of your own (a file, a message, a service registry) and pass the peer's
 * to basic_queue_pair::connect(). It holds a secret: whoever reads both sides' descriptions can
 * pass for either. Send it over a channel that you trust as much as the connection itself.
 */
struct endpoint_description
{
  /// Bytes that text() has at most, and that parse() reads at most.
  static constexpr std::size_t text_size_max = 512;

  /// Characters of a device's name (IBV_SYSFS_NAME_MAX).
  static constexpr std::size_t device_name_max = 64;

  device_kind kind = device_kind::software; ///< both sides' must be the same
  std::array<std::uint8_t, 16> gid{};       ///< of the port that it is reached by
  std::uint16_t lid = 0;                    ///< of that port (ibv_port_attr::lid)
  std::uint32_t queue_pair_number = 0;      ///< 24 bits
  std::uint32_t packet_sequence_number = 0; ///< 24 bits; of this side's send queue
  std::uint32_t path_mtu = 0;               ///< bytes
  std::uint8_t read_atomic_depth = 0;       ///< reads and atomics that this side answers at once
  std::array<std::uint8_t, 16> nonce{};     ///< this side's share of the connection's secret

  rdma::wire wire = rdma::wire::unknown; ///< both sides must be on one, where both say so
  std::uint8_t timeout = 14;             ///< queue_pair_options::timeout; the longer of both counts
  std::uint32_t receive_depth = 0;       ///< receives that can be posted; 0 where that is not known
  std::uint32_t send_depth = 0;          ///< work requests that can be; 0 where that is not known
  std::uint8_t retry_count = 7;     ///< queue_pair_options::retry_count; each side uses its own
  std::uint8_t rnr_retry_count = 7; ///< queue_pair_options::rnr_retry_count; each side uses its own
  std::uint8_t min_rnr_timer =
    12; ///< queue_pair_options::min_rnr_timer, which the other side waits
  std::uint64_t features = device_features::unknown; ///< bits of device_features
  std::string device; ///< its name: letters, digits, "-", "_", ".", ":", at most device_name_max

  /// One line of printable text: "v=1;device=software;gid=...;...".
  [[nodiscard]] std::string text() const;

  /// Reads what text() wrote, by this version or a later one: fields that it does not know are
  /// skipped.
  /** error::malformed_description when a field is missing, repeated or out of range. */
  static endpoint_description parse(std::string_view text, error_code& ec);

  /// As above; throws system_error.
  static endpoint_description parse(std::string_view text);

  /// Whether all members are equal.
  friend bool operator==(const endpoint_description&, const endpoint_description&) = default;
};

} // namespace rdma

#endif // BOOST_RDMA_ENDPOINT_DESCRIPTION_HPP

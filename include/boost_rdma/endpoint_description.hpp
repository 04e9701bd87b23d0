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

/// All that a peer must know to connect to a queue pair.
/**
 * Exchange these by means of your own (a file, a message, a service registry) and pass the peer's to
 * basic_queue_pair::connect(). It holds a secret: whoever reads both sides' descriptions can
 * pass for either. Send it over a channel that you trust as much as the connection itself.
 */
struct endpoint_description
{
  /// Bytes that text() has at most, and that parse() reads at most.
  static constexpr std::size_t text_size_max = 512;

  device_kind kind = device_kind::software;
  std::array<std::uint8_t, 16> gid{};
  std::uint16_t lid = 0;
  std::uint32_t queue_pair_number = 0;     ///< 24 bits
  std::uint32_t packet_sequence_number = 0; ///< 24 bits; of this side's send queue
  std::uint32_t path_mtu = 0;               ///< bytes
  std::uint8_t read_atomic_depth = 0;       ///< reads and atomics that this side answers at once
  std::array<std::uint8_t, 16> nonce{};     ///< this side's share of the connection's secret

  /// One line of printable text: "v=1;device=software;gid=...;...".
  [[nodiscard]] std::string text() const;

  /// Reads what text() wrote, by this version or a later one: fields that it does not know are skipped.
  /** error::malformed_description when a field is missing, repeated or out of range. */
  static endpoint_description parse(std::string_view text, error_code& ec);

  /// As above; throws system_error.
  static endpoint_description parse(std::string_view text);

  friend bool operator==(const endpoint_description&, const endpoint_description&) = default;
};

} // namespace rdma

#endif // BOOST_RDMA_ENDPOINT_DESCRIPTION_HPP

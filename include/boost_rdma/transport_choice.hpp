//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TRANSPORT_CHOICE_HPP
#define BOOST_RDMA_TRANSPORT_CHOICE_HPP

#include <boost_rdma/device.hpp>
#include <boost_rdma/endpoint_description.hpp>

#include <boost/asio/ip/address.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rdma {

/// A transport that was not chosen.
struct declined_transport
{
  /// Name, for instance "RoCE v2 on rxe0", "RDMA NIC", "shared memory".
  std::string transport;

  /// Reason in words. Text from the peer is in quotes, truncated, and without control characters.
  std::string reason;

  /// Returns true if both members are equal.
  friend bool operator==(const declined_transport&, const declined_transport&) = default;
};

/// The transport of a queue pair, and why no better one was chosen.
struct transport_choice
{
  device_kind kind = device_kind::software; ///< kind of both sides' devices
  std::string device;                       ///< name of this side's device
  std::string peer_device;                  ///< name of the peer's device; empty if not reported
  rdma::wire wire = rdma::wire::unknown;    ///< link and protocol of the packets
  std::array<std::uint8_t, 16> gid{};       ///< GID of this side
  std::array<std::uint8_t, 16> peer_gid{};  ///< GID of the peer
  std::uint32_t path_mtu = 0;               ///< size of the largest packet in bytes

  /// Maximum number of reads and atomics in flight that this side initiated.
  std::uint8_t read_atomic_depth = 0;
  /// Local ACK timeout: the longer one of both sides' queue_pair_options::timeout.
  std::uint8_t timeout = 0;
  /// Features that both sides' devices have: bits of device_features.
  std::uint64_t features = device_features::unknown;

  // The peer reports the following members from its queue_pair_options. They are unknown for queue
  // pairs connected by RDMA-CM. On iWARP the MTU and depth above are unknown, too, and the GIDs
  // contain addresses.

  /// Receive queue depth of the peer; 0 if unknown, and for a shared receive queue.
  std::uint32_t peer_receive_depth = 0;
  /// Send queue depth of the peer; 0 if unknown.
  std::uint32_t peer_send_depth = 0;
  /// Number of retries by the peer of requests that this side does not answer.
  std::uint8_t peer_retry_count = 7;
  /// Number of retries by the peer of requests that find no receive on this side; 7 means without
  /// limit.
  std::uint8_t peer_rnr_retry_count = 7;
  /// Time that this side waits if the peer has no receive, as an IBA 9.7.5.2.8 code.
  std::uint8_t peer_min_rnr_timer = 12;

  /// Transports with a higher preference than the chosen one, and why they were not chosen.
  /**
   * The order is: a wire of an RDMA NIC that both sides have (RoCE v2 before v1), shared memory of
   * the software device, TCP of the software device. Empty if the first transport was chosen, and
   * for queue pairs connected by connect() or RDMA-CM.
   */
  std::vector<declined_transport> declined;

  /// Returns one line for logs: "RoCE v2, rxe0 to mlx5_0, 10.0.0.1 to 10.0.0.2, MTU 1024" and the
  /// declined transports. For shared memory it ends with the rule which memory is accessed
  /// directly; see memory_region::is_shared().
  [[nodiscard]] std::string text() const;
};

} // namespace rdma

#endif // BOOST_RDMA_TRANSPORT_CHOICE_HPP

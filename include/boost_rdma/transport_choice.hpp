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

/// A way of carrying a queue pair's messages that was not taken.
struct declined_transport
{
  /// "RoCE v2 on rxe0", "RDMA NIC", "shared memory".
  std::string transport;

  /// Why, in words; what the peer said of its side is in quotes, cut, and without control
  /// characters.
  std::string reason;

  /// Whether both members are equal.
  friend bool operator==(const declined_transport&, const declined_transport&) = default;
};

/// What carries a queue pair's messages, and why nothing better does.
struct transport_choice
{
  device_kind kind = device_kind::software; ///< of both sides' devices
  std::string device;                       ///< name of this side's
  std::string peer_device;                  ///< name of the peer's; empty where it did not say
  rdma::wire wire = rdma::wire::unknown;    ///< what the packets go by
  std::array<std::uint8_t, 16> gid{};       ///< of this side
  std::array<std::uint8_t, 16> peer_gid{};  ///< of the peer
  std::uint32_t path_mtu = 0;               ///< bytes of the largest packet
  std::uint8_t read_atomic_depth = 0; ///< reads and atomics in flight that this side has at most
  std::uint8_t timeout =
    0; ///< local ACK timeout: the longer of both sides' queue_pair_options::timeout
  std::uint64_t features = device_features::unknown; ///< that both sides' devices have

  // What the peer said of its side's queue_pair_options. Of queue pairs that RDMA-CM connected it
  // is not known, nor are the MTU and depth above on iWARP, where addresses stand in the place of
  // GIDs.
  std::uint32_t peer_receive_depth = 0; ///< 0 where it is not known, and for a shared receive queue
  std::uint32_t peer_send_depth = 0;    ///< 0 where it is not known
  std::uint8_t peer_retry_count = 7; ///< how often the peer repeats what this side does not answer
  std::uint8_t peer_rnr_retry_count =
    7; ///< how often the peer repeats what meets no receive here; 7 is for ever
  std::uint8_t peer_min_rnr_timer = 12; ///< how long this side waits when the peer has no receive

  /// What comes before this choice in the order of preference, and why it was not taken.
  /**
   * The order is: a wire of an RDMA NIC that both sides have (RoCE v2 before v1), the software
   * device's shared memory, the software device's TCP. Empty when the first was taken, and for
   * queue pairs that connect() or RDMA-CM connected.
   */
  std::vector<declined_transport> declined;

  /// One line for a log: "RoCE v2, rxe0 to mlx5_0, 10.0.0.1 to 10.0.0.2, MTU 1024" and what was
  /// declined.
  [[nodiscard]] std::string text() const;
};

} // namespace rdma

#endif // BOOST_RDMA_TRANSPORT_CHOICE_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//
#ifndef BOOST_RDMA_LIB_COMPLETION_ENDPOINT_OFFER_HPP
#define BOOST_RDMA_LIB_COMPLETION_ENDPOINT_OFFER_HPP

#include "boost_rdma/endpoint_description.hpp"
#include "boost_rdma/queue_pair_options.hpp"
#include "verbs/api.hpp"

#include <boost/asio/ip/address.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace rdma::detail {

class device_impl;

// The part of a queue pair's offers that does not depend on the path.
struct endpoint_identity
{
  std::uint32_t queue_pair_number = 0;
  std::uint32_t packet_sequence_number = 0;
  std::array<std::uint8_t, 16> nonce{};
};

// Chooses the packet sequence number and the nonce at random.
endpoint_identity make_identity(std::uint32_t queue_pair_number, error_code& ec);

// A description for the peer, and what this side needs to connect with an answer to it.
struct endpoint_offer
{
  endpoint_description description;
  std::optional<boost::asio::ip::address> address; // of this host, by which the peer reaches it
  std::uint8_t gid_index = 0;
  std::uint8_t port = 0; // 0: nothing is offered
  bool by_ethernet = false;
};

// Describes a queue pair for one wire of its device, or for any. Addresses and ports are queried
// anew, because they change. On failure, `lacking` is the text for diagnose().
endpoint_offer make_offer(const device_impl& device, const queue_pair_options& options,
  const endpoint_identity& identity, const std::optional<boost::asio::ip::address>& address,
  wire by, error_code& ec, std::string& lacking);

// Returns the reason why an offer cannot be connected with the peer's description; none if it can.
error_code check_peer(const endpoint_offer& own, const endpoint_description& remote);

// Attributes of INIT -> RTR and RTR -> RTS, with the masks that these transitions require.
inline constexpr int ready_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN
  | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
inline constexpr int send_mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT
  | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
ibv_qp_attr ready_attributes(const endpoint_offer& own, const endpoint_description& remote);
ibv_qp_attr send_attributes(const endpoint_offer& own, const endpoint_description& remote);

// Bits of device_features.
std::uint64_t features_of(const device_impl& device);

// The longer one of two values of queue_pair_options::timeout. 0 means infinite (IBA 12.7.34).
std::uint8_t longer_timeout(std::uint8_t a, std::uint8_t b);

std::uint32_t bytes_of(ibv_mtu mtu);

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_COMPLETION_ENDPOINT_OFFER_HPP

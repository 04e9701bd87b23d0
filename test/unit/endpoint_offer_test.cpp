//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//
#include "completion/endpoint_offer.hpp"

#include "common/catch.hpp"

#include <algorithm>

// Tests the decisions that follow from an offer and the peer's description.

namespace test::endpoint_offer_test {
namespace {

using namespace rdma::detail;
using rdma::device_kind;
using rdma::endpoint_description;
using rdma::error;
using rdma::error_code;
using rdma::wire;

constexpr std::array<std::uint8_t, 16> ipv4{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
constexpr std::array<std::uint8_t, 16> ipv6{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

endpoint_offer nic_offer()
{
  endpoint_offer own;
  own.port = 2;
  own.gid_index = 3;
  own.by_ethernet = true;
  own.description.kind = device_kind::nic;
  own.description.gid = ipv4;
  own.description.wire = wire::roce_v2;
  own.description.path_mtu = 1024;
  own.description.read_atomic_depth = 16;
  own.description.packet_sequence_number = 5;
  own.description.min_rnr_timer = 12;
  own.description.timeout = 14;
  return own;
}

TEST_CASE("an offer connects with a description of the same kind, wire and address family")
{
  const endpoint_offer own = nic_offer();
  endpoint_description remote = own.description;
  CHECK_FALSE(check_peer(own, remote));
  remote.wire = wire::unknown;
  CHECK_FALSE(check_peer(own, remote));
  remote.wire = wire::roce_v1;
  CHECK(check_peer(own, remote) == error::no_common_transport);
  remote = own.description;
  remote.gid = ipv6;
  CHECK(check_peer(own, remote) == error::other_address_family);
  remote = own.description;
  remote.kind = device_kind::software;
  CHECK(check_peer(own, remote) == error::no_common_transport);
  CHECK(check_peer(endpoint_offer(), own.description) == error::not_connected);
}

TEST_CASE("InfiniBand and the software device accept every address family")
{
  endpoint_offer own = nic_offer();
  endpoint_description remote = own.description;
  remote.gid = ipv6;
  own.by_ethernet = false;
  CHECK_FALSE(check_peer(own, remote));
  own.by_ethernet = true;
  own.description.kind = remote.kind = device_kind::software;
  CHECK_FALSE(check_peer(own, remote));
}

TEST_CASE("the queue pair's attributes combine both sides' limits")
{
  const endpoint_offer own = nic_offer();
  endpoint_description remote = own.description;
  remote.path_mtu = 4096;
  remote.read_atomic_depth = 4;
  remote.queue_pair_number = 99;
  remote.packet_sequence_number = 77;
  remote.timeout = 20;
  remote.lid = 6;

  const ibv_qp_attr ready = ready_attributes(own, remote);
  CHECK(ready.qp_state == IBV_QPS_RTR);
  CHECK(ready.path_mtu == IBV_MTU_1024);
  CHECK(ready.dest_qp_num == 99);
  CHECK(ready.rq_psn == 77);
  CHECK(ready.max_dest_rd_atomic == 16);
  CHECK(ready.ah_attr.port_num == 2);
  CHECK(ready.ah_attr.dlid == 6);
  CHECK(ready.ah_attr.is_global == 1);
  CHECK(ready.ah_attr.grh.sgid_index == 3);
  CHECK(std::equal(remote.gid.begin(), remote.gid.end(), ready.ah_attr.grh.dgid.raw));

  const ibv_qp_attr send = send_attributes(own, remote);
  CHECK(send.qp_state == IBV_QPS_RTS);
  CHECK(send.sq_psn == 5);
  CHECK(send.timeout == 20);
  CHECK(send.max_rd_atomic == 4);
}

TEST_CASE("a timeout of 0 is the longest one")
{
  CHECK(longer_timeout(14, 20) == 20);
  CHECK(longer_timeout(0, 20) == 0);
  CHECK(longer_timeout(20, 0) == 0);
}

TEST_CASE("the identity of an offer differs between queue pairs and fits its fields")
{
  error_code ec;
  const endpoint_identity one = make_identity(1, ec);
  const endpoint_identity two = make_identity(2, ec);
  REQUIRE_FALSE(ec);
  CHECK(one.queue_pair_number == 1);
  CHECK(one.packet_sequence_number <= 0xffffff);
  CHECK(one.nonce != two.nonce);
}

} // namespace
} // namespace test::endpoint_offer_test

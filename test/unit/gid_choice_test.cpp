//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"

#include "resource/gid_choice.hpp"

#include <algorithm>
#include <iterator>

// Tests the choice of a queue pair's GID from a table.

namespace {

namespace ip = boost::asio::ip;
using rdma::wire;
using rdma::detail::choose_gid;
using rdma::detail::gid_entry;

ibv_gid gid_of(const char* text)
{
  const ip::address address = ip::make_address(text);
  const ip::address_v6 v6 =
    address.is_v4() ? ip::make_address_v6(ip::v4_mapped, address.to_v4()) : address.to_v6();
  ibv_gid gid{};
  const auto bytes = v6.to_bytes();
  std::copy(bytes.begin(), bytes.end(), std::begin(gid.raw));
  return gid;
}

gid_entry place(int index, const char* address, wire kind = wire::roce_v2, int port = 1,
  bool active = true, unsigned interface_index = 0)
{
  gid_entry entry;
  entry.port = static_cast<std::uint8_t>(port);
  entry.active = active;
  entry.index = static_cast<std::uint8_t>(index);
  entry.wire = kind;
  entry.gid = gid_of(address);
  entry.interface_index = interface_index;
  if (kind != wire::infiniband)
    entry.address = rdma::detail::address_of(entry.gid);
  return entry;
}

struct choice
{
  int port = 0;
  int index = -1;
  rdma::error_code ec;

  bool operator==(const choice& other) const
  {
    return port == other.port && index == other.index && ec == other.ec;
  }
};

std::ostream& operator<<(std::ostream& to, const choice& c)
{
  return to << "port " << c.port << " index " << c.index << " (" << c.ec.message() << ')';
}

choice chosen(const std::vector<gid_entry>& table, const char* local, bool any_route = false)
{
  choice result;
  std::optional<ip::address> address;
  if (local != nullptr)
    address = ip::make_address(local);
  if (const auto found = choose_gid(table, address, any_route, result.ec))
  {
    result.port = found->port;
    result.index = found->index;
  }
  return result;
}

const choice none{0, -1, rdma::error::no_local_gid};

// The table of a RoCE NIC: each address once per RoCE version, link-local first.
const std::vector<gid_entry> one_port{
  place(0, "fe80::1", wire::roce_v1),
  place(1, "fe80::1"),
  place(2, "10.0.0.1", wire::roce_v1),
  place(3, "10.0.0.1"),
  place(4, "10.0.0.9"),
  place(5, "2001:db8::1"),
  place(7, "192.168.7.1", wire::roce_v1),
};

} // namespace

TEST_CASE("choose_gid returns the GID of the local address and prefers RoCE v2")
{
  CHECK(chosen(one_port, "10.0.0.1") == choice{1, 3, {}});
  CHECK(chosen(one_port, "10.0.0.9") == choice{1, 4, {}});
  CHECK(chosen(one_port, "2001:db8::1") == choice{1, 5, {}});
  CHECK(chosen(one_port, "192.168.7.1") == choice{1, 7, {}}); // the table has it for RoCE v1 only
}

TEST_CASE("choose_gid finds the IPv4 GID when the address is IPv4-mapped")
{
  CHECK(chosen(one_port, "::ffff:10.0.0.9") == choice{1, 4, {}});
}

TEST_CASE("choose_gid returns a link-local GID only on request and matches its scope id")
{
  CHECK(chosen(one_port, "fe80::1") == choice{1, 1, {}});
  const std::vector<gid_entry> two_interfaces{
    place(0, "fe80::1", wire::roce_v2, 1, true, 4),
    place(0, "fe80::1", wire::roce_v2, 2, true, 5),
  };
  auto scoped = [&](unsigned long scope)
  {
    ip::address_v6 address = ip::make_address_v6("fe80::1");
    address.scope_id(scope);
    rdma::error_code ec;
    const auto found = choose_gid(two_interfaces, address, false, ec);
    return found ? choice{found->port, found->index, ec} : choice{0, -1, ec};
  };
  CHECK(scoped(4) == choice{1, 0, {}});
  CHECK(scoped(5) == choice{2, 0, {}});
  CHECK(scoped(6) == none);
}

TEST_CASE("choose_gid prefers a routable IPv4 GID when there is no address")
{
  CHECK(chosen(one_port, nullptr) == choice{1, 3, {}});
  CHECK(chosen(one_port, "0.0.0.0") == choice{1, 3, {}});
  CHECK(chosen({place(0, "fe80::1"), place(1, "2001:db8::1")}, nullptr) == choice{1, 1, {}});
  CHECK(chosen({place(0, "127.0.0.1"), place(1, "10.0.0.1")}, nullptr) == choice{1, 1, {}});
  CHECK(chosen({place(0, "10.0.0.1", wire::roce_v1), place(1, "2001:db8::1")}, nullptr)
    == choice{1, 1, {}});
  // A link-local GID is used because there is no other.
  CHECK(chosen({place(0, "fe80::1")}, nullptr) == choice{1, 0, {}});
  CHECK(chosen({}, nullptr) == none);
}

TEST_CASE("choose_gid accepts any GID for a loopback address and prefers its family")
{
  CHECK(chosen(one_port, "127.0.0.1") == choice{1, 3, {}});
  CHECK(chosen(one_port, "::1") == choice{1, 5, {}});
  CHECK(chosen({place(0, "fe80::1"), place(1, "10.0.0.1")}, "::1") == choice{1, 1, {}});
  CHECK(chosen({place(0, "10.0.0.1"), place(1, "127.0.0.1")}, "127.0.0.1") == choice{1, 1, {}});
}

TEST_CASE("choose_gid fails with no_local_gid when the address is on another network")
{
  CHECK(chosen(one_port, "10.0.0.2") == none);
  CHECK(chosen(one_port, "172.16.0.1") == none);
  CHECK(chosen(one_port, "fe80::2") == none);
  CHECK(chosen(one_port, "2001:db8::2") == none);
}

TEST_CASE("choose_gid accepts any address when the device follows the host's routes")
{
  const std::vector<gid_entry> table{place(0, "127.0.0.1"), place(1, "10.0.0.1")};
  CHECK(chosen(table, "172.16.0.1", true) == choice{1, 1, {}});
  CHECK(chosen(table, "127.0.0.1", true) == choice{1, 0, {}});
  CHECK(chosen({}, "172.16.0.1", true) == none);
}

TEST_CASE("choose_gid returns the port with the address and prefers an active port")
{
  const std::vector<gid_entry> ports{
    place(0, "10.0.0.1", wire::roce_v2, 1, false),
    place(0, "10.0.1.1", wire::roce_v2, 2),
    place(1, "10.0.2.1", wire::roce_v2, 2),
    place(0, "10.0.3.1", wire::roce_v2, 3),
  };
  CHECK(chosen(ports, "10.0.2.1") == choice{2, 1, {}});
  CHECK(chosen(ports, "10.0.3.1") == choice{3, 0, {}});
  // The port is down, but no other has the network.
  CHECK(chosen(ports, "10.0.0.1") == choice{1, 0, {}});
  CHECK(chosen(ports, nullptr) == choice{2, 0, {}});
  CHECK(
    chosen({place(0, "10.0.0.1", wire::roce_v2, 1, false), place(3, "10.0.0.1", wire::roce_v2, 2)},
      "10.0.0.1")
    == choice{2, 3, {}});
}

TEST_CASE("choose_gid returns the first GID of an active port on InfiniBand for any address")
{
  const std::vector<gid_entry> table{
    place(0, "fe80::2:c903", wire::infiniband, 1, false),
    place(0, "fe80::2:c904", wire::infiniband, 2),
    place(1, "fe80::2:c905", wire::infiniband, 2),
  };
  CHECK(chosen(table, "10.0.0.1") == choice{2, 0, {}});
  CHECK(chosen(table, nullptr) == choice{2, 0, {}});
}

TEST_CASE("roce_path_mtu leaves room for the headers of RoCE")
{
  using rdma::detail::roce_path_mtu;
  // The value that rxe and NICs report for Ethernet's default MTU.
  CHECK(roce_path_mtu(1500) == 1024);
  CHECK(roce_path_mtu(9000) == 4096);
  CHECK(roce_path_mtu(4192) == 4096);
  CHECK(roce_path_mtu(4191) == 2048);
  CHECK(roce_path_mtu(1280) == 1024);
  CHECK(roce_path_mtu(1000) == 512);
  CHECK(roce_path_mtu(300) == 0);
}

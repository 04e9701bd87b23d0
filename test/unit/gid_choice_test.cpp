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

// Which GID of a table a queue pair is reached by.

namespace {

namespace ip = boost::asio::ip;
using rdma::detail::choose_gid;
using rdma::detail::gid_entry;
using rdma::detail::gid_kind;

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

gid_entry place(int index, const char* address, gid_kind kind = gid_kind::roce_v2, int port = 1,
  bool active = true, unsigned interface_index = 0)
{
  gid_entry entry;
  entry.port = static_cast<std::uint8_t>(port);
  entry.active = active;
  entry.index = static_cast<std::uint8_t>(index);
  entry.kind = kind;
  entry.gid = gid_of(address);
  entry.interface_index = interface_index;
  if (kind != gid_kind::infiniband)
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

// As a RoCE NIC's: every address once for each version, link-local first.
const std::vector<gid_entry> one_port{
  place(0, "fe80::1", gid_kind::roce_v1),
  place(1, "fe80::1"),
  place(2, "10.0.0.1", gid_kind::roce_v1),
  place(3, "10.0.0.1"),
  place(4, "10.0.0.9"),
  place(5, "2001:db8::1"),
  place(7, "192.168.7.1", gid_kind::roce_v1),
};

} // namespace

TEST_CASE("the GID is that of the local address, and RoCE v2's where there are both")
{
  CHECK(chosen(one_port, "10.0.0.1") == choice{1, 3, {}});
  CHECK(chosen(one_port, "10.0.0.9") == choice{1, 4, {}});
  CHECK(chosen(one_port, "2001:db8::1") == choice{1, 5, {}});
  CHECK(chosen(one_port, "192.168.7.1") == choice{1, 7, {}}); // version 1 is all there is of it
}

TEST_CASE("an IPv4 address in an IPv6 socket's form finds the IPv4 GID")
{
  CHECK(chosen(one_port, "::ffff:10.0.0.9") == choice{1, 4, {}});
}

TEST_CASE("a link-local GID is for who asks for it, by its interface where that is known")
{
  CHECK(chosen(one_port, "fe80::1") == choice{1, 1, {}});
  const std::vector<gid_entry> two_interfaces{
    place(0, "fe80::1", gid_kind::roce_v2, 1, true, 4),
    place(0, "fe80::1", gid_kind::roce_v2, 2, true, 5),
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

TEST_CASE("without an address the GID is one that other networks reach, IPv4 before IPv6")
{
  CHECK(chosen(one_port, nullptr) == choice{1, 3, {}});
  CHECK(chosen(one_port, "0.0.0.0") == choice{1, 3, {}});
  CHECK(chosen({place(0, "fe80::1"), place(1, "2001:db8::1")}, nullptr) == choice{1, 1, {}});
  CHECK(chosen({place(0, "127.0.0.1"), place(1, "10.0.0.1")}, nullptr) == choice{1, 1, {}});
  CHECK(chosen({place(0, "10.0.0.1", gid_kind::roce_v1), place(1, "2001:db8::1")}, nullptr)
    == choice{1, 1, {}});
  CHECK(chosen({place(0, "fe80::1")}, nullptr) == choice{1, 0, {}}); // better than nothing
  CHECK(chosen({}, nullptr) == none);
}

TEST_CASE("a loopback address means any GID of this host, of its own family if there is one")
{
  CHECK(chosen(one_port, "127.0.0.1") == choice{1, 3, {}});
  CHECK(chosen(one_port, "::1") == choice{1, 5, {}});
  CHECK(chosen({place(0, "fe80::1"), place(1, "10.0.0.1")}, "::1") == choice{1, 1, {}});
  CHECK(chosen({place(0, "10.0.0.1"), place(1, "127.0.0.1")}, "127.0.0.1") == choice{1, 1, {}});
}

TEST_CASE("an address of another network is refused rather than guessed at")
{
  CHECK(chosen(one_port, "10.0.0.2") == none);
  CHECK(chosen(one_port, "172.16.0.1") == none);
  CHECK(chosen(one_port, "fe80::2") == none);
  CHECK(chosen(one_port, "2001:db8::2") == none);
}

TEST_CASE("a device that follows the host's routes is reached by any address")
{
  const std::vector<gid_entry> table{place(0, "127.0.0.1"), place(1, "10.0.0.1")};
  CHECK(chosen(table, "172.16.0.1", true) == choice{1, 1, {}});
  CHECK(chosen(table, "127.0.0.1", true) == choice{1, 0, {}});
  CHECK(chosen({}, "172.16.0.1", true) == none);
}

TEST_CASE("the port is the one that has the address, and an active one where several have it")
{
  const std::vector<gid_entry> ports{
    place(0, "10.0.0.1", gid_kind::roce_v2, 1, false),
    place(0, "10.0.1.1", gid_kind::roce_v2, 2),
    place(1, "10.0.2.1", gid_kind::roce_v2, 2),
    place(0, "10.0.3.1", gid_kind::roce_v2, 3),
  };
  CHECK(chosen(ports, "10.0.2.1") == choice{2, 1, {}});
  CHECK(chosen(ports, "10.0.3.1") == choice{3, 0, {}});
  CHECK(chosen(ports, "10.0.0.1") == choice{1, 0, {}}); // down, but no other network leads there
  CHECK(chosen(ports, nullptr) == choice{2, 0, {}});
  CHECK(chosen({place(0, "10.0.0.1", gid_kind::roce_v2, 1, false),
                 place(3, "10.0.0.1", gid_kind::roce_v2, 2)},
          "10.0.0.1")
    == choice{2, 3, {}});
}

TEST_CASE("InfiniBand's GIDs are no addresses: any address leads to the first of an active port")
{
  const std::vector<gid_entry> table{
    place(0, "fe80::2:c903", gid_kind::infiniband, 1, false),
    place(0, "fe80::2:c904", gid_kind::infiniband, 2),
    place(1, "fe80::2:c905", gid_kind::infiniband, 2),
  };
  CHECK(chosen(table, "10.0.0.1") == choice{2, 0, {}});
  CHECK(chosen(table, nullptr) == choice{2, 0, {}});
}

TEST_CASE("a path MTU leaves room for RoCE's headers")
{
  using rdma::detail::roce_path_mtu;
  CHECK(roce_path_mtu(1500) == 1024); // as rxe and NICs say of Ethernet's
  CHECK(roce_path_mtu(9000) == 4096);
  CHECK(roce_path_mtu(4192) == 4096);
  CHECK(roce_path_mtu(4191) == 2048);
  CHECK(roce_path_mtu(1280) == 1024);
  CHECK(roce_path_mtu(1000) == 512);
  CHECK(roce_path_mtu(300) == 0);
}

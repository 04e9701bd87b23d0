//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests that a GID and a queue pair number are a peer's whole address, as on RoCE.

#include "software/verbs_datagrams.hpp"
#include "software/verbs_processes.hpp"

#include "verbs/software/queue_pair_number.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <net/if.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

using namespace test;
namespace software = rdma::software;

namespace {

pair_options of_service(ibv_qp_type service)
{
  pair_options o;
  o.service = service;
  o.depth = 4;
  return o;
}

// Returns a name with this LID, which the device ignores.
end_name with_lid(end_name name, std::uint16_t lid)
{
  name.lid = lid;
  return name;
}

void connect_with_lid(const endpoint& a, const endpoint& b, std::uint16_t lid)
{
  REQUIRE(a.to_init() == 0);
  REQUIRE(b.to_init() == 0);
  REQUIRE(a.to_ready_to_receive(with_lid(b.name(), lid)) == 0);
  REQUIRE(b.to_ready_to_receive(with_lid(a.name(), lid)) == 0);
  REQUIRE(a.to_ready_to_send() == 0);
  REQUIRE(b.to_ready_to_send() == 0);
}

// A datagram reports the kind of its packet in `sl`.
constexpr std::uint8_t in_ipv6 = 9;
constexpr std::uint8_t in_ipv4 = 10;

// RoCE v2 frames have no LID. Partition 0 is the only one.
void check_link_fields(const ibv_wc& wc, std::uint8_t sl)
{
  CHECK(wc.slid == 0);
  CHECK(wc.dlid_path_bits == 0);
  CHECK(wc.sl == sl);
  CHECK(wc.pkey_index == 0);
}

void check_message(const endpoint& from, const endpoint& to)
{
  memory sent(from.device(), 64);
  memory received(to.device(), 64);
  sent.fill(sent_byte);
  received.fill(kept_byte);
  REQUIRE(to.receive(1, received.sge()) == 0);
  REQUIRE(from.send(2, sent.sge()) == 0);
  CHECK(from.sent().next().status == IBV_WC_SUCCESS);
  const ibv_wc wc = to.received().next();
  CHECK(wc.status == IBV_WC_SUCCESS);
  check_link_fields(wc, 0);
  CHECK(received.holds(sent_byte));
}

// Another program's listeners at ports of the software device. Tests run concurrently, so each has
// an address of its own: 127.0.0.`host`.
class occupied_ports
{
public:
  occupied_ports(unsigned every, std::uint8_t host)
    : host_(host)
  {
    for (unsigned i = 0; i < software::index_count; i += every)
      if (const int fd = listen(static_cast<std::uint16_t>(software::first_port + i)); fd >= 0)
        fds_.push_back(fd);
  }
  ~occupied_ports()
  {
    for (const int fd : fds_)
      ::close(fd);
  }
  occupied_ports(const occupied_ports&) = delete;
  occupied_ports& operator=(const occupied_ports&) = delete;

  std::string address() const { return "127.0.0." + std::to_string(host_); }

  int listen(std::uint16_t port) const
  {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + host_);
    if (::bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0 && ::listen(fd, 1) == 0)
      return fd;
    ::close(fd);
    return -1;
  }

private:
  const std::uint8_t host_;
  std::vector<int> fds_;
};

// Returns the number of this process's TCP sockets that send with these values.
unsigned sockets_with(int traffic_class, int hop_limit)
{
  unsigned found = 0;
  for (int fd = 3; fd < 1024; ++fd)
  {
    int tos = 0;
    int ttl = 0;
    int type = 0;
    socklen_t size = sizeof tos;
    found += ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM
        && ::getsockopt(fd, IPPROTO_IP, IP_TOS, &tos, &size) == 0 && tos == traffic_class
        && ::getsockopt(fd, IPPROTO_IP, IP_TTL, &ttl, &size) == 0 && ttl == hop_limit
      ? 1
      : 0;
  }
  return found;
}

} // namespace

TEST_CASE("a queue pair connects by GID and number with any LID")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const auto service = GENERATE(IBV_QPT_RC, IBV_QPT_UC);
  const auto lid = static_cast<std::uint16_t>(GENERATE(0, 1, 4711));
  CAPTURE(service, lid);
  verbs_device near;
  verbs_device far;
  const endpoint a(near, of_service(service));
  const endpoint b(far, of_service(service));
  connect_with_lid(a, b, lid);
  check_message(a, b);
  check_message(b, a);
}

TEST_CASE("queue pairs of two processes connect by GID and number with any LID")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const auto service = GENERATE(IBV_QPT_RC, IBV_QPT_UC);
  const auto lid = static_cast<std::uint16_t>(GENERATE(0, 4711));
  CAPTURE(service, lid);
  child other(
    [&](const out_of_band& line)
    {
      verbs_device d;
      const endpoint e(d, of_service(service));
      memory m(d, 64);
      connect_to(e, with_lid(line.exchange(e.name()), lid));
      must(e.receive(1, m.sge()) == 0, "receive");
      line.meet();
      const bool good = e.received().next().status == IBV_WC_SUCCESS;
      line.meet();
      return good;
    });
  verbs_device d;
  const endpoint e(d, of_service(service));
  memory m(d, 64);
  connect_to(e, with_lid(other.line().exchange(e.name()), lid));
  other.line().meet();
  REQUIRE(e.send(1, m.sge()) == 0);
  CHECK(e.sent().next().status == IBV_WC_SUCCESS);
  other.line().meet();
  CHECK(other.succeeded());
}

TEST_CASE("a datagram goes to the queue pair number of its request with any LID")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const auto lid = static_cast<std::uint16_t>(GENERATE(0, 1, 4711));
  CAPTURE(lid);
  datagram_scene s;
  verbs_device third_device;
  datagrams third(third_device);
  third.start();
  memory into(third_device, 256);
  ibv_ah_attr attr = to_device(s.near, s.far);
  attr.dlid = lid;
  const handle to(software::create_ah(s.near.pd(), &attr));
  REQUIRE(s.b.receive(1, s.into.sge(0, 256)) == 0);
  REQUIRE(third.receive(2, into.sge()) == 0);
  // One address handle reaches all queue pairs at its GID.
  REQUIRE(s.a.send(3, to.get(), s.b.qp()->qp_num, s.from.sge(0, 8)) == 0);
  REQUIRE(s.a.send(4, to.get(), third.qp()->qp_num, s.from.sge(0, 9)) == 0);
  const ibv_wc first = s.b.received().next();
  CHECK(first.wr_id == 1);
  CHECK(first.byte_len == route + 8);
  check_link_fields(first, in_ipv4);
  CHECK(first.src_qp == s.a.qp()->qp_num);
  const ibv_wc second = third.received().next();
  CHECK(second.wr_id == 2);
  CHECK(second.byte_len == route + 9);
}

TEST_CASE("a received datagram reports neither LID nor service level of its sender")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const bool v6 = GENERATE(false, true);
  CAPTURE(v6);
  datagram_scene s(v6 ? "::1" : "127.0.0.1");
  ibv_ah_attr attr = to_device(s.near, s.far);
  attr.dlid = 4711;
  attr.sl = 5;
  attr.src_path_bits = 3;
  attr.grh.traffic_class = 0x68;
  attr.grh.hop_limit = 33;
  const handle to(software::create_ah(s.near.pd(), &attr));
  REQUIRE(s.b.receive(1, s.into.sge(0, 256)) == 0);
  REQUIRE(s.a.send(2, to.get(), s.b.qp()->qp_num, s.from.sge(0, 8)) == 0);
  ibv_wc wc = s.b.received().next();
  CHECK(wc.status == IBV_WC_SUCCESS);
  check_link_fields(wc, v6 ? in_ipv6 : in_ipv4);
  ibv_grh grh;
  std::memcpy(&grh, s.into.bytes().data(), sizeof grh);
  ibv_ah_attr answer{};
  REQUIRE(software::init_ah_from_wc(s.far.context(), 1, &wc, &grh, &answer) == 0);
  CHECK(answer.dlid == 0);
  CHECK(answer.sl == wc.sl);
  CHECK(answer.src_path_bits == 0);
  CHECK(answer.grh.traffic_class == 0x68);
  const std::size_t hops = v6 ? 7 : 20 + 8; // in the header (RFC 8200, RFC 791)
  CHECK(s.into[hops] == 33);
}

TEST_CASE("datagrams of two processes are answered by their route header")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  child other(
    [](const out_of_band& line)
    {
      verbs_device d;
      const datagrams q(d);
      q.start();
      memory m(d, 256);
      must(q.receive(1, m.sge()) == 0, "receive");
      end_name mine;
      mine.gid = d.gid();
      mine.qp = q.qp()->qp_num;
      (void)line.exchange(mine);
      ibv_wc wc = q.received().next();
      ibv_grh grh;
      std::memcpy(&grh, m.bytes().data(), sizeof grh);
      const handle back(software::create_ah_from_wc(d.pd(), &wc, &grh, 1));
      must(q.send(2, back.get(), wc.src_qp, m.sge(0, 5)) == 0, "send");
      const bool good = q.sent().next().status == IBV_WC_SUCCESS;
      line.meet();
      return good;
    });
  verbs_device d;
  const datagrams q(d);
  q.start();
  memory m(d, 256);
  REQUIRE(q.receive(1, m.sge()) == 0);
  const end_name peer = other.line().exchange({});
  ibv_ah_attr attr = to_device(d, d);
  attr.dlid = 0;
  attr.grh.dgid = peer.gid;
  const handle to(software::create_ah(d.pd(), &attr));
  const memory sent(d, 8); // the answer may arrive in `m` before the call returns
  REQUIRE(q.send(2, to.get(), peer.qp, sent.sge()) == 0);
  const ibv_wc wc = q.received().next();
  CHECK(wc.byte_len == route + 5);
  CHECK(wc.src_qp == peer.qp);
  other.line().meet();
  CHECK(other.succeeded());
}

TEST_CASE("the queue pair numbers of a host's devices are all different")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  std::vector<std::unique_ptr<verbs_device>> devices;
  std::vector<std::unique_ptr<endpoint>> endpoints;
  std::set<std::uint32_t> numbers;
  for (unsigned i = 0; i < 64; ++i)
  {
    devices.push_back(std::make_unique<verbs_device>());
    for (unsigned j = 0; j < 16; ++j)
    {
      endpoints.push_back(std::make_unique<endpoint>(*devices.back(), of_service(IBV_QPT_RC)));
      const std::uint32_t number = endpoints.back()->qp()->qp_num;
      CHECK(number > 1);
      CHECK(number < 0xffffff);
      numbers.insert(number);
    }
  }
  CHECK(numbers.size() == endpoints.size());
  endpoints.clear();
}

TEST_CASE("the LID is zero as on RoCE")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  verbs_device device;
  CHECK(device.lid() == 0);
}

TEST_CASE("the GID table contains network interfaces")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  verbs_device device;
  ibv_gid_entry entry{};
  REQUIRE(device.api().query_gid_ex(device.context(), 1, 0, &entry, 0, sizeof entry) == 0);
  CHECK(entry.ndev_ifindex == ::if_nametoindex("lo"));
  ibv_gid_entry table[2]{};
  REQUIRE(software::query_gid_table(device.context(), table, 2, 0, sizeof table[0]) == 1);
  CHECK(table[0].ndev_ifindex == entry.ndev_ifindex);
}

TEST_CASE("every registration permits relaxed ordering")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  constexpr int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING;
  connected c;
  memory plain(c.near, 64, access);
  memory m(c.near, 64);
  CHECK(software::rereg_mr(m.mr(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, access) == 0);
  std::vector<std::uint8_t> bytes(64);
  ibv_mr* const moved =
    software::reg_mr_iova2(c.near.pd(), bytes.data(), bytes.size(), 4096, access);
  REQUIRE(moved != nullptr);
  CHECK(c.near.api().dereg_mr(moved) == 0);
  ibv_qp_attr attr{};
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_RELAXED_ORDERING;
  CHECK(c.a.modify(attr, IBV_QP_ACCESS_FLAGS) == 0);
  check_message(c.a, c.b);
}

TEST_CASE("a context with more queue pairs than an index has numbers takes one more index")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  verbs_device device;
  const completions cq(device);
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = cq.get();
  attr.qp_type = IBV_QPT_RC;
  attr.cap = {1, 1, 1, 1, 0};
  std::vector<ibv_qp*> all;
  std::set<std::uint32_t> numbers;
  std::set<std::uint32_t> indexes;
  for (std::uint32_t i = 0; i < software::numbers_per_index + 8; ++i)
  {
    all.push_back(device.api().create_qp(device.pd(), &attr));
    REQUIRE(all.back() != nullptr);
    numbers.insert(all.back()->qp_num);
    indexes.insert(software::index_of(all.back()->qp_num));
  }
  CHECK(numbers.size() == all.size());
  CHECK(indexes.size() == 2);
  {
    // At the second index.
    const endpoint a(device, of_service(IBV_QPT_RC));
    verbs_device far;
    const endpoint b(far, of_service(IBV_QPT_RC));
    CHECK(software::index_of(a.qp()->qp_num) == software::index_of(all.back()->qp_num));
    connect(a, b);
    check_message(a, b);
    check_message(b, a);
    const datagrams c(device);
    const datagrams d(far);
    c.start();
    d.start();
    memory m(device, 256);
    REQUIRE(c.receive(1, m.sge()) == 0);
    const handle to(far, device);
    memory from(far, 8);
    REQUIRE(d.send(2, to.get(), c.qp()->qp_num, from.sge()) == 0);
    CHECK(c.received().next().byte_len == route + 8);
  }
  for (ibv_qp* const each : all)
    REQUIRE(device.api().destroy_qp(each) == 0);
}

TEST_CASE("a device takes a port that no other program uses")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const occupied_ports others(2, 77);
  std::vector<std::unique_ptr<verbs_device>> devices;
  for (unsigned i = 0; i < 16; ++i)
  {
    devices.push_back(std::make_unique<verbs_device>(only_at(others.address())));
    const endpoint e(*devices.back());
    CHECK(software::index_of(e.qp()->qp_num) % 2 == 1);
  }
}

TEST_CASE("opening the device fails with ENOSPC when other programs use all ports")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit more{std::min<rlim_t>(before.rlim_max, 4096), before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &more) == 0);
  std::string address;
  {
    const occupied_ports others(1, 78);
    address = others.address();
    errno = 0;
    CHECK(software::open_device(only_at(address)) == nullptr);
    CHECK(errno == ENOSPC);
  }
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  const verbs_device free(only_at(address));
}

TEST_CASE("a connection over TCP has the traffic class and hop limit of its address")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  software::device_settings s;
  s.wires = {"tcp"};
  s.addresses = {"127.0.0.1"};
  verbs_device near(s);
  verbs_device far(s);
  const endpoint a(near, of_service(IBV_QPT_UC));
  const endpoint b(far, of_service(IBV_QPT_UC));
  const auto ready = [](const endpoint& e, const endpoint& peer)
  {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer.qp()->qp_num;
    attr.rq_psn = endpoint::first_psn;
    attr.ah_attr.is_global = attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.dgid = peer.device().gid();
    attr.ah_attr.grh.sgid_index = e.device().gid_index();
    attr.ah_attr.grh.traffic_class = 0x68;
    attr.ah_attr.grh.hop_limit = 33;
    REQUIRE(e.to_init() == 0);
    REQUIRE(
      e.modify(attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
      == 0);
    REQUIRE(e.to_ready_to_send() == 0);
  };
  ready(a, b);
  ready(b, a);
  check_message(a, b);
  CHECK(sockets_with(0x68, 33) == 2);
}

TEST_CASE("a datagram has the traffic class and hop limit of its address handle")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const bool v6 = GENERATE(false, true);
  CAPTURE(v6);
  datagram_scene s(v6 ? "::1" : "127.0.0.1");
  ibv_ah_attr attr = to_device(s.near, s.far);
  attr.grh.traffic_class = 0x68;
  attr.grh.hop_limit = 33;
  const handle marked(software::create_ah(s.near.pd(), &attr));
  attr.grh.traffic_class = attr.grh.hop_limit = 0;
  const handle usual(software::create_ah(s.near.pd(), &attr));
  REQUIRE(s.b.receive(0, s.into.sge(0, 256)) == 0);
  REQUIRE(s.b.receive(1, s.into.sge(256, 256)) == 0);
  REQUIRE(s.a.send(0, marked.get(), s.b.qp()->qp_num, s.from.sge(0, 8)) == 0);
  REQUIRE(s.a.send(1, usual.get(), s.b.qp()->qp_num, s.from.sge(0, 8)) == 0);
  const auto arrived = [&](std::size_t at)
  {
    ibv_wc wc = s.b.received().next();
    ibv_grh grh;
    std::memcpy(&grh, s.into.bytes().data() + at, sizeof grh);
    ibv_ah_attr answer{};
    REQUIRE(software::init_ah_from_wc(s.far.context(), 1, &wc, &grh, &answer) == 0);
    const std::size_t hops = v6 ? 7 : 20 + 8; // in the header (RFC 8200, RFC 791)
    return std::pair(answer.grh.traffic_class, s.into[at + hops]);
  };
  CHECK(arrived(0) == std::pair<std::uint8_t, std::uint8_t>(0x68, 33));
  const auto usually = arrived(256);
  CHECK(usually.first == 0);
  CHECK(usually.second > 33);
}

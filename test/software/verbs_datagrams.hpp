//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_SOFTWARE_VERBS_DATAGRAMS_HPP
#define BOOST_RDMA_TEST_SOFTWARE_VERBS_DATAGRAMS_HPP

#include "software/verbs_failure.hpp"

#include "verbs/software/foreign/exports.hpp"

// Datagram queue pairs and address handles.

namespace test {

inline constexpr std::uint32_t the_key = 0x11111111;
inline constexpr std::size_t route = 40; // size of the header before each message

// A datagram queue pair with its completion queues and requests.
class datagrams
{
public:
  explicit datagrams(const verbs_device& on, ibv_srq* shared = nullptr, int depth = 64,
    ibv_pd* in = nullptr, bool signal_all = true, std::uint32_t elements = 4)
    : device_(on)
    , sent_(on, depth)
    , received_(on, depth)
  {
    ibv_qp_init_attr attr{};
    attr.send_cq = sent_.get();
    attr.recv_cq = received_.get();
    attr.srq = shared;
    attr.qp_type = IBV_QPT_UD;
    attr.sq_sig_all = signal_all ? 1 : 0;
    attr.cap = {32, 32, elements, 4, 128};
    qp_ = on.api().create_qp(in != nullptr ? in : on.pd(), &attr);
    must(qp_ != nullptr, "create_qp");
  }
  ~datagrams() { must(device_.api().destroy_qp(qp_) == 0, "destroy_qp"); }
  datagrams(const datagrams&) = delete;
  datagrams& operator=(const datagrams&) = delete;

  ibv_qp* qp() const noexcept { return qp_; }
  const completions& sent() const noexcept { return sent_; }
  const completions& received() const noexcept { return received_; }

  int modify(ibv_qp_attr attr, int mask) const { return device_.api().modify_qp(qp_, &attr, mask); }
  int to_init() const
  {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qkey = the_key;
    return modify(attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
  }
  int to(ibv_qp_state state, int more = 0) const
  {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    return modify(attr, IBV_QP_STATE | more);
  }
  void start() const
  {
    must(to_init() == 0 && to(IBV_QPS_RTR) == 0 && to(IBV_QPS_RTS, IBV_QP_SQ_PSN) == 0, "RTS");
  }
  ibv_qp_state state() const
  {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    must(device_.api().query_qp(qp_, &attr, IBV_QP_STATE, &init) == 0, "query_qp");
    return attr.qp_state;
  }
  int receive(std::uint64_t id, const ibv_sge& into) const
  {
    ibv_sge list = into;
    ibv_recv_wr wr{};
    wr.wr_id = id;
    wr.sg_list = &list;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    return ibv_post_recv(qp_, &wr, &bad);
  }
  int send(std::uint64_t id, ibv_ah* to, std::uint32_t qp, const ibv_sge& what,
    std::uint32_t key = the_key, unsigned flags = 0) const
  {
    request r(IBV_WR_SEND_WITH_IMM, {what}, id);
    r.wr.imm_data = 0x0a0b0c0d;
    r.wr.send_flags = flags;
    r.wr.wr.ud = {to, qp, key};
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp_, &r.wr, &bad);
  }

private:
  const verbs_device& device_;
  completions sent_;
  completions received_;
  ibv_qp* qp_;
};

inline ibv_ah_attr to_device(const verbs_device& from, const verbs_device& to)
{
  ibv_ah_attr attr{};
  attr.is_global = attr.port_num = 1;
  attr.dlid = to.lid();
  attr.grh.dgid = to.gid();
  attr.grh.sgid_index = from.gid_index();
  attr.grh.hop_limit = 1;
  return attr;
}

class handle
{
public:
  handle(const verbs_device& from, const verbs_device& to)
  {
    ibv_ah_attr attr = to_device(from, to);
    ah_ = rdma::software::create_ah(from.pd(), &attr);
    must(ah_ != nullptr, "create_ah");
  }
  explicit handle(ibv_ah* made)
    : ah_(made)
  {
    must(ah_ != nullptr, "an address handle");
  }
  ~handle() { must(rdma::software::destroy_ah(ah_) == 0, "destroy_ah"); }
  handle(const handle&) = delete;
  handle& operator=(const handle&) = delete;
  ibv_ah* get() const noexcept { return ah_; }

private:
  ibv_ah* ah_;
};

inline rdma::software::device_settings only_at(const std::string& address)
{
  rdma::software::device_settings s;
  s.addresses = {address};
  return s;
}

struct datagram_scene
{
  explicit datagram_scene(const char* address = "127.0.0.1")
    : near(only_at(address))
    , far(only_at(address))
    , a(near)
    , b(far)
    , to_far(near, far)
    , from(near, 8192)
    , into(far, 16384)
  {
    from.fill(sent_byte);
    into.fill(kept_byte);
    a.start();
    b.start();
  }

  /// Checks that a datagram arrives, so earlier datagrams have arrived or are lost.
  void check_alive()
  {
    REQUIRE(b.receive(999, into.sge(8192, 256)) == 0);
    REQUIRE(a.send(998, to_far.get(), b.qp()->qp_num, from.sge(0, 16)) == 0);
    CHECK(a.sent().next().wr_id == 998);
    const ibv_wc wc = b.received().next();
    CHECK(wc.wr_id == 999);
    CHECK(wc.status == IBV_WC_SUCCESS);
    CHECK(wc.byte_len == route + 16);
  }

  verbs_device near;
  verbs_device far;
  datagrams a;
  datagrams b;
  handle to_far;
  memory from;
  memory into;
};

} // namespace test

#endif // BOOST_RDMA_TEST_SOFTWARE_VERBS_DATAGRAMS_HPP

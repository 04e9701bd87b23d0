//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests the states of a queue pair, full queues, and objects that are in use.

#include "software/verbs_fixture.hpp"

#include <cerrno>
#include <cstring>

using namespace test;

TEST_CASE("a queue pair changes its state only with the required attributes")
{
  verbs_device d;
  endpoint a(d);
  endpoint b(d);
  memory m(d, 8);
  ibv_qp_attr attr{};
  CHECK(a.qp()->state == IBV_QPS_RESET);
  CHECK(a.send(1, m.sge()) == EINVAL);
  CHECK(a.receive(1, m.sge()) == EINVAL);
  CHECK(a.to_ready_to_receive(b) == EINVAL);
  CHECK(a.to(IBV_QPS_RTS) == EINVAL);
  CHECK(a.to(IBV_QPS_INIT) == EINVAL); // missing attributes
  CHECK(a.to(IBV_QPS_SQD) == EINVAL);

  REQUIRE(a.to_init() == 0);
  REQUIRE(b.to_init() == 0);
  CHECK(a.qp()->state == IBV_QPS_INIT);
  CHECK(a.receive(1, m.sge()) == 0);
  CHECK(a.send(1, m.sge()) == EINVAL);
  CHECK(a.to(IBV_QPS_RTR) == EINVAL);
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 2;
  CHECK(a.modify(attr, IBV_QP_STATE | IBV_QP_PORT) == EINVAL);
  attr.timeout = 3;
  CHECK(a.modify(attr, IBV_QP_STATE | IBV_QP_TIMEOUT) == EINVAL);

  REQUIRE(a.to_ready_to_receive(b) == 0);
  REQUIRE(b.to_ready_to_receive(a) == 0);
  CHECK(a.send(1, m.sge()) == EINVAL);
  CHECK(a.to(IBV_QPS_RTS) == EINVAL);
  CHECK(a.to(IBV_QPS_SQD) == EINVAL);
  REQUIRE(a.to_ready_to_send() == 0);
  REQUIRE(b.to_ready_to_send() == 0);
  attr = {};
  attr.qp_state = IBV_QPS_RTS;
  attr.cur_qp_state = IBV_QPS_RTR;
  CHECK(a.modify(attr, IBV_QP_STATE | IBV_QP_CUR_STATE) == EINVAL);
  attr.cur_qp_state = IBV_QPS_RTS;
  attr.min_rnr_timer = 5;
  CHECK(a.modify(attr, IBV_QP_STATE | IBV_QP_CUR_STATE | IBV_QP_MIN_RNR_TIMER) == 0);
  attr.min_rnr_timer = 32;
  if (has(feature::argument_checks))
    CHECK(a.modify(attr, IBV_QP_MIN_RNR_TIMER) == EINVAL);

  ibv_qp_init_attr init{};
  REQUIRE(d.api().query_qp(a.qp(), &attr, IBV_QP_STATE, &init) == 0);
  CHECK(attr.qp_state == IBV_QPS_RTS);
  CHECK(attr.dest_qp_num == b.qp()->qp_num);
  CHECK(attr.min_rnr_timer == 5);
  CHECK(attr.sq_psn == endpoint::first_psn);
  CHECK(init.cap.max_send_wr >= a.options().depth);
  if (has(feature::exact_depths))
    CHECK(init.cap.max_send_wr == a.options().depth);

  REQUIRE(a.to(IBV_QPS_ERR) == 0);
  CHECK(a.received().next().status == IBV_WC_WR_FLUSH_ERR);
  CHECK(a.to(IBV_QPS_RTS) == EINVAL);
  REQUIRE(a.to(IBV_QPS_RESET) == 0);
  CHECK(a.state() == IBV_QPS_RESET);
  REQUIRE(a.to_init() == 0);
}

TEST_CASE("RTR requires a global route and a port")
{
  BOOST_RDMA_TEST_NEEDS(argument_checks);
  verbs_device d;
  endpoint a(d);
  REQUIRE(a.to_init() == 0);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = 17;
  attr.ah_attr.grh.dgid = d.gid();
  attr.ah_attr.port_num = 1;
  constexpr int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN
    | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  CHECK(a.modify(attr, mask) == EINVAL);
  attr.ah_attr.is_global = 1;
  attr.ah_attr.grh.sgid_index = 9;
  CHECK(a.modify(attr, mask) == EINVAL);
  attr.ah_attr.grh.sgid_index = 0;
  attr.rq_psn = 1u << 24;
  CHECK(a.modify(attr, mask) == EINVAL);
  attr.rq_psn = 0;
  CHECK(a.modify(attr, mask) == 0);
}

TEST_CASE("all requests are flushed in order in the error state")
{
  connected c;
  memory m(c.near, 8);
  for (unsigned i = 0; i < 3; ++i)
    REQUIRE(c.a.receive(i, m.sge()) == 0);
  REQUIRE(c.a.to(IBV_QPS_ERR) == 0);
  const unsigned receives = has(feature::late_receive_flush) ? 6 : 3;
  for (unsigned i = 3; i < 6; ++i)
  {
    if (i < receives)
      REQUIRE(c.a.receive(i, m.sge()) == 0);
    REQUIRE(c.a.send(i, m.sge()) == 0);
  }
  for (unsigned i = 0; i < receives; ++i)
  {
    const ibv_wc wc = c.a.received().next();
    CHECK(wc.wr_id == i);
    CHECK(wc.status == IBV_WC_WR_FLUSH_ERR);
  }
  for (unsigned i = 3; i < 6; ++i)
  {
    const ibv_wc wc = c.a.sent().next();
    CHECK(wc.wr_id == i);
    CHECK(wc.status == IBV_WC_WR_FLUSH_ERR);
  }
}

TEST_CASE("a reset discards requests and completions and the queue pair can connect again")
{
  connected c;
  memory near(c.near, 8);
  memory far(c.far, 8);
  for (unsigned round = 0; round < 5; ++round)
  {
    REQUIRE(c.b.receive(1, far.sge()) == 0);
    REQUIRE(c.b.receive(2, far.sge()) == 0);
    REQUIRE(c.a.send(1, near.sge()) == 0);
    CHECK(c.a.sent().next().status == IBV_WC_SUCCESS);
    // The completion of the first receive is not polled; the second receive is still posted.
    REQUIRE(c.a.to(IBV_QPS_RESET) == 0);
    REQUIRE(c.b.to(IBV_QPS_RESET) == 0);
    if (!has(feature::reset_forgets))
      CHECK(c.b.received().next().wr_id == 1);
    CHECK_FALSE(c.b.received().poll());
    connect(c.a, c.b);
  }
}

TEST_CASE("a drained send queue starts no request, raises an event when it is empty and resumes")
{
  connected c;
  memory near(c.near, 2'000'000);
  memory far(c.far, 2'000'000);
  REQUIRE(c.a.write(0, near.sge(0, 1), far.address(), far.key()) == 0);
  CHECK(c.a.sent().next().wr_id == 0);
  REQUIRE(c.a.write(1, near.sge(), far.address(), far.key()) == 0);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_SQD;
  attr.en_sqd_async_notify = 1;
  REQUIRE(c.a.modify(attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY) == 0);
  CHECK(c.near.event() == IBV_EVENT_SQ_DRAINED);
  CHECK(c.a.sent().next().wr_id == 1);
  far.fill(kept_byte);
  REQUIRE(c.a.write(2, near.sge(), far.address(), far.key()) == 0);
  REQUIRE(c.b.receive(1, far.sge()) == 0);
  // The peer's reads complete after the requests that this side started before.
  const memory copy(c.far, 8);
  for (const std::uint64_t id : {1u, 2u})
  {
    REQUIRE(c.b.read(id, copy.sge(), near.address(), near.key()) == 0);
    CHECK(c.b.sent().next().status == IBV_WC_SUCCESS);
  }
  CHECK_FALSE(c.a.sent().poll());
  CHECK(far.holds(kept_byte));
  attr.qp_state = IBV_QPS_RTS;
  REQUIRE(c.a.modify(attr, IBV_QP_STATE) == 0);
  if (!has(feature::drained_queue_resumes))
    REQUIRE(c.a.write(3, near.sge(0, 1), far.address(), far.key()) == 0);
  CHECK(c.a.sent().next().wr_id == 2);
}

TEST_CASE("the first message to a queue pair before RTS raises COMM_EST")
{
  BOOST_RDMA_TEST_NEEDS(affiliated_events);
  verbs_device near;
  verbs_device far;
  endpoint a(near);
  endpoint b(far);
  memory m(near, 8);
  memory into(far, 8);
  REQUIRE(a.to_init() == 0);
  REQUIRE(b.to_init() == 0);
  REQUIRE(b.receive(1, into.sge()) == 0);
  REQUIRE(a.to_ready_to_receive(b) == 0);
  REQUIRE(b.to_ready_to_receive(a) == 0);
  REQUIRE(a.to_ready_to_send() == 0);
  REQUIRE(a.send(1, m.sge()) == 0);
  CHECK(far.event() == IBV_EVENT_COMM_EST);
  CHECK(b.received().next().status == IBV_WC_SUCCESS);
  CHECK(a.sent().next().status == IBV_WC_SUCCESS);
}

TEST_CASE("a full queue refuses further requests and returns the first refused one")
{
  pair_options o;
  o.depth = 3;
  connected c(o);
  memory m(c.near, 8);
  for (unsigned i = 0; i < 3; ++i)
    REQUIRE(c.a.receive(i, m.sge()) == 0);
  CHECK(c.a.receive(3, m.sge()) == ENOMEM);
  // Sends keep their slots until their completions are polled.
  std::vector<std::unique_ptr<request>> list;
  for (unsigned i = 0; i < 5; ++i)
  {
    list.push_back(std::make_unique<request>(IBV_WR_SEND, std::vector{m.sge()}, i));
    if (i != 0)
      list[i - 1]->wr.next = &list[i]->wr;
  }
  memory far(c.far, 8);
  for (unsigned i = 0; i < 3; ++i)
    REQUIRE(c.b.receive(i, far.sge()) == 0);
  ibv_send_wr* bad = nullptr;
  CHECK(c.a.qp()->context->ops.post_send(c.a.qp(), &list[0]->wr, &bad) == ENOMEM);
  REQUIRE(bad == &list[3]->wr);
  for (unsigned i = 0; i < 3; ++i)
    CHECK(c.b.received().next().wr_id == i);
  if (has(feature::exact_depths))
    CHECK(c.a.send(9, m.sge()) == ENOMEM);
  CHECK(c.a.sent().next().wr_id == 0);
  REQUIRE(c.b.receive(3, far.sge()) == 0);
  CHECK(c.a.send(9, m.sge()) == 0);
}

TEST_CASE("invalid requests are refused when they are posted")
{
  BOOST_RDMA_TEST_NEEDS(argument_checks);
  connected c;
  memory m(c.near, 8);
  request many(IBV_WR_SEND, std::vector<ibv_sge>(c.a.options().elements + 1, m.sge()));
  CHECK(c.a.post(many.wr) == EINVAL);
  request unknown(IBV_WR_TSO, {m.sge()});
  CHECK(c.a.post(unknown.wr) == EINVAL);
  request inline_read(IBV_WR_RDMA_READ, {m.sge()});
  CHECK(c.a.post(inline_read.flags(IBV_SEND_INLINE).wr) == EINVAL);
  CHECK(c.a.receive(1, std::vector<ibv_sge>(c.a.options().elements + 1, m.sge())) == EINVAL);
}

TEST_CASE("a completion queue overrun raises an event and ends its queue pairs")
{
  BOOST_RDMA_TEST_NEEDS(affiliated_events);
  pair_options o;
  o.completions = 2;
  connected c(o, pair_options{});
  memory m(c.near, 8);
  memory far(c.far, 8);
  for (unsigned i = 0; i < 3; ++i)
    REQUIRE(c.a.write(i, m.sge(), far.address(), far.key()) == 0);
  CHECK(c.near.event() == IBV_EVENT_CQ_ERR);
  CHECK(c.near.event() == IBV_EVENT_QP_FATAL);
  CHECK(c.a.state() == IBV_QPS_ERR);
}

TEST_CASE("a completion queue holds as many completions as its depth and keeps them when resized")
{
  BOOST_RDMA_TEST_NEEDS(software_device); // others round the depth up
  pair_options small;
  small.completions = 2;
  connected c(pair_options{}, small);
  memory from(c.near, 8);
  memory into(c.far, 8);
  const auto receive = [&](unsigned id)
  {
    REQUIRE(c.b.receive(id, into.sge()) == 0);
    REQUIRE(c.a.send(id, from.sge()) == 0);
    CHECK(c.a.sent().next().status == IBV_WC_SUCCESS); // acknowledged: the far end has completed it
  };
  const auto resize = [&](int depth) { return c.far.api().resize_cq(c.b.received().get(), depth); };
  unsigned posted = 0;
  unsigned polled = 0;
  const auto poll = [&] { CHECK(c.b.received().next().wr_id == polled++); };
  receive(posted++);
  receive(posted++);
  poll();
  receive(posted++); // into the first entry
  poll();
  poll();
  receive(posted++);
  receive(posted++);
  CHECK(resize(1) == EINVAL);
  poll();
  receive(posted++);
  REQUIRE(resize(3) == 0);
  receive(posted++);
  while (polled != posted)
    poll();
  CHECK_FALSE(c.far.has_event());
  CHECK(c.b.state() == IBV_QPS_RTS);
}

TEST_CASE("a reset of a queue pair keeps the completions of others in its completion queue")
{
  connected c;
  memory m(c.near, 8);
  memory into(c.far, 8);
  const auto& api = c.far.api();
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = c.b.received().get();
  init.cap = {1, 1, 1, 1, 0};
  init.qp_type = IBV_QPT_RC;
  ibv_qp* const other = api.create_qp(c.far.pd(), &init);
  REQUIRE(other != nullptr);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  CHECK(api.modify_qp(
          other, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
    == 0);
  REQUIRE(c.b.receive(1, into.sge()) == 0);
  REQUIRE(c.a.send(1, m.sge()) == 0);
  CHECK(c.a.sent().next().status == IBV_WC_SUCCESS);
  attr.qp_state = IBV_QPS_RESET;
  CHECK(api.modify_qp(other, &attr, IBV_QP_STATE) == 0);
  CHECK(api.destroy_qp(other) == 0);
  CHECK(c.b.received().next().wr_id == 1);
}

TEST_CASE("a poll of one completion queue returns no completion of another one")
{
  connected c;
  memory m(c.near, 8);
  memory into(c.far, 8);
  for (unsigned id = 0; id != 50; ++id)
  {
    REQUIRE(c.b.receive(id, into.sge()) == 0);
    REQUIRE(c.a.send(id, m.sge()) == 0);
    bool found = false;
    REQUIRE(until(
      [&]
      {
        found = found || c.b.sent().poll().has_value();
        return found || c.a.sent().poll().has_value();
      }));
    REQUIRE_FALSE(found);
    CHECK(c.b.received().next().wr_id == id);
  }
}

TEST_CASE("a completion queue overruns although a poll takes the first of the completions itself")
{
  BOOST_RDMA_TEST_NEEDS(affiliated_events);
  pair_options small;
  small.completions = 2;
  connected c(pair_options{}, small);
  memory from(c.near, 8);
  memory into(c.far, 64);
  for (unsigned i = 0; i < 8; ++i)
    REQUIRE(c.b.receive(i, into.sge(8 * i, 8)) == 0);
  for (unsigned i = 0; i < 5; ++i)
    REQUIRE(c.a.send(i, from.sge()) == 0);
  (void)c.b.received().poll();
  CHECK(c.far.event() == IBV_EVENT_CQ_ERR);
  CHECK(c.far.event() == IBV_EVENT_QP_FATAL);
  CHECK(c.b.state() == IBV_QPS_ERR);
}

TEST_CASE("a poll of an overrun completion queue takes no further completion itself")
{
  BOOST_RDMA_TEST_NEEDS(software_device); // others may deliver from such a queue what they like
  pair_options o;
  o.completions = 2;
  connected c(o, pair_options{});
  memory m(c.near, 8);
  memory far(c.far, 8);
  for (unsigned i = 0; i < 3; ++i)
    REQUIRE(c.a.write(i, m.sge(), far.address(), far.key()) == 0);
  REQUIRE(c.near.event() == IBV_EVENT_CQ_ERR);
  REQUIRE(c.near.event() == IBV_EVENT_QP_FATAL);
  while (c.a.sent().poll())
  {
  }
  // The queue is empty, and its queue pair starts again.
  REQUIRE(c.a.to(IBV_QPS_RESET) == 0);
  REQUIRE(c.b.to(IBV_QPS_RESET) == 0);
  connect(c.a, c.b);
  REQUIRE(c.b.receive(1, far.sge()) == 0);
  REQUIRE(c.a.send(7, m.sge()) == 0);
  unsigned taken = 0;
  CHECK(until(
    [&]
    {
      taken += c.a.sent().poll() ? 1 : 0;
      return taken != 0 || c.near.has_event();
    }));
  CHECK(taken == 0);
  CHECK(c.near.event() == IBV_EVENT_QP_FATAL);
  CHECK(c.a.state() == IBV_QPS_ERR);
}

TEST_CASE("objects in use cannot be destroyed and the device's limits apply")
{
  verbs_device d;
  const auto& api = d.api();
  completions cq(d, 8);
  ibv_device_attr limits{};
  REQUIRE(api.query_device(d.context(), &limits) == 0);
  {
    endpoint a(d);
    memory m(d, 8);
    errno = 0;
    CHECK(api.dealloc_pd(d.pd()) == EBUSY);
    CHECK(errno == EBUSY);
    errno = 0;
    CHECK(api.destroy_cq(a.sent().get()) == EBUSY);
    CHECK(errno == EBUSY);
    if (has(feature::software_device)) // libibverbs closes it in any case
      CHECK(api.close_device(d.context()) != 0);
  }
  CHECK(api.create_cq(d.context(), 0, nullptr, nullptr, 0) == nullptr);
  CHECK(api.create_cq(d.context(), limits.max_cqe + 1, nullptr, nullptr, 0) == nullptr);
  CHECK(errno == EINVAL);
  const int vectors = d.context()->num_comp_vectors;
  CHECK(api.create_cq(d.context(), 8, nullptr, nullptr, vectors) == nullptr);
  CHECK(api.create_cq(d.context(), 8, nullptr, nullptr, -1) == nullptr);
  CHECK(api.resize_cq(cq.get(), limits.max_cqe + 1) != 0);
  CHECK(api.resize_cq(cq.get(), 100) == 0);
  CHECK(cq.get()->cqe >= 100);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq.get();
  if (has(feature::software_device)) // other devices may support it
  {
    init.qp_type = IBV_QPT_RAW_PACKET;
    CHECK(api.create_qp(d.pd(), &init) == nullptr);
    CHECK(errno == EOPNOTSUPP);
  }
  init.qp_type = IBV_QPT_RC;
  init.cap.max_send_wr = static_cast<std::uint32_t>(limits.max_qp_wr) + 1;
  CHECK(api.create_qp(d.pd(), &init) == nullptr);
  CHECK(errno == EINVAL);
  char byte = 0;
  CHECK(api.reg_mr(d.pd(), &byte, 1, IBV_ACCESS_REMOTE_WRITE) == nullptr);
  CHECK(api.reg_mr(d.pd(), &byte, 1, IBV_ACCESS_REMOTE_ATOMIC) == nullptr);
  CHECK(api.reg_mr(d.pd(), &byte, ~std::size_t{0}, 0) == nullptr);
  CHECK(errno == EINVAL);
}

TEST_CASE("an abandoned device accesses no memory and its objects can be destroyed")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  verbs_device near;
  memory m(near, 8);
  endpoint a(near);
  {
    verbs_device far;
    memory into(far, 8);
    endpoint b(far);
    connect(a, b);
    m.fill(sent_byte);
    REQUIRE(a.write(1, m.sge(), into.address(), into.key()) == 0);
    CHECK(a.sent().next().status == IBV_WC_SUCCESS);
    CHECK(into.holds(sent_byte));
    into.fill(kept_byte);

    REQUIRE(rdma::software::abandon_device(far.context()) == 0);
    CHECK(b.state() == IBV_QPS_RESET);
    CHECK(b.received().poll() == std::nullopt);
    CHECK(far.api().alloc_pd(far.context()) == nullptr);
    REQUIRE(a.write(2, m.sge(), into.address(), into.key()) == 0);
    CHECK(a.sent().next().status == IBV_WC_RETRY_EXC_ERR); // as for any peer that was destroyed
    CHECK(into.holds(kept_byte));
  }
}

TEST_CASE("the device's GUID is locally administered and the same in every query")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  verbs_device d;
  const __be64 guid = d.api().get_device_guid(d.context()->device);
  ibv_device_attr attributes{};
  REQUIRE(d.api().query_device(d.context(), &attributes) == 0);
  CHECK(attributes.node_guid == guid);
  CHECK(attributes.sys_image_guid == guid);
  unsigned char bytes[sizeof guid];
  std::memcpy(bytes, &guid, sizeof guid);
  CHECK((bytes[0] & 0x03) == 0x02); // locally administered and unicast, which excludes zero
}

TEST_CASE("many devices can be open at once with their own keys")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  std::vector<std::unique_ptr<verbs_device>> devices;
  for (unsigned i = 0; i < 32; ++i)
    devices.push_back(std::make_unique<verbs_device>());
  endpoint a(*devices.front());
  endpoint b(*devices.back());
  connect(a, b);
  memory m(*devices.front(), 8);
  memory into(*devices.back(), 8);
  REQUIRE(a.write(1, m.sge(), into.address(), into.key()) == 0);
  CHECK(a.sent().next().status == IBV_WC_SUCCESS);
}

TEST_CASE("the device lists its addresses with loopback first")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const auto& api = rdma::software::api();
  ibv_context* context = rdma::software::open_device({});
  REQUIRE(context != nullptr);
  CHECK(std::string(api.get_device_name(context->device)) == "soft0");
  ibv_gid gid{};
  REQUIRE(api.query_gid(context, 1, 0, &gid) == 0);
  CHECK(gid.raw[12] == 127);
  ibv_gid_entry entry{};
  REQUIRE(api.query_gid_ex(context, 1, 0, &entry, 0, sizeof entry) == 0);
  CHECK(entry.gid_type == IBV_GID_TYPE_ROCE_V2);
  CHECK(api.query_gid(context, 1, 1000, &gid) != 0);
  CHECK(api.query_gid(context, 2, 0, &gid) != 0);
  __be16 pkey = 0;
  CHECK(api.query_pkey(context, 1, 0, &pkey) == 0);
  CHECK(pkey == 0xffff);
  CHECK(api.close_device(context) == 0);
  rdma::software::device_settings wrong;
  wrong.addresses = {"no address"};
  CHECK(rdma::software::open_device(wrong) == nullptr);
  CHECK(errno == EINVAL);
  wrong.addresses = {"203.0.113.77"};
  CHECK(rdma::software::open_device(wrong) == nullptr);
  CHECK(errno == EADDRNOTAVAIL);
}

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/verbs_failure.hpp"

namespace test {

namespace {

constexpr std::uint64_t behind_id = 90;
constexpr std::uint64_t spare_ids[] = {100, 101};
constexpr std::uint64_t late_id = 110;

void post_spare_receives(const endpoint& e, const memory& into)
{
  for (const std::uint64_t id : spare_ids)
    must(e.receive(id, into.sge()) == 0, "a spare receive");
}

void check_spare_receives_flushed(const endpoint& e)
{
  check_flushed(e.received(), {spare_ids[0], spare_ids[1]});
}

} // namespace

bool is_status(ibv_wc_status got, ibv_wc_status wanted)
{
  if (got == wanted || has(feature::local_statuses))
    return got == wanted;
  switch (wanted)
  {
  case IBV_WC_LOC_PROT_ERR:
  case IBV_WC_LOC_LEN_ERR:
  case IBV_WC_MW_BIND_ERR:
    return got == IBV_WC_LOC_QP_OP_ERR;
  case IBV_WC_REM_INV_REQ_ERR:
    return got == IBV_WC_REM_OP_ERR;
  default:
    return false;
  }
}

void check_error(const completions& cq, std::uint64_t id, ibv_wc_status status)
{
  const ibv_wc wc = cq.next();
  CAPTURE(wc.status, status);
  CHECK(is_status(wc.status, status));
  CHECK(wc.wr_id == id);
  if (has(feature::completion_details))
    CHECK(wc.vendor_err != 0);
}

void check_flushed(const completions& cq, std::initializer_list<std::uint64_t> ids)
{
  for (const std::uint64_t id : ids)
    check_error(cq, id, IBV_WC_WR_FLUSH_ERR);
}

void check_ended(const endpoint& e)
{
  CHECK(until([&] { return e.state() == IBV_QPS_ERR; }));
  request late(IBV_WR_SEND, {}, late_id);
  CHECK(e.post(late.wr) == 0);
  check_flushed(e.sent(), {late_id});
  if (has(feature::late_receive_flush))
  {
    CHECK(e.receive(late_id, std::vector<ibv_sge>{}) == 0);
    check_flushed(e.received(), {late_id});
  }
  CHECK_FALSE(e.sent().poll());
  CHECK_FALSE(e.received().poll());
}

failure_scene::failure_scene(const endpoint& failing, const endpoint& other)
  : near(failing.device(), 64)
  , far(other.device(), 64)
  , a_(failing)
  , b_(other)
  , spare_near_(failing.device(), 64)
  , spare_far_(other.device(), 64)
{
  near.fill(sent_byte);
  far.fill(kept_byte);
  spare_near_.fill(kept_byte);
  spare_far_.fill(kept_byte);
  for (const memory* m : {&near, &far, &spare_near_, &spare_far_})
    guard(*m);
  request hello(IBV_WR_SEND);
  must(b_.receive(0, std::vector<ibv_sge>{}) == 0, "receive");
  must(a_.post(hello.flags(IBV_SEND_SIGNALED).wr) == 0, "send");
  must(b_.received().next().status == IBV_WC_SUCCESS, "a first message");
  must(a_.sent().next().status == IBV_WC_SUCCESS, "a first message");
}

void failure_scene::guard(const memory& m)
{
  guarded_.emplace_back(&m, m.bytes());
}

void failure_scene::check(
  request& failing, const failure& expected, std::initializer_list<std::uint64_t> before)
{
  post_spare_receives(a_, spare_near_);
  if (expected.status != IBV_WC_RNR_RETRY_EXC_ERR) // requires that no receive is posted there
    post_spare_receives(b_, spare_far_);
  request behind(IBV_WR_RDMA_WRITE, {near.sge()}, behind_id);
  behind.remote(far.address(), far.key()).flags(expected.late ? IBV_SEND_FENCE : 0);
  failing.wr.next = &behind.wr;
  REQUIRE(a_.post(failing.wr) == 0);
  check_failing_end(failing.wr.wr_id, expected, before);
  check_other_end(expected);
  for (const auto& [m, was] : guarded_)
    CHECK((m->bytes() == was)); // the extra parentheses keep Catch from printing the vectors
}

void failure_scene::check_failing_end(
  std::uint64_t id, const failure& expected, std::initializer_list<std::uint64_t> before)
{
  for (const std::uint64_t each : before)
  {
    const ibv_wc wc = a_.sent().next();
    CHECK(wc.status == IBV_WC_SUCCESS);
    CHECK(wc.wr_id == each);
  }
  check_error(a_.sent(), id, expected.status);
  check_flushed(a_.sent(), {behind_id});
  check_spare_receives_flushed(a_);
  check_ended(a_);
  CHECK_FALSE(a_.device().has_event());
}

void failure_scene::check_other_end(const failure& expected)
{
  if (expected.far_event && has(feature::affiliated_events))
  {
    CHECK(b_.device().event() == *expected.far_event);
    CHECK(b_.state() == IBV_QPS_ERR);
  }
  if (expected.far_receive)
    check_error(b_.received(), far_receive_id, *expected.far_receive);
  if (!expected.far_hears)
  {
    CHECK_FALSE(b_.received().poll());
    CHECK(b_.state() == IBV_QPS_RTS);
    request ask(IBV_WR_SEND, {}, late_id);
    REQUIRE(b_.post(ask.wr) == 0);
    check_error(b_.sent(), late_id, IBV_WC_RETRY_EXC_ERR);
  }
  if (expected.status != IBV_WC_RNR_RETRY_EXC_ERR)
    check_spare_receives_flushed(b_);
  check_ended(b_);
  CHECK_FALSE(b_.device().has_event());
}

} // namespace test

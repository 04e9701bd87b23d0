//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"

// Tests the limits and states of queue pairs, and receives that are too small or missing.

using namespace test;

namespace {

rdma::queue_pair_options soon_given_up()
{
  rdma::queue_pair_options options;
  options.timeout = 10;
  options.retry_count = 1;
  options.rnr_retry_count = 1;
  return options;
}

} // namespace

TEST_CASE("constructors fail with queue_too_deep when depths exceed the limits of the device")
{
  asio::io_context io;
  rdma::context context = make_context();
  const rdma::device device = context.default_device();
  rdma::queue_pair_options options;
  SECTION("sends")
  {
    options.send_depth = device.max_work_requests() + 1;
  }
  SECTION("receives")
  {
    options.receive_depth = device.max_work_requests() + 1;
  }
  SECTION("maximum value")
  {
    options.send_depth = UINT32_MAX;
  }
  SECTION("SGEs of sends")
  {
    options.max_send_sge = device.max_sge() + 1;
  }
  SECTION("SGEs of receives")
  {
    options.max_receive_sge = device.max_sge() + 1;
  }
  try
  {
    rdma::queue_pair refused(io, context, options);
    FAIL("the constructor did not fail");
  }
  catch (const rdma::system_error& e)
  {
    CHECK(e.code() == rdma::error::queue_too_deep);
  }
  rdma::completion_queue_options deep;
  deep.depth = device.max_completions() + 1;
  CHECK_THROWS_AS(rdma::completion_queue(io, context, deep), rdma::system_error);
  rdma::shared_receive_queue_options shared;
  shared.depth = UINT32_MAX;
  CHECK_THROWS_AS(rdma::shared_receive_queue(io, context, shared), rdma::system_error);
  CHECK_NOTHROW(rdma::queue_pair(io, context)); // no resources are left behind
}

TEST_CASE("a receive too small for the message fails on both sides and flushes the rest")
{
  BOOST_RDMA_TEST_NEEDS(exact_statuses);
  linked_pair l;
  rdma::registered_buffer into = l.far_context.allocate(64);
  std::memset(into.data(), '.', into.size());
  rdma::registered_buffer text = buffer_of(l.near_context, "more than eight bytes");
  rdma::registered_buffer into_again = l.near_context.allocate(64);
  bytes_record small;
  bytes_record next;
  bytes_record sent;
  bytes_record sent_next;
  l.far.async_receive(into.first(8), small.handler());
  l.far.async_receive(into.slice(32), next.handler());
  l.near.async_send(text, sent.handler());
  l.near.async_send(text, sent_next.handler());
  REQUIRE(run_until(
    l.io, [&] { return small.done() && next.done() && sent.done() && sent_next.done(); }));
  const bool exact = has(feature::local_statuses);
  const error_code at_receiver =
    exact ? rdma::wc_status::local_length_error : rdma::wc_status::local_qp_operation_error;
  const error_code at_sender =
    exact ? rdma::wc_status::remote_invalid_request_error : rdma::wc_status::remote_operation_error;
  CHECK(small.ec == at_receiver);
  CHECK(small.value() == 0);
  CHECK(next.ec == rdma::wc_status::flushed);
  CHECK(sent.ec == at_sender);
  CHECK(sent_next.ec == rdma::wc_status::flushed);
  CHECK(text_of(into.slice(8)) == std::string(56, '.'));
  CHECK_FALSE(l.near.is_connected());
  CHECK_FALSE(l.far.is_connected());
  CHECK(l.far.diagnose().code == at_receiver);
  CHECK(l.near.diagnose().code == at_sender);

  bytes_record later; // fails, because the queue pair is in the error state
  l.near.async_send(text, later.handler());
  REQUIRE(run_until(l.io, [&] { return later.done(); }));
  CHECK(later.ec == rdma::wc_status::flushed);
  CHECK(later.ec == boost::system::errc::operation_canceled);
  bytes_record later_receive; // not every device flushes it
  l.near.async_receive(into_again, later_receive.handler());
  REQUIRE(run_until(l.io, [&] { return later_receive.done(); }));
  CHECK(later_receive.ec == rdma::wc_status::flushed);
}

TEST_CASE("a send fails with rnr_retry_exceeded when the peer posts no receive")
{
  linked_pair l(soon_given_up());
  bytes_record sent;
  l.near.async_send(rdma::no_data, sent.handler());
  REQUIRE(run_until(l.io, [&] { return sent.done(); }));
  CHECK(sent.ec == rdma::wc_status::rnr_retry_exceeded);
  CHECK(l.near.diagnose().text().find("receive") != std::string::npos);
  CHECK_FALSE(l.near.is_connected());
  // The peer has not detected the failure; its next send does.
  CHECK(l.far.is_connected());
  bytes_record back;
  l.far.async_send(rdma::no_data, back.handler());
  REQUIRE(run_until(l.io, [&] { return back.done(); }));
  CHECK(back.ec == rdma::wc_status::retry_exceeded);
}

TEST_CASE("operations other than receives fail with not_connected before connect")
{
  asio::io_context io;
  rdma::context context = make_context();
  rdma::queue_pair a(io, context);
  rdma::queue_pair b(io, context);
  bytes_record early;
  a.async_send(rdma::no_data, early.handler());
  bytes_record received;
  a.async_receive(rdma::no_data, received.handler());
  REQUIRE(run_until(io, [&] { return early.done(); }));
  CHECK(early.ec == rdma::error::not_connected);
  connect(a, b);
  b.async_send(rdma::no_data, [](error_code, std::size_t) {});
  REQUIRE(run_until(io, [&] { return received.done(); }));
  CHECK(received.ec == error_code());
}

TEST_CASE("connect fails when the queue pair is connected, closed or of another device kind")
{
  linked_pair l;
  error_code ec;
  const rdma::endpoint_description own = l.far.local_endpoint();
  l.near.connect(own, ec);
  CHECK(ec == rdma::error::already_connected);

  rdma::queue_pair fresh(l.io, l.near_context);
  fresh.connect(own, ec);
  CHECK(ec == rdma::error::not_connected); // local_endpoint() was not called yet
  rdma::endpoint_description other = own;
  other.kind =
    own.kind == rdma::device_kind::nic ? rdma::device_kind::software : rdma::device_kind::nic;
  (void)fresh.local_endpoint();
  fresh.connect(other, ec);
  CHECK(ec == rdma::error::no_common_transport);
  fresh.close();
  fresh.connect(own, ec);
  CHECK(ec == rdma::error::closed);
  CHECK_THROWS_AS(fresh.local_endpoint(), rdma::system_error);
}

TEST_CASE("a shared receive queue serves several queue pairs and identifies them")
{
  BOOST_RDMA_TEST_NEEDS(shared_receive_queues);
  asio::io_context io;
  rdma::context context = make_context();
  rdma::shared_receive_queue_options few;
  few.depth = 4;
  rdma::shared_receive_queue queue(io, context, few);
  rdma::queue_pair_options options;
  options.receive_from(queue);
  rdma::queue_pair a(io, context, options);
  rdma::queue_pair b(io, context, options);
  rdma::queue_pair peer_a(io, context);
  rdma::queue_pair peer_b(io, context);
  connect(a, peer_a);
  connect(b, peer_b);
  rdma::registered_buffer into = context.allocate(1024);
  int from_a = 0;
  int from_b = 0;
  for (std::size_t i = 0; i < 50; ++i)
    queue.async_receive_message(into.slice(i * 16, 16),
      [&](error_code ec, const rdma::message& m)
      {
        CHECK(ec == error_code());
        CHECK(m.size == 1);
        from_a += m.queue_pair_number == a.number();
        from_b += m.queue_pair_number == b.number();
      });
  rdma::registered_buffer text = buffer_of(context, "x");
  for (int i = 0; i < 50; ++i)
    (i % 5 < 2 ? peer_a : peer_b)
      .async_send(text, [](error_code ec, std::size_t) { CHECK(ec == error_code()); });
  REQUIRE(run_until(io, [&] { return from_a + from_b == 50; }));
  CHECK(from_a == 20);
  CHECK(from_b == 30);

  bytes_record direct;
  a.async_receive(into, direct.handler());
  REQUIRE(run_until(io, [&] { return direct.done(); }));
  CHECK(direct.ec == asio::error::operation_not_supported);
  message_record refused;
  queue.async_receive_message(into.first(0), refused.handler());
  REQUIRE(run_until(io, [&] { return refused.done(); }));
  CHECK(refused.ec == rdma::error::empty_buffer);

  rdma::context other = make_context();
  message_record foreign;
  queue.async_receive_message(buffer_of(other, "abc"), foreign.handler());
  REQUIRE(run_until(io, [&] { return foreign.done(); }));
  CHECK(foreign.ec == rdma::error::wrong_context);
  // Neither has used up a slot.
  message_record good;
  bytes_record sent;
  queue.async_receive_message(into, good.handler());
  peer_a.async_send(text, sent.handler());
  REQUIRE(run_until(io, [&] { return good.done() && sent.done(); }));
  CHECK(sent.ec == error_code());
  CHECK(good.value().size == 1);
}

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/device_trouble.hpp"
#include "common/rdma_fixture.hpp"
#include "verbs/software/software.hpp"

#include <boost_rdma/device_events.hpp>

#include <optional>
#include <vector>

// Tests the removal of a device that is in use.

using namespace test;
using rdma::device_event_type;

namespace {

// All kinds of operations, outstanding on one device.
struct busy_device
{
  auto handler()
  {
    return [this](error_code ec, std::size_t) { ended.push_back(ec); };
  }

  busy_device()
  {
    options.device = "soft0";
    context = rdma::context(options);
    far_context = rdma::context(options);
    rdma::queue_pair_options few;
    few.send_depth = few.receive_depth = 2;
    near.emplace(io, context, few);
    far.emplace(io, far_context, few);
    shared.emplace(io, context);
    rdma::queue_pair_options on_it;
    on_it.receive_from(*shared);
    sharing.emplace(io, context, on_it);
    sharing_peer.emplace(io, far_context);
    connect(*near, *far);
    connect(*sharing, *sharing_peer);
    buffer = context.allocate(64);
    for (int i = 0; i < 5; ++i) // posted and waiting
    {
      near->async_receive(buffer, handler());
      near->async_send(buffer, handler()); // never finds a receive
    }
    for (int i = 0; i < 3; ++i)
      shared->async_receive_message(
        buffer, [this](error_code ec, const rdma::message&) { ended.push_back(ec); });
    started = 13;
  }

  rdma::context_options options;
  asio::io_context io;
  rdma::context context;
  rdma::context far_context;
  std::optional<rdma::queue_pair> near;
  std::optional<rdma::queue_pair> far;
  std::optional<rdma::shared_receive_queue> shared;
  std::optional<rdma::queue_pair> sharing;
  std::optional<rdma::queue_pair> sharing_peer;
  rdma::registered_buffer buffer;
  std::vector<error_code> ended;
  std::size_t started = 0;
};

} // namespace

TEST_CASE("removal of a device ends all outstanding operations with device_lost")
{
  busy_device d;
  rdma::device_events events(d.io, d.context);
  event_record first;
  event_record second;
  events.async_wait_event(first.handler());
  events.async_wait_event(second.handler());
  rdma::queue_pair unconnected(d.io, d.context);
  rdma::software::remove_device(device_of(d.context).native());
  REQUIRE(run_until(d.io, [&] { return d.ended.size() == d.started && second.done(); }));
  for (const error_code& each : d.ended)
    CHECK(each == rdma::error::device_lost);
  CHECK(first.ec == error_code());
  CHECK(first.value().type == device_event_type::device_fatal);
  CHECK(second.ec == rdma::error::device_lost);
  CHECK_FALSE(d.near->is_connected());
  CHECK(d.near->diagnose().code == rdma::error::device_lost);

  // Later operations fail at once.
  bytes_record late;
  message_record late_shared;
  event_record late_event;
  plain_record late_connect;
  d.near->async_send(d.buffer, late.handler());
  d.shared->async_receive_message(d.buffer, late_shared.handler());
  events.async_wait_event(late_event.handler());
  unconnected.async_connect({asio::ip::address_v4::loopback(), 1}, late_connect.handler());
  REQUIRE(run_until(d.io,
    [&] { return late.done() && late_shared.done() && late_event.done() && late_connect.done(); }));
  CHECK(late.ec == rdma::error::device_lost);
  CHECK(late_shared.ec == rdma::error::device_lost);
  CHECK(late_event.ec == rdma::error::device_lost);
  CHECK(late_connect.ec == rdma::error::device_lost);
  auto code_of = [](auto make)
  {
    try
    {
      make();
    }
    catch (const rdma::system_error& e)
    {
      return e.code();
    }
    return error_code();
  };
  const error_code lost = rdma::error::device_lost;
  CHECK(code_of([&] { rdma::queue_pair(d.io, d.context); }) == lost);
  CHECK(code_of([&] { rdma::shared_receive_queue(d.io, d.context); }) == lost);
  CHECK(code_of([&] { rdma::completion_queue(d.io, d.context); }) == lost);
  CHECK(code_of([&] { rdma::device_events(d.io, d.context); }) == lost);
  CHECK(code_of([&] { rdma::memory_region(d.context, 64); }) == lost);
  CHECK(code_of([&] { rdma::memory_window(d.context); }) == lost);
  CHECK(code_of([&] { (void)rdma::protection_domain::make(d.context); }) == lost);
  CHECK(code_of([&] { (void)d.context.allocate(1 << 24); }) == lost);
  CHECK(code_of([&] { (void)d.near->local_endpoint(); }) == lost);

  // The device of the other context still works.
  rdma::registered_buffer elsewhere = d.far_context.allocate(64);
  CHECK(elsewhere.size() == 64);
}

TEST_CASE("operations of a removed device end when their objects are closed")
{
  busy_device d;
  rdma::software::remove_device(device_of(d.context).native());
  d.near->close();
  d.near.reset();
  d.sharing.reset();
  d.shared.reset();
  REQUIRE(run_until(d.io, [&] { return d.ended.size() == d.started; }));
  for (const error_code& each : d.ended)
    CHECK((each == rdma::error::device_lost || each == asio::error::operation_aborted));
}

TEST_CASE("handlers on a removed device are destroyed without a call with their io_context")
{
  auto alive = std::make_shared<int>();
  {
    busy_device d;
    d.near->async_receive(d.buffer, [alive](error_code, std::size_t) { FAIL("called"); });
    rdma::software::remove_device(device_of(d.context).native());
  }
  CHECK(alive.use_count() == 1);
}

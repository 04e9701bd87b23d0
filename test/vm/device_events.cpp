//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "vm/device_machine.hpp"

#include <boost_rdma/device_events.hpp>

#include <atomic>
#include <optional>
#include <thread>

// Tests the events that a kernel device reports about its port.

using namespace test;
using rdma::device_event_type;

namespace {

/// Waits for the next event of this type; other events may arrive before it.
bool receives_event(
  asio::io_context& io, rdma::device_events& events, device_event_type type, std::uint8_t port)
{
  for (;;)
  {
    record<rdma::device_event> heard;
    events.async_wait_event(heard.handler());
    if (!run_until(io, [&] { return heard.done(); }))
    {
      events.cancel();
      static_cast<void>(run_out(io));
      return false;
    }
    if (heard.value().type == type)
    {
      CHECK(heard.value().port == port);
      CHECK(heard.value().device == device_name());
      return true;
    }
  }
}

} // namespace

TEST_CASE("a port reports going down and coming up and connections survive it")
{
  BOOST_RDMA_TEST_IN_MACHINE("rxe0");
  linked_pair l;
  rdma::device_events events(l.io, l.near_context);
  rdma::registered_buffer to = l.far_context.allocate(5);
  bytes_record received;
  l.far.async_receive(to, received.handler());
  {
    afterwards up("ip link set veth1 up");
    shell("ip link set veth1 down");
    CHECK(receives_event(l.io, events, device_event_type::port_error, 1));
  }
  CHECK(receives_event(l.io, events, device_event_type::port_active, 1));
  CHECK(received.calls == 0);
  rdma::registered_buffer from = buffer_of(l.near_context, "again");
  bytes_record sent;
  l.near.async_send(from, sent.handler());
  REQUIRE(run_until(l.io, [&] { return sent.done() && received.done(); }));
  CHECK(sent.ec == error_code());
  CHECK(received.ec == error_code());
}

TEST_CASE("adding or removing an address reports gid_change")
{
  BOOST_RDMA_TEST_IN_MACHINE("rxe0");
  asio::io_context io;
  rdma::context context = make_context();
  rdma::device_events events(io, context);
  {
    afterwards gone("ip addr del 10.0.0.77/24 dev veth0");
    shell("ip addr add 10.0.0.77/24 dev veth0");
    CHECK(receives_event(io, events, device_event_type::gid_change, 1));
  }
  CHECK(receives_event(io, events, device_event_type::gid_change, 1));
}

TEST_CASE("every context of a device receives its port events")
{
  BOOST_RDMA_TEST_IN_MACHINE("rxe0");
  asio::io_context io;
  rdma::context one = make_context();
  rdma::context other = make_context();
  rdma::device_events of_one(io, one);
  rdma::device_events of_other(io, other);
  {
    afterwards up("ip link set veth1 up");
    shell("ip link set veth1 down");
    CHECK(receives_event(io, of_one, device_event_type::port_error, 1));
    CHECK(receives_event(io, of_other, device_event_type::port_error, 1));
  }
  CHECK(receives_event(io, of_one, device_event_type::port_active, 1));
}

// rxe of Linux 6.1 cannot be removed while it is in use: its deletion waits for the users and
// reports no event.
TEST_CASE("deletion of a device completes when the last context releases it")
{
  BOOST_RDMA_TEST_IN_MACHINE("rxe0");
  afterwards back(
    "rdma link show rxe0/1 >/dev/null 2>&1 || rdma link add rxe0 type rxe netdev veth0");
  std::atomic<bool> deleted{false};
  std::thread deleting;
  int ended = 0;
  {
    linked_pair l;
    rdma::device_events events(l.io, l.near_context);
    rdma::registered_buffer buffer = l.near_context.allocate(64);
    auto handler = [&](error_code, auto&&) { ++ended; };
    l.near.async_receive(buffer, handler);
    l.near.async_send(buffer, handler); // never finds a receive
    events.async_wait_event(handler);
    deleting = std::thread(
      [&]
      {
        shell("rdma link delete rxe0");
        deleted = true;
      });
    l.io.run_for(std::chrono::seconds(1));
    l.near.close();
    l.far.close();
    events.close();
    CHECK(run_until(l.io, [&] { return ended == 3; }));
  }
  deleting.join(); // the time limit of the machine applies
  CHECK(deleted);
  for (const rdma::device_info& each : rdma::list_devices())
    CHECK(each.name != "rxe0");
}

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/cm_fixture.hpp"
#include "software/verbs_fixture.hpp"

#include <boost_rdma/batch.hpp>
#include <boost_rdma/memory_region.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include <array>
#include <cstring>
#include <string>
#include <vector>

namespace {

using namespace test;

// Receives a message of the peer into its own buffer.
struct receiving
{
  receiving(rdma::queue_pair& peer, const rdma::context& context)
    : buffer(context.allocate(64))
  {
    peer.async_receive(buffer, outcome.handler());
  }
  [[nodiscard]] std::string text() const { return text_of(buffer.first(outcome.value())); }

  rdma::registered_buffer buffer;
  bytes_record outcome;
};

error_code send(asio::io_context& io, rdma::queue_pair& peer, const rdma::registered_buffer& buffer)
{
  bytes_record sent;
  peer.async_send(buffer, sent.handler());
  REQUIRE(run_until(io, [&] { return sent.done(); }));
  return sent.ec;
}

// Returns the error of connecting to this address.
error_code connect_error(cm_fixture& f, const tcp::endpoint& to)
{
  data_record connected;
  cm::async_connect(f.client, to, connected.handler());
  REQUIRE(run_until(f.io, [&] { return connected.done(); }));
  CHECK_FALSE(f.client.is_connected());
  return connected.ec;
}

bool is_refusal(const error_code& ec)
{
  return ec == error::refused
    || (ec == asio::error::connection_refused && !has(feature::distinct_refusals));
}

} // namespace

TEST_CASE("RDMA-CM connects queue pairs with private data in both directions")
{
  cm_fixture f;
  receiving at_server(f.server, f.server_context);
  receiving at_client(f.client, f.client_context);
  f.connect("who I am", "welcome");
  CHECK(f.client_data.text() == "who I am");
  CHECK(f.server_data.text() == "welcome");
  CHECK(f.client_endpoint.address() == device_address());
  CHECK(f.client_endpoint.port() != 0);
  CHECK(f.client.is_connected());
  CHECK(f.server.is_connected());
  for (const rdma::transport_choice& choice : {f.client.transport(), f.server.transport()})
  {
    INFO(choice.text());
    CHECK(choice.device == device_name());
    CHECK(choice.gid != std::array<std::uint8_t, 16>{});
    CHECK(choice.gid == choice.peer_gid); // both are on this host
    CHECK(choice.features != rdma::device_features::unknown);
    CHECK((missing(feature::endpoint_descriptions).empty() ? choice.path_mtu >= 256
                                                           : choice.wire == rdma::wire::iwarp));
  }

  REQUIRE(send(f.io, f.client, buffer_of(f.client_context, "there")) == error_code());
  REQUIRE(send(f.io, f.server, buffer_of(f.server_context, "and back")) == error_code());
  REQUIRE(run_until(f.io, [&] { return at_server.outcome.done() && at_client.outcome.done(); }));
  CHECK(at_server.text() == "there");
  CHECK(at_client.text() == "and back");
}

TEST_CASE("one-sided operations work over a connection of RDMA-CM")
{
  cm_fixture f;
  const rdma::memory_region target(f.server_context, 64, exposed);
  f.connect();
  auto local = buffer_of(f.client_context, "written");
  bytes_record written;
  f.client.async_write(local, target.remote(), written.handler());
  REQUIRE(run_until(f.io, [&] { return written.done(); }));
  REQUIRE(written.ec == error_code());

  auto back = f.client_context.allocate(7);
  bytes_record read;
  f.client.async_read(back, target.remote().first(7), read.handler());
  REQUIRE(run_until(f.io, [&] { return read.done(); }));
  REQUIRE(read.ec == error_code());
  CHECK(text_of(back) == "written"); // a read executes after the preceding writes, also on iWARP
  CHECK(text_of(target.first(7)) == "written");
}

TEST_CASE("the memory of a batch can be changed when the batch has completed")
{
  constexpr std::size_t part = 1 << 18;
  constexpr std::size_t parts = 16;
  cm_fixture f;
  const rdma::memory_region target(f.server_context, parts * part, exposed);
  const rdma::memory_region source(f.client_context, parts * part, rdma::access::local_write);
  f.connect();
  std::memset(source.data(), 'x', source.size());
  std::size_t completed = 0;
  for (std::size_t i = 0; i != parts; ++i)
  {
    const rdma::mutable_buffer from = source.slice(i * part, part);
    const rdma::remote_buffer to = target.remote().slice(i * part, part);
    f.client.async_submit(rdma::batch().write(from, to).write(from.first(1), to.first(1)),
      [&completed, from](const error_code& ec, std::size_t)
      {
        CHECK(ec == error_code());
        std::memset(from.data(), '.', from.size());
        ++completed;
      });
  }
  REQUIRE(run_until(f.io, [&] { return completed == parts; }));
  const auto answer = f.client_context.allocate(1);
  bytes_record read; // its answer follows all writes
  f.client.async_read(answer, target.remote().first(1), read.handler());
  REQUIRE(run_until(f.io, [&] { return read.done(); }));
  REQUIRE(read.ec == error_code());
  CHECK((text_of(target) == std::string(target.size(), 'x')));
}

TEST_CASE("an acceptor of RDMA-CM serves one client per accept and keeps the others waiting")
{
  cm::acceptor_options options;
  options.data = cm::private_data("hello");
  cm_fixture f(options);
  std::array<accept_record, 3> accepted;
  std::array<data_record, 4> connected;
  std::vector<rdma::queue_pair> clients;
  clients.reserve(connected.size());
  for (std::size_t i = 0; i < 2; ++i)
    f.acceptor.async_accept(accepted[i].handler());
  for (data_record& each : connected)
    cm::async_connect(
      clients.emplace_back(f.io, f.client_context), f.acceptor.local_endpoint(), each.handler());
  const auto count = [](const auto& records)
  {
    return std::count_if(
      records.begin(), records.end(), [](const auto& each) { return each.done(); });
  };
  REQUIRE(run_until(f.io, [&] { return count(accepted) == 2 && count(connected) == 2; }));
  f.acceptor.async_accept(accepted[2].handler());
  REQUIRE(run_until(f.io, [&] { return count(accepted) == 3 && count(connected) == 3; }));
  for (const accept_record& each : accepted)
  {
    CHECK(each.ec == error_code());
    CHECK(each.object->is_connected());
  }
  for (const data_record& each : connected)
    if (each.done())
    {
      CHECK(each.ec == error_code());
      CHECK(each.value().text() == "hello");
    }
  // The fourth client still waits; closing the acceptor refuses it.
  f.acceptor.close();
  REQUIRE(run_until(f.io, [&] { return count(connected) == 4; }));
  for (std::size_t i = 0; i < connected.size(); ++i)
    if (connected[i].ec)
      CHECK(is_refusal(connected[i].ec));
}

TEST_CASE("reject of a listener reports the reason to the client")
{
  cm_fixture f;
  request_record asked;
  data_record connected;
  f.acceptor.async_get_request(asked.handler());
  cm::async_connect(f.client, f.acceptor.local_endpoint(), connected.handler());
  REQUIRE(run_until(f.io, [&] { return asked.done(); }));

  SECTION("with private data")
  {
    asked.object->reject(cm::private_data("not today"));
    REQUIRE(run_until(f.io, [&] { return connected.done(); }));
    CHECK(connected.ec == error::refused);
    CHECK(connected.value().text() == "not today");
  }
  SECTION("without private data")
  {
    asked.object->reject();
    REQUIRE(run_until(f.io, [&] { return connected.done(); }));
    CHECK(is_refusal(connected.ec));
    CHECK(connected.value().text().empty());
  }
  SECTION("by destroying the request")
  {
    asked.object.reset();
    REQUIRE(run_until(f.io, [&] { return connected.done(); }));
    CHECK(is_refusal(connected.ec));
  }
  CHECK_FALSE(f.client.is_connected());

  // A queue pair connects only once.
  CHECK(connect_error(f, f.acceptor.local_endpoint()) == error::already_connected);
}

TEST_CASE("a connection request can be answered only once")
{
  cm_fixture f;
  request_record asked;
  data_record connected;
  f.acceptor.async_get_request(asked.handler());
  cm::async_connect(f.client, f.acceptor.local_endpoint(), connected.handler());
  REQUIRE(run_until(f.io, [&] { return asked.done(); }));
  accept_record first;
  accept_record second;
  plain_record third;
  asked.object->async_accept(cm::private_data(), first.handler());
  CHECK_FALSE(asked.object->is_open());
  asked.object->async_accept(cm::private_data(), second.handler());
  asked.object->async_accept(f.server, cm::private_data(), third.handler());
  asked.object->reject();
  REQUIRE(run_until(f.io, [&] { return first.done() && second.done() && third.done(); }));
  CHECK(first.ec == error_code());
  CHECK(second.ec == error::closed);
  CHECK(third.ec == error::closed);
  REQUIRE(run_until(f.io, [&] { return connected.done(); }));
  CHECK(connected.ec == error_code());
}

TEST_CASE("cm::async_connect reports the reason of a failure")
{
  cm_fixture f;
  SECTION("nothing listens at the address")
  {
    const auto free = f.acceptor.local_endpoint();
    f.acceptor.close();
    CHECK(connect_error(f, free) == asio::error::connection_refused);
  }
  SECTION("no RDMA device has the source address")
  {
    data_record connected;
    cm::async_connect(f.client, f.acceptor.local_endpoint(),
      cm::connect_options{.data = {}, .source = asio::ip::make_address("192.0.2.1")},
      connected.handler());
    REQUIRE(run_until(f.io, [&] { return connected.done(); }));
    CHECK(connected.ec == error::unreachable);
  }
  SECTION("no RDMA device has a route to the address")
  {
    BOOST_RDMA_TEST_NEEDS(rdma_routes);
    CHECK(connect_error(f, {asio::ip::make_address("192.0.2.1"), 7471}) == error::unreachable);
  }
  SECTION("the queue pair is closed")
  {
    f.client.close();
    CHECK(connect_error(f, f.acceptor.local_endpoint()) == error::closed);
  }
  SECTION("the private data is too large")
  {
    const std::string much(200, 'x');
    request_record asked;
    data_record connected;
    f.acceptor.async_get_request(asked.handler());
    cm::async_connect(f.client, f.acceptor.local_endpoint(),
      cm::connect_options{.data = cm::private_data(much), .source = {}}, connected.handler());
    REQUIRE(run_until(f.io, [&] { return connected.done() || asked.done(); }));
    if (has(feature::private_data_limits))
      CHECK(connected.ec == error::message_too_large);
    else
      CHECK(asked.object->data().text() == much);
  }
  SECTION("the listener does not answer in time")
  {
    rdma::queue_pair_options options;
    options.connect_timeout = std::chrono::milliseconds(300);
    f.client = rdma::queue_pair(f.io, f.client_context, options);
    request_record asked;
    f.acceptor.async_get_request(asked.handler());
    CHECK(connect_error(f, f.acceptor.local_endpoint()) == error::handshake_timeout);

    // The client has disconnected.
    REQUIRE(run_until(f.io, [&] { return asked.done(); }));
    accept_record accepted;
    asked.object->async_accept(cm::private_data(), accepted.handler());
    REQUIRE(run_until(f.io, [&] { return accepted.done(); }));
    if (has(feature::early_disconnect))
      CHECK(accepted.ec == error::peer_lost);
  }
}

TEST_CASE("RDMA-CM fails with other_device when the route uses another device than the context's")
{
  const machine_device& other = other_device();
  const auto devices = rdma::list_devices();
  if (std::none_of(
        devices.begin(), devices.end(), [&](const auto& each) { return each.name == other.name; }))
  {
    WARN("skipped on " << device_name() << ": this machine has no " << other.name
                       << " (rdma_vm --device both)");
    return;
  }
  cm_fixture f;
  CHECK(connect_error(f, {asio::ip::make_address(other.address), 7471}) == error::other_device);
  error_code ec;
  cm::acceptor elsewhere(
    f.io, f.server_context, {asio::ip::make_address(other.address), 0}, {}, ec);
  CHECK(ec == error::other_device);
  CHECK_FALSE(elsewhere.is_open());
}

TEST_CASE("an acceptor of RDMA-CM reports why it cannot listen")
{
  cm_fixture f;
  error_code ec;
  SECTION("no RDMA device has the address")
  {
    cm::acceptor acceptor(f.io, f.server_context, {asio::ip::make_address("192.0.2.1"), 0}, {}, ec);
    CHECK(ec == error::unreachable);
  }
  SECTION("the port is in use")
  {
    cm::acceptor_options options;
    options.reuse_address = false;
    cm::acceptor first(f.io, f.server_context, {device_address(), 0}, options, ec);
    REQUIRE(ec == error_code());
    cm::acceptor second(f.io, f.server_context, first.local_endpoint(), options, ec);
    CHECK(ec == asio::error::address_in_use);
  }
}

TEST_CASE("closing a queue pair of RDMA-CM ends the peer's operations with peer_closed")
{
  const bool by_client = GENERATE(true, false);
  cm_fixture f;
  receiving at_server(f.server, f.server_context);
  receiving at_client(f.client, f.client_context);
  receiving second_at_server(f.server, f.server_context);
  f.connect();
  REQUIRE(send(f.io, f.client, buffer_of(f.client_context, "first")) == error_code());
  REQUIRE(run_until(f.io, [&] { return at_server.outcome.done(); }));
  CHECK(at_server.outcome.ec == error_code());

  (by_client ? f.client : f.server).close();
  REQUIRE(
    run_until(f.io, [&] { return at_client.outcome.done() && second_at_server.outcome.done(); }));
  const error_code closer = asio::error::operation_aborted;
  CHECK(at_client.outcome.ec == (by_client ? closer : error_code(error::peer_closed)));
  CHECK(second_at_server.outcome.ec == (by_client ? error_code(error::peer_closed) : closer));
  CHECK((by_client ? f.server : f.client).diagnose().code == error::peer_closed);
}

TEST_CASE("an acceptor of RDMA-CM queues at most requests_max requests")
{
  cm::acceptor_options options;
  options.requests_max = 2;
  cm_fixture f(options);
  std::array<data_record, 6> connected;
  std::vector<rdma::queue_pair> clients;
  clients.reserve(connected.size());
  for (data_record& each : connected)
    cm::async_connect(
      clients.emplace_back(f.io, f.client_context), f.acceptor.local_endpoint(), each.handler());
  const auto refused = [&]
  {
    return std::count_if(
      connected.begin(), connected.end(), [](const auto& each) { return each.done(); });
  };
  // The kernel's backlog has the same length and drops further requests; those clients retry.
  REQUIRE(run_until(f.io, [&] { return refused() >= 1; }));
  accept_record accepted;
  f.acceptor.async_accept(accepted.handler());
  REQUIRE(run_until(f.io, [&] { return accepted.done(); }));
  CHECK(accepted.ec == error_code());
}

TEST_CASE("RDMA-CM agrees on the smaller read depth")
{
  BOOST_RDMA_TEST_NEEDS(endpoint_descriptions); // iWARP devices do not exchange the depths
  cm_fixture f;
  rdma::queue_pair_options few;
  few.read_atomic_depth = 2;
  const bool at_server = GENERATE(true, false);
  if (at_server)
    f.server = rdma::queue_pair(f.io, f.server_context, few);
  else
    f.client = rdma::queue_pair(f.io, f.client_context, few);
  f.connect();
  for (const rdma::queue_pair* each : {&f.server, &f.client})
  {
    ibv_qp_attr attributes{};
    ibv_qp_init_attr initial{};
    REQUIRE(api_under_test().query_qp(each->native_handle(), &attributes,
              IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC, &initial)
      == 0);
    CHECK(int{attributes.max_rd_atomic} == 2);
    CHECK(int{attributes.max_dest_rd_atomic} == 2);
  }
}

TEST_CASE("cm::async_connect fails when the queue pair ended before")
{
  cm_fixture f;
  asio::cancellation_signal signal;
  bytes_record cancelled;
  bytes_record late;
  rdma::queue_pair_options options;
  options.fall_back = false; // posts the receives to the device at once
  f.client = rdma::queue_pair(f.io, f.client_context, options);
  auto buffer = f.client_context.allocate(8);
  f.client.async_receive(buffer, asio::bind_cancellation_slot(signal.slot(), cancelled.handler()));
  signal.emit(asio::cancellation_type::terminal);
  REQUIRE(run_until(f.io, [&] { return cancelled.done(); }));
  f.client.async_receive(buffer, late.handler());
  // If the device does not end it, the queue pair is closed.
  REQUIRE(run_until(f.io, [&] { return late.done(); }));
  CHECK(late.ec);
  CHECK(connect_error(f, f.acceptor.local_endpoint()));
}

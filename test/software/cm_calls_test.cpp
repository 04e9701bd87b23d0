//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests the functions of RDMA-CM on the software device: calls that do not fit, and a peer that
// sends its messages one by one.

#include "common/in_child.hpp"
#include "common/sleeping_threads.hpp"
#include "software/raw_cm_peer.hpp"
#include "software/verbs_fixture.hpp"
#include "verbs/software/cm/cm.hpp"
#include "verbs/software/cm/service.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>

namespace test::cm_calls_test {
namespace {

namespace asio = boost::asio;
namespace cm = rdma::software::cm;
using asio::ip::tcp;
using cm::message;
using cm::message_type;

constexpr auto no_service = static_cast<std::uint16_t>(cm::reject_reason::invalid_service_id);
constexpr auto consumer = static_cast<std::uint16_t>(cm::reject_reason::consumer);
constexpr std::uint32_t some_queue_pair = 77;

/// Returns the errno of a call that returned this.
int error_of(int result)
{
  return result == 0 ? 0 : errno;
}

tcp::endpoint on_loopback(std::uint16_t port = 0)
{
  return {asio::ip::address_v4::loopback(), port};
}

/// An event channel whose descriptor does not block.
class channel
{
public:
  channel()
    : native_(cm::create_event_channel())
  {
    must(native_ != nullptr && ::fcntl(native_->fd, F_SETFL, O_NONBLOCK) == 0, "event channel");
  }
  ~channel() { cm::destroy_event_channel(native_); }
  channel(const channel&) = delete;
  channel& operator=(const channel&) = delete;

  rdma_event_channel* get() const noexcept { return native_; }

  bool has_events() const
  {
    pollfd readable{native_->fd, POLLIN, 0};
    return ::poll(&readable, 1, 0) != 0;
  }

  /// Waits for the next event, which the caller acknowledges.
  rdma_cm_event* hold(rdma_cm_event_type wanted) const
  {
    rdma_cm_event* found = nullptr;
    REQUIRE(until([&] { return cm::get_cm_event(native_, &found) == 0 || errno != EAGAIN; }));
    REQUIRE(found != nullptr);
    REQUIRE(cm::event_str(found->event) == std::string(cm::event_str(wanted)));
    return found;
  }
  /// Waits for the next event. Returns its id.
  rdma_cm_id* next(rdma_cm_event_type wanted, int status = 0) const
  {
    rdma_cm_event* const found = hold(wanted);
    CHECK(found->status == status);
    rdma_cm_id* const of = found->id;
    REQUIRE(cm::ack_cm_event(found) == 0);
    return of;
  }

private:
  rdma_event_channel* const native_;
};

class identifier
{
public:
  explicit identifier(const channel& of)
  {
    must(cm::create_id(of.get(), &native_, nullptr, RDMA_PS_TCP) == 0, "create_id");
  }
  explicit identifier(rdma_cm_id* made) noexcept
    : native_(made)
  {
  }
  ~identifier() { destroy(); }
  identifier(const identifier&) = delete;
  identifier& operator=(const identifier&) = delete;

  rdma_cm_id* get() const noexcept { return native_; }
  void destroy()
  {
    if (native_ != nullptr)
      cm::destroy_id(std::exchange(native_, nullptr));
  }

  int bind(tcp::endpoint at) const { return error_of(cm::bind_addr(native_, at.data())); }
  int listen(int backlog = 0) const { return error_of(cm::listen(native_, backlog)); }
  std::uint16_t port() const { return ntohs(cm::get_src_port(native_)); }
  int resolve(tcp::endpoint to) const
  {
    return error_of(cm::resolve_addr(native_, nullptr, to.data(), 1000));
  }
  int connect(std::uint8_t data_size = 0) const
  {
    static constexpr std::array<std::byte, 256> data{};
    rdma_conn_param with{};
    with.qp_num = some_queue_pair;
    with.private_data = data.data();
    with.private_data_len = data_size;
    return error_of(cm::connect(native_, &with));
  }
  int accept(rdma_conn_param with = {}) const
  {
    with.qp_num = some_queue_pair;
    return error_of(cm::accept(native_, &with));
  }
  int reject(std::uint8_t size = 0) const
  {
    static constexpr std::array<std::byte, 256> data{};
    return error_of(cm::reject(native_, data.data(), size));
  }

private:
  rdma_cm_id* native_ = nullptr;
};

/// A listener, and a client whose messages the test writes.
struct scene
{
  explicit scene(int backlog = 0, const char* address = "127.0.0.1")
  {
    REQUIRE(listener.bind({asio::ip::make_address(address), 0}) == 0);
    REQUIRE(listener.listen(backlog) == 0);
    client.emplace(io, on_loopback(listener.port()));
  }

  /// Returns the id of a new request.
  rdma_cm_id* requested(std::uint32_t name)
  {
    client->send(client->request(name));
    return events.next(RDMA_CM_EVENT_CONNECT_REQUEST);
  }

  asio::io_context io;
  channel events;
  identifier listener{events};
  std::optional<raw_cm_peer> client;
};

/// An id that asks a listener whose messages the test writes.
struct client_scene
{
  client_scene() { prepare(client, listener); }

  /// Resolves the address and the route of this listener.
  void prepare(const identifier& one, const raw_cm_peer& to)
  {
    REQUIRE(one.resolve(on_loopback(to.local().port())) == 0);
    events.next(RDMA_CM_EVENT_ADDR_RESOLVED);
    REQUIRE(cm::resolve_route(one.get(), 1000) == 0);
    events.next(RDMA_CM_EVENT_ROUTE_RESOLVED);
  }
  /// Answers the id's request.
  message establish(const identifier& one, std::uint32_t name)
  {
    REQUIRE(one.connect() == 0);
    message reply = listener.await(message_type::request);
    reply.type = message_type::reply;
    reply.remote_id = reply.local_id;
    reply.local_id = name;
    listener.send(reply);
    events.next(RDMA_CM_EVENT_CONNECT_RESPONSE);
    REQUIRE(cm::establish(one.get()) == 0);
    return listener.await(message_type::ready);
  }

  asio::io_context io;
  channel events;
  raw_cm_peer listener{io};
  identifier client{events};
};

} // namespace

TEST_CASE("calls of RDMA-CM fail when they do not fit the state of the id")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  client_scene s;
  const auto check_unconnected = [](const identifier& one)
  {
    rdma_conn_param with{};
    CHECK(error_of(cm::establish(one.get())) == EINVAL);
    CHECK(error_of(cm::accept(one.get(), &with)) == EINVAL);
    CHECK(one.reject() == EINVAL);
    CHECK(error_of(cm::disconnect(one.get())) == EINVAL);
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RTR;
    int mask = 0;
    CHECK(error_of(cm::init_qp_attr(one.get(), &attributes, &mask)) == EINVAL);
  };
  rdma_cm_id* none = nullptr;
  CHECK(error_of(cm::create_id(s.events.get(), &none, nullptr, RDMA_PS_IPOIB)) == EPROTONOSUPPORT);
  CHECK(error_of(cm::create_id(s.events.get(), &none, nullptr, rdma_port_space{})) == EINVAL);
  CHECK(cm::event_str(rdma_cm_event_type(1000)) == std::string("UNKNOWN EVENT"));

  const identifier one(s.events);
  int yes = 1;
  const auto set = [&](int level, std::size_t size)
  { return error_of(cm::set_option(one.get(), level, RDMA_OPTION_ID_REUSEADDR, &yes, size)); };
  CHECK(set(RDMA_OPTION_ID, sizeof yes) == 0);
  CHECK(set(RDMA_OPTION_ID, 1) == EINVAL);
  CHECK(set(RDMA_OPTION_IB, sizeof yes) == ENOSYS);
  CHECK(error_of(cm::resolve_route(one.get(), 1000)) == EINVAL);
  CHECK(one.connect() == EINVAL);
  check_unconnected(one);
  // An address of the host, but not of the device.
  CHECK(one.bind({asio::ip::make_address("127.0.0.5"), 0}) == ENODEV);
  REQUIRE(one.bind(on_loopback()) == 0);
  CHECK(one.bind(on_loopback()) == EINVAL);
  CHECK(set(RDMA_OPTION_ID, sizeof yes) == EINVAL);
  CHECK(one.connect() == EINVAL);
  REQUIRE(one.listen() == 0);
  CHECK(one.listen() == EINVAL);
  CHECK(one.resolve(on_loopback(s.listener.local().port())) == EINVAL);
  CHECK(error_of(cm::resolve_route(one.get(), 1000)) == EINVAL);
  CHECK(one.connect() == EINVAL);
  check_unconnected(one);

  CHECK(s.client.listen() == EINVAL);
  CHECK(s.client.resolve(on_loopback(s.listener.local().port())) == EINVAL);
  CHECK(error_of(cm::resolve_route(s.client.get(), 1000)) == EINVAL);
  check_unconnected(s.client);
  CHECK(s.client.connect(57) == EINVAL); // IBA annex A11 leaves 56 bytes
  REQUIRE(s.client.connect(56) == 0);
  CHECK(s.client.connect() == EINVAL);
  check_unconnected(s.client);
  CHECK_FALSE(s.events.has_events());
}

TEST_CASE("an id of RDMA-CM moves to another channel when its events are acknowledged")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const channel first;
  const channel second;
  const identifier one(first);
  REQUIRE(one.resolve(on_loopback(1)) == 0);
  rdma_cm_event* const held = first.hold(RDMA_CM_EVENT_ADDR_RESOLVED);
  CHECK(error_of(cm::migrate_id(one.get(), second.get())) == EBUSY);
  REQUIRE(cm::ack_cm_event(held) == 0);
  REQUIRE(cm::resolve_route(one.get(), 1000) == 0);
  REQUIRE(cm::migrate_id(one.get(), second.get()) == 0);
  CHECK_FALSE(first.has_events());
  CHECK(second.next(RDMA_CM_EVENT_ROUTE_RESOLVED) == one.get());
}

TEST_CASE("an address of RDMA-CM is in use unless each id permits others")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const channel events;
  const auto share = [](const identifier& one)
  {
    int yes = 1;
    REQUIRE(
      cm::set_option(one.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof yes) == 0);
  };
  const identifier first(events);
  const bool is_shared = GENERATE(true, false);
  if (is_shared)
    share(first);
  REQUIRE(first.bind(on_loopback()) == 0);
  const identifier second(events);
  CHECK(second.bind(on_loopback(first.port())) == EADDRINUSE);
  const identifier third(events);
  share(third);
  REQUIRE(third.bind(on_loopback(first.port())) == (is_shared ? 0 : EADDRINUSE));
  REQUIRE(first.listen() == 0);
  if (is_shared)
    CHECK(third.listen() == EADDRINUSE);
}

TEST_CASE("a listener of RDMA-CM refuses requests that no queue pair can serve")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  scene s(0, "0.0.0.0");
  const message good = s.client->request(5);
  auto refuses = [&, transaction = std::uint64_t{100}](auto change) mutable
  {
    message bad = good;
    change(bad);
    bad.transaction = ++transaction;
    const message answer = s.client->ask(bad);
    return answer.type == message_type::reject && answer.status == no_service
      && answer.remote_id == bad.local_id;
  };
  CHECK(refuses([](message& m) { m.local_id = 0; }));
  CHECK(refuses([](message& m) { m.service_type = 1; }));
  CHECK(refuses([](message& m) { m.queue_pair = 1; }));
  CHECK(refuses([](message& m) { m.queue_pair = 0xffffff; }));
  CHECK(refuses([](message& m) { m.path_mtu = 0; }));
  CHECK(refuses([](message& m) { m.path_mtu = 6; }));
  CHECK(refuses([](message& m) { ++m.service_id; }));
  message datagram = good;
  datagram.type = message_type::datagram_request;
  ++datagram.transaction;
  const message answer = s.client->ask(datagram);
  CHECK(answer.type == message_type::datagram_reply);
  CHECK(answer.status == static_cast<std::uint16_t>(cm::datagram_status::no_service));

  // An address of this host, but not of the device. The answer comes from there.
  const auto elsewhere = asio::ip::make_address("127.0.0.5");
  s.client->send_to({elsewhere, s.listener.port()});
  CHECK(refuses([](message&) {}));
  CHECK(s.client->peer().address() == elsewhere);
  s.client->send_to(on_loopback(s.listener.port()));

  // Not a message.
  auto bytes = cm::encode(good);
  std::vector<std::byte> longer(bytes.begin(), bytes.end());
  longer.push_back({});
  s.client->send(longer);
  s.client->settle();
  CHECK_FALSE(s.events.has_events());
  const identifier one(s.requested(5));
}

TEST_CASE("a listener of RDMA-CM refuses requests beyond its backlog")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  scene s(2);
  for (const std::uint32_t name : {1u, 2u})
  {
    s.client->send(s.client->request(name));
    s.client->send(s.client->request(name)); // counts once
  }
  for (const std::uint32_t name : {3u, 4u})
    CHECK(s.client->ask(s.client->request(name)).status == consumer);
  s.client->settle();
  // The first one leaves its place.
  const identifier first(s.events.next(RDMA_CM_EVENT_CONNECT_REQUEST));
  CHECK(s.client->ask(s.client->request(3)).type == message_type::receipt);
  CHECK(s.client->ask(s.client->request(4)).status == consumer);
  const identifier second(s.events.next(RDMA_CM_EVENT_CONNECT_REQUEST));
  const identifier third(s.events.next(RDMA_CM_EVENT_CONNECT_REQUEST));
  CHECK_FALSE(s.events.has_events());
}

TEST_CASE("destroying a listener of RDMA-CM refuses the requests that wait for it")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  scene s;
  const identifier taken(s.requested(1)); // keeps the port open
  for (const std::uint32_t name : {2u, 3u})
    CHECK(s.client->ask(s.client->request(name)).type == message_type::receipt);
  s.client->settle();
  s.listener.destroy();
  std::vector<std::uint32_t> refused;
  for (const message& each : s.client->settle())
    if (each.type == message_type::reject && each.status == consumer)
      refused.push_back(each.remote_id);
  std::sort(refused.begin(), refused.end());
  CHECK(refused == std::vector<std::uint32_t>{2, 3});
  CHECK_FALSE(s.events.has_events());

  // A new request waits for a new listener until it is repeated.
  s.client->send(s.client->request(4));
  CHECK(s.client->settle().empty());
  CHECK(s.client->ask(s.client->request(4)).status == no_service);
}

TEST_CASE("destroy_id of RDMA-CM waits until the id's events are acknowledged")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const channel events;
  identifier one(events);
  REQUIRE(one.resolve(on_loopback(1)) == 0);
  rdma_cm_event* const held = events.hold(RDMA_CM_EVENT_ADDR_RESOLVED);
  std::atomic<bool> acknowledged = false;
  bool waited = false;
  std::thread destroys(
    [&]
    {
      one.destroy();
      waited = acknowledged;
    });
  wait_for_sleeping_threads();
  acknowledged = true;
  cm::ack_cm_event(held);
  destroys.join();
  CHECK(waited);
}

TEST_CASE("an id of RDMA-CM that is destroyed leaves no event")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const channel events;
  const identifier other(events);
  {
    const identifier one(events);
    REQUIRE(one.resolve(on_loopback(1)) == 0);
    REQUIRE(other.resolve(on_loopback(1)) == 0);
    REQUIRE(cm::resolve_route(one.get(), 1000) == 0);
  }
  CHECK(events.next(RDMA_CM_EVENT_ADDR_RESOLVED) == other.get());
  CHECK_FALSE(events.has_events());
}

TEST_CASE("a request of RDMA-CM is repeated until the peer answers")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  client_scene s;
  wait_for_sleeping_threads(); // the service's thread has no timer
  REQUIRE(s.client.connect() == 0);
  const message first = s.listener.await(message_type::request);
  CHECK(s.listener.await(message_type::request) == first);
  message answer;
  answer.type = message_type::reject;
  answer.remote_id = first.local_id;
  answer.status = consumer;
  s.listener.send(answer);
  CHECK(s.events.next(RDMA_CM_EVENT_REJECTED, consumer) == s.client.get());
}

TEST_CASE("a request of RDMA-CM to an address without a process is refused and no other connection")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  client_scene s;
  s.establish(s.client, 9);
  const identifier one(s.events);
  {
    const raw_cm_peer gone(s.io);
    s.prepare(one, gone);
  }
  REQUIRE(one.connect() == 0);
  CHECK(s.events.next(RDMA_CM_EVENT_REJECTED, no_service) == one.get());
  s.listener.settle();
  CHECK_FALSE(s.events.has_events());
}

TEST_CASE("an id of RDMA-CM that has ended takes no message and its request is new")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  scene s;
  {
    const identifier one(s.requested(5));
    REQUIRE(one.reject() == 0);
    CHECK(one.accept() == EINVAL);
    CHECK(one.reject() == EINVAL);
    CHECK(s.client->ask(s.client->request(5)).status == consumer);
    s.client->settle();
    CHECK_FALSE(s.events.has_events());
  }
  const identifier again(s.requested(5));
  // The peer gives up before it has an answer, so it does not have this end's id.
  message late = s.client->request(5);
  late.type = message_type::reject;
  late.status = static_cast<std::uint16_t>(cm::reject_reason::timeout);
  s.client->send(late);
  CHECK(s.events.next(RDMA_CM_EVENT_REJECTED, late.status) == again.get());
  CHECK(again.accept() == EINVAL);
  CHECK(again.reject() == EINVAL);
}

TEST_CASE("an id of RDMA-CM takes messages only of its peer and at its own port")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  scene s;
  const identifier other(s.events);
  REQUIRE(other.bind(on_loopback()) == 0);
  REQUIRE(other.listen() == 0);
  const identifier one(s.requested(5));
  REQUIRE(one.accept() == 0);
  const message reply = s.client->await(message_type::reply);
  message ready = s.client->request(5);
  ready.type = message_type::ready;
  ready.remote_id = reply.local_id;
  s.client->send_to(on_loopback(other.port()));
  s.client->send(ready);
  s.client->settle();
  raw_cm_peer stranger(s.io, on_loopback(s.listener.port()));
  stranger.send(ready);
  stranger.settle();
  CHECK_FALSE(s.events.has_events());
  s.client->send_to(on_loopback(s.listener.port()));
  s.client->send(ready);
  CHECK(s.events.next(RDMA_CM_EVENT_ESTABLISHED) == one.get());
}

TEST_CASE("accept of RDMA-CM answers with values within those of the request")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  scene s;
  message request = s.client->request(5);
  request.responder_resources = 3;
  request.initiator_depth = 2;
  request.path_mtu = IBV_MTU_512;
  request.starting_psn = 4711;
  s.client->send(request);
  const identifier one(s.events.next(RDMA_CM_EVENT_CONNECT_REQUEST));
  rdma_conn_param with{};
  with.private_data = &request;
  with.private_data_len = 197; // a REP has 196
  CHECK(one.accept(with) == EINVAL);
  CHECK(one.reject(149) == EINVAL);
  with.private_data_len = 0;
  with.responder_resources = with.initiator_depth = 255;
  with.retry_count = with.rnr_retry_count = 255;
  REQUIRE(one.accept(with) == 0);
  const message reply = s.client->await(message_type::reply);
  CHECK(int{reply.responder_resources} == 2);
  CHECK(int{reply.initiator_depth} == 3);
  CHECK(int{reply.rnr_retry_count} == 7);
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  int mask = 0;
  REQUIRE(cm::init_qp_attr(one.get(), &attributes, &mask) == 0);
  CHECK(attributes.dest_qp_num == request.queue_pair);
  CHECK(attributes.rq_psn == 4711);
  CHECK(attributes.path_mtu == IBV_MTU_512);
  CHECK(int{attributes.max_dest_rd_atomic} == 2);
  attributes.qp_state = IBV_QPS_RTS;
  REQUIRE(cm::init_qp_attr(one.get(), &attributes, &mask) == 0);
  CHECK(int{attributes.max_rd_atomic} == 3);
}

TEST_CASE("a queue pair of RDMA-CM that loses its peer asks for the connection of its last id")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  client_scene s;
  identifier first(s.events);
  s.prepare(first, s.listener);
  s.establish(first, 8);
  s.establish(s.client, 9); // of the same queue pair number
  first.destroy();
  s.listener.await(message_type::disconnect);
  cm::service::on_lost_peer(some_queue_pair);
  CHECK(s.listener.await(message_type::receipt).remote_id == 9);
}

TEST_CASE("a child of fork() has no part in connections of RDMA-CM and can make its own")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  BOOST_RDMA_TEST_FORKS();
  scene s;
  identifier one(s.requested(5));
  REQUIRE(one.accept() == 0);
  s.client->await(message_type::reply);
  rdma_cm_event* held = nullptr;
  identifier two(s.events);
  REQUIRE(two.resolve(on_loopback(1)) == 0);
  held = s.events.hold(RDMA_CM_EVENT_ADDR_RESOLVED);
  wait_for_sleeping_threads(); // none holds the service's mutex
  CHECK(in_child(
          [&]() -> std::string
          {
            rdma_cm_event* event = nullptr;
            rdma_cm_id* made = nullptr;
            if (error_of(cm::get_cm_event(s.events.get(), &event)) != EPERM)
              return "get_cm_event";
            if (error_of(cm::create_id(s.events.get(), &made, nullptr, RDMA_PS_TCP)) != EPERM)
              return "create_id";
            if (error_of(cm::disconnect(one.get())) != EPERM)
              return "disconnect";
            if (cm::ack_cm_event(held) != 0)
              return "ack_cm_event";
            ibv_context* const device_of_parent = two.get()->verbs;
            two.destroy();
            one.destroy();
            s.listener.destroy();
            const channel own;
            const identifier fresh(own);
            if (fresh.resolve(on_loopback(1)) != 0)
              return "resolve_addr";
            if (!until([&] { return cm::get_cm_event(own.get(), &event) == 0; }))
              return "no event";
            if (event->event != RDMA_CM_EVENT_ADDR_RESOLVED)
              return cm::event_str(event->event);
            if (fresh.get()->verbs == device_of_parent)
              return "the parent's device";
            cm::ack_cm_event(event);
            cm::destroy_event_channel(s.events.get()); // the last reference to the service
            return {};
          })
    == "");
  REQUIRE(cm::ack_cm_event(held) == 0);
  // The child has sent nothing: the REP may be repeated.
  for (const message& each : s.client->settle())
    CHECK(each.type == message_type::reply);
}

TEST_CASE("functions of RDMA-CM that create objects refuse what does not fit the id")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  client_scene s;
  ibv_qp_init_attr small{};
  small.qp_type = IBV_QPT_RC;
  small.cap = {1, 1, 1, 1, 0};
  const identifier idle(s.events);
  CHECK(error_of(cm::create_qp(idle.get(), nullptr, &small)) == EINVAL);
  ibv_srq_init_attr few{nullptr, {1, 1, 0}};
  CHECK(error_of(cm::create_srq(idle.get(), nullptr, &few)) == EINVAL);
  rdma_cm_id* made = nullptr;
  CHECK(error_of(cm::get_request(idle.get(), &made)) == EINVAL);

  const verbs_device other;
  CHECK(error_of(cm::create_qp(s.client.get(), other.pd(), &small)) == EINVAL);
  ibv_qp_init_attr large = small;
  large.cap.max_send_wr = 0x7fffffff;
  CHECK(cm::create_qp(s.client.get(), nullptr, &large) == -1);
  CHECK(s.client.get()->send_cq == nullptr);
  CHECK(s.client.get()->recv_cq_channel == nullptr);
  REQUIRE(cm::create_qp(s.client.get(), nullptr, &small) == 0);
  CHECK(error_of(cm::create_qp(s.client.get(), nullptr, &small)) == EINVAL);
  cm::destroy_qp(s.client.get());

  rdma_addrinfo hints{};
  sockaddr_storage room{};
  hints.ai_src_addr = hints.ai_dst_addr = reinterpret_cast<sockaddr*>(&room);
  hints.ai_src_len = hints.ai_dst_len = sizeof room + 1;
  rdma_addrinfo* found = nullptr;
  REQUIRE(cm::getaddrinfo(nullptr, nullptr, &hints, &found) == 0);
  CHECK(found->ai_src_addr == nullptr);
  CHECK(found->ai_dst_addr == nullptr);
  cm::freeaddrinfo(found);
}

} // namespace test::cm_calls_test

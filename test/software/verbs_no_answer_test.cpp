//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/sleeping_threads.hpp"
#include "software/verbs_failure.hpp"
#include "software/verbs_processes.hpp"

#include "verbs/software/protocol/hello.hpp"
#include "verbs/software/queue_pair_number.hpp"
#include "verbs/software/wire/lanes.hpp"
#include "verbs/software/wire/local_socket.hpp"
#include "verbs/software/wire/port_claim.hpp"
#include "verbs/software/wire/socket.hpp"

#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/socket.h>

// Tests requests to peers that do not answer or have vanished.

using namespace test;

TEST_CASE("a send fails with RNR_RETRY_EXC_ERR when the peer posts no receive")
{
  pair_options o;
  o.rnr_retry = GENERATE(std::uint8_t{0}, std::uint8_t{2});
  connected c(o);
  failure_scene s(c.a, c.b);
  const std::size_t size = GENERATE(std::size_t{64}, 2 * frame_bytes + 1);
  memory near(c.near, size);
  near.fill(sent_byte);
  request r(IBV_WR_SEND, {near.sge()});
  s.check(r, stayed_here(IBV_WC_RNR_RETRY_EXC_ERR));
}

namespace {

/// Opens a device that retries at least this long. A NIC uses only the queue pair's timeout.
void open_device(std::optional<verbs_device>& device, std::chrono::milliseconds retry_time_min)
{
  rdma::software::device_settings settings;
  settings.retry_time_min = retry_time_min;
  if (missing(feature::software_device).empty())
    device.emplace(settings);
  else
    device.emplace();
}

} // namespace

TEST_CASE("a request fails with RETRY_EXC_ERR in time when the peer does not exist")
{
  std::optional<verbs_device> opened;
  open_device(opened, std::chrono::milliseconds(50));
  const verbs_device& near = *opened;
  verbs_device far;
  endpoint a(near);
  endpoint b(far);
  memory m(near, 8);
  memory kept(far, 8);
  m.fill(sent_byte);
  kept.fill(kept_byte);
  REQUIRE(a.to_init() == 0);
  REQUIRE(a.receive(100, m.sge()) == 0);
  REQUIRE(a.to_ready_to_receive(b) == 0);
  REQUIRE(a.to_ready_to_send() == 0);
  // The engine detects the time-out without polling.
  REQUIRE(a.write(1, m.sge(), kept.address(), kept.key()) == 0);
  REQUIRE(a.send(2, m.sge()) == 0);
  check_error(a.sent(), 1, IBV_WC_RETRY_EXC_ERR);
  check_flushed(a.sent(), {2});
  check_flushed(a.received(), {100});
  check_ended(a);
  CHECK_FALSE(near.has_event());
  CHECK(b.state() == IBV_QPS_RESET);
  CHECK_FALSE(far.has_event());
  CHECK(kept.holds(kept_byte));
}

TEST_CASE("requests fail soon when the peer's queue pair was destroyed and idle queue pairs stay")
{
  std::optional<verbs_device> opened;
  open_device(opened, 2 * patience); // it does not wait for this time
  const verbs_device& here = *opened;
  verbs_device there;
  endpoint a(here);
  endpoint b(there);
  endpoint other_a(here);
  endpoint other_b(there);
  connect(a, b);
  connect(other_a, other_b);
  memory near(here, 64);
  memory far(there, 64);
  near.fill(sent_byte);
  REQUIRE(a.write(1, near.sge(0, 32), far.address(), far.key()) == 0);
  CHECK(a.sent().next().status == IBV_WC_SUCCESS);
  CHECK(far.holds(sent_byte, 0, 32));
  for (const std::uint64_t id : {100u, 101u})
    REQUIRE(a.receive(id, near.sge()) == 0);
  b.destroy();
  // The device serves other queue pairs meanwhile.
  REQUIRE(other_a.write(1, near.sge(), far.address(), far.key()) == 0);
  CHECK(other_a.sent().next().status == IBV_WC_SUCCESS);
  CHECK_FALSE(a.received().poll());
  CHECK(a.state() == IBV_QPS_RTS);
  far.fill(kept_byte);
  REQUIRE(a.write(2, near.sge(), far.address(), far.key()) == 0);
  check_error(a.sent(), 2, IBV_WC_RETRY_EXC_ERR);
  check_flushed(a.received(), {100, 101});
  check_ended(a);
  CHECK(far.holds(kept_byte));
  CHECK_FALSE(there.has_event());
}

TEST_CASE("data for other queue pairs is readable before requests to a vanished peer fail")
{
  BOOST_RDMA_TEST_NEEDS(software_device); // other devices have no connection whose end is visible
  verbs_device near;
  verbs_device far;
  endpoint a(near);
  endpoint b(far);
  endpoint other_a(near);
  endpoint other_b(far);
  connect(a, b);
  connect(other_a, other_b);
  memory m(near, 8);
  memory peers(far, 8);
  // Data sent before the connections are established would be lost with the queue pairs.
  for (const std::uint64_t id : {100u, 101u})
    REQUIRE(other_a.receive(id, m.sge()) == 0);
  REQUIRE(other_b.send(1, peers.sge()) == 0);
  CHECK(other_b.sent().next().status == IBV_WC_SUCCESS);
  CHECK(other_a.received().next().wr_id == 100);
  REQUIRE(b.receive(100, peers.sge()) == 0);
  REQUIRE(a.send(2, m.sge()) == 0);
  CHECK(a.sent().next().status == IBV_WC_SUCCESS);

  REQUIRE(a.send(3, m.sge()) == 0); // finds no receive
  REQUIRE(other_b.send(4, peers.sge()) == 0);
  b.destroy();
  other_b.destroy();
  check_error(a.sent(), 3, IBV_WC_RETRY_EXC_ERR);
  const std::optional<ibv_wc> received = other_a.received().poll();
  REQUIRE(received.has_value());
  CHECK(received->wr_id == 101);
  CHECK(received->status == IBV_WC_SUCCESS);
}

namespace {

constexpr std::chrono::milliseconds short_retry_time{1000};

rdma::software::device_settings on_one_wire(
  const std::string& name, std::chrono::milliseconds retry_time_min)
{
  rdma::software::device_settings settings;
  settings.wires = {name};
  settings.retry_time_min = retry_time_min;
  return settings;
}

/// Receives a message and writes it to the peer's memory.
bool write_back(const out_of_band& line, const std::string& wire)
{
  verbs_device d(on_one_wire(wire, 2 * patience));
  endpoint e(d);
  memory m(d, 8);
  must(rdma::software::set_wire_end(e.qp(), rdma::software::wire_end::connects) == 0, "connects");
  must(e.to_init() == 0, "to_init");
  must(e.receive(0, m.sge()) == 0, "receive");
  const end_name peer = line.exchange(e.name());
  connect_to(e, peer);
  must(e.received().next().status == IBV_WC_SUCCESS, "receive a message");
  must(e.write(1, m.sge(), peer.address, peer.key) == 0, "write");
  line.meet();
  line.meet(); // until this process is killed
  return true;
}

/// Sends a message and stops. Returns true if the message is answered when it runs again.
bool send_and_stop(const out_of_band& line, const out_of_band& to_peer, const std::string& wire)
{
  verbs_device d(on_one_wire(wire, short_retry_time));
  pair_options o;
  o.timeout = 1; // so that the device's minimum applies
  endpoint e(d, o);
  memory from(d, 8);
  memory into(d, 8);
  from.fill(sent_byte);
  must(rdma::software::set_wire_end(e.qp(), rdma::software::wire_end::waits) == 0, "waits");
  connect_to(e, to_peer.exchange(e.name(into)));
  must(until([&] { return wire == rdma::software::wire_name(e.qp()); }), "a connection");
  line.meet();
  line.meet(); // the peer is stopped
  must(e.send(1, from.sge()) == 0, "send");
  wait_for_sleeping_threads(); // the engine may hold the queue pair, and then sends the message
  must(::raise(SIGSTOP) == 0, "stop");
  // Only the engine reads the answer: a poll could read it before the engine looks at its timers.
  const volatile std::uint8_t& written = into[0];
  must(until([&] { return written == sent_byte || e.state() == IBV_QPS_ERR; }), "an outcome");
  return e.sent().next().status == IBV_WC_SUCCESS;
}

} // namespace

TEST_CASE(
  "an answered request succeeds when its process was stopped for longer than the retry time")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const std::string wire = GENERATE("local", "tcp");
  child server([&](const out_of_band& line) { return write_back(line, wire); });
  child client([&](const out_of_band& line) { return send_and_stop(line, server.line(), wire); });
  client.line().meet();
  server.stop();
  client.line().meet();
  REQUIRE(client.stopped_itself());
  const auto stopped_at = std::chrono::steady_clock::now();
  server.resume();
  server.line().meet(); // it has answered
  REQUIRE(until([&] { return std::chrono::steady_clock::now() - stopped_at > short_retry_time; }));
  client.resume();
  CHECK(client.succeeded());
}

namespace {

namespace wire = rdma::software::wire;

/// A context that accepts links and answers nothing.
class silent_context
{
public:
  silent_context(const ibv_gid& gid, const std::string& wire)
  {
    must(wire::claim_port({&gid, 1}, claim_) == 0, "claim_port");
    number_ = claim_->next_number();
    listener_ = std::move(claim_->bound.front());
    if (wire == "local")
    {
      const wire::address name = wire::to_local_address(gid, rdma::software::port_of(number_));
      listener_ = wire::make_local_socket();
      must(::bind(listener_.get(), name.get(), name.size) == 0, "bind");
    }
    must(::listen(listener_.get(), 1) == 0, "listen");
  }

  std::uint32_t queue_pair() const noexcept { return number_; }

  /// Returns false if the peer makes no link in time.
  bool accept()
  {
    pollfd p{listener_.get(), POLLIN, 0};
    constexpr std::chrono::milliseconds limit = patience;
    if (::poll(&p, 1, static_cast<int>(limit.count())) != 1)
      return false;
    links_.emplace_back(::accept(listener_.get(), nullptr, nullptr));
    return static_cast<bool>(links_.back());
  }

  /// Local wire: returns the next message of a handshake through the last link.
  wire::attach_message receive() const
  {
    wire::attach_message next;
    ssize_t n = 0;
    must(until(
           [&]
           {
             n = ::recv(links_.back().get(), &next, sizeof next, MSG_DONTWAIT);
             return n == sizeof next || n == 0; // one byte is a wake-up
           })
        && n != 0,
      "receive a message");
    return next;
  }

  void send(const wire::attach_message& what) const
  {
    must(::send(links_.back().get(), &what, sizeof what, MSG_NOSIGNAL) == sizeof what, "send");
  }

private:
  std::unique_ptr<wire::port_claim> claim_;
  std::uint32_t number_ = 0;
  wire::descriptor listener_;
  std::vector<wire::descriptor> links_;
};

struct silent_attempt
{
  explicit silent_attempt(const std::string& wire)
    : d(on_one_wire(wire, patience))
    , e(d)
    , peer(d.gid(), wire)
  {
    must(rdma::software::set_wire_end(e.qp(), rdma::software::wire_end::connects) == 0, "connects");
    end_name name = e.name();
    name.qp = peer.queue_pair();
    connect_to(e, name);
  }

  verbs_device d;
  endpoint e;
  silent_context peer;
};

} // namespace

TEST_CASE("a queue pair attaches to a further link when the peer answers nothing through the first")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  // At the same time: an attempt ends after three seconds.
  silent_attempt local("local");
  silent_attempt tcp("tcp");
  for (silent_attempt* each : {&local, &tcp})
    REQUIRE(each->peer.accept());
  for (silent_attempt* each : {&local, &tcp})
    CHECK(each->peer.accept());
}

TEST_CASE(
  "a connecting queue pair refuses an answer that does not fit or does not prove the secret")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  namespace protocol = rdma::software::protocol;
  verbs_device d(on_one_wire("local", patience));
  endpoint e(d);
  silent_context peer(d.gid(), "local");
  rdma::software::connection_secret secret;
  secret.fill(std::byte{1});
  REQUIRE(rdma::software::set_connection_secret(e.qp(), secret) == 0);
  REQUIRE(rdma::software::set_wire_end(e.qp(), rdma::software::wire_end::connects) == 0);
  end_name name = e.name();
  name.qp = peer.queue_pair();
  connect_to(e, name);
  REQUIRE(peer.accept());
  wire::attach_message message = peer.receive();
  const auto asked = protocol::decode_hello(message.bytes);
  REQUIRE(asked);
  protocol::hello answer = *asked;
  std::swap(answer.from, answer.to);
  answer.first_psn = asked->expected_psn;
  answer.expected_psn = asked->first_psn.value_or(test::endpoint::first_psn);
  bool good = false;
  SECTION("right")
  {
    good = true;
  }
  SECTION("another secret")
  {
    secret[0] = std::byte{2};
  }
  SECTION("of another queue pair")
  {
    answer.from.qp ^= 1;
  }
  SECTION("for another queue pair")
  {
    answer.to.qp ^= 1;
  }
  SECTION("frames that are too small")
  {
    answer.segment = 1023;
  }
  SECTION("frames that are larger than requested")
  {
    answer.segment = asked->segment + 1;
  }
  SECTION("another first PSN")
  {
    *answer.first_psn ^= 1;
  }
  SECTION("another expected PSN")
  {
    answer.expected_psn ^= 1;
  }
  protocol::sign(answer, secret, asked->nonce);
  encode(answer, message.bytes);
  peer.send(message);
  // Otherwise it begins again.
  const wire::attach_message next = peer.receive();
  CHECK(protocol::is_confirmation(next.bytes, secret, asked->nonce, answer.nonce) == good);
  CHECK(protocol::decode_hello(next.bytes).has_value() == !good);
}

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at
// https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/endpoint_choice_fsm.hpp"
#include "connect/path_fsm.hpp"

#include "common/catch.hpp"
#include "unit/step_script.hpp"

#include <boost/asio/error.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>
#include <string>
#include <utility>
#include <vector>

// Tests every transition of the choice of endpoints and of the path, and every
// fall-back.

namespace test::paths {
namespace {

using rdma::error;
using rdma::error_code;
using rdma::wire;
using namespace rdma::detail;

const std::string failed = "failed: Address already in use"; // harness::bad()
const std::string not_confirmed = "failed: " + error_code(error::path_not_confirmed).message();
const std::string no_common = "failed: " + error_code(error::no_common_transport).message();
const std::string peer_closed = "failed: " + error_code(error::peer_closed).message();

rdma::endpoint_description endpoint(wire by)
{
  rdma::endpoint_description result;
  result.kind = by == wire::tcp ? rdma::device_kind::software : rdma::device_kind::nic;
  result.wire = by;
  result.path_mtu = 1024;
  return result;
}

handshake_parameters parameters(const std::vector<wire>& wires, bool falls_back = true)
{
  handshake_parameters result;
  for (const wire by : wires)
    result.endpoints.push_back(endpoint(by));
  result.falls_back = falls_back;
  return result;
}

handshake_parameters software_next()
{
  handshake_parameters result = parameters({});
  result.software_next = true;
  return result;
}

const own_side nic{true, "", ""};
const own_side immovable{true, "", "it was made so"};
const own_side software{false, "there is none", "it already uses the software device"};

std::string name_of(frame_type type)
{
  return type == frame_type::confirmed ? "confirmed"
    : type == frame_type::unconfirmed  ? "unconfirmed"
    : type == frame_type::endpoint     ? "endpoint"
                                       : "another frame";
}

std::string text_of(const path_action& what)
{
  switch (what.type)
  {
  case path_action_type::describe:
    return "describe " + std::string(rdma::name_of(what.wire));
  case path_action_type::move:
    return "move";
  case path_action_type::connect:
    return "connect " + std::string(rdma::name_of(what.remote.wire));
  case path_action_type::confirm:
    return "confirm";
  case path_action_type::send:
    return "send " + name_of(what.frame)
      + (what.frame == frame_type::unconfirmed ? ": " + what.text : "");
  case path_action_type::receive:
    return "receive";
  case path_action_type::enter:
    return "enter";
  case path_action_type::done:
    return what.error ? "failed: " + what.error.message() : "done";
  }
  return "unknown";
}

const char* name_of(endpoint_choice_fsm::state which)
{
  constexpr std::array names{"begin", "describing_nic", "describing_software", "choosing_nic",
    "choosing_software", "moving", "done"};
  return names.at(static_cast<std::size_t>(which));
}

const char* name_of(path_fsm::state which)
{
  constexpr std::array names{"begin", "moving", "describing", "sending_endpoint",
    "awaiting_endpoint", "connecting", "answering_endpoint", "confirming", "reporting_success",
    "reporting_failure", "awaiting_verdict", "entering", "done"};
  return names.at(static_cast<std::size_t>(which));
}

/// Transitions that were taken: role and state, and the action with the next state.
std::set<std::pair<std::string, std::string>>& taken()
{
  static std::set<std::pair<std::string, std::string>> result;
  return result;
}

template <class State>
std::string key_of(const std::string& role, State state)
{
  return role + ", " + name_of(state);
}

/// A machine with the queue pair that performs its actions.
template <class Machine>
struct harness
{
  harness(std::string the_role, own_side queue_pair, Machine the_machine)
    : role(std::move(the_role))
    , own(std::move(queue_pair))
    , machine(std::move(the_machine))
  {
  }

  std::string resume(const path_outcome& result)
  {
    using state = typename Machine::state;
    const state before = machine.current();
    last = machine.resume(own, result);
    if (!result.stopped && before != state::done)
      taken().emplace(key_of(role, before),
        text_of(last).substr(0, text_of(last).find(':')) + ", then " + name_of(machine.current()));
    return text_of(last);
  }

  std::string good()
  {
    path_outcome result;
    result.endpoint = endpoint(current_wire());
    result.transport = rdma::name_of(current_wire());
    return resume(result);
  }
  std::string bad()
  {
    path_outcome result;
    result.ec = boost::asio::error::address_in_use;
    result.text = "no address";
    result.transport = rdma::name_of(current_wire());
    return resume(result);
  }
  std::string moved()
  {
    own = software;
    return good();
  }
  std::string received(frame_type type, const std::string& payload = {})
  {
    path_outcome result;
    result.frame = type;
    result.text = payload;
    return resume(result);
  }
  [[nodiscard]] wire current_wire() const
  {
    return last.type == path_action_type::connect ? last.remote.wire : last.wire;
  }

  /// Returns the declined transports: "RDMA NIC: no address".
  [[nodiscard]] std::vector<std::string> declined() const
  {
    std::vector<std::string> result;
    for (const rdma::declined_transport& each : machine.declined().list())
      result.push_back(each.transport + ": " + each.reason);
    return result;
  }

  // For step_script.
  std::string fail(error_code ec)
  {
    path_outcome result;
    result.stopped = ec;
    return resume(result);
  }
  [[nodiscard]] error_code result() const { return last.error; }
  [[nodiscard]] std::string clean_up() const { return "failed: Network is down"; }

  std::string role;
  own_side own;
  Machine machine;
  path_action last;
};

using choice = harness<endpoint_choice_fsm>;
using way = harness<path_fsm>;

choice client_choice(const own_side& own)
{
  return {"choice of the client", own, endpoint_choice_fsm()};
}

choice server_choice(const own_side& own, const handshake_parameters& client)
{
  return {"choice of the server", own, endpoint_choice_fsm(client)};
}

way client_path(const own_side& own, const handshake_parameters& server)
{
  return {"client", own, path_fsm(path_role::client, parameters({}), server, "", {})};
}

way server_path(
  const own_side& own, const handshake_parameters& client, const handshake_parameters& chosen)
{
  return {"server", own, path_fsm(path_role::server, chosen, client, "RoCE v2", {})};
}

// A step: an event and the action that it must result in.
template <class Harness>
using step = typename step_script<Harness>::step;

template <class Harness>
struct steps_of
{
  static step<Harness> begins(std::string action)
  {
    return {"begin", [](Harness& h) { return h.resume({}); }, std::move(action)};
  }
  static step<Harness> good(std::string action)
  {
    return {"success", [](Harness& h) { return h.good(); }, std::move(action)};
  }
  static step<Harness> bad(std::string action)
  {
    return {"failure", [](Harness& h) { return h.bad(); }, std::move(action)};
  }
  static step<Harness> moved(std::string action)
  {
    return {"moved", [](Harness& h) { return h.moved(); }, std::move(action)};
  }
};
using c = steps_of<choice>;
using w = steps_of<way>;

step<way> frame(frame_type type, std::string action, std::string payload = {})
{
  return {name_of(type), [type, payload](way& h) { return h.received(type, payload); },
    std::move(action)};
}
step<way> confirmed(std::string action)
{
  return frame(frame_type::confirmed, std::move(action));
}
step<way> unconfirmed(std::string action)
{
  return frame(frame_type::unconfirmed, std::move(action), "a firewall");
}
step<way> new_endpoint(std::string action)
{
  return frame(frame_type::endpoint, std::move(action), endpoint(wire::tcp).text());
}
step<way> heartbeat(std::string action)
{
  return frame(frame_type::heartbeat, std::move(action));
}
step<way> bye(std::string action)
{
  return frame(frame_type::bye, std::move(action));
}

template <class Step>
std::vector<Step> operator+(std::vector<Step> first, const std::vector<Step>& then)
{
  first.insert(first.end(), then.begin(), then.end());
  return first;
}

template <class Harness>
struct scenario
{
  std::string name;
  Harness begin;
  std::vector<typename step_script<Harness>::step> steps;
  std::vector<std::string> declined; // at the end

  void check() const
  {
    INFO(name);
    CHECK(step_script(begin, steps).check().declined() == declined);
  }
};

const std::string nic_failed = "RoCE v2: no address";
const std::string no_nic = "RDMA NIC: there is none";
const std::string cannot_move = "software device: the queue pair cannot fall back: it was made so";

std::vector<scenario<choice>> client_choices()
{
  const std::vector<step<choice>> no_wire{
    c::begins("describe InfiniBand"), c::bad("describe RoCE v2"), c::bad("describe RoCE v1")};
  return {
    {"a client offers all wires of its NIC", client_choice(nic),
      {c::begins("describe InfiniBand"), c::bad("describe RoCE v2"), c::good("describe RoCE v1"),
        c::good("done")},
      {}},
    {"a client that offers only RoCE v1 reports why not RoCE v2", client_choice(nic),
      no_wire + std::vector{c::good("done")}, {nic_failed}},
    {"a client moves from a NIC without an address", client_choice(nic),
      no_wire + std::vector{c::bad("move"), c::moved("describe TCP"), c::good("done")},
      {"RDMA NIC: no address"}},
    {"a client that cannot move fails", client_choice(immovable),
      no_wire + std::vector{c::bad(failed)}, {"RDMA NIC: no address", cannot_move}},
    {"a client fails when moving fails", client_choice(nic),
      no_wire + std::vector{c::bad("move"), c::bad(failed)}, {"RDMA NIC: no address"}},
    {"a client without a NIC offers the software device", client_choice(software),
      {c::begins("describe TCP"), c::good("done")}, {no_nic}},
    {"a client fails without any endpoint", client_choice(software),
      {c::begins("describe TCP"), c::bad(failed)}, {no_nic, "TCP: no address"}},
  };
}

std::vector<scenario<choice>> server_choices()
{
  handshake_parameters broken_nic = parameters({wire::tcp});
  broken_nic.declined = {{"RDMA NIC", "broken"}};
  return {
    {"a server selects the client's first endpoint",
      server_choice(nic, parameters({wire::roce_v2, wire::tcp})),
      {c::begins("connect RoCE v2"), c::good("done")}, {}},
    {"a server selects the second endpoint if the first fails",
      server_choice(nic, parameters({wire::infiniband, wire::roce_v2})),
      {c::begins("connect InfiniBand"), c::bad("connect RoCE v2"), c::good("done")},
      {"InfiniBand: no address"}},
    {"a server moves if no NIC endpoint can be connected",
      server_choice(nic, parameters({wire::roce_v2, wire::tcp})),
      {c::begins("connect RoCE v2"), c::bad("move"), c::moved("connect TCP"), c::good("done")},
      {nic_failed}},
    {"a server moves if the client offers no NIC", server_choice(nic, parameters({wire::tcp})),
      {c::begins("move"), c::moved("connect TCP"), c::good("done")},
      {"RDMA NIC: the peer offers none"}},
    {"a server does not repeat the client's reason", server_choice(nic, broken_nic),
      {c::begins("move"), c::moved("connect TCP"), c::good("done")},
      {"\"RDMA NIC\": the peer reports \"broken\""}},
    {"a server without a NIC selects the software device",
      server_choice(software, parameters({wire::roce_v2, wire::tcp})),
      {c::begins("connect TCP"), c::good("done")}, {no_nic}},
    {"a server asks the client to move", server_choice(software, parameters({wire::roce_v2})),
      {c::begins("done")}, {no_nic}},
    {"a server moves and asks the client to move", server_choice(nic, parameters({wire::roce_v2})),
      {c::begins("connect RoCE v2"), c::bad("move"), c::moved("done")}, {nic_failed}},
    {"a server fails if the client cannot move",
      server_choice(software, parameters({wire::roce_v2}, false)), {c::begins(no_common)},
      {no_nic}},
    {"a server that cannot move fails", server_choice(immovable, parameters({wire::roce_v2})),
      {c::begins("connect RoCE v2"), c::bad(no_common)}, {nic_failed, cannot_move}},
    {"a server fails when moving fails", server_choice(nic, parameters({wire::tcp})),
      {c::begins("move"), c::bad(failed)}, {"RDMA NIC: the peer offers none"}},
    {"a server fails if the software device fails",
      server_choice(software, parameters({wire::tcp})),
      {c::begins("connect TCP"), c::bad(no_common)}, {"TCP: no address"}},
  };
}

std::vector<scenario<way>> client_paths()
{
  const handshake_parameters server = parameters({wire::roce_v2});
  const handshake_parameters stays = parameters({wire::roce_v2}, false);
  const std::vector<step<way>> connected{w::begins("connect RoCE v2"), w::good("confirm")};
  const std::vector<step<way>> reported =
    connected + std::vector{w::good("send confirmed"), w::good("receive")};
  const std::vector<step<way>> to_endpoint{
    w::moved("describe TCP"), w::good("send endpoint"), w::good("receive")};
  const std::vector<step<way>> second = to_endpoint
    + std::vector{heartbeat("receive"), new_endpoint("connect TCP"), w::good("confirm"),
      w::good("send confirmed"), w::good("receive"), confirmed("enter"), w::good("done")};
  const std::string by_peer = "RoCE v2: the peer reports \"a firewall\"";
  return {
    {"both confirm", client_path(nic, server),
      reported + std::vector{heartbeat("receive"), confirmed("enter"), w::good("done")}, {}},
    {"connecting fails: fall-back", client_path(nic, server),
      std::vector{
        w::begins("connect RoCE v2"), w::bad("send unconfirmed: no address"), w::good("move")}
        + second,
      {nic_failed}},
    {"the client's message is lost: fall-back", client_path(nic, server),
      connected + std::vector{w::bad("send unconfirmed: no address"), w::good("move")} + second,
      {nic_failed}},
    {"the server's message is lost: fall-back", client_path(nic, server),
      reported + std::vector{unconfirmed("move")} + second, {by_peer}},
    {"software-next on a NIC: fall-back", client_path(nic, software_next()),
      std::vector{w::begins("move")} + second, {}},
    {"software-next on the software device", client_path(software, software_next()),
      {w::begins("describe TCP"), w::good("send endpoint"), w::good("receive"),
        new_endpoint("connect TCP"), w::good("confirm")},
      {}},
    {"software-next, but the queue pair cannot move", client_path(immovable, software_next()),
      {w::begins(no_common)}, {cannot_move}},
    {"connecting fails and the server stays", client_path(nic, stays),
      {w::begins("connect RoCE v2"), w::bad("send unconfirmed: no address"), w::good(failed)},
      {nic_failed}},
    {"the client's message is lost and the client stays", client_path(immovable, server),
      connected + std::vector{w::bad("send unconfirmed: no address"), w::good(not_confirmed)},
      {nic_failed}},
    {"the server's message is lost and the client stays", client_path(immovable, server),
      reported + std::vector{unconfirmed(not_confirmed)}, {by_peer}},
    {"the fall-back fails, too", client_path(nic, software_next()),
      std::vector{w::begins("move")} + to_endpoint
        + std::vector{new_endpoint("connect TCP"), w::bad("send unconfirmed: no address"),
          w::good(failed)},
      {"TCP: no address"}},
    {"moving fails", client_path(nic, software_next()), {w::begins("move"), w::bad(failed)}, {}},
    {"the software device has no address", client_path(nic, software_next()),
      {w::begins("move"), w::moved("describe TCP"), w::bad(failed)}, {}},
    {"no endpoint arrives", client_path(nic, software_next()),
      std::vector{w::begins("move")} + to_endpoint + std::vector{w::bad(failed)}, {}},
    {"the server closes instead of sending an endpoint", client_path(nic, software_next()),
      std::vector{w::begins("move")} + to_endpoint + std::vector{bye(peer_closed)}, {}},
    {"the server's endpoint is malformed", client_path(nic, software_next()),
      std::vector{w::begins("move")} + to_endpoint
        + std::vector{frame(frame_type::endpoint,
          "failed: " + error_code(error::malformed_description).message(), "nonsense")},
      {}},
    {"no verdict arrives", client_path(nic, server), reported + std::vector{w::bad(failed)}, {}},
    {"the server closes instead of sending a verdict", client_path(nic, server),
      reported + std::vector{bye(peer_closed)}, {}},
    {"the queue pair was closed at the end", client_path(nic, server),
      reported + std::vector{confirmed("enter"), w::bad(failed)}, {}},
  };
}

std::vector<scenario<way>> server_paths()
{
  const handshake_parameters client = parameters({wire::roce_v2});
  const handshake_parameters stays = parameters({wire::roce_v2}, false);
  const handshake_parameters& chosen = client;
  const std::vector<step<way>> second{heartbeat("receive"), new_endpoint("connect TCP"),
    w::good("send endpoint"), w::good("receive"), confirmed("confirm"), w::good("enter"),
    w::good("send confirmed"), w::good("done")};
  const std::string by_peer = "RoCE v2: the peer reports \"a firewall\"";
  return {
    {"both confirm", server_path(nic, client, chosen),
      {w::begins("receive"), heartbeat("receive"), confirmed("confirm"), w::good("enter"),
        w::good("send confirmed"), w::good("done")},
      {}},
    {"the client's message is lost: fall-back", server_path(nic, client, chosen),
      std::vector{w::begins("receive"), unconfirmed("move"), w::moved("receive")} + second,
      {by_peer}},
    {"the server's message is lost: fall-back", server_path(nic, client, chosen),
      std::vector{w::begins("receive"), confirmed("confirm"),
        w::bad("send unconfirmed: no address"), w::good("move"), w::moved("receive")}
        + second,
      {nic_failed}},
    {"software-next: fall-back", server_path(software, client, software_next()),
      std::vector{w::begins("receive")} + second, {}},
    {"the client's message is lost and the client stays", server_path(nic, stays, chosen),
      {w::begins("receive"), unconfirmed(not_confirmed)}, {by_peer}},
    {"the server's message is lost and the server stays", server_path(immovable, client, chosen),
      {w::begins("receive"), confirmed("confirm"), w::bad("send unconfirmed: no address"),
        w::good(not_confirmed)},
      {nic_failed}},
    {"moving fails", server_path(nic, client, chosen),
      {w::begins("receive"), unconfirmed("move"), w::bad(failed)}, {by_peer}},
    {"the fall-back fails, too", server_path(software, client, software_next()),
      {w::begins("receive"), new_endpoint("connect TCP"), w::bad(failed)}, {}},
    {"the client closes instead of sending an endpoint",
      server_path(software, client, software_next()), {w::begins("receive"), bye(peer_closed)}, {}},
    {"the client closes instead of sending a verdict", server_path(nic, client, chosen),
      {w::begins("receive"), bye(peer_closed)}, {}},
    {"no verdict arrives", server_path(nic, client, chosen), {w::begins("receive"), w::bad(failed)},
      {}},
    {"the queue pair was closed at the end", server_path(nic, client, chosen),
      {w::begins("receive"), confirmed("confirm"), w::good("enter"), w::bad(failed)}, {}},
  };
}

} // namespace

TEST_CASE("a path ends as expected in every scenario and with the error of "
          "every step")
{
  for (const auto& list : {client_choices(), server_choices()})
    for (const scenario<choice>& each : list)
      each.check();
  for (const auto& list : {client_paths(), server_paths()})
    for (const scenario<way>& each : list)
      each.check();

  for (const auto& [from, to] : taken())
    std::printf("%-38s | %s\n", from.c_str(), to.c_str());
  const auto visited = [](const std::string& role, auto state)
  {
    return std::any_of(taken().begin(), taken().end(),
      [&](const auto& each) { return each.first == key_of(role, state); });
  };
  using choosing = endpoint_choice_fsm::state;
  using negotiating = path_fsm::state;
  for (int i = 0; i != static_cast<int>(choosing::done); ++i)
  {
    const auto state = static_cast<choosing>(i);
    INFO(name_of(state));
    CHECK((visited("choice of the client", state) || visited("choice of the server", state)));
  }
  for (int i = 0; i != static_cast<int>(negotiating::done); ++i)
  {
    const auto state = static_cast<negotiating>(i);
    INFO(name_of(state));
    CHECK(visited("client", state) == (state != negotiating::answering_endpoint));
    CHECK(visited("server", state)
      == (state != negotiating::describing && state != negotiating::sending_endpoint));
  }
}

TEST_CASE("the parameters for the peer state the chosen endpoints and the "
          "fall-back")
{
  choice fits = client_choice(nic);
  c::begins({}).event(fits);
  fits.good();
  fits.bad();
  fits.good();
  CHECK(fits.machine.parameters() == parameters({wire::infiniband, wire::roce_v1}));

  choice fixed = client_choice(immovable);
  c::begins({}).event(fixed);
  fixed.good();
  fixed.good();
  fixed.good();
  CHECK_FALSE(fixed.machine.parameters().falls_back);

  handshake_parameters client = parameters({wire::roce_v2});
  client.declined = {{"InfiniBand", "no port"}};
  choice server = server_choice(software, client);
  c::begins({}).event(server);
  CHECK(server.machine.parameters().software_next);
  CHECK(server.machine.parameters().falls_back);
  // The client is not told its own reasons.
  CHECK(server.machine.parameters().declined
    == std::vector<rdma::declined_transport>{{"RDMA NIC", "there is none"}});
}

} // namespace test::paths

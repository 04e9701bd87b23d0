//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "unit/path_harness.hpp"

#include <algorithm>
#include <cstdio>

// Tests every transition of the choice of endpoints and of the path, and every fall-back.

namespace test::paths {
namespace {

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
    {"nobody confirms", linked_client_path(software, not_to_confirm()),
      {w::begins("connect TCP"), w::linked("enter"), w::good("done")}, {}},
    {"the server confirms although it need not",
      linked_client_path(software, parameters({wire::tcp})),
      {w::begins("connect TCP"), w::linked("confirm"), w::good("send confirmed"),
        w::good("receive"), confirmed("enter"), w::good("done")},
      {}},
    {"the client alone has lost the link", linked_client_path(software, not_to_confirm()),
      {w::begins("connect TCP"), w::good("confirm"), w::good("enter"), w::good("done")}, {}},
    {"the client alone has lost the link, and its message, too",
      linked_client_path(software, not_to_confirm()),
      {w::begins("connect TCP"), w::good("confirm"), w::bad("send unconfirmed: no address"),
        w::good(not_confirmed)},
      {"TCP: no address"}},
    {"nobody confirms, and connecting fails", linked_client_path(software, not_to_confirm()),
      {w::begins("connect TCP"), w::bad("send unconfirmed: no address"), w::good(failed)},
      {"TCP: no address"}},
    {"a server that moves must confirm",
      linked_client_path(software,
        []
        {
          handshake_parameters next = software_next();
          next.confirms = false;
          return next;
        }()),
      {w::begins("describe TCP"), w::good("send endpoint"), w::good("receive"),
        new_endpoint("connect TCP"), w::linked("confirm")},
      {}},
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
    {"nobody confirms", server_path(software, not_to_confirm(), not_to_confirm()),
      {w::begins("enter"), w::good("done")}, {}},
    {"nobody confirms, and the queue pair was closed",
      server_path(software, not_to_confirm(), not_to_confirm()),
      {w::begins("enter"), w::bad(failed)}, {}},
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
  handshake_parameters wanted = parameters({wire::infiniband, wire::roce_v1});
  wanted.confirms = false;
  CHECK(fits.machine.parameters() == wanted);

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

TEST_CASE("a server leaves the confirmation out if its device is linked and the client permits it")
{
  for (const bool permits : {false, true})
    for (const bool linked : {false, true})
    {
      choice server = server_choice(software, permits ? not_to_confirm() : parameters({wire::tcp}));
      c::begins({}).event(server);
      server.good(linked);
      CHECK(server.machine.parameters().confirms != (permits && linked));
    }
}

} // namespace test::paths

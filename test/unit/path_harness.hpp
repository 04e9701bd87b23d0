//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_UNIT_PATH_HARNESS_HPP
#define BOOST_RDMA_TEST_UNIT_PATH_HARNESS_HPP

#include "connect/endpoint_choice_fsm.hpp"
#include "connect/path_fsm.hpp"

#include "common/catch.hpp"
#include "unit/step_script.hpp"

#include <boost/asio/error.hpp>

#include <array>
#include <set>
#include <string>
#include <utility>
#include <vector>

// The machines that choose endpoints and a path, and steps of their scenarios.

namespace test::paths {

using rdma::error;
using rdma::error_code;
using rdma::wire;
using namespace rdma::detail;

inline const std::string failed = "failed: Address already in use"; // harness::bad()
inline const std::string not_confirmed =
  "failed: " + error_code(error::path_not_confirmed).message();
inline const std::string no_common = "failed: " + error_code(error::no_common_transport).message();
inline const std::string peer_closed = "failed: " + error_code(error::peer_closed).message();

inline rdma::endpoint_description endpoint(wire by)
{
  rdma::endpoint_description result;
  result.kind = by == wire::tcp ? rdma::device_kind::software : rdma::device_kind::nic;
  result.wire = by;
  result.path_mtu = 1024;
  return result;
}

inline handshake_parameters parameters(const std::vector<wire>& wires, bool falls_back = true)
{
  handshake_parameters result;
  for (const wire by : wires)
    result.endpoints.push_back(endpoint(by));
  result.falls_back = falls_back;
  return result;
}

inline handshake_parameters not_to_confirm()
{
  handshake_parameters result = parameters({wire::tcp});
  result.confirms = false;
  return result;
}

inline handshake_parameters software_next()
{
  handshake_parameters result = parameters({});
  result.software_next = true;
  return result;
}

inline const own_side nic{true, "", ""};
inline const own_side immovable{true, "", "it was made so"};
inline const own_side software{false, "there is none", "it already uses the software device"};

inline std::string name_of(frame_type type)
{
  return type == frame_type::confirmed ? "confirmed"
    : type == frame_type::unconfirmed  ? "unconfirmed"
    : type == frame_type::endpoint     ? "endpoint"
                                       : "another frame";
}

inline std::string text_of(const path_action& what)
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

inline const char* name_of(endpoint_choice_fsm::state which)
{
  constexpr std::array names{"begin", "describing_nic", "describing_software", "choosing_nic",
    "choosing_software", "moving", "done"};
  return names.at(static_cast<std::size_t>(which));
}

inline const char* name_of(path_fsm::state which)
{
  constexpr std::array names{"begin", "moving", "describing", "sending_endpoint",
    "awaiting_endpoint", "connecting", "answering_endpoint", "confirming", "reporting_success",
    "reporting_failure", "awaiting_verdict", "entering", "done"};
  return names.at(static_cast<std::size_t>(which));
}

/// Transitions that were taken: role and state, and the action with the next state.
inline std::set<std::pair<std::string, std::string>>& taken()
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

  std::string good(bool linked = false)
  {
    path_outcome result;
    result.linked = linked;
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

inline choice client_choice(const own_side& own)
{
  return {"choice of the client", own, endpoint_choice_fsm()};
}

inline choice server_choice(const own_side& own, const handshake_parameters& client)
{
  return {"choice of the server", own, endpoint_choice_fsm(client)};
}

inline way client_path(const own_side& own, const handshake_parameters& server)
{
  return {"client", own, path_fsm(path_role::client, parameters({}), server, "", {})};
}

/// A client that permits that nobody confirms.
inline way linked_client_path(const own_side& own, const handshake_parameters& server)
{
  return {"client", own, path_fsm(path_role::client, not_to_confirm(), server, "", {})};
}

inline way server_path(
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
  static step<Harness> linked(std::string action)
  {
    return {"linked", [](Harness& h) { return h.good(true); }, std::move(action)};
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

inline step<way> frame(frame_type type, std::string action, std::string payload = {})
{
  return {name_of(type), [type, payload](way& h) { return h.received(type, payload); },
    std::move(action)};
}
inline step<way> confirmed(std::string action)
{
  return frame(frame_type::confirmed, std::move(action));
}
inline step<way> unconfirmed(std::string action)
{
  return frame(frame_type::unconfirmed, std::move(action), "a firewall");
}
inline step<way> new_endpoint(std::string action)
{
  return frame(frame_type::endpoint, std::move(action), endpoint(wire::tcp).text());
}
inline step<way> heartbeat(std::string action)
{
  return frame(frame_type::heartbeat, std::move(action));
}
inline step<way> bye(std::string action)
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

} // namespace test::paths

#endif // BOOST_RDMA_TEST_UNIT_PATH_HARNESS_HPP

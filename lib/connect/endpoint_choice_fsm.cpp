//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/endpoint_choice_fsm.hpp"

#include <algorithm>
#include <iterator>

namespace rdma::detail {
namespace {

constexpr wire nic_wires[] = {wire::infiniband, wire::roce_v2, wire::roce_v1};

bool is_nic(const endpoint_description& endpoint)
{
  return endpoint.kind == device_kind::nic;
}

} // namespace

path_action endpoint_choice_fsm::resume(const own_side& own, const path_outcome& result)
{
  if (state_ != state::done && result.stopped)
    return end(result.stopped);
  switch (state_)
  {
  case state::begin:
    return role_ == path_role::client ? begin_offer(own) : begin_choice(own);
  case state::describing_nic:
    return on_nic_described(own, result);
  case state::describing_software:
    return on_software_described(own, result);
  case state::choosing_nic:
  case state::choosing_software:
    return on_connected(own, result);
  case state::moving:
    return on_moved(own, result.ec);
  case state::done:
    break;
  }
  return {.error = failure_};
}

path_action endpoint_choice_fsm::begin_offer(const own_side& own)
{
  parameters_.confirms = false; // if the server finds that it is linked
  if (own.on_nic)
    return describe(state::describing_nic, nic_wires[0]);
  declined_.add(any_nic, own.why_no_nic);
  return describe(state::describing_software, wire::tcp);
}

path_action endpoint_choice_fsm::on_nic_described(const own_side& own, const path_outcome& result)
{
  if (result.ec)
    obstacles_.add(result.transport, result.text);
  else
    parameters_.endpoints.push_back(result.endpoint);
  if (++next_ != std::size(nic_wires))
    return describe(state::describing_nic, nic_wires[next_]);
  if (parameters_.endpoints.empty())
  {
    declined_.add(any_nic, result.text);
    return move(own, result.ec);
  }
  // A port is either InfiniBand or RoCE, so the absence of the other one needs no reason.
  if (parameters_.endpoints.front().wire == wire::roce_v1)
    declined_.add(obstacles_.list().back().transport, obstacles_.list().back().reason);
  return succeed(own);
}

path_action endpoint_choice_fsm::on_software_described(
  const own_side& own, const path_outcome& result)
{
  if (result.ec)
  {
    declined_.add(result.transport, result.text);
    return end(result.ec);
  }
  parameters_.endpoints.push_back(result.endpoint);
  return succeed(own);
}

path_action endpoint_choice_fsm::begin_choice(const own_side& own)
{
  const bool offered = std::any_of(client_.endpoints.begin(), client_.endpoints.end(), is_nic);
  if (!own.on_nic && offered)
    declined_.add(any_nic, own.why_no_nic);
  if (own.on_nic && !offered && client_.declined.empty()) // otherwise the client sent the reason
    declined_.add(any_nic, "the peer offers none");
  return own.on_nic ? choose_nic(own) : choose_software(own);
}

path_action endpoint_choice_fsm::choose_nic(const own_side& own)
{
  const auto from = client_.endpoints.begin() + static_cast<std::ptrdiff_t>(next_);
  const auto found = std::find_if(from, client_.endpoints.end(), is_nic);
  if (found == client_.endpoints.end())
    return move(own, error::no_common_transport);
  next_ = static_cast<std::size_t>(found - client_.endpoints.begin()) + 1;
  return connect(state::choosing_nic, *found);
}

path_action endpoint_choice_fsm::choose_software(const own_side& own)
{
  const auto found = std::find_if_not(client_.endpoints.begin(), client_.endpoints.end(), is_nic);
  if (found != client_.endpoints.end())
    return connect(state::choosing_software, *found);
  parameters_.software_next = client_.falls_back;
  return client_.falls_back ? succeed(own) : end(error::no_common_transport);
}

path_action endpoint_choice_fsm::on_connected(const own_side& own, const path_outcome& result)
{
  if (!result.ec)
  {
    transport_ = result.transport;
    parameters_.endpoints.push_back(result.endpoint);
    parameters_.confirms = client_.confirms || !result.linked;
    return succeed(own);
  }
  declined_.add(result.transport, result.text);
  return state_ == state::choosing_nic ? choose_nic(own) : end(error::no_common_transport);
}

// The NIC cannot be used, for the reason `failure`.
path_action endpoint_choice_fsm::move(const own_side& own, const error_code& failure)
{
  failure_ = failure;
  if (!own.why_not_move.empty())
  {
    declined_.add_immovable(own);
    return end(failure);
  }
  state_ = state::moving;
  return {.type = path_action_type::move};
}

path_action endpoint_choice_fsm::on_moved(const own_side& own, const error_code& ec)
{
  if (role_ == path_role::client)
    return ec ? end(failure_) : describe(state::describing_software, wire::tcp);
  return ec ? end(ec) : choose_software(own);
}

path_action endpoint_choice_fsm::describe(state next, wire by)
{
  state_ = next;
  return {.type = path_action_type::describe, .wire = by};
}

path_action endpoint_choice_fsm::connect(state next, const endpoint_description& remote)
{
  state_ = next;
  return {.type = path_action_type::connect, .remote = remote};
}

path_action endpoint_choice_fsm::succeed(const own_side& own)
{
  parameters_.falls_back = !own.on_nic || own.why_not_move.empty();
  parameters_.declined = declined_.list(); // without the client's own reasons
  return end({});
}

path_action endpoint_choice_fsm::end(const error_code& ec)
{
  state_ = state::done;
  failure_ = ec;
  declined_.add_all_of_peer(client_.declined);
  return {.error = ec};
}

} // namespace rdma::detail

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/path_fsm.hpp"

#include <utility>

namespace rdma::detail {

path_fsm::path_fsm(path_role role, const handshake_parameters& chosen, handshake_parameters peer,
  std::string transport, declined_transports declined)
  : role_(role)
  , software_next_(chosen.software_next || peer.software_next)
  , confirms_(software_next_ || chosen.confirms || peer.confirms)
  , peer_(std::move(peer))
  , transport_(std::move(transport))
  , declined_(std::move(declined))
{
  if (role == path_role::client)
    declined_.add_all_of_peer(peer_.declined);
}

path_action path_fsm::resume(const own_side& own, const path_outcome& result)
{
  if (state_ != state::done && result.stopped)
    return end(result.stopped);
  switch (state_)
  {
  case state::begin:
    return begin(own);
  case state::moving:
    return result.ec ? end(result.ec) : on_moved();
  case state::describing:
    return result.ec ? end(result.ec)
                     : send(state::sending_endpoint, frame_type::endpoint, result.endpoint.text());
  case state::sending_endpoint:
    return perform(state::awaiting_endpoint, path_action_type::receive);
  case state::awaiting_endpoint:
    return on_endpoint(result);
  case state::connecting:
    return on_connected(result);
  case state::answering_endpoint:
    return perform(state::awaiting_verdict, path_action_type::receive);
  case state::confirming:
    return on_confirmed(result);
  case state::reporting_success: // the client reports first
    return role_ == path_role::client ? perform(state::awaiting_verdict, path_action_type::receive)
                                      : end({});
  case state::reporting_failure:
    return retry(own);
  case state::awaiting_verdict:
    return on_verdict(own, result);
  case state::entering:
    return on_entered(result.ec);
  case state::done:
    break;
  }
  return {.error = failure_};
}

path_action path_fsm::begin(const own_side& own)
{
  if (software_next_)
    return fall_back(own);
  if (role_ == path_role::client)
    return connect(peer_.endpoints.front());
  return confirms_ ? perform(state::awaiting_verdict, path_action_type::receive)
                   : perform(state::entering, path_action_type::enter);
}

// Both sides move to the software device and exchange new descriptions; the client sends first.
path_action path_fsm::fall_back(const own_side& own)
{
  if (!own.on_nic)
    return on_moved();
  if (own.why_not_move.empty())
    return perform(state::moving, path_action_type::move);
  declined_.add_immovable(own);
  return end(error::no_common_transport);
}

path_action path_fsm::on_moved()
{
  if (role_ == path_role::server)
    return perform(state::awaiting_endpoint, path_action_type::receive);
  state_ = state::describing;
  return {.type = path_action_type::describe, .wire = wire::tcp};
}

path_action path_fsm::on_endpoint(const path_outcome& result)
{
  if (result.ec || result.frame == frame_type::bye)
    return end(result.ec ? result.ec : error::peer_closed);
  if (result.frame != frame_type::endpoint)
    return perform(state::awaiting_endpoint, path_action_type::receive);
  error_code malformed;
  const endpoint_description remote = endpoint_description::parse(result.text, malformed);
  return malformed ? end(malformed) : connect(remote);
}

path_action path_fsm::on_connected(const path_outcome& result)
{
  transport_ = result.transport;
  if (role_ == path_role::server)
    return result.ec
      ? end(result.ec)
      : send(state::answering_endpoint, frame_type::endpoint, result.endpoint.text());
  if (result.ec)
    return report_failure(result.text, result.ec);
  // The link may have ended since the server looked.
  return confirms_ || !result.linked ? perform(state::confirming, path_action_type::confirm)
                                     : perform(state::entering, path_action_type::enter);
}

path_action path_fsm::on_confirmed(const path_outcome& result)
{
  if (result.ec)
    return report_failure(result.text, error::path_not_confirmed);
  // The server's queue pair is connected before the client learns of it: what the client sends then
  // finds the server's receives.
  return role_ == path_role::client && confirms_
    ? send(state::reporting_success, frame_type::confirmed)
    : perform(state::entering, path_action_type::enter);
}

path_action path_fsm::on_verdict(const own_side& own, const path_outcome& result)
{
  if (result.ec || result.frame == frame_type::bye)
    return end(result.ec ? result.ec : error::peer_closed);
  if (result.frame == frame_type::confirmed)
    return role_ == path_role::client ? perform(state::entering, path_action_type::enter)
                                      : perform(state::confirming, path_action_type::confirm);
  if (result.frame != frame_type::unconfirmed)
    return perform(state::awaiting_verdict, path_action_type::receive);
  declined_.add(transport_, declined_transports::peer_reason(result.text));
  failure_ = error::path_not_confirmed;
  return retry(own);
}

path_action path_fsm::on_entered(const error_code& ec)
{
  return ec || role_ == path_role::client || !confirms_
    ? end(ec)
    : send(state::reporting_success, frame_type::confirmed);
}

path_action path_fsm::report_failure(const std::string& reason, const error_code& failure)
{
  failure_ = failure;
  declined_.add(transport_, reason);
  return send(state::reporting_failure, frame_type::unconfirmed, reason);
}

// Both sides draw the same conclusion, because each has announced that it can fall back or not.
path_action path_fsm::retry(const own_side& own)
{
  return peer_.falls_back && own.on_nic && own.why_not_move.empty() ? fall_back(own)
                                                                    : end(failure_);
}

path_action path_fsm::connect(const endpoint_description& remote)
{
  state_ = state::connecting;
  return {.type = path_action_type::connect, .remote = remote};
}

path_action path_fsm::send(state next, frame_type frame, const std::string& text)
{
  state_ = next;
  return {.type = path_action_type::send, .frame = frame, .text = text};
}

path_action path_fsm::perform(state next, path_action_type type)
{
  state_ = next;
  return {.type = type};
}

path_action path_fsm::end(const error_code& ec)
{
  state_ = state::done;
  failure_ = ec;
  return {.error = ec};
}

} // namespace rdma::detail

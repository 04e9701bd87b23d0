//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_PATH_FSM_HPP
#define BOOST_RDMA_LIB_CONNECT_PATH_FSM_HPP

#include "connect/handshake_parameters.hpp"
#include "connect/path_action.hpp"

#include <string>

namespace rdma::detail {

// The state machine after the exchange of parameters (doc/upgrade_protocol.md, "The path"). Both
// sides confirm the path between their queue pairs by an RDMA write each, unless their devices are
// linked. If one fails, and both sides can, they move to the software device. The actions are all
// of path_action_type. A server that does not confirm ends before it sends its parameters.
class path_fsm
{
public:
  // `chosen` are the parameters that this side has sent. `transport` names the transport by which a
  // server's queue pair is connected; it is empty for a client.
  path_fsm(path_role role, const handshake_parameters& chosen, handshake_parameters peer,
    std::string transport, declined_transports declined);

  // Takes the outcome of the last action and returns the next one. The first outcome is empty.
  path_action resume(const own_side& own, const path_outcome& result);

  [[nodiscard]] const declined_transports& declined() const noexcept { return declined_; }

  enum class state
  {
    begin,
    moving,            // to the software device
    describing,        // the client's new queue pair there
    sending_endpoint,  // client: this description
    awaiting_endpoint, // the peer's new description
    connecting,
    answering_endpoint, // server: sending its new description
    confirming,         // by this side's RDMA write
    reporting_success,  // sending `confirmed`
    reporting_failure,  // sending `unconfirmed`
    awaiting_verdict,   // the peer's `confirmed` or `unconfirmed`
    entering,           // the state connected
    done,
  };
  [[nodiscard]] state current() const noexcept { return state_; }

private:
  path_action begin(const own_side& own);
  path_action fall_back(const own_side& own);
  path_action on_moved();
  path_action on_endpoint(const path_outcome& result);
  path_action on_connected(const path_outcome& result);
  path_action on_confirmed(const path_outcome& result);
  path_action on_verdict(const own_side& own, const path_outcome& result);
  path_action on_entered(const error_code& ec);
  path_action report_failure(const std::string& reason, const error_code& failure);
  path_action retry(const own_side& own);
  path_action connect(const endpoint_description& remote);
  path_action send(state next, frame_type frame, const std::string& text = {});
  path_action perform(state next, path_action_type type);
  path_action end(const error_code& ec);

  const path_role role_;
  const bool software_next_; // the server can use none of the client's endpoints
  const bool confirms_;      // the path; false if the devices are linked
  const handshake_parameters peer_;
  state state_ = state::begin;
  std::string transport_;
  declined_transports declined_;
  error_code failure_; // the result if there is no fall-back; after `done` the result
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_CONNECT_PATH_FSM_HPP

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

// The path between two queue pairs after the exchange of parameters, as a state machine: both sides
// confirm it by a message in each direction, and move to the software device together if it is not
// confirmed (doc/upgrade_protocol.md, "The path"). Actions: all of path_action_type.
class path_fsm
{
public:
  // `chosen` has this side's parameters. `transport` is the name of the server's transport.
  path_fsm(path_role role, const handshake_parameters& chosen, handshake_parameters peer,
    std::string transport, declined_transports declined);

  // Performs the next step. The outcome of the first call is empty.
  path_action resume(const own_side& own, const path_outcome& result);

  [[nodiscard]] const declined_transports& declined() const noexcept { return declined_; }

  enum class state
  {
    begin,
    moving,
    describing,
    sending_endpoint, // the client's new one
    awaiting_endpoint,
    connecting,
    answering_endpoint, // by the server's new one
    confirming,
    reporting_success,
    reporting_failure,
    awaiting_verdict,
    entering,
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
  const bool software_next_; // none of the client's endpoints was possible
  const handshake_parameters peer_;
  state state_ = state::begin;
  std::string transport_;
  declined_transports declined_;
  error_code failure_; // if there is no fall-back; the result after `done`
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_CONNECT_PATH_FSM_HPP

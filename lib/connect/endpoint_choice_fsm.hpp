//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_ENDPOINT_CHOICE_FSM_HPP
#define BOOST_RDMA_LIB_CONNECT_ENDPOINT_CHOICE_FSM_HPP

#include "connect/handshake_parameters.hpp"
#include "connect/path_action.hpp"

#include <cstddef>
#include <string>
#include <utility>

namespace rdma::detail {

// The choice of endpoints before path_fsm, as a state machine (doc/upgrade_protocol.md, "The
// path"). A client describes its queue pair for each wire of its device; a server connects its
// queue pair with the first of the client's endpoints that is possible. Either moves from a NIC
// that cannot be used to the software device. Actions: describe, move, connect, done.
class endpoint_choice_fsm
{
public:
  static constexpr char any_nic[] = "RDMA NIC"; // in declined_transport::transport

  endpoint_choice_fsm() = default; // of a client
  explicit endpoint_choice_fsm(handshake_parameters client)
    : role_(path_role::server)
    , client_(std::move(client))
  {
  }

  // Performs the next step. The outcome of the first call is empty.
  path_action resume(const own_side& own, const path_outcome& result);

  // The parameters for the peer after `done`, as far as they concern the path.
  [[nodiscard]] const handshake_parameters& parameters() const noexcept { return parameters_; }

  // The name of the transport by which a server's queue pair is connected.
  [[nodiscard]] const std::string& transport() const noexcept { return transport_; }

  // Reasons of this side, then of the client.
  [[nodiscard]] const declined_transports& declined() const noexcept { return declined_; }

  enum class state
  {
    begin,
    describing_nic,
    describing_software,
    choosing_nic,
    choosing_software,
    moving,
    done,
  };
  [[nodiscard]] state current() const noexcept { return state_; }

private:
  path_action begin_offer(const own_side& own);
  path_action on_nic_described(const own_side& own, const path_outcome& result);
  path_action on_software_described(const own_side& own, const path_outcome& result);
  path_action begin_choice(const own_side& own);
  path_action choose_nic(const own_side& own);
  path_action choose_software(const own_side& own);
  path_action on_connected(const own_side& own, const path_outcome& result);
  path_action move(const own_side& own, const error_code& failure);
  path_action on_moved(const own_side& own, const error_code& ec);
  path_action describe(state next, wire by);
  path_action connect(state next, const endpoint_description& remote);
  path_action succeed(const own_side& own);
  path_action end(const error_code& ec);

  const path_role role_ = path_role::client;
  state state_ = state::begin;
  handshake_parameters client_; // of a server's peer
  handshake_parameters parameters_;
  declined_transports declined_;
  declined_transports obstacles_; // wires of the NIC that cannot be described
  std::size_t next_ = 0;          // wire to describe, or endpoint of the client
  std::string transport_;
  error_code failure_; // of the NIC, if the queue pair cannot move; the result after `done`
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_CONNECT_ENDPOINT_CHOICE_FSM_HPP

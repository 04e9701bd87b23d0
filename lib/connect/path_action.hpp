//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_PATH_ACTION_HPP
#define BOOST_RDMA_LIB_CONNECT_PATH_ACTION_HPP

#include "boost_rdma/endpoint_description.hpp"
#include "boost_rdma/error.hpp"
#include "boost_rdma/transport_choice.hpp"
#include "connect/control_frame.hpp"
#include "connect/log.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Actions of endpoint_choice_fsm and path_fsm, and their outcomes.

namespace rdma::detail {

enum class path_role
{
  client,
  server,
};

enum class path_action_type
{
  describe, // describe the queue pair for `wire`
  move,     // move the queue pair to the software device
  connect,  // connect the queue pair with `remote`; sends still wait
  confirm,  // send an RDMA write of no bytes and wait for its acknowledgement
  send,     // send a frame of type `frame` with the payload `text`
  receive,  // wait for the next frame
  enter,    // the path is confirmed in both directions: the queue pair is connected
  done,     // the machine has ended, with `error` or successfully
};

struct path_action
{
  path_action_type type = path_action_type::done;
  rdma::wire wire = rdma::wire::unknown;
  endpoint_description remote{};
  frame_type frame{};
  std::string text{};
  error_code error{};
};

struct path_outcome
{
  error_code stopped{}; // the reason if the connection was stopped meanwhile
  error_code ec{};
  std::string text{};              // reason of ec; payload of a received frame
  std::string transport{};         // of describe and connect, by name
  endpoint_description endpoint{}; // of describe and connect: this side's queue pair
  bool linked = false;             // of connect: messages reach the peer's device
  frame_type frame{};              // of receive
};

// This side's queue pair before an action.
struct own_side
{
  bool on_nic = false;
  std::string why_no_nic{};   // reason if it is not on a NIC
  std::string why_not_move{}; // reason if it cannot move to the software device
};

// Transports that are not used, and the reasons.
class declined_transports
{
public:
  void add(std::string transport, std::string reason)
  {
    list_.push_back({std::move(transport), std::move(reason)});
  }
  void add_immovable(const own_side& own)
  {
    add("software device", "the queue pair cannot fall back: " + own.why_not_move);
  }
  void add_all_of_peer(const std::vector<declined_transport>& of_peer)
  {
    for (const declined_transport& each : of_peer)
      add(untrusted(each.transport), peer_reason(each.reason));
  }
  [[nodiscard]] const std::vector<declined_transport>& list() const noexcept { return list_; }

  // Returns the reason that a peer sent as text to show.
  static std::string peer_reason(std::string_view reason)
  {
    if (reason.empty())
      return "the peer reports no reason";
    return "the peer reports " + untrusted(reason, untrusted_reason_size_max);
  }

private:
  std::vector<declined_transport> list_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_CONNECT_PATH_ACTION_HPP

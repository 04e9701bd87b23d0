//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_RPC_GROUP_OPTIONS_HPP
#define BOOST_RDMA_RPC_GROUP_OPTIONS_HPP

#include <boost_rdma/error.hpp>
#include <boost_rdma/rpc/options.hpp>

#include <chrono>
#include <cstdint>
#include <vector>

namespace rdma::rpc {

/// Options of a member of a group (basic_group).
struct group_options
{
  /// Number of members that a member calls by itself, in calls of which it is the root: at least 1.
  std::uint32_t fan_out = 8;

  /// Options of the connections to other members.
  client_options client;
};

/// Options of a call to a group.
struct group_call_options
{
  /// Time after which the call has ended: up to 10 days.
  std::chrono::nanoseconds timeout = std::chrono::seconds(10);

  /// A member that does not answer a message for so long is bypassed.
  /** 0, or more than the default: timeout / (4 * (h + 1)), where h is the height of the tree. */
  std::chrono::nanoseconds silence{0};
};

/// A member that has not answered a call to a group.
struct missing_member
{
  /// Its rank.
  std::uint32_t rank = 0;
  /// The error of its handler or of the connection to it, or boost::asio::error::timed_out.
  error_code ec;
};

/// The result of a call to a group.
template <class Reply>
struct group_result
{
  /// The combined replies; made by the default constructor if no member has answered.
  Reply reply{};
  /// Number of members whose replies it contains.
  std::uint32_t answered = 0;
  /// All other members, by rank.
  std::vector<missing_member> missing;
};

} // namespace rdma::rpc

#endif // BOOST_RDMA_RPC_GROUP_OPTIONS_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_RPC_GROUP_OPTIONS_HPP
#define BOOST_RDMA_RPC_GROUP_OPTIONS_HPP

#include <boost_rdma/buffer.hpp>
#include <boost_rdma/error.hpp>
#include <boost_rdma/rpc/options.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace rdma::rpc {

/// Options of a member of a group (basic_group).
struct group_options
{
  /// Number of members that a member calls by itself, in calls of which it is the root: at least 1.
  /** Calls that expose memory use 2 if this is larger, so that the root sends the bytes twice. */
  std::uint32_t fan_out = 8;

  /// Size in bytes of the memory that this member has at a time for what other members expose
  /// (group_call_options::exposed), also of what its handlers keep (call_info::content_owner()).
  /** Calls that need more fail here, with error::overloaded, or with error::message_too_large if
   * their content alone is larger. */
  std::size_t content_max = 256 * 1024 * 1024;

  /// Time between two pings of the failure detection: up to 10 days. 0: no failure detection.
  /** Each member must have it, or none. See basic_group::membership(). */
  std::chrono::nanoseconds probe_period{0};

  /// Time after which a suspected member that does not answer has failed: up to 10 days.
  /** 0: (4 + log2 N) periods with N members, where the logarithm is rounded down. */
  std::chrono::nanoseconds suspicion_time{0};

  /// Options of the connections to other members.
  client_options client{};
};

/// The members that have failed, as far as a member knows.
struct group_membership
{
  /// Is larger after each change.
  std::uint64_t version = 0;
  /// The ranks of members that are known to have failed, in ascending order.
  std::vector<std::uint32_t> failed;
};

/// Options of a call to a group.
struct group_call_options
{
  /// Time after which the call has ended: up to 10 days.
  std::chrono::nanoseconds timeout = std::chrono::seconds(10);

  /// A member that does not answer a message for so long is bypassed.
  /** 0, or more than the default: timeout / (4 * (h + 1)), where h is the height of the tree. */
  std::chrono::nanoseconds silence{0};

  /// Memory of the root whose bytes all members receive before their handlers run
  /// (call_info::content()).
  /** It belongs to the operation until its handler is called. Members pass the bytes on to each
   * other. Registered memory is read by one-sided operations, as described at rpc::exposure. */
  const_buffer exposed{};
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

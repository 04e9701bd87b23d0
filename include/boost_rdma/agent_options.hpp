//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_AGENT_OPTIONS_HPP
#define BOOST_RDMA_AGENT_OPTIONS_HPP

#include <boost_rdma/access.hpp>

#include <chrono>
#include <cstdint>

namespace rdma {

/// Default time that a peer's agent has to answer. After it a request completes with
/// boost::asio::error::timed_out.
inline constexpr std::chrono::milliseconds agent_time_limit{5'000};

/// Parameters of basic_agent::async_allocate(), in addition to the size.
struct allocation_options
{
  /// Alignment of the memory's address: a power of two, at most 4096. Other values complete with
  /// error::bad_alignment.
  std::uint32_t alignment = 64;

  /// Duration of the lease. Without a limit it lasts as long as the connection.
  /** The peer may grant less: see remote_memory::expires_at(). */
  std::chrono::milliseconds lifetime = std::chrono::milliseconds::max();

  /// Rights of this side on the memory: one or more remote_ rights, otherwise error::bad_access.
  access rights = remote_access;

  /// Time that the peer has to answer.
  std::chrono::milliseconds time_limit = agent_time_limit;
};

/// Parameters of basic_agent::async_lend().
struct lend_options
{
  /// Rights of the peer on the memory: one or more remote_ rights, otherwise error::bad_access.
  access rights = access::remote_read;

  /// Duration of the loan. Without a limit it lasts until the loan is destroyed or the connection
  /// ends.
  std::chrono::milliseconds lifetime = std::chrono::milliseconds::max();

  /// Time limit for exposing the memory and receiving the peer's answer.
  std::chrono::milliseconds time_limit = agent_time_limit;
};

} // namespace rdma

#endif // BOOST_RDMA_AGENT_OPTIONS_HPP

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

/// How long a peer's agent may take to answer, unless another time is given, before a request ends
/// with boost::asio::error::timed_out.
inline constexpr std::chrono::milliseconds agent_time_limit{5'000};

/// What basic_agent::async_allocate() asks for, beside a size.
struct allocation_options
{
  /// Of the memory's address: a power of two, 4096 at most; error::bad_alignment for others.
  std::uint32_t alignment = 64;

  /// How long the lease is to last; without a limit, as long as the connection. The peer may grant
  /// less.
  /** See remote_memory::expires_at(). */
  std::chrono::milliseconds lifetime = std::chrono::milliseconds::max();

  /// What this side may do with the memory: one or more remote_ rights, else error::bad_access.
  access rights = remote_access;

  /// How long the peer may take to answer.
  std::chrono::milliseconds time_limit = agent_time_limit;
};

/// What basic_agent::async_lend() gives.
struct lend_options
{
  /// What the peer may do with the memory: one or more remote_ rights, else error::bad_access.
  access rights = access::remote_read;

  /// When the memory is taken back; without a limit, when the loan is destroyed, or the connection
  /// ends.
  std::chrono::milliseconds lifetime = std::chrono::milliseconds::max();

  /// How long making the memory reachable and the peer's answer may take.
  std::chrono::milliseconds time_limit = agent_time_limit;
};

} // namespace rdma

#endif // BOOST_RDMA_AGENT_OPTIONS_HPP

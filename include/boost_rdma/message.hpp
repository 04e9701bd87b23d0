//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_MESSAGE_HPP
#define BOOST_RDMA_MESSAGE_HPP

#include <cstddef>
#include <cstdint>
#include <optional>

namespace rdma {

/// Result of a receive.
struct message
{
  /// Number of bytes received or, if `written` is set, written by the peer.
  std::size_t size = 0;

  /// True for a write with immediate data: the data is in exposed memory, and the receive's buffer
  /// is unchanged.
  bool written = false;

  /// Immediate data in host byte order; empty if the peer sent none.
  std::optional<std::uint32_t> immediate;

  /// The remote key that the peer's async_send_with_invalidate() invalidated.
  std::optional<std::uint32_t> invalidated_key;

  /// Number of the queue pair that received the message. Identifies the peer on a shared receive
  /// queue.
  std::uint32_t queue_pair_number = 0;
};

} // namespace rdma

#endif // BOOST_RDMA_MESSAGE_HPP

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

/// What a receive completed with.
struct message
{
  /// Bytes received, or bytes that the peer wrote where `written` is set.
  std::size_t size = 0;

  /// It was a write with immediate: the data lies in exposed memory, the receive's buffer is
  /// untouched.
  bool written = false;

  /// The immediate data, in host byte order; none where the peer sent without.
  std::optional<std::uint32_t> immediate;

  /// The remote key that the peer's async_send_with_invalidate made invalid.
  std::optional<std::uint32_t> invalidated_key;

  /// The queue pair that received it: tells peers apart on a shared receive queue.
  std::uint32_t queue_pair_number = 0;
};

} // namespace rdma

#endif // BOOST_RDMA_MESSAGE_HPP

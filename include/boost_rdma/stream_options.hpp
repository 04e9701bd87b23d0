//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_STREAM_OPTIONS_HPP
#define BOOST_RDMA_STREAM_OPTIONS_HPP

#include <chrono>
#include <cstdint>

namespace rdma {

/// Transports that a stream may use when it connects or is accepted.
enum class stream_transports
{
  rdma_or_tcp, ///< RDMA if both ends have it, otherwise TCP
  rdma,        ///< only RDMA
  tcp,         ///< only TCP
};

/// Options of a stream (basic_stream). Each side has its own.
struct stream_options
{
  /// Transports that the stream may use. Has no effect on a stream that is made of a queue pair.
  stream_transports transports = stream_transports::rdma_or_tcp;

  /// Number of receives that stay posted: 8 to 1024, and at most queue_pair_options::receive_depth.
  /** Each has 256 bytes. Writes of up to 240 bytes take one until the peer has read them. */
  std::uint32_t receives = 32;

  /// Size in bytes of the ring for larger writes at the beginning: 1 KiB to ring_max.
  std::uint32_t ring_min = 8 * 1024;

  /// Size in bytes to which the ring may grow: ring_min to 1 GiB.
  std::uint32_t ring_max = 1024 * 1024;

  /// Time that a closed stream has to send the bytes that were written, and the end. After it the
  /// connection is closed without them.
  std::chrono::milliseconds close_limit{10'000};
};

} // namespace rdma

#endif // BOOST_RDMA_STREAM_OPTIONS_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_LOOPBACK_WIRE_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_LOOPBACK_WIRE_HPP

#include "verbs/software/protocol/requester.hpp"
#include "verbs/software/protocol/responder.hpp"
#include "verbs/software/wire/staging.hpp"

#include <cstdint>

namespace rdma::software::wire {

/// Carries the frames of a queue pair that is connected to itself, from its requester to its
/// responder and back.
/** Not thread-safe: the caller holds the queue pair's progress lock in every call. */
class loopback_wire
{
public:
  /// Payload of a full frame: it is copied to a staging buffer before its header is passed on, so
  /// that a frame whose payload cannot be read is never begun.
  static constexpr std::uint32_t segment_bytes = staging_size;

  loopback_wire(protocol::requester& requests, protocol::responder& responses) noexcept
    : requester_(requests)
    , responder_(responses)
  {
  }

  /// Carries all frames that can leave now, or a bounded number of them.
  void transmit() noexcept;

  /// Returns true if the last transmit() has left frames that can leave now.
  bool unfinished() const noexcept { return unfinished_; }

private:
  void carry(const protocol::frame& which, std::byte* staged) noexcept;
  bool gather(const protocol::frame& which, std::byte* to, protocol::detail& why) noexcept;
  bool place(const protocol::frame& which, const std::byte* from, protocol::detail& why) noexcept;

  protocol::requester& requester_;
  protocol::responder& responder_;
  bool unfinished_ = false;
};

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_LOOPBACK_WIRE_HPP

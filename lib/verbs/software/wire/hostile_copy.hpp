//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// The payloads of writes and reads in hostile mode. Each frame is copied as a whole, so that its
// words are not cut where a record or a part of a stream ends.

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_HOSTILE_COPY_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_HOSTILE_COPY_HPP

#include "verbs/software/memory/hostile_memory.hpp"
#include "verbs/software/protocol/responder.hpp"

#include <cstddef>
#include <cstdint>

namespace rdma::software::wire {

/// Places all payload of the accepted frame, which is of a write. Returns false and sets `why` if
/// the memory cannot be accessed.
bool place_frame(hostile_memory& by, protocol::responder& to, const std::byte* payload,
  std::uint32_t size, protocol::detail& why) noexcept;

/// Copies all payload of a read response. Returns false as place_frame().
bool gather_frame(hostile_memory& by, protocol::responder& from, const protocol::frame& which,
  std::byte* payload, protocol::detail& why) noexcept;

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_HOSTILE_COPY_HPP

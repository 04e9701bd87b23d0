//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_QUEUE_PAIR_NUMBER_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_QUEUE_PAIR_NUMBER_HPP

#include <cstdint>

// The parts of a queue pair number: the index of a port in the upper 10 bits, and 14 bits that
// select the queue pair. A GID and a number are a peer's whole address, as on RoCE.

namespace rdma::software {

inline constexpr unsigned number_bits = 14; ///< of a number, behind the index
inline constexpr std::uint32_t numbers_per_index = 1u << number_bits;
inline constexpr std::uint32_t index_count = 1024; ///< of a network namespace
inline constexpr std::uint32_t numbers_end = index_count * numbers_per_index; ///< 2^24 (IBA 5.2.9)

/// The TCP and UDP ports of the indexes are 20480 to 21503: below the ephemeral ports of Linux.
inline constexpr std::uint16_t first_port = 20480;

/// Returns the index in a queue pair number: the same for all queue pairs at one port.
constexpr std::uint32_t index_of(std::uint32_t queue_pair) noexcept
{
  return queue_pair >> number_bits;
}

/// Returns the TCP and UDP port at which a queue pair's device can be reached.
constexpr std::uint16_t port_of(std::uint32_t queue_pair) noexcept
{
  return static_cast<std::uint16_t>(first_port + index_of(queue_pair) % index_count);
}

/// Returns true if a queue pair may have this number.
/** 0 and 1 are the management queue pairs, and 0xffffff stands for multicast (IBA 3.5.3, 3.5.10).
 */
constexpr bool is_usual_number(std::uint32_t queue_pair) noexcept
{
  return queue_pair > 1 && queue_pair < numbers_end - 1;
}

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_QUEUE_PAIR_NUMBER_HPP

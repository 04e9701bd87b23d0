//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_SEGMENT_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_SEGMENT_HPP

#include "verbs/software/memory/fork_record.hpp"
#include "verbs/software/memory/grant_table.hpp"
#include "verbs/software/wire/bells.hpp"
#include "verbs/software/wire/lanes.hpp"
#include "verbs/software/wire/ring.hpp"
#include "verbs/software/wire/socket.hpp"

#include <array>
#include <atomic>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace rdma::software::wire {

/// The state of one end of a local link. Written by that end, except where stated.
using link_side = basic_link_side<atomics, lanes_max>;

/// The state of one end of a lane, without records. Written by that end.
struct lane_side
{
  /// Everything up to this PSN has been carried out, with the credit code above it. There is no
  /// acknowledgement until `acknowledged_bit` is set. A piggybacked acknowledgement has the same
  /// format and may be more recent.
  alignas(ring::line) std::atomic<std::uint32_t> acknowledged{0};

  /// This end has detached and does not use the lane any more.
  std::atomic<std::uint32_t> detached{0};

  /// The positions up to which this end has read the other end's rings.
  alignas(ring::line) ring::progress requests_taken{0};
  ring::progress responses_taken{0};

  alignas(ring::line) basic_lane_waits<atomics> waits;

  /// The index in the other end's `grants` that this end is copying to or from, plus one; 0: it is
  /// not copying.
  alignas(ring::line) std::atomic<std::uint32_t> touching{0};

  /// The operations that the other end may carry out in this end's memory (IBV_ACCESS_REMOTE_*),
  /// the number of reads and atomics that it may have outstanding, and its grants.
  alignas(ring::line) std::atomic<std::uint32_t> rights{0};
  std::atomic<std::uint32_t> read_depth{0};
  static constexpr std::uint32_t grants_max = grant_table::grants_max;
  std::array<std::atomic<std::uint32_t>, grants_max> grants{};

  static constexpr std::uint32_t acknowledged_bit = 1u << 31;
  static constexpr std::uint32_t acknowledged_unused = 7u << 29; ///< zero but for that bit
};

/// The memory that the two ends of a local link share. It stays mapped while either end uses it.
/**
 * It is a memfd_create(2) file. The kernel provides pages at their first use, so an unused lane
 * costs only address space.
 */
class segment
{
public:
  static constexpr std::size_t ring_size = 128 * 1024;

  // The layout: the sides of the link, then the lanes. Each lane has its sides, then the rings of
  // either end.
  static constexpr std::size_t page = 4096;
  static constexpr std::size_t lanes_at = page;
  static constexpr std::size_t rings_at = page;
  static constexpr std::size_t end_size = 2 * ring_size;
  static constexpr std::size_t lane_size = rings_at + 2 * end_size;
  static constexpr std::size_t size = lanes_at + lanes_max * lane_size;

  /// Makes shared memory, with the descriptor by which another process maps it. Returns null with
  /// errno set on failure.
  static std::shared_ptr<segment> create(descriptor& fd) noexcept;

  /// Maps the memory of another end. Returns null unless it has exactly this size, and seals that
  /// fix the size. If both ends are in this process, they get the same mapping.
  static std::shared_ptr<segment> map(const descriptor& fd) noexcept;

  segment(std::byte* memory, fork_record& noted) noexcept;
  ~segment();
  segment(const segment&) = delete;
  segment& operator=(const segment&) = delete;

  /// Returns the state of an end of the link. End 0 has made the segment.
  link_side& side(unsigned end) noexcept;

  /// Initializes a lane that neither end uses. Called by end 0 only; not thread-safe.
  void begin(unsigned lane) noexcept;
  lane_side& side(unsigned lane, unsigned end) noexcept;
  std::byte* requests_of(unsigned lane, unsigned end) noexcept;
  std::byte* responses_of(unsigned lane, unsigned end) noexcept;

private:
  std::byte* const memory_;
  fork_record& noted_;
  std::bitset<lanes_max> begun_; // used by end 0
};

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_SEGMENT_HPP

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

/// The state of one end of a local link. Written by that end, unless it says otherwise.
using link_side = basic_link_side<atomics, lanes_max>;

/// The state of one end of a lane, besides records. Written by that end.
struct lane_side
{
  /// Everything up to this PSN has been carried out, with the credit code above it; no
  /// acknowledgement until `acknowledged_bit` is set. What rides along with a request's record says
  /// the same, of a later moment perhaps.
  alignas(ring::line) std::atomic<std::uint32_t> acknowledged{0};

  /// This end has detached. It uses the lane no more.
  std::atomic<std::uint32_t> detached{0};

  /// How far this end has read the other one's rings.
  alignas(ring::line) ring::progress requests_taken{0};
  ring::progress responses_taken{0};

  alignas(ring::line) basic_lane_waits<atomics> waits;

  /// The place in the other end's `grants` that this end is copying to or from, and one; zero when
  /// it is not.
  alignas(ring::line) std::atomic<std::uint32_t> touching{0};

  /// What the other end may do in this end's memory by itself (IBV_ACCESS_REMOTE_*), with which
  /// grant to what, and how many reads and atomics it may have under way.
  alignas(ring::line) std::atomic<std::uint32_t> rights{0};
  std::atomic<std::uint32_t> read_depth{0};
  static constexpr std::uint32_t grants_max = grant_table::grants_max;
  std::array<std::atomic<std::uint32_t>, grants_max> grants{};

  static constexpr std::uint32_t acknowledged_bit = 1u << 31;
  static constexpr std::uint32_t acknowledged_unused = 7u << 29; ///< but for that bit
};

/// The memory that the two ends of a local link share. It stays mapped for as long as either end
/// wants it.
/**
 * It is a file without a name (memfd_create(2)). The kernel provides pages when they are first
 * used, so a lane that no queue pair has used costs address space only.
 */
class segment
{
public:
  static constexpr std::size_t request_ring_size = 128 * 1024;
  static constexpr std::size_t response_ring_size = 64 * 1024;

  // The layout: the sides of the link, then the lanes. Of each the sides, then the rings of either
  // end.
  static constexpr std::size_t page = 4096;
  static constexpr std::size_t lanes_at = page;
  static constexpr std::size_t rings_at = page;
  static constexpr std::size_t end_size = request_ring_size + response_ring_size;
  static constexpr std::size_t lane_size = rings_at + 2 * end_size;
  static constexpr std::size_t size = lanes_at + lanes_max * lane_size;

  /// New shared memory, with the descriptor that lets another process map it; null with errno set.
  static std::shared_ptr<segment> create(descriptor& fd) noexcept;

  /// What another end has made; null unless it is exactly that, and of fixed size. Within a process
  /// both ends have the same mapping.
  static std::shared_ptr<segment> map(const descriptor& fd) noexcept;

  segment(std::byte* memory, fork_record& noted) noexcept;
  ~segment();
  segment(const segment&) = delete;
  segment& operator=(const segment&) = delete;

  /// End 0 has made it.
  link_side& side(unsigned end) noexcept;

  /// Puts a lane that neither end uses into its first state. For end 0, one thread at a time.
  void begin(unsigned lane) noexcept;
  lane_side& side(unsigned lane, unsigned end) noexcept;
  std::byte* requests_of(unsigned lane, unsigned end) noexcept;
  std::byte* responses_of(unsigned lane, unsigned end) noexcept;

private:
  std::byte* const memory_;
  fork_record& noted_;
  std::bitset<lanes_max> begun_; // end 0's
};

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_SEGMENT_HPP

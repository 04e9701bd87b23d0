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
#include "verbs/software/wire/ring.hpp"
#include "verbs/software/wire/socket.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace rdma::software::wire {

/// What one end of a local link tells the other, besides records. Written by that end, unless it
/// says otherwise.
struct segment_side
{
  /// Everything up to this PSN has been carried out; no acknowledgement until `acknowledged_bit` is
  /// set. What rides along with a request's record says the same, of a later moment perhaps.
  alignas(ring::line) std::atomic<std::uint32_t> acknowledged{0};

  /// How far this end has read the other one's rings.
  alignas(ring::line) ring::progress requests_taken{0};
  ring::progress responses_taken{0};

  /// This end is not looking: tell it by the socket. Taken back by the other end when it does, so
  /// that it does once.
  alignas(ring::line) std::atomic<std::uint32_t> asleep{1};

  /// This end waits for room in a ring of its own.
  std::atomic<std::uint32_t> blocked{0};

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
};

/// The memory that the two ends of a local link share. It stays mapped for as long as either end
/// wants it.
class segment
{
public:
  static constexpr std::size_t request_ring_size = 128 * 1024;
  static constexpr std::size_t response_ring_size = 64 * 1024;

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
  segment_side& side(unsigned end) noexcept;
  std::byte* requests_of(unsigned end) noexcept;
  std::byte* responses_of(unsigned end) noexcept;

private:
  std::byte* const memory_;
  fork_record& noted_;
};

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_SEGMENT_HPP

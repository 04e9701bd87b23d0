//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_MAPPED_AREA_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_MAPPED_AREA_HPP

#include "verbs/software/memory/fork_record.hpp"
#include "verbs/software/wire/socket.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace rdma::software::wire {

/// A mapping of shared memory that another process owns.
class mapped_area
{
public:
  mapped_area(std::byte* memory, std::size_t size, bool writable, fork_record& noted) noexcept
    : memory_(memory)
    , size_(size)
    , writable_(writable)
    , noted_(noted)
  {
    noted_.begin(memory_, size_, -1);
  }
  ~mapped_area();
  mapped_area(const mapped_area&) = delete;
  mapped_area& operator=(const mapped_area&) = delete;

  /// Maps the memory of a peer, once in this process for all links. Returns null if the memory is
  /// not sealed to a fixed size, or is larger than the host's.
  static std::shared_ptr<mapped_area> map(const descriptor& fd) noexcept;

  std::size_t size() const noexcept { return size_; }

  /// Returns false if the memory is mapped read-only, because its owner has sealed it.
  bool is_writable() const noexcept { return writable_; }

  std::byte* at(std::uint64_t place, std::uint64_t length) const noexcept
  {
    return place <= size_ && length <= size_ - place ? memory_ + place : nullptr;
  }

private:
  std::byte* const memory_;
  const std::size_t size_;
  const bool writable_;
  fork_record& noted_;
};

/// The memory of one peer that is mapped for its queue pairs. Thread-safe.
class peer_areas
{
public:
  /// Does the same as mapped_area::map(). Also returns null if the peer would exceed its share of
  /// the address space.
  std::shared_ptr<mapped_area> map(const descriptor& fd) noexcept;

private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<mapped_area>> areas_;
};

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_MAPPED_AREA_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_PROTOCOL_PINNED_BUFFERS_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_PROTOCOL_PINNED_BUFFERS_HPP

#include "verbs/software/objects/key_table.hpp"

#include <array>
#include <cstddef>
#include <span>

#include <sys/uio.h>

namespace rdma::software::protocol {

/// A list of stretches of memory for one copy or one system call, with the pins that permit it.
class pinned_buffers
{
public:
  static constexpr std::size_t capacity = 128;

  pinned_buffers() = default;
  ~pinned_buffers() { clear(); }
  pinned_buffers(const pinned_buffers&) = delete;
  pinned_buffers& operator=(const pinned_buffers&) = delete;

  std::size_t room() const noexcept { return capacity - count_; }
  std::size_t count() const noexcept { return count_; }
  iovec* data() noexcept { return vectors_.data(); }
  /// Whether a stretch is memory that was made to be shared, and so is there for as long as it is
  /// registered.
  bool is_shared(std::size_t i) const noexcept { return pins_[i] == nullptr || pins_[i]->shared; }

  std::span<const iovec> view() const noexcept { return {vectors_.data(), count_}; }

  /// A peer writes to these or reads them by itself: nothing orders that with what else happens
  /// there.
  bool unordered() const noexcept { return unordered_; }
  void set_unordered() noexcept { unordered_ = true; }

  /// Takes over the pin, when there is one. The caller has looked at room().
  void add(std::byte* at, std::size_t size, key_slot* pinned = nullptr) noexcept
  {
    vectors_[count_] = {at, size};
    pins_[count_] = pinned;
    ++count_;
  }

  void clear() noexcept
  {
    for (std::size_t i = 0; i < count_; ++i)
    {
      if (pins_[i] != nullptr)
        key_table::unpin(*pins_[i]);
    }
    count_ = 0;
    unordered_ = false;
  }

private:
  std::size_t count_ = 0;
  bool unordered_ = false;
  std::array<iovec, capacity> vectors_;
  std::array<key_slot*, capacity> pins_;
};

/// Adds what the scatter/gather list holds of [offset, offset + size), as far as there is room.
/**
 * `done` is set to the bytes added. False: a local key does not permit it (IBA 10.6.3.1). Elements
 * of no length are skipped, whatever their key.
 */
bool add_elements(pinned_buffers& to, std::span<const ibv_sge> list, std::uint64_t offset,
  std::uint64_t size, unsigned access, key_table& keys, const ibv_pd* pd,
  std::uint64_t& done) noexcept;

/// Whether every element's key permits the access to all of it.
bool permitted(
  std::span<const ibv_sge> list, unsigned access, key_table& keys, const ibv_pd* pd) noexcept;

} // namespace rdma::software::protocol

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_PROTOCOL_PINNED_BUFFERS_HPP

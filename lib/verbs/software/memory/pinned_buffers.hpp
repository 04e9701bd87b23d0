//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_MEMORY_PINNED_BUFFERS_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_MEMORY_PINNED_BUFFERS_HPP

#include "verbs/software/memory/key_table.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <sys/uio.h>

namespace rdma::software {

/// The largest buffer that is copied without a check that the program has not unmapped it.
inline constexpr std::size_t checked_copy_by_hand_max = 8 * 1024;

/// A list of buffers for one copy or one system call, with the pins of their keys.
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
  /// Returns true if a buffer lies in shared_memory, which stays mapped while it is registered.
  bool is_shared(std::size_t i) const noexcept
  {
    return pins_[i] == nullptr || pins_[i]->shared.contains(vectors_[i].iov_base);
  }

  std::span<const iovec> view() const noexcept { return {vectors_.data(), count_}; }

  /// Returns true if the buffers belong to a peer's request, which is not ordered with accesses of
  /// the program.
  bool unordered() const noexcept { return unordered_; }
  void set_unordered() noexcept { unordered_ = true; }

  /// Adds memory of the device. The caller has checked room().
  void add(std::byte* at, std::size_t size) noexcept { add(at, size, nullptr); }

  /// Adds [offset, offset + size) of registered memory, or the first part of it if only some of it
  /// lies in shared_memory, and takes over the pin. Returns the size added. The caller has checked
  /// room().
  std::uint64_t add(key_slot& pinned, std::uint64_t offset, std::uint64_t size) noexcept
  {
    const shared_part& shared = pinned.shared;
    if (size <= checked_copy_by_hand_max || shared.length == 0
      || offset >= shared.offset + shared.length)
    {
      add(pinned.memory + offset, size, &pinned);
    }
    else if (offset < shared.offset)
    {
      size = std::min(size, shared.offset - offset);
      add(pinned.memory + offset, size, &pinned);
    }
    else
    {
      size = std::min(size, shared.offset + shared.length - offset);
      add(shared.memory + (offset - shared.offset), size, &pinned);
    }
    return size;
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
  void add(std::byte* at, std::size_t size, key_slot* pinned) noexcept
  {
    vectors_[count_] = {at, size};
    pins_[count_] = pinned;
    ++count_;
  }

  std::size_t count_ = 0;
  bool unordered_ = false;
  std::array<iovec, capacity> vectors_;
  std::array<key_slot*, capacity> pins_;
};

/// Adds [offset, offset + size) of a scatter/gather list, as far as there is room.
/**
 * Sets `done` to the number of bytes added. Returns false if a local key does not permit the access
 * (IBA 10.6.3.1). Elements of length zero are skipped without a check of their key.
 */
bool add_elements(pinned_buffers& to, std::span<const ibv_sge> list, std::uint64_t offset,
  std::uint64_t size, unsigned access, key_table& keys, const ibv_pd* pd,
  std::uint64_t& done) noexcept;

/// Calls copy(memory, size) for the first `size` bytes of a scatter/gather list, element by
/// element, with the element's key pinned. Returns false if a key does not permit the access.
template <class Copy>
bool copy_elements(std::span<const ibv_sge> list, std::uint64_t size, unsigned access,
  key_table& keys, const ibv_pd* pd, Copy copy) noexcept
{
  for (const ibv_sge& element : list)
  {
    const std::uint64_t part = std::min<std::uint64_t>(element.length, size);
    if (part == 0)
      continue;
    const key_pin pinned(keys.pin_local(element.lkey, pd, element.addr, part, access));
    if (!pinned)
      return false;
    copy(pinned.at(element.addr), part);
    size -= part;
  }
  return true;
}

/// Returns true if each element's key permits the access to all of the element.
bool permitted(
  std::span<const ibv_sge> list, unsigned access, key_table& keys, const ibv_pd* pd) noexcept;

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_MEMORY_PINNED_BUFFERS_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_MEMORY_KEY_TABLE_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_MEMORY_KEY_TABLE_HPP

#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

namespace rdma::software {

class grant_table;

/// The part of registered memory that lies in shared_memory.
struct shared_part
{
  std::uint64_t offset = 0;    ///< of its first byte in the registered memory
  std::uint64_t length = 0;    ///< 0: none
  std::byte* memory = nullptr; ///< a mapping of it that exists while the memory is registered

  /// Returns the part of it in [from, from + size) of the registered memory, relative to `from`.
  shared_part within(std::uint64_t from, std::uint64_t size) const noexcept
  {
    const std::uint64_t begin = std::max(offset, from);
    const std::uint64_t end = std::min(offset + length, from + size);
    return begin < end ? shared_part{begin - from, end - begin, memory + (begin - offset)}
                       : shared_part{};
  }

  bool contains(const void* at) const noexcept
  {
    return reinterpret_cast<std::uintptr_t>(at) - reinterpret_cast<std::uintptr_t>(memory) < length;
  }
};

/// The memory and the rights behind a key.
/** The plain members are written only while `key` is zero and there are no pins. */
struct key_slot
{
  std::atomic<std::uint32_t> key{0};     ///< zero: no access
  std::atomic<std::uint32_t> pins{0};    ///< users that may be accessing the memory right now
  std::atomic<std::uint32_t> windows{0}; ///< memory windows bound to this region

  std::atomic<grant_table*> book{
    nullptr}; ///< the table of its grants to peers on this host, or null

  std::byte* memory = nullptr;
  std::uint64_t address = 0; ///< of the first byte, in requests with this key
  std::uint64_t length = 0;
  unsigned access = 0;
  const ibv_pd* pd = nullptr;
  std::uint32_t owner_qp = 0; ///< type 2 windows: the only queue pair that may use it
  shared_part shared;
  bool window = false;
  bool type2 = false;          ///< windows
  std::uint32_t first_key = 0; ///< windows: their keys differ from it in the low 8 bits only
  bool bound = false;          ///< windows: false: no access
  bool taken = false;          ///< guarded by the table's mutex
  key_slot* region = nullptr;  ///< windows: the region that it is bound to
};

/// The regions and windows of one context, found by their keys without a lock.
/**
 * pin() first counts a pin and then compares the key. revoke() first clears the key and then waits
 * until there are no pins. Both are sequentially consistent, so that one of the two sees the other
 * (Dekker), and this process accesses no byte after ibv_dereg_mr has returned. Pins are held for a
 * copy or one system call that does not block, never longer.
 */
class key_table
{
public:
  key_table();
  ~key_table();
  key_table(const key_table&) = delete;
  key_table& operator=(const key_table&) = delete;

  static constexpr std::size_t capacity = 1u << 18;

  /// Returns a free slot that is not reachable yet, and the key for publish(). Null when all are
  /// taken or memory is short.
  key_slot* allocate(std::uint32_t& key);

  /// Makes the slot reachable by its key. The caller has set all other members.
  static void publish(key_slot& slot, std::uint32_t key) noexcept
  {
    slot.key.store(key, std::memory_order_seq_cst);
  }

  /// Removes the key and waits until no thread of this process accesses the memory through it.
  /// Peers that may still write to it are late_writers afterwards.
  static void revoke(key_slot& slot) noexcept;

  /// Frees a revoked slot.
  void release(key_slot& slot) noexcept;

  /// Returns the slot of a key, pinned, or null. The caller checks what the key permits.
  key_slot* pin(std::uint32_t key) noexcept;

  static void unpin(key_slot& slot) noexcept { slot.pins.fetch_sub(1, std::memory_order_release); }

  /// Returns the region of a local key, pinned, if it permits `access` to all of [address, address
  /// + length); otherwise null.
  key_slot* pin_local(std::uint32_t key, const ibv_pd* pd, std::uint64_t address,
    std::uint64_t length, unsigned access) noexcept;

  /// As pin_local(), for the remote key of a request that arrives at queue pair `qp`.
  key_slot* pin_remote(std::uint32_t key, const ibv_pd* pd, std::uint32_t qp, std::uint64_t address,
    std::uint64_t length, unsigned access) noexcept;

  /// Held while a window is bound, invalidated or freed.
  std::mutex binding;

  /// Returns the slot for the upper 24 bits of a key. Null if there never was one.
  key_slot* find(std::uint32_t key) noexcept;

private:
  static constexpr std::size_t chunk_slots = 1024;
  static constexpr std::size_t chunk_count = capacity / chunk_slots;

  struct chunk
  {
    std::array<key_slot, chunk_slots> slots;
  };

  std::uint32_t random();

  const std::uint32_t secret_; // hides the slot's index in a key
  std::array<std::atomic<chunk*>, chunk_count> chunks_{};
  std::mutex mutex_;
  std::size_t chunks_used_ = 0;
  std::size_t slots_used_ = 0;
  std::array<std::uint32_t, 64> pool_{}; // random numbers, read from the kernel in bulk
  std::size_t pool_left_ = 0;
};

/// Owns a pin for a scope.
class key_pin
{
public:
  explicit key_pin(key_slot* slot) noexcept
    : slot_(slot)
  {
  }
  ~key_pin()
  {
    if (slot_ != nullptr)
      key_table::unpin(*slot_);
  }
  key_pin(const key_pin&) = delete;
  key_pin& operator=(const key_pin&) = delete;

  explicit operator bool() const noexcept { return slot_ != nullptr; }
  key_slot* operator->() const noexcept { return slot_; }
  key_slot* slot() const noexcept { return slot_; }

  /// Returns the place in this process of an address that the key covers.
  std::byte* at(std::uint64_t address) const noexcept
  {
    return slot_->memory + (address - slot_->address);
  }

private:
  key_slot* slot_;
};

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_MEMORY_KEY_TABLE_HPP

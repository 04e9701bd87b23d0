//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_KEY_TABLE_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_KEY_TABLE_HPP

#include <infiniband/verbs.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

namespace rdma::software {

namespace wire {
class grant_table;
}

/// What a key gives access to.
/** The plain members are written only while `key` is zero and nobody has a pin. */
struct key_slot
{
  std::atomic<std::uint32_t> key{0};     ///< zero: nobody gets in
  std::atomic<std::uint32_t> pins{0};    ///< those who may be touching the memory right now
  std::atomic<std::uint32_t> windows{0}; ///< memory windows bound to this region

  std::atomic<wire::grant_table*> book{nullptr}; ///< peers on this host have been let in, by this

  std::byte* memory = nullptr;
  std::uint64_t address = 0; ///< what the first byte is called by those who use the key
  std::uint64_t length = 0;
  unsigned access = 0;
  const ibv_pd* pd = nullptr;
  std::uint32_t owner_qp = 0; ///< type 2 windows: the only queue pair that may use it
  bool shared = false;        ///< regions: in shared_memory
  bool window = false;
  bool type2 = false;          ///< windows
  std::uint32_t first_key = 0; ///< windows: all their keys differ from it in the low 8 bits at most
  bool bound = false;          ///< windows: whether it gives access at all
  bool taken = false;          ///< under the table's mutex
  key_slot* region = nullptr;  ///< windows: what it is bound to
};

/// The regions and windows of one context, found by their keys without a lock.
/**
 * A user of a key pins the slot and then looks whether the key is still there; whoever takes a key
 * away clears it and then waits for the pins to go. Both orders are sequentially consistent, so
 * that one of them sees the other (Dekker), and no byte is touched after ibv_dereg_mr has returned.
 * Pins are held for a copy or one system call that does not block, never longer.
 */
class key_table
{
public:
  key_table();
  ~key_table();
  key_table(const key_table&) = delete;
  key_table& operator=(const key_table&) = delete;

  static constexpr std::size_t capacity = 1u << 18;

  /// A free slot, not reachable yet, with the key that publish() will give it; null when all are
  /// taken or memory is short.
  key_slot* allocate(std::uint32_t& key);

  /// Makes the slot reachable by its key. All other members are set.
  static void publish(key_slot& slot, std::uint32_t key) noexcept
  {
    slot.key.store(key, std::memory_order_seq_cst);
  }

  /// Takes the key away and waits until nobody uses what it gave access to.
  static void revoke(key_slot& slot) noexcept;

  /// Gives a revoked slot back.
  void release(key_slot& slot) noexcept;

  /// The slot of a key, pinned, or null. What the key permits is still to be checked.
  key_slot* pin(std::uint32_t key) noexcept;

  static void unpin(key_slot& slot) noexcept { slot.pins.fetch_sub(1, std::memory_order_release); }

  /// A local key's memory: the region, pinned, when all of [address, address + length) may be used.
  key_slot* pin_local(std::uint32_t key, const ibv_pd* pd, std::uint64_t address,
    std::uint64_t length, unsigned access) noexcept;

  /// A remote key's memory, as pin_local, for requests that arrive at queue pair `qp`.
  key_slot* pin_remote(std::uint32_t key, const ibv_pd* pd, std::uint32_t qp, std::uint64_t address,
    std::uint64_t length, unsigned access) noexcept;

  /// Held while a window is bound, invalidated or freed.
  std::mutex binding;

  /// The slot that a key of these upper 24 bits would be in. Null when there never was one.
  key_slot* find(std::uint32_t key) noexcept;

private:
  static constexpr std::size_t chunk_slots = 1024;
  static constexpr std::size_t chunk_count = capacity / chunk_slots;

  struct chunk
  {
    std::array<key_slot, chunk_slots> slots;
  };

  std::uint32_t random();

  const std::uint32_t secret_; // which bits of a key say the slot, hidden from those who see keys
  std::array<std::atomic<chunk*>, chunk_count> chunks_{};
  std::mutex mutex_;
  std::size_t chunks_used_ = 0;
  std::size_t slots_used_ = 0;
  std::array<std::uint32_t, 64> pool_{}; // random numbers, fetched in bulk
  std::size_t pool_left_ = 0;
};

/// Holds a pin for a scope.
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

  /// Where an address that the key covers lies in this process.
  std::byte* at(std::uint64_t address) const noexcept
  {
    return slot_->memory + (address - slot_->address);
  }

private:
  key_slot* slot_;
};

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_KEY_TABLE_HPP

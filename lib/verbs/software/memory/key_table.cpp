//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/memory/key_table.hpp"

#include "verbs/software/memory/grant_table.hpp"
#include "verbs/software/random.hpp"

#include <new>
#include <thread>

namespace rdma::software {

namespace {

std::uint32_t random_word()
{
  std::uint32_t word;
  fill_random(&word, sizeof word);
  return word;
}

bool covers(const key_slot& slot, std::uint64_t address, std::uint64_t length) noexcept
{
  // No sum here can overflow, for any values from a peer.
  return address >= slot.address && address - slot.address <= slot.length
    && length <= slot.length - (address - slot.address);
}

} // namespace

key_table::key_table()
  : secret_(random_word())
{
}

key_table::~key_table()
{
  for (auto& c : chunks_)
    delete c.load(std::memory_order_relaxed);
}

std::uint32_t key_table::random()
{
  if (pool_left_ == 0)
  {
    fill_random(pool_.data(), sizeof pool_);
    pool_left_ = pool_.size();
  }
  return pool_[--pool_left_];
}

key_slot* key_table::allocate(std::uint32_t& key)
{
  const std::lock_guard lock(mutex_);
  // At most half full, so that a free slot is found quickly and its key stays hard to guess. Only
  // the last chunk may fill up.
  if (slots_used_ >= chunks_used_ * chunk_slots / 2 && chunks_used_ < chunk_count)
  {
    chunk* fresh = new (std::nothrow) chunk;
    if (fresh == nullptr && slots_used_ == chunks_used_ * chunk_slots)
      return nullptr;
    if (fresh != nullptr)
      chunks_[chunks_used_++].store(fresh, std::memory_order_release);
  }
  if (slots_used_ == chunks_used_ * chunk_slots)
    return nullptr;
  const std::size_t all = chunks_used_ * chunk_slots;
  std::size_t index = random() % all;
  while (
    chunks_[index / chunk_slots].load(std::memory_order_relaxed)->slots[index % chunk_slots].taken)
    index = (index + 1) % all;
  key_slot& slot =
    chunks_[index / chunk_slots].load(std::memory_order_relaxed)->slots[index % chunk_slots];
  // Bits 8 to 25 select the slot; all others are random. Zero means "no key".
  do
  {
    const std::uint32_t noise = random();
    key = (noise & ~(static_cast<std::uint32_t>(capacity - 1) << 8))
      | (((static_cast<std::uint32_t>(index) ^ secret_) & static_cast<std::uint32_t>(capacity - 1))
        << 8);
  } while (key == 0);
  slot.taken = true;
  slot.windows.store(0, std::memory_order_relaxed);
  slot.owner_qp = 0;
  slot.window = false;
  slot.shared = {};
  slot.type2 = false;
  slot.first_key = 0;
  slot.bound = false;
  slot.region = nullptr;
  ++slots_used_;
  return &slot;
}

void key_table::revoke(key_slot& slot) noexcept
{
  slot.key.store(0, std::memory_order_seq_cst);
  while (slot.pins.load(std::memory_order_seq_cst) != 0)
    std::this_thread::yield();
  // Peers on this host that are still writing become late_writers. relaxed: the pin of the caller
  // of grant_table::give() orders this, and the table is older than the first key.
  if (grant_table* const book = slot.book.exchange(nullptr, std::memory_order_relaxed))
    book->revoke(slot);
}

void key_table::release(key_slot& slot) noexcept
{
  const std::lock_guard lock(mutex_);
  slot.taken = false;
  --slots_used_;
}

key_slot* key_table::find(std::uint32_t key) noexcept
{
  const std::size_t index = ((key >> 8) ^ secret_) & (capacity - 1);
  chunk* c = chunks_[index / chunk_slots].load(std::memory_order_acquire);
  return c != nullptr ? &c->slots[index % chunk_slots] : nullptr;
}

key_slot* key_table::pin(std::uint32_t key) noexcept
{
  key_slot* slot = key != 0 ? find(key) : nullptr;
  if (slot == nullptr)
    return nullptr;
  slot->pins.fetch_add(1, std::memory_order_seq_cst);
  if (slot->key.load(std::memory_order_seq_cst) == key)
    return slot;
  unpin(*slot);
  return nullptr;
}

key_slot* key_table::pin_local(std::uint32_t key, const ibv_pd* pd, std::uint64_t address,
  std::uint64_t length, unsigned access) noexcept
{
  key_slot* slot = pin(key);
  if (slot == nullptr)
    return nullptr;
  if (!slot->window && slot->pd == pd && (slot->access & access) == access
    && covers(*slot, address, length))
    return slot;
  unpin(*slot);
  return nullptr;
}

key_slot* key_table::pin_remote(std::uint32_t key, const ibv_pd* pd, std::uint32_t qp,
  std::uint64_t address, std::uint64_t length, unsigned access) noexcept
{
  key_slot* slot = pin(key);
  if (slot == nullptr)
    return nullptr;
  const bool may = !slot->window || (slot->bound && (slot->owner_qp == 0 || slot->owner_qp == qp));
  if (may && slot->pd == pd && (slot->access & access) == access && covers(*slot, address, length))
    return slot;
  unpin(*slot);
  return nullptr;
}

} // namespace rdma::software

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/wire/direct_access.hpp"

#include "verbs/software/memory/huge_pages.hpp"
#include "verbs/software/memory/pinned_buffers.hpp"
#include "verbs/software/wire/checked_copy.hpp"
#include "verbs/software/wire/copy_in_order.hpp"
#include "verbs/software/wire/unordered_access.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <new>
#include <utility>

#include <sys/uio.h>

namespace rdma::software::wire {
namespace {

constexpr std::size_t accesses_max = 64;
constexpr std::size_t accesses_usual = 4;
constexpr std::size_t shown_max = 256;

// The bytes that hostile mode copies at a time.
constexpr std::size_t hostile_part = 16 * 1024;

unsigned right_of(const protocol::send_request& what) noexcept
{
  switch (what.opcode)
  {
  case IBV_WR_RDMA_WRITE:
  case protocol::wr_atomic_write:
    return IBV_ACCESS_REMOTE_WRITE;
  case IBV_WR_RDMA_READ:
    return IBV_ACCESS_REMOTE_READ;
  default:
    return IBV_ACCESS_REMOTE_ATOMIC;
  }
}

// Returns the largest size up to `most` with which a part of the `left` bytes at this address does
// not end within a word, unless it is the last one.
std::uint64_t whole_words(const std::byte* there, std::uint64_t left, std::uint64_t most) noexcept
{
  if (most >= left)
    return left;
  return most - std::min(most, (reinterpret_cast<std::uintptr_t>(there) + most) % 8);
}

} // namespace

bool direct_access::open(lane_side& mine, const lane_side& theirs) noexcept
{
  mine_ = &mine;
  theirs_ = &theirs;
  mark_ = {};
  wanted_.clear();
  waits_for_.reset();
  try
  {
    accesses_.reserve(accesses_usual);
    shown_.reserve(accesses_usual);
    return true;
  }
  catch (const std::bad_alloc&)
  {
    return false;
  }
}

void direct_access::close() noexcept
{
  let_go();
  accesses_.clear();
  shown_.clear();
  wanted_.clear();
  waits_for_.reset();
}

bool direct_access::is_large(const protocol::send_request& what) const noexcept
{
  return what.length >= waits_from_ && right_of(what) != IBV_ACCESS_REMOTE_ATOMIC;
}

// If the peer has declined, or its grant does not cover the request, it is sent as frames.
// Otherwise a grant covers it, or the answer may bring one.
bool direct_access::prefers(const protocol::send_request& what) const noexcept
{
  if (!is_large(what))
    return false;
  const shown_key* const asked = find_shown(what.rkey);
  return asked == nullptr || !asked->answered
    || std::any_of(accesses_.begin(), accesses_.end(),
      [&](const access& each)
      { return each.by.key == what.rkey && permits(each, what, right_of(what)); });
}

const direct_access::shown_key* direct_access::find_shown(std::uint32_t key) const noexcept
{
  const auto found = std::find_if(
    shown_.begin(), shown_.end(), [key](const shown_key& each) { return each.key == key; });
  return found != shown_.end() ? &*found : nullptr;
}

void direct_access::forget_shown(std::uint32_t key) noexcept
{
  std::erase_if(shown_, [key](const shown_key& each) { return each.key == key; });
}

void direct_access::answered(std::uint32_t key) noexcept
{
  for (shown_key& each : shown_)
    each.answered = each.answered || each.key == key;
  if (waits_for_ == key)
    waits_for_.reset();
}

// There is no grant. Decides whether to ask the peer for one, and whether the request waits for it.
protocol::direct_path::outcome direct_access::ask(const protocol::send_request& what) noexcept
{
  if (waits_for_)
    return outcome::asks; // for this request: no request behind it has begun
  const bool moves_much = is_large(what);
  if (const shown_key* const asked = find_shown(what.rkey))
  {
    if (asked->answered || !moves_much)
      return outcome::no;
    waits_for_ = what.rkey;
    return outcome::asks;
  }
  if (!want(what, moves_much) || !moves_much)
    return outcome::no;
  waits_for_ = what.rkey;
  return outcome::asks;
}

// Notes a question. Returns false if that is not possible (now).
bool direct_access::want(const protocol::send_request& what, bool in_advance) noexcept
{
  if (wanted_.size() == wanted_.capacity() || what.length == 0)
    return false;
  try
  {
    if (shown_.size() == shown_max)
      shown_.erase(shown_.begin());
    shown_.push_back({what.rkey, false});
  }
  catch (const std::bad_alloc&)
  {
    return false;
  }
  grant_question& question = wanted_.emplace_back();
  question.key = what.rkey;
  question.in_advance = in_advance ? 1 : 0;
  question.reads = what.opcode == IBV_WR_RDMA_READ ? 1 : 0;
  question.length = static_cast<std::uint32_t>(what.length);
  question.address = what.remote;
  return true;
}

bool direct_access::look_ahead(const protocol::send_request& what) noexcept
{
  return is_large(what) && find_shown(what.rkey) == nullptr
    && std::none_of(accesses_.begin(), accesses_.end(),
      [&](const access& each) { return each.by.key == what.rkey; })
    && want(what, true);
}

direct_access::access* direct_access::find_again(std::uint32_t key) noexcept
{
  const auto found = std::find_if(
    accesses_.begin(), accesses_.end(), [key](const access& a) { return a.by.key == key; });
  if (found == accesses_.end())
    return nullptr;
  if (found != accesses_.begin())
    std::rotate(accesses_.begin(), found, found + 1);
  return &accesses_.front();
}

bool direct_access::holds(const access& a, std::memory_order order) const noexcept
{
  return grant_holds(theirs_->grants[a.by.index], a.by.generation, order);
}

// Returns true if the grant covers the request.
inline bool direct_access::permits(
  const access& a, const protocol::send_request& what, unsigned right) const noexcept
{
  const std::uint64_t offset = what.remote - a.by.address;
  const bool reads = what.opcode != IBV_WR_RDMA_WRITE;
  return what.length != 0
    && (a.by.rights & theirs_->rights.load(std::memory_order_relaxed) & right) != 0
    && what.remote >= a.by.address && offset <= a.by.length
    && what.length <= a.by.length - offset
    // If this end may have more reads outstanding than the peer permits, reads are sent as frames:
    // the peer must be able to refuse one.
    && !(reads && with_.max_read_atomic > theirs_->read_depth.load(std::memory_order_relaxed));
}

// Returns true if the grant holds. If `marked`, the peer sees the access until let_go().
inline bool direct_access::enter(const access& a, bool marked) noexcept
{
  if (!marked)
    return holds(a, std::memory_order_acquire);
  return mark_.enter(mine_->touching, a.by.index + 1, theirs_->grants[a.by.index], a.by.generation);
}

bool direct_access::write_short(const protocol::send_request& what) noexcept
{
  access* const a = find(what.rkey);
  if (a == nullptr || with_.hostile != nullptr || what.length > budget_
    || !permits(*a, what, IBV_ACCESS_REMOTE_WRITE) || !enter(*a, true))
    return false;
  std::byte* to = a->memory + (what.remote - a->by.address);
  const auto put = [&to](const std::byte* from, std::uint64_t size)
  {
    unordered_access::local_end(const_cast<std::byte*>(from), size, false);
    const unordered_access overlooked;
    copy_in_order<peer_bytes>(to, from, size);
    to += size;
  };
  if ((what.flags & IBV_SEND_INLINE) != 0)
    put(what.inline_bytes(), what.length);
  else if (!copy_elements(what.list(), what.length, 0, *with_.keys, with_.pd, put))
    return false;
  budget_ -= what.length;
  ++moved_;
  return true;
}

// Removes an access whose grant has ended. The peer may use the key for other memory later.
protocol::direct_path::outcome direct_access::forget(std::uint32_t key) noexcept
{
  let_go();
  forget_shown(key);
  accesses_.erase(accesses_.begin());
  return outcome::no;
}

protocol::direct_path::outcome direct_access::run(protocol::send_request& what) noexcept
{
  access* const a = find(what.rkey);
  if (a == nullptr)
    return ask(what);
  const unsigned right = right_of(what);
  if (!permits(*a, what, right)
    || (what.opcode == protocol::wr_atomic_write
      && (a->by.rights & grant_message::atomic_writes) == 0))
    return outcome::no;
  const bool marked = right != IBV_ACCESS_REMOTE_READ;
  if (!enter(*a, marked))
    return forget(what.rkey);
  if (right == IBV_ACCESS_REMOTE_ATOMIC || what.opcode == protocol::wr_atomic_write)
    return atomic(*a, what) ? outcome::done : outcome::no;
  // The next call continues with the rest of this request, or with the requests behind it.
  std::uint64_t size = std::min(what.length - what.received, budget_);
  if (with_.hostile != nullptr) [[unlikely]]
    size = whole_words(
      a->memory + (what.remote - a->by.address) + what.received, what.length - what.received, size);
  if (size == 0)
    return outcome::part;
  budget_ -= size;
  ++moved_;
  if (a->fresh && is_large(what))
    map_pages(a->memory + (what.remote - a->by.address) + what.received, size);
  std::uint64_t moved = 0;
  while (moved != size)
  {
    std::uint64_t done = 0;
    if (!move(*a, what, size - moved, done) || done == 0)
      return outcome::no;
    moved += done;
    what.received += done;
  }
  // The owner does not wait for readers. The bytes are valid only if the grant has not ended yet
  // (as in a seqlock): the fence in move() orders the copy before the second check.
  if (!marked && !holds(*a, std::memory_order_relaxed))
    return forget(what.rkey);
  if (what.received != what.length)
    return outcome::part;
  a->fresh = a->fresh && !is_large(what);
  return outcome::done;
}

bool direct_access::move(
  access& a, protocol::send_request& what, std::uint64_t size, std::uint64_t& done) noexcept
{
  const bool write = what.opcode == IBV_WR_RDMA_WRITE;
  const std::uint64_t offset = what.remote - a.by.address + what.received;
  std::byte* there = a.memory + offset;
  if (with_.hostile != nullptr) [[unlikely]]
    size = whole_words(there, size, hostile_part);
  pinned_buffers here;
  if ((what.flags & IBV_SEND_INLINE) != 0)
  {
    here.add(what.inline_bytes() + what.received, size);
    done = size;
  }
  else if (!add_elements(here, what.list(), what.received, size, write ? 0 : IBV_ACCESS_LOCAL_WRITE,
             *with_.keys, with_.pd, done))
  {
    return false;
  }
  if (with_.hostile != nullptr) [[unlikely]]
    return move_hostile(there, write, here, done, *with_.hostile);
  for (std::size_t i = 0; i != here.count(); ++i)
  {
    const iovec& v = here.view()[i];
    auto* const mine = static_cast<std::byte*>(v.iov_base);
    // Memory that the device has made shared is mapped. The program may have unmapped its own.
    const bool sure = here.is_shared(i);
    unordered_access::local_end(mine, v.iov_len, !write);
    const unordered_access overlooked;
    if (!sure && v.iov_len > checked_copy_by_hand_max)
    {
      if (!checked_copy(write ? there : mine, write ? mine : there, v.iov_len,
            write ? program_side::source : program_side::target))
        return false;
    }
    else if (write)
    {
      copy_in_order<peer_bytes>(there, mine, v.iov_len);
    }
    else
    {
      std::memcpy(mine, there, v.iov_len);
    }
    there += v.iov_len;
  }
  if (!write)
    end_granted_read<atomics>();
  return true;
}

// The elements of a request may end within words of the peer's memory.
bool direct_access::move_hostile(std::byte* there, bool write, const pinned_buffers& here,
  std::uint64_t size, hostile_memory& by) noexcept
{
  std::array<std::byte, hostile_part> bytes;
  if (!write)
  {
    const unordered_access overlooked;
    by.read(bytes.data(), there, size);
    end_granted_read<atomics>();
  }
  std::byte* at = bytes.data();
  for (const iovec& v : here.view())
  {
    if (!checked_copy(write ? at : v.iov_base, write ? v.iov_base : at, v.iov_len,
          write ? program_side::source : program_side::target))
      return false;
    at += v.iov_len;
  }
  const unordered_access overlooked;
  if (write)
    by.write(there, bytes.data(), size);
  return true;
}

bool direct_access::atomic(const access& a, protocol::send_request& what) noexcept
{
  const std::uint64_t offset = what.remote - a.by.address;
  if (what.remote % 8 != 0 || reinterpret_cast<std::uintptr_t>(a.memory + offset) % 8 != 0)
    return false;
  auto* const word = reinterpret_cast<std::uint64_t*>(a.memory + offset);
  if (what.opcode == protocol::wr_atomic_write)
  {
    __atomic_store_n(word, what.swap, __ATOMIC_SEQ_CST);
    return true;
  }
  // The place for the answer is checked first, because an atomic cannot be undone.
  pinned_buffers here;
  std::uint64_t done = 0;
  if (!add_elements(here, what.list(), 0, 8, IBV_ACCESS_LOCAL_WRITE, *with_.keys, with_.pd, done)
    || done != 8)
    return false;
  std::uint64_t before = what.compare_add;
  if (what.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
    before = __atomic_fetch_add(word, what.compare_add, __ATOMIC_SEQ_CST);
  else
    __atomic_compare_exchange_n(
      word, &before, what.swap, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  const auto* from = reinterpret_cast<const std::byte*>(&before);
  for (const iovec& v : here.view())
  {
    std::memcpy(v.iov_base, from, v.iov_len);
    from += v.iov_len;
  }
  return true;
}

void direct_access::grant(
  const grant_message& what, const descriptor& memory, peer_areas& by) noexcept
{
  // Ignores a grant that this end has not asked for, and values that are out of range.
  if (find_shown(what.key) == nullptr || what.index >= lane_side::grants_max
    || what.length > protocol::max_message * 1024 * 1024
    || what.address + what.length < what.address)
    return;
  answered(what.key); // also if the grant cannot be used
  access a;
  a.by = what;
  a.area = by.map(memory);
  a.memory = a.area != nullptr ? a.area->at(what.place, what.length) : nullptr;
  if (a.memory == nullptr)
    return;
  if (!a.area->is_writable())
    a.by.rights &= IBV_ACCESS_REMOTE_READ;
  // The owner cannot free sealed memory while it is mapped here, so accesses are removed when
  // their grants have ended.
  std::erase_if(accesses_,
    [this](const access& each)
    {
      if (holds(each, std::memory_order_acquire))
        return false;
      forget_shown(each.by.key);
      return true;
    });
  try
  {
    if (accesses_.size() == accesses_max)
    {
      forget_shown(accesses_.back().by.key);
      accesses_.pop_back();
    }
    accesses_.insert(accesses_.begin(), std::move(a));
  }
  catch (const std::bad_alloc&)
  {
    return; // requests are sent as frames
  }
}

} // namespace rdma::software::wire

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "resource/block_store.hpp"

#include <boost/system/errc.hpp>

#include <algorithm>
#include <bit>
#include <cassert>
#include <new>

#include <unistd.h>

namespace rdma::detail {
namespace {

constexpr std::size_t pages_of(std::size_t bytes) noexcept
{
  return (bytes + page_bytes - 1) / page_bytes;
}

// Clamps contradictory options to the nearest valid combination.
memory_pool_options in_order(memory_pool_options o)
{
  const auto system_page = std::max(page_bytes, static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)));
  const auto whole = [&](std::size_t bytes)
  {
    return bytes > SIZE_MAX / 4 ? SIZE_MAX / 4 & ~(system_page - 1)
                                : round_up(std::max(bytes, system_page), system_page);
  };
  o.arena_size = whole(o.arena_size);
  o.arena_size_max = std::max(o.arena_size, whole(o.arena_size_max));
  o.size_max = o.size_max & ~(system_page - 1);
  o.idle_bytes_low = std::min(o.idle_bytes_low, o.idle_bytes_high);
  return o;
}

} // namespace

block_store::block_store(const domain_impl& domain, const memory_pool_options& options, void* owner,
  void (*destroy)(registration*) noexcept)
  : domain_(domain)
  , options_(in_order(options))
  , owner_(owner)
  , destroy_(destroy)
{
}

block_store::~block_store() = default;

std::size_t block_store::growth(std::size_t bytes) const noexcept
{
  const std::size_t usual = std::clamp(
    std::bit_floor(counts_.bytes_registered / 4), options_.arena_size, options_.arena_size_max);
  const auto system_page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return std::max(usual, round_up(bytes, std::max(page_bytes, system_page)));
}

arena* block_store::open_arena(std::size_t bytes, error_code& ec)
{
  try
  {
    // Reserves all memory first, so that nothing can fail after the registration.
    if (spare_.empty())
    {
      objects_.reserve(objects_.size() + 1);
      spare_.reserve(objects_.size() + 1);
      objects_.push_back(std::make_unique<arena>());
      spare_.push_back(objects_.back().get());
    }
    open_.reserve(objects_.size());
    arena* const made = spare_.back();
    made->references.store(0, std::memory_order_relaxed); // try_retain() fails until it is open
    made->owner = owner_;
    made->destroy = destroy_;
    made->open(domain_, bytes, options_, ec);
    if (ec)
      return nullptr;
    try
    {
      map_.set(made->base, bytes, made);
    }
    catch (...)
    {
      made->close(); // the map has no entry for it
      throw;
    }
    spare_.pop_back();
    open_.push_back(made);
    return made;
  }
  catch (const std::bad_alloc&)
  {
    ec = make_error_code(boost::system::errc::not_enough_memory);
    return nullptr;
  }
}

// A new arena grows the pool by a quarter. This keeps the number of arenas low, for the NIC's
// tables and the walk through them, and limits the excess. The arena is smaller if the system
// refuses that much or if the limit is near.
bool block_store::grow(std::size_t pages, error_code& ec)
{
  const std::size_t needed = pages * page_bytes;
  const std::size_t room = options_.size_max - counts_.bytes_registered;
  if (needed > room)
  {
    ec = error::pool_exhausted;
    return false;
  }
  const std::size_t best = std::min(growth(needed), room);
  const std::size_t least = std::min(std::max(options_.arena_size, needed), best);
  arena* made = open_arena(best, ec);
  if (made == nullptr && least < best)
    made = open_arena(least, ec);
  if (made == nullptr)
    return false;
  ec = {};
  counts_.arenas++;
  counts_.arenas_added++;
  counts_.bytes_registered += made->size;
  counts_.huge_bytes_requested += made->memory.huge_bytes_requested();
  idle_bytes_ += made->size;
  return true;
}

// Takes pages from the oldest arena that has enough, so that the youngest arenas become empty.
std::byte* block_store::find_pages(std::size_t count, arena*& from) noexcept
{
  for (arena* each : open_)
  {
    const bool idle = each->pages->untouched();
    const std::size_t first = each->pages->take(count);
    if (first == page_runs::none)
      continue;
    if (idle)
      idle_bytes_ -= each->size;
    from = each;
    return each->base + first * page_bytes;
  }
  return nullptr;
}

std::byte* block_store::take_pages(std::size_t count, arena*& from, error_code& ec)
{
  ec = {};
  std::byte* found = find_pages(count, from);
  if (found == nullptr && grow(count, ec))
    found = find_pages(count, from);
  return found;
}

void block_store::give_back_pages(arena& from, std::byte* first, std::size_t count) noexcept
{
  from.pages->give_back(from.page_of(first), count);
  if (!from.pages->untouched())
    return;
  idle_bytes_ += from.size;
  if (idle_bytes_ > options_.idle_bytes_high)
    give_back_idle(options_.idle_bytes_low);
}

std::size_t block_store::give_back_idle(std::size_t bytes_left) noexcept
{
  std::size_t result = 0;
  for (std::size_t i = open_.size(); i-- > 0 && idle_bytes_ > bytes_left;)
  {
    arena& each = *open_[i];
    if (!each.pages->untouched())
      continue;
    idle_bytes_ -= each.size;
    result += each.size;
    counts_.arenas_released++;
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(i));
    // acq_rel: accesses through other references happen before the close. release() is not an
    // option because it takes the mutex.
    if (each.references.fetch_sub(1, std::memory_order_acq_rel) == 1)
      close(each);
  }
  return result;
}

void block_store::close(arena& unused) noexcept
{
  counts_.arenas--;
  counts_.bytes_registered -= unused.size;
  counts_.huge_bytes_requested -= unused.memory.huge_bytes_requested();
  map_.set(unused.base, unused.size, nullptr); // before another mapping can reuse these addresses
  unused.close();
  spare_.push_back(&unused); // open_arena() reserved the capacity
}

void block_store::link(slab& s) noexcept
{
  slab*& first = free_slabs_[s.class_index()];
  s.previous = nullptr;
  s.next = first;
  if (first != nullptr)
    first->previous = &s;
  first = &s;
}

void block_store::unlink(slab& s) noexcept
{
  (s.previous != nullptr ? s.previous->next : free_slabs_[s.class_index()]) = s.next;
  if (s.next != nullptr)
    s.next->previous = s.previous;
}

slab* block_store::make_slab(std::size_t class_index, error_code& ec)
{
  constexpr std::size_t chunk = 32;
  if (spare_slabs_ == nullptr)
  {
    try
    {
      slab_chunks_.push_back(std::make_unique_for_overwrite<slab[]>(chunk));
    }
    catch (const std::bad_alloc&)
    {
      ec = make_error_code(boost::system::errc::not_enough_memory);
      return nullptr;
    }
    for (std::size_t i = chunk; i-- > 0;)
    {
      slab_chunks_.back()[i].next = spare_slabs_;
      spare_slabs_ = &slab_chunks_.back()[i];
    }
  }
  arena* home = nullptr;
  std::size_t pages = slab_pages[class_index];
  std::byte* base = take_pages(pages, home, ec);
  if (base == nullptr && ec == error::pool_exhausted)
  {
    pages = pages_of(class_bytes[class_index]); // one block at least if no more pages are free
    base = take_pages(pages, home, ec);
  }
  if (base == nullptr)
    return nullptr;
  slab* const made = spare_slabs_;
  spare_slabs_ = made->next;
  made->open(base, pages, class_index);
  std::fill_n(home->slabs.begin() + static_cast<std::ptrdiff_t>(home->page_of(base)), pages, made);
  link(*made);
  return made;
}

std::size_t block_store::take(
  std::size_t class_index, std::byte** to, std::size_t wanted, error_code& ec)
{
  const std::size_t bytes = class_bytes[class_index];
  std::size_t taken = 0;
  ec = {};
  if (is_slab_class(class_index))
    for (slab* from = free_slabs_[class_index]; taken < wanted; from = free_slabs_[class_index])
    {
      if (from == nullptr && (taken > 0 || (from = make_slab(class_index, ec)) == nullptr))
        break;
      taken += from->take(to + taken, wanted - taken);
      if (from->full())
        unlink(*from);
    }
  else
  {
    // Prefers one contiguous run, then any free pages. Grows only if there are none.
    arena* home = nullptr;
    if (std::byte* const run = find_pages(wanted * bytes / page_bytes, home))
      for (; taken < wanted; ++taken)
        to[taken] = run + taken * bytes;
    else
      while (taken < wanted && (to[taken] = find_pages(bytes / page_bytes, home)) != nullptr)
        ++taken;
    if (taken == 0 && (to[0] = take_pages(bytes / page_bytes, home, ec)) != nullptr)
      taken = 1;
  }
  counts_.bytes_allocated += taken * bytes;
  return taken;
}

void block_store::give_back(std::size_t class_index, std::byte* block) noexcept
{
  arena& home = *find(block);
  const std::size_t bytes = class_bytes[class_index];
  counts_.bytes_allocated -= bytes;
  if (!is_slab_class(class_index))
    return give_back_pages(home, block, bytes / page_bytes);
  slab& from = *home.slabs[home.page_of(block)];
  assert(from.class_index() == class_index); // fails if it is deallocated with another size
  if (from.full())
    link(from);
  from.give_back(block);
  if (!from.unused())
    return;
  unlink(from);
  from.next = spare_slabs_;
  spare_slabs_ = &from;
  give_back_pages(home, from.base(), from.pages());
}

std::byte* block_store::take_large(std::size_t bytes, error_code& ec)
{
  arena* home = nullptr;
  std::byte* const taken = take_pages(pages_of(bytes), home, ec);
  if (taken != nullptr)
    counts_.bytes_allocated += pages_of(bytes) * page_bytes;
  return taken;
}

void block_store::give_back_large(std::byte* block, std::size_t bytes) noexcept
{
  counts_.bytes_allocated -= pages_of(bytes) * page_bytes;
  give_back_pages(*find(block), block, pages_of(bytes));
}

} // namespace rdma::detail

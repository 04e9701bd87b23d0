//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "resource/registration_cache.hpp"

#include "resource/domain_impl.hpp"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <iterator>
#include <new>

namespace rdma::detail {

struct registration_cache::entry final
  : watched_registration
  , set_hook
  , use_hook
{
  page_range range;
  bool writable = false;
  bool kept = false;      // it is in the sets; written by the thread that made it
  bool forgotten = false; // its memory was unmapped during the registration
  registered_range devices;
};

struct registration_cache::lists
{
  using set = boost::intrusive::set<entry, boost::intrusive::base_hook<set_hook>,
    boost::intrusive::key_of_value<by_begin>, boost::intrusive::constant_time_size<false>>;
  using list = boost::intrusive::list<entry, boost::intrusive::base_hook<use_hook>,
    boost::intrusive::constant_time_size<false>>;

  [[nodiscard]] set& of(bool writable) noexcept { return sets[writable ? 1 : 0]; }

  std::array<set, 2> sets; // readable, writable
  list by_use;             // least recently used first
  list pending;            // watched, registration in progress
};

namespace {

void count(std::atomic<std::uint64_t>& counter) noexcept
{
  counter.fetch_add(1, std::memory_order_relaxed);
}

} // namespace

auto registration_cache::by_begin::operator()(const entry& e) const noexcept -> type
{
  return e.range.begin;
}

registration_cache::registration_cache(
  domain_impl& domain, const registration_cache_options& options)
  : domain_(domain)
  , options_(options)
  , lists_(std::make_unique<lists>())
{
}

registration_cache::~registration_cache()
{
  clear();
}

void registration_cache::clear() noexcept
{
  if (process_.foreign())
  {
    // The mutex may be locked by a thread of the parent and the lists half changed, so leave them.
    static_cast<void>(lists_.release());
    return;
  }
  if (!watch_)
    return;
  registration_list all;
  {
    const std::lock_guard lock(watch_->mutex());
    assert(lists_->pending.empty());
    while (!lists_->by_use.empty())
    {
      entry& each = lists_->by_use.front();
      take_out(each);
      all.push_back(each);
      watch_->stop(each.range);
    }
  }
  watch_->detach(*this);
  watch_.reset();
  release_all(all);
}

void registration_cache::release_all(registration_list& list) noexcept
{
  while (!list.empty())
  {
    registration& first = list.front();
    list.pop_front();
    first.release();
  }
}

memory_watch* registration_cache::watch() noexcept
{
  std::call_once(looked_, [this] { look_for_watch(); });
  return watch_.get();
}

void registration_cache::look_for_watch() noexcept
try
{
  if (options_.bytes_max == 0 || options_.entries_max == 0)
    disabled_reason_ = "registration_cache_options has a limit of 0";
  else
    watch_ = memory_watch::of_process(disabled_reason_);
  if (watch_)
    watch_->attach(*this);
}
catch (const std::bad_alloc&)
{
  // disabled_reason_ remains empty, and the cache keeps nothing.
}

auto registration_cache::find(const page_range& range, bool writable) const noexcept -> entry*
{
  for (const bool kind : {true, false}) // a writable registration serves reads as well
  {
    if (writable && !kind)
      break;
    lists::set& set = lists_->of(kind);
    auto found = set.upper_bound(range.begin);
    if (found != set.begin() && (--found)->range.covers(range))
      return &*found;
  }
  return nullptr;
}

registration* registration_cache::acquire(
  const void* data, std::size_t size, bool writable, error_code& ec) noexcept
try
{
  ec = {};
  const page_range range = pages_of(data, size);
  memory_watch* const watching = watch();
  if (watching != nullptr)
  {
    const std::lock_guard lock(watching->mutex());
    if (watching->is_current())
      if (entry* found = find(range, writable))
      {
        lists_->by_use.splice(
          lists_->by_use.end(), lists_->by_use, lists_->by_use.iterator_to(*found));
        found->retain();
        count(hits_);
        return found;
      }
  }
  count(misses_);
  auto made = std::make_unique<entry>();
  made->client = this;
  made->range = range;
  made->writable = writable;
  made->domain = &domain_;
  made->base = reinterpret_cast<std::byte*>(range.begin);
  made->size = range.size();
  made->rights = writable ? access::local_write : access::local_read;
  made->read_only = !writable;
  made->destroy = [](registration* r) noexcept { delete static_cast<entry*>(r); };
  // Watch first: changes after this point are noticed, whether or not the device has the pages yet.
  const bool watched =
    watching != nullptr && range.size() <= options_.bytes_max && start_watching(*made);
  const auto open = [&] { made->devices.open(domain_, made->base, made->size, made->rights, ec); };
  open();
  // Locked memory is limited per process. Release unused registrations of this domain first, then
  // those of other domains.
  while (ec == error_code(ENOMEM, boost::system::system_category())
    && (give_back_unused() || (watching != nullptr && watching->end_unused())))
    made->devices.close(), open();
  made->local_keys = made->devices.local_keys();
  registration_list replaced;
  if (watched)
  {
    const std::lock_guard lock(watching->mutex());
    lists_->pending.erase(lists_->pending.iterator_to(*made));
    if (!ec && !made->forgotten)
      keep(*made, replaced);
    if (!made->kept)
      watching->stop(range);
  }
  if (!ec && !made->kept)
    count(uncached_);
  release_all(replaced);
  return ec ? nullptr : made.release();
}
catch (const std::bad_alloc&)
{
  ec = error_code(ENOMEM, boost::system::system_category());
  return nullptr;
}

// Returns true if the entry is in `pending` afterwards.
bool registration_cache::start_watching(entry& made) noexcept
{
  {
    const std::lock_guard lock(watch_->mutex());
    if (!watch_->start(made.range))
      return false;
    lists_->pending.push_back(made);
  }
  if (watch_->map().is_private(made.range))
    return true;
  const std::lock_guard lock(watch_->mutex());
  lists_->pending.erase(lists_->pending.iterator_to(made));
  watch_->stop(made.range);
  return false;
}

// Returns true if the entry fits after all unused entries are evicted. Precondition: the mutex is
// held.
bool registration_cache::may_fit(const entry& made) const noexcept
{
  std::size_t bytes = bytes_;
  std::size_t entries = entries_;
  const auto fits = [&]
  { return bytes <= options_.bytes_max - made.range.size() && entries < options_.entries_max; };
  for (auto each = lists_->by_use.begin(); !fits() && each != lists_->by_use.end(); ++each)
  {
    const bool replaced = made.range.covers(each->range) && (made.writable || !each->writable);
    if (!replaced && each->references.load(std::memory_order_relaxed) != 1)
      continue;
    bytes -= each->range.size();
    --entries;
  }
  return fits();
}

// Keeps the entry if there is room and no kept entry contains it. Precondition: the mutex is held.
void registration_cache::keep(entry& made, registration_list& replaced) noexcept
{
  if (find(made.range, made.writable) != nullptr)
    return; // another thread has registered it in the meantime
  if (!may_fit(made))
    return; // evicting others would not make enough room
  const auto replace = [&](entry& inside)
  {
    take_out(inside);
    replaced.push_back(inside);
    count(evicted_);
  };
  for (const bool kind : {made.writable, false})
  {
    lists::set& others = lists_->of(kind);
    for (auto each = others.lower_bound(made.range.begin);
         each != others.end() && each->range.begin < made.range.end;)
    {
      entry& other = *each++;
      if (made.range.covers(other.range))
        replace(other);
    }
  }
  while (bytes_ > options_.bytes_max - made.range.size() || entries_ >= options_.entries_max)
    if (!evict_one(replaced))
      return;
  lists_->of(made.writable).insert(made);
  lists_->by_use.push_back(made);
  bytes_ += made.range.size();
  ++entries_;
  made.retain(); // the cache's own reference
  made.kept = true;
}

// Removes the entry from the sets, but keeps its reference. Precondition: the mutex is held.
void registration_cache::take_out(entry& kept) noexcept
{
  lists::set& set = lists_->of(kept.writable);
  set.erase(set.iterator_to(kept));
  lists_->by_use.erase(lists_->by_use.iterator_to(kept));
  bytes_ -= kept.range.size();
  --entries_;
}

// Evicts the least recently used entry that no operation uses. Precondition: the mutex is held. New
// references are taken only under the mutex, or by a holder of one.
bool registration_cache::evict_one(registration_list& evicted) noexcept
{
  for (entry& each : lists_->by_use)
    // acquire: accesses by the last operation happen before the deregistration
    if (each.references.load(std::memory_order_acquire) == 1)
    {
      take_out(each);
      evicted.push_back(each);
      watch_->stop(each.range);
      count(evicted_);
      return true;
    }
  return false;
}

bool registration_cache::give_back_unused() noexcept
{
  if (!watch_)
    return false;
  registration_list unused;
  {
    const std::lock_guard lock(watch_->mutex());
    give_up_unused(unused);
  }
  const bool any = !unused.empty();
  release_all(unused);
  return any;
}

void registration_cache::give_up_unused(registration_list& to) noexcept
{
  while (evict_one(to))
    ;
}

void registration_cache::forget(const page_range& range, bool gone) noexcept
{
  for (entry& each : lists_->pending)
    each.forgotten = each.forgotten || each.range.overlaps(range);
  for (lists::set& set : lists_->sets)
    for (;;)
    {
      // Ends are in the order of beginnings, so only the last entry that begins before the range's
      // end can reach into it.
      auto found = set.lower_bound(range.end);
      if (found == set.begin() || !(--found)->range.overlaps(range))
        break;
      entry& each = *found;
      take_out(each);
      if (gone) // the unmapped part is no longer watched, or is another mapping
      {
        watch_->stop({each.range.begin, std::max(each.range.begin, range.begin)});
        watch_->stop({std::min(each.range.end, range.end), each.range.end});
      }
      else
        watch_->stop(each.range);
      watch_->retire_later(each);
      count(invalidated_);
    }
}

std::uintptr_t registration_cache::covered_until(std::uintptr_t position) const noexcept
{
  std::uintptr_t result = position;
  for (const lists::set& set : lists_->sets)
    if (auto found = set.upper_bound(position); found != set.begin())
      result = std::max(result, (--found)->range.end);
  for (const entry& each : lists_->pending)
    if (each.range.begin <= position)
      result = std::max(result, each.range.end);
  return result;
}

std::uintptr_t registration_cache::next_begin(std::uintptr_t position) const noexcept
{
  std::uintptr_t result = UINTPTR_MAX;
  for (const lists::set& set : lists_->sets)
    if (const auto found = set.upper_bound(position); found != set.end())
      result = std::min(result, found->range.begin);
  for (const entry& each : lists_->pending)
    if (each.range.begin > position)
      result = std::min(result, each.range.begin);
  return result;
}

registration_cache_statistics registration_cache::statistics()
{
  registration_cache_statistics result;
  if (process_.foreign())
  {
    result.disabled_reason = make_error_code(error::forked).message();
    return result;
  }
  if (memory_watch* const watching = watch())
  {
    const std::lock_guard lock(watching->mutex());
    static_cast<void>(watching->is_current());
    result.enabled = true;
    result.entries = entries_;
    result.bytes = bytes_;
    for (const entry& each : lists_->by_use)
      if (each.references.load(std::memory_order_relaxed) > 1)
        ++result.in_use;
  }
  else
    result.disabled_reason = disabled_reason_;
  result.hits = hits_.load(std::memory_order_relaxed);
  result.misses = misses_.load(std::memory_order_relaxed);
  result.uncached = uncached_.load(std::memory_order_relaxed);
  result.evicted = evicted_.load(std::memory_order_relaxed);
  result.invalidated = invalidated_.load(std::memory_order_relaxed);
  return result;
}

} // namespace rdma::detail

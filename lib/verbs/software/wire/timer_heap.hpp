//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_TIMER_HEAP_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_TIMER_HEAP_HPP

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace rdma::software::wire {

/// The alarms and debts of progress targets. Not thread-safe: the caller locks.
/**
 * An alarm is due at its time. A debt is a call that is due soon. Alarms are a binary heap whose
 * entries store their positions. Debts are an intrusive list. No operation visits all entries, and
 * only add() allocates memory.
 */
class timer_heap
{
public:
  class entry
  {
    friend class timer_heap;
    static constexpr std::size_t nowhere = static_cast<std::size_t>(-1);
    std::uint32_t name_ = 0;
    std::int64_t due_ = 0;
    std::size_t place_ = nowhere;
    entry* next_ = nullptr;
    entry* previous_ = nullptr;
    bool owed_ = false;
  };

  /// Adds an entry with this name. May throw std::bad_alloc.
  void add(entry& e, std::uint32_t name)
  {
    if (entries_ == heap_.capacity())
      heap_.reserve(2 * entries_ + 1);
    ++entries_;
    e.name_ = name;
  }

  void remove(entry& e) noexcept
  {
    --entries_;
    cancel(e);
    if (e.owed_)
      unlink(e);
  }

  /// Sets the alarm of an entry. Replaces an earlier one.
  void set(entry& e, std::int64_t at) noexcept
  {
    e.due_ = at;
    if (e.place_ == entry::nowhere)
    {
      e.place_ = heap_.size();
      heap_.push_back(&e);
    }
    down(up(e.place_));
  }

  /// Removes the alarm of an entry.
  void cancel(entry& e) noexcept
  {
    if (e.place_ != entry::nowhere)
      take_out(e);
  }

  /// Adds a debt. The entry's alarm remains.
  void owe(entry& e) noexcept
  {
    if (e.owed_)
      return;
    e.owed_ = true;
    e.next_ = nullptr;
    e.previous_ = last_;
    (last_ != nullptr ? last_->next_ : first_) = &e;
    last_ = &e;
  }

  /// Returns the time of the next call to take(); 1: at once, 0: never.
  std::int64_t next() const noexcept { return first_ != nullptr ? 1 : next_alarm(); }

  /// Returns the same without debts.
  std::int64_t next_alarm() const noexcept { return heap_.empty() ? 0 : heap_.front()->due_; }

  /// Takes the names of the entries that are due, as many as there is room for.
  std::size_t take(std::int64_t now, std::span<std::uint32_t> names) noexcept
  {
    std::size_t count = 0;
    while (count != names.size() && first_ != nullptr)
    {
      names[count++] = first_->name_;
      unlink(*first_);
    }
    while (count != names.size() && !heap_.empty() && heap_.front()->due_ <= now)
    {
      names[count++] = heap_.front()->name_;
      take_out(*heap_.front());
    }
    return count;
  }

private:
  void unlink(entry& e) noexcept
  {
    (e.previous_ != nullptr ? e.previous_->next_ : first_) = e.next_;
    (e.next_ != nullptr ? e.next_->previous_ : last_) = e.previous_;
    e.owed_ = false;
  }

  void take_out(entry& e) noexcept
  {
    const std::size_t place = e.place_;
    entry* const last = heap_.back();
    heap_.pop_back();
    e.place_ = entry::nowhere;
    if (last == &e)
      return;
    put(*last, place);
    down(up(place));
  }

  void put(entry& e, std::size_t place) noexcept
  {
    heap_[place] = &e;
    e.place_ = place;
  }

  std::size_t up(std::size_t place) noexcept
  {
    entry& e = *heap_[place];
    for (; place != 0 && e.due_ < heap_[(place - 1) / 2]->due_; place = (place - 1) / 2)
      put(*heap_[(place - 1) / 2], place);
    put(e, place);
    return place;
  }

  void down(std::size_t place) noexcept
  {
    entry& e = *heap_[place];
    for (;;)
    {
      std::size_t child = 2 * place + 1;
      if (child + 1 < heap_.size() && heap_[child + 1]->due_ < heap_[child]->due_)
        ++child;
      if (child >= heap_.size() || heap_[child]->due_ >= e.due_)
        break;
      put(*heap_[child], place);
      place = child;
    }
    put(e, place);
  }

  std::vector<entry*> heap_;
  std::size_t entries_ = 0;
  entry* first_ = nullptr; // the entries with debts
  entry* last_ = nullptr;
};

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_TIMER_HEAP_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_COMPLETION_HANDLER_SLOT_HPP
#define BOOST_RDMA_LIB_COMPLETION_HANDLER_SLOT_HPP

#include <atomic>
#include <cstddef>
#include <new>

namespace rdma::detail {

// Memory for a handler that is queued at most once. Asio's own cache keeps two blocks per thread,
// which suffice for one completion queue only.
class handler_slot
{
public:
  void* take(std::size_t size)
  {
    // acquire: pairs with the release in give_back()
    if (size <= sizeof storage_ && !taken_.exchange(true, std::memory_order_acquire))
      return storage_;
    return ::operator new(size);
  }

  void give_back(void* p) noexcept
  {
    if (p == storage_)
      taken_.store(false, std::memory_order_release);
    else
      ::operator delete(p);
  }

private:
  alignas(std::max_align_t) std::byte storage_[384];
  std::atomic<bool> taken_{false};
};

// The handler keeps the slot alive: Asio frees its memory before it destroys the moved handler.
template <class T>
class slot_allocator
{
public:
  using value_type = T;

  explicit slot_allocator(handler_slot& slot) noexcept
    : slot_(&slot)
  {
  }
  template <class U>
  slot_allocator(const slot_allocator<U>& other) noexcept
    : slot_(other.slot_)
  {
  }

  T* allocate(std::size_t n)
  {
    static_assert(alignof(T) <= alignof(std::max_align_t));
    return static_cast<T*>(slot_->take(n * sizeof(T)));
  }
  void deallocate(T* p, std::size_t) noexcept { slot_->give_back(p); }

  template <class U>
  bool operator==(const slot_allocator<U>& other) const noexcept
  {
    return slot_ == other.slot_;
  }

private:
  template <class U>
  friend class slot_allocator;

  handler_slot* slot_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_COMPLETION_HANDLER_SLOT_HPP

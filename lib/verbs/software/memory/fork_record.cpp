//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/memory/fork_record.hpp"

#include <pthread.h>
#include <sys/mman.h>

namespace rdma::software {
namespace {

std::atomic<fork_record*> records{nullptr};

[[maybe_unused]] const int record_fork_handlers =
  ::pthread_atfork(nullptr, nullptr, fork_record::replace_all);

} // namespace

fork_record& fork_record::take()
{
  for (fork_record* each = records.load(std::memory_order_acquire); each != nullptr;
       each = each->next_)
    if (!each->taken_.exchange(true, std::memory_order_acquire))
      return *each;
  auto* const made = new fork_record; // never destroyed: a child may be reading the list
  made->next_ = records.load(std::memory_order_relaxed);
  while (!records.compare_exchange_weak(
    made->next_, made, std::memory_order_release, std::memory_order_relaxed))
  {
  }
  return *made;
}

void fork_record::begin(void* base, std::size_t size, int fd) noexcept
{
  base_ = base;
  size_ = size;
  fd_ = fd;
  in_use_.store(true, std::memory_order_release);
}

void fork_record::give_back() noexcept
{
  end();
  taken_.store(false, std::memory_order_release);
}

// If a mapping cannot be replaced, the child must not access it.
void fork_record::replace_all() noexcept
{
  forks.fetch_add(1, std::memory_order_relaxed);
  for (fork_record* each = records.load(std::memory_order_acquire); each != nullptr;
       each = each->next_)
  {
    if (!each->in_use_.exchange(false, std::memory_order_acquire))
      continue;
    const int flags = MAP_PRIVATE | MAP_FIXED | (each->fd_ < 0 ? MAP_ANONYMOUS | MAP_NORESERVE : 0);
    if (::mmap(each->base_, each->size_, PROT_READ | PROT_WRITE, flags, each->fd_, 0) == MAP_FAILED)
      ::mprotect(each->base_, each->size_, PROT_NONE);
  }
}

} // namespace rdma::software

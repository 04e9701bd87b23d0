//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/memory/shared_memory.hpp"

#include "verbs/software/memory/huge_pages.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <map>
#include <mutex>
#include <new>

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

namespace rdma::software {

namespace {

struct registry
{
  std::mutex mutex;
  std::map<std::uintptr_t, std::weak_ptr<shared_memory>> by_base;

  // Never destroyed: threads that outlive main() use it. A child of fork() makes its own, because
  // the descriptors no longer show what its memory contains, and the mutex may stay locked.
  static registry& of_process()
  {
    registry* one = current.load(std::memory_order_acquire);
    if (one == nullptr)
    {
      auto made = std::make_unique<registry>();
      if (current.compare_exchange_strong(
            one, made.get(), std::memory_order_acq_rel, std::memory_order_acquire))
        one = made.release();
    }
    return *one;
  }

  static inline std::atomic<registry*> current{nullptr};
};

[[maybe_unused]] const int memory_fork_handlers = ::pthread_atfork(
  nullptr, nullptr, [] { registry::current.store(nullptr, std::memory_order_relaxed); });

} // namespace

std::shared_ptr<shared_memory> shared_memory::map(
  std::size_t size, std::size_t reserved, unsigned flags, writers who) noexcept
{
  const int fd = ::memfd_create("boost_rdma memory", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
  if (fd < 0)
    return nullptr;
  // The size is sealed, so that neither this process nor a peer can truncate memory that the other
  // has mapped.
  std::byte* at = nullptr;
  if (::ftruncate(fd, static_cast<off_t>(size)) == 0
    && ::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0)
    at = map_aligned(size, reserved, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
  if (at == nullptr)
  {
    const int error = errno;
    ::close(fd);
    errno = error;
    return nullptr;
  }
  fork_record* noted = nullptr;
  std::shared_ptr<shared_memory> made;
  try
  {
    registry& all = registry::of_process();
    const std::lock_guard lock(all.mutex);
    noted = &fork_record::take();
    made = std::make_shared<shared_memory>(at, size, fd, *noted);
    std::weak_ptr<shared_memory>& found_as = all.by_base[reinterpret_cast<std::uintptr_t>(at)];
    made->seal(who);
    found_as = made;
    noted->begin(at, size, fd);
    return made;
  }
  catch (const std::bad_alloc&)
  {
    ::munmap(at, std::max(size, reserved));
    if (!made)
    {
      if (noted != nullptr)
        noted->give_back();
      ::close(fd);
    }
    errno = ENOMEM;
    return nullptr;
  }
}

// Called when it is mapped here, because F_SEAL_FUTURE_WRITE forbids further writable mappings.
void shared_memory::seal(writers who) noexcept
{
  if (who == writers::owner && ::fcntl(fd_, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0)
    writers_ = writers::owner;
  ::fcntl(fd_, F_ADD_SEALS, F_SEAL_SEAL); // peers must not add a seal
}

std::shared_ptr<shared_memory> shared_memory::find(const void* at, std::size_t size) noexcept
{
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  registry* const all = registry::current.load(std::memory_order_acquire);
  if (all == nullptr)
    return nullptr;
  const std::lock_guard lock(all->mutex);
  auto found = all->by_base.upper_bound(address);
  if (found == all->by_base.begin())
    return nullptr;
  std::shared_ptr<shared_memory> that = (--found)->second.lock();
  if (!that || address - found->first > that->size()
    || size > that->size() - (address - found->first))
    return nullptr;
  return that;
}

void shared_memory::withdraw() noexcept
{
  noted_.end();
  if (registry* const all = registry::current.load(std::memory_order_acquire); all != nullptr)
  {
    const std::lock_guard lock(all->mutex);
    const auto found = all->by_base.find(reinterpret_cast<std::uintptr_t>(base_));
    if (found != all->by_base.end() && found->second.lock().get() == this) // not a child's own
      all->by_base.erase(found);
  }
  // Peers may keep it mapped until their links end, so the pages are freed here, unless a seal
  // forbids it. A child of fork() has the same file and must not free the parent's pages.
  if (owner_ == ::getpid())
    ::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(size_));
}

shared_memory::~shared_memory()
{
  noted_.give_back();
  ::close(fd_);
}

} // namespace rdma::software

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/wire/mapped_area.hpp"

#include "verbs/software/memory/huge_pages.hpp"
#include "verbs/software/wire/local_socket.hpp"

#include <map>
#include <new>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rdma::software::wire {
namespace {

constexpr std::size_t areas_max = 256; // of one link

// Returns the maximum number of bytes of one peer that are mapped. Shared memory cannot exceed the
// host's memory for long, and a peer must not use up the address space.
std::uint64_t area_bytes_max() noexcept
{
  static const std::uint64_t bytes = []
  {
    const long pages = ::sysconf(_SC_PHYS_PAGES);
    const long page = ::sysconf(_SC_PAGESIZE);
    constexpr std::uint64_t unknown = std::uint64_t{1} << 40;
    return pages > 0 && page > 0
      ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page)
      : unknown;
  }();
  return bytes;
}

struct area_registry
{
  std::mutex mutex;
  std::map<std::pair<dev_t, ino_t>, std::weak_ptr<mapped_area>> mapped;

  static area_registry& of_process() noexcept
  {
    // Not destroyed, because threads that outlive main() use it.
    alignas(area_registry) static std::byte place[sizeof(area_registry)];
    static area_registry& one = *new (place) area_registry;
    return one;
  }
};

// Takes ownership of a mapping. Returns null, with the memory unmapped, if memory is short.
std::shared_ptr<mapped_area> own(std::byte* memory, std::size_t size, bool writable) noexcept
{
  fork_record* noted = nullptr;
  try
  {
    noted = &fork_record::take();
    return std::make_shared<mapped_area>(memory, size, writable, *noted);
  }
  catch (const std::bad_alloc&)
  {
    if (noted != nullptr)
      noted->give_back();
    ::munmap(memory, size);
    return nullptr;
  }
}

} // namespace

mapped_area::~mapped_area()
{
  noted_.give_back();
  ::munmap(memory_, size_);
}

std::shared_ptr<mapped_area> mapped_area::map(const descriptor& fd) noexcept
{
  constexpr int fixed_size = F_SEAL_SHRINK | F_SEAL_GROW;
  struct stat status
  {
  };
  // The seals are checked before the size, because until they are set the peer can change the size.
  if (!fd || !has_seals(fd, fixed_size) || ::fstat(fd.get(), &status) != 0
    || !S_ISREG(status.st_mode) || status.st_size <= 0
    || static_cast<std::uint64_t>(status.st_size) > area_bytes_max())
    return nullptr;
  area_registry& all = area_registry::of_process();
  const std::lock_guard lock(all.mutex);
  try
  {
    std::erase_if(all.mapped, [](const auto& each) { return each.second.expired(); });
    std::weak_ptr<mapped_area>& place = all.mapped[{status.st_dev, status.st_ino}];
    if (std::shared_ptr<mapped_area> there = place.lock())
      return there;
    const auto size = static_cast<std::size_t>(status.st_size);
    const bool writable = !has_seals(fd, F_SEAL_FUTURE_WRITE);
    const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
    // Huge pages of the peer's are used as such only at such an address.
    std::byte* const at = map_aligned(size, size, protection, MAP_SHARED, fd.get());
    if (at == nullptr)
      return nullptr;
    std::shared_ptr<mapped_area> made = own(at, size, writable);
    place = made;
    return made;
  }
  catch (const std::bad_alloc&)
  {
    return nullptr;
  }
}

std::shared_ptr<mapped_area> peer_areas::map(const descriptor& fd) noexcept
{
  const std::lock_guard lock(mutex_);
  try
  {
    std::erase_if(areas_, [](const auto& each) { return each.expired(); });
    areas_.reserve(areas_.size() + 1);
    std::shared_ptr<mapped_area> mapped = mapped_area::map(fd);
    std::uint64_t sum = mapped != nullptr ? mapped->size() : 0;
    for (const auto& each : areas_)
    {
      const std::shared_ptr<mapped_area> other = each.lock();
      if (other == mapped)
        return mapped;
      sum += other != nullptr ? other->size() : 0;
    }
    if (areas_.size() == areas_max || sum > area_bytes_max())
      return nullptr;
    areas_.push_back(mapped);
    return mapped;
  }
  catch (const std::bad_alloc&)
  {
    return nullptr;
  }
}

} // namespace rdma::software::wire

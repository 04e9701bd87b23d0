//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/memory/moved_pages.hpp"

#include "verbs/descriptor.hpp"
#include "verbs/software/memory/fork_record.hpp"
#include "verbs/software/memory/huge_pages.hpp"
#include "verbs/software/memory/mapping_reader.hpp"
#include "verbs/software/memory/shared_memory.hpp"

#include <algorithm>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rdma::software {
namespace {

using rdma::detail::descriptor;

constexpr int read_write = PROT_READ | PROT_WRITE;

// Pages are moved in steps, so that the copy needs little memory, and a page cannot be written only
// for a short time.
constexpr std::size_t step_bytes = std::size_t{2} << 20;

std::byte* to_pointer(std::uintptr_t address) noexcept
{
  return reinterpret_cast<std::byte*>(address);
}

// Returns true for memory that only this process has, or that has been moved back. The C library
// and the kernel have rules of their own for the heap and the stack, e.g. a child of fork() frees
// memory of the heap.
bool is_own(const mapping& m) noexcept
{
  return m.protection == read_write && m.is_private
    && (m.inode == 0 ? m.name.empty() || m.name.starts_with("[anon:")
                     : m.name == "/memfd:boost_rdma memory (deleted)");
}

bool is_own(int maps, std::uintptr_t begin, std::uintptr_t end) noexcept
{
  mapping_reader mappings(maps);
  while (const std::optional<mapping> each = mappings.next())
  {
    if (each->end <= begin)
      continue;
    if (each->begin > begin || !is_own(*each))
      return false;
    begin = each->end;
    if (begin >= end)
      return true;
  }
  return false;
}

// Copies [at, at + size) to the file and maps it there.
bool move_step(std::byte* at, std::size_t size, int fd, off_t offset) noexcept
{
  if (::mprotect(at, size, PROT_READ) != 0)
    return false;
  // The kernel reports memory that is short, where an access to a mapping would end the process.
  std::size_t done = 0;
  for (ssize_t n = 1; done != size && n > 0; done += n > 0 ? static_cast<std::size_t>(n) : 0)
    n = ::pwrite(fd, at + done, size - done, offset + static_cast<off_t>(done));
  if (done == size
    && ::mmap(at, size, read_write, MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd, offset)
      != MAP_FAILED)
    return true;
  ::mprotect(at, size, read_write);
  return false;
}

// Makes [at, at + size) private, with its contents, and empties the file. Returns false if memory
// is short; the memory then still is the file's.
bool move_back_step(std::byte* at, std::size_t size, int fd, off_t offset, int protection) noexcept
{
  // A private mapping shows what is in the file. Populating copies every page, as a write would do.
  // A write of another thread goes to the file before, and to the copy afterwards, so none is lost.
  if (::mmap(at, size, read_write, MAP_PRIVATE | MAP_FIXED, fd, offset) == MAP_FAILED)
    return false;
  const bool copied = populate_pages(at, size);
  if (protection != read_write)
    ::mprotect(at, size, protection);
  // The private memory is then like anonymous memory: it has zeros again after MADV_DONTNEED.
  return copied
    && ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, static_cast<off_t>(size))
    == 0;
}

} // namespace

// Pages in a file.
struct moved_area
{
  const std::uintptr_t begin;
  const std::uintptr_t end;
  std::shared_ptr<shared_memory> memory; // null if the pages cannot be moved
  std::byte* const mapped;               // by the device
  std::size_t users = 0;

  moved_area(std::uintptr_t from, std::uintptr_t to) noexcept
    : begin(from)
    , end(to)
    , memory(shared_memory::map(to - from, to - from, 0, writers::all))
    , mapped(memory ? memory->base() : nullptr)
  {
    // Also a test: moving back requires it.
    if (memory && !populate_pages(mapped, 1))
    {
      memory->withdraw();
      memory.reset();
    }
  }
  ~moved_area()
  {
    if (mapped != nullptr)
      ::munmap(mapped, end - begin);
  }
  moved_area(const moved_area&) = delete;
  moved_area& operator=(const moved_area&) = delete;

  bool move() noexcept
  {
    for (std::uintptr_t at = begin; at != end;)
    {
      const std::size_t size = std::min<std::size_t>(end - at, step_bytes);
      if (!move_step(to_pointer(at), size, memory->fd(), static_cast<off_t>(at - begin)))
        return false;
      at += size;
    }
    map_pages(mapped, end - begin);
    return ::madvise(to_pointer(begin), end - begin, MADV_DONTFORK) == 0;
  }

  // The program may have unmapped pages, and may have other memory there. Precondition: no other
  // thread unmaps or maps memory there.
  void move_back(int maps) noexcept
  {
    bool complete = true;
    for (std::uintptr_t from = begin; std::optional<mapping> m = next_mapped(maps, from);)
    {
      from = m->end;
      for (std::uintptr_t at = m->begin; at != m->end;)
      {
        const std::size_t size = std::min<std::size_t>(m->end - at, step_bytes);
        if (!move_back_step(
              to_pointer(at), size, memory->fd(), static_cast<off_t>(at - begin), m->protection))
          complete = false;
        at += size;
      }
    }
    if (complete)
      memory->withdraw();
  }

  // Returns true if the program has not unmapped the pages.
  bool is_mapped(int maps, std::uintptr_t from, std::uintptr_t to) const noexcept
  {
    while (from < to)
    {
      const std::optional<mapping> m = next_mapped(maps, from);
      if (!m || m->begin > from)
        return false;
      from = m->end;
    }
    return true;
  }

private:
  // Returns the next mapping of the file at its place that ends after `from`.
  std::optional<mapping> next_mapped(int maps, std::uintptr_t from) const noexcept
  {
    struct stat file
    {
    };
    if (::fstat(memory->fd(), &file) != 0)
      return std::nullopt;
    mapping_reader mappings(maps);
    while (std::optional<mapping> each = mappings.next())
    {
      if (each->end <= from || each->is_private || each->inode != file.st_ino
        || each->device != file.st_dev || each->begin < begin || each->end > end
        || each->offset != each->begin - begin)
        continue;
      return each;
    }
    return std::nullopt;
  }
};

struct moved_areas
{
  std::mutex mutex;
  descriptor maps; // stays open: moving back must not fail because there are no free descriptors
  std::list<moved_area> all;
  std::multimap<std::uintptr_t, const moved_pages*> registrations; // by their begin

  static moved_areas& of_process() noexcept;

  // Returns the area of the pages [begin, end) of a registration, which is new unless a part of it
  // is registered already. Null if they are not moved.
  moved_area* take(const moved_pages& who, std::uintptr_t begin, std::uintptr_t end)
  {
    const auto there = std::find_if(all.begin(), all.end(),
      [=](const moved_area& each) { return each.begin <= begin && end <= each.end; });
    if (there != all.end())
      return there->is_mapped(maps.get(), begin, end) ? &*there : nullptr;
    if (all.size() == moved_pages::areas_max || end < begin + moved_pages::size_min)
      return nullptr;
    // The device accesses the memory of other registrations meanwhile.
    const auto overlaps = [&](const auto& each)
    { return each.second != &who && each.second->end_ > who.begin_; };
    if (std::any_of(registrations.begin(), registrations.lower_bound(who.end_), overlaps))
      return nullptr;
    if (!maps)
      maps = descriptor(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
    if (!maps || !is_own(maps.get(), begin, end))
      return nullptr;
    moved_area& made = all.emplace_back(begin, end);
    if (made.memory && made.move())
      return &made;
    give_back(made);
    return nullptr;
  }

  void give_back(moved_area& which) noexcept
  {
    if (which.memory)
      which.move_back(maps.get());
    all.remove_if([&](const moved_area& each) { return &each == &which; });
  }
};

namespace {

// Never destroyed: threads that outlive main() use it.
union areas_of_process
{
  moved_areas areas;
  areas_of_process()
    : areas()
  {
  }
  ~areas_of_process() {}
};
areas_of_process all_moved_areas;

// fork() waits until no page is being moved: the child would have it without the right to write.
// The child has no moved pages.
[[maybe_unused]] const int moved_pages_fork_handlers = ::pthread_atfork(
  [] { all_moved_areas.areas.mutex.lock(); }, [] { all_moved_areas.areas.mutex.unlock(); },
  []
  {
    all_moved_areas.areas.mutex.unlock();
    new (&all_moved_areas.areas) moved_areas;
  });

} // namespace

moved_areas& moved_areas::of_process() noexcept
{
  return all_moved_areas.areas;
}

moved_pages::moved_pages(void* at, std::size_t size)
  : begin_(reinterpret_cast<std::uintptr_t>(at))
  , end_(begin_ + size)
  , forks_(forks.load(std::memory_order_relaxed))
{
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t begin = (begin_ + page - 1) & ~(page - 1);
  const std::uintptr_t end = end_ & ~(page - 1);
  moved_areas& areas = moved_areas::of_process();
  const std::lock_guard lock(areas.mutex);
  const auto place = areas.registrations.emplace(begin_, this);
  try
  {
    if (begin < end)
      area_ = areas.take(*this, begin, end);
  }
  catch (const std::bad_alloc&)
  {
    areas.registrations.erase(place);
    throw;
  }
  if (area_ == nullptr)
    return;
  ++area_->users;
  shared_ = {begin - begin_, end - begin, area_->mapped + (begin - area_->begin)};
}

moved_pages::~moved_pages()
{
  if (forks_ != forks.load(std::memory_order_relaxed))
    return; // a child's copy
  moved_areas& areas = moved_areas::of_process();
  const std::lock_guard lock(areas.mutex);
  const auto [first, last] = areas.registrations.equal_range(begin_);
  areas.registrations.erase(
    std::find_if(first, last, [this](const auto& each) { return each.second == this; }));
  if (area_ != nullptr && --area_->users == 0)
    areas.give_back(*area_);
}

} // namespace rdma::software

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/wire/segment.hpp"

#include "verbs/software/wire/local_socket.hpp"

#include <cerrno>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace rdma::software::wire {
namespace {

static_assert(2 * sizeof(link_side) <= segment::lanes_at);
static_assert(2 * sizeof(lane_side) <= segment::rings_at);

// With these seals the size cannot change: reading memory that was truncated would be a fault.
constexpr int fixed_size = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// The segments that this process has made, by device and inode. If the other end is in this process
// as well, both use one mapping.
struct registry
{
  std::mutex mutex;
  std::map<std::pair<dev_t, ino_t>, std::weak_ptr<segment>> made;

  static registry& of_process() noexcept
  {
    // Not destroyed, because threads that outlive main() use it.
    alignas(registry) static std::byte place[sizeof(registry)];
    static registry& one = *new (place) registry;
    return one;
  }
};

std::byte* map_memory(const descriptor& fd) noexcept
{
  void* const at = ::mmap(nullptr, segment::size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  return at != MAP_FAILED ? static_cast<std::byte*>(at) : nullptr;
}

std::shared_ptr<segment> own(std::byte* memory)
{
  if (memory == nullptr)
    return nullptr;
  fork_record* noted = nullptr;
  try
  {
    noted = &fork_record::take();
    return std::make_shared<segment>(memory, *noted);
  }
  catch (const std::bad_alloc&)
  {
    if (noted != nullptr)
      noted->give_back();
    ::munmap(memory, segment::size);
    errno = ENOMEM;
    return nullptr;
  }
}

} // namespace

std::shared_ptr<segment> segment::create(descriptor& fd) noexcept
{
  fd = descriptor(::memfd_create("boost_rdma link", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  struct stat status
  {
  };
  if (!fd || ::ftruncate(fd.get(), segment::size) != 0
    || ::fcntl(fd.get(), F_ADD_SEALS, fixed_size) != 0 || ::fstat(fd.get(), &status) != 0)
    return nullptr;
  std::shared_ptr<segment> made = own(map_memory(fd));
  if (!made)
    return nullptr;
  for (unsigned end = 0; end != 2; ++end)
    new (made->memory_ + end * sizeof(link_side)) link_side;
  registry& all = registry::of_process();
  try
  {
    const std::lock_guard lock(all.mutex);
    std::erase_if(all.made, [](const auto& each) { return each.second.expired(); });
    all.made[{status.st_dev, status.st_ino}] = made;
  }
  catch (const std::bad_alloc&)
  {
    errno = ENOMEM;
    return nullptr;
  }
  return made;
}

std::shared_ptr<segment> segment::map(const descriptor& fd) noexcept
{
  struct stat status
  {
  };
  // The seals are checked before the size, because until they are set the peer can change the size.
  if (!fd || !has_seals(fd, fixed_size) || ::fstat(fd.get(), &status) != 0
    || status.st_size != static_cast<off_t>(segment::size))
  {
    errno = EPROTO;
    return nullptr;
  }
  {
    registry& all = registry::of_process();
    const std::lock_guard lock(all.mutex);
    if (const auto found = all.made.find({status.st_dev, status.st_ino}); found != all.made.end())
      if (std::shared_ptr<segment> here = found->second.lock())
        return here;
  }
  return own(map_memory(fd));
}

segment::segment(std::byte* memory, fork_record& noted) noexcept
  : memory_(memory)
  , noted_(noted)
{
  noted_.begin(memory_, segment::size, -1);
}

segment::~segment()
{
  noted_.give_back();
  ::munmap(memory_, segment::size);
}

link_side& segment::side(unsigned end) noexcept
{
  return *std::launder(reinterpret_cast<link_side*>(memory_ + end * sizeof(link_side)));
}

void segment::begin(unsigned lane) noexcept
{
  const bool is_new = !begun_.test(lane);
  begun_.set(lane);
  for (unsigned end = 0; end != 2; ++end)
  {
    new (memory_ + lanes_at + lane * lane_size + end * sizeof(lane_side)) lane_side;
    if (is_new)
      continue; // the rings are zeros; writing would allocate pages early
    for (std::byte* const first : {requests_of(lane, end), responses_of(lane, end)})
      ring::word_at(first).store(0, std::memory_order_relaxed);
  }
}

lane_side& segment::side(unsigned lane, unsigned end) noexcept
{
  return *std::launder(
    reinterpret_cast<lane_side*>(memory_ + lanes_at + lane * lane_size + end * sizeof(lane_side)));
}

std::byte* segment::requests_of(unsigned lane, unsigned end) noexcept
{
  return memory_ + lanes_at + lane * lane_size + rings_at + end * end_size;
}

std::byte* segment::responses_of(unsigned lane, unsigned end) noexcept
{
  return requests_of(lane, end) + ring_size;
}

} // namespace rdma::software::wire

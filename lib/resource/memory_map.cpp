//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "resource/memory_map.hpp"

#include "verbs/software/memory/mapping_reader.hpp"

#include <cerrno>
#include <cstdint>
#include <optional>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace rdma::detail {
namespace {

struct mapping
{
  page_range range;
  bool is_private = false;
};

// PROCMAP_QUERY of Linux 6.11, which Debian 12's headers lack: struct procmap_query of
// <linux/fs.h>.
struct query
{
  std::uint64_t size = sizeof(query);
  std::uint64_t flags = 0;
  std::uint64_t address = 0;
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t mapping_flags = 0;
  std::uint64_t page_size = 0;
  std::uint64_t offset = 0;
  std::uint64_t inode = 0;
  std::uint32_t device_major = 0;
  std::uint32_t device_minor = 0;
  std::uint32_t name_size = 0;
  std::uint32_t build_id_size = 0;
  std::uint64_t name = 0;
  std::uint64_t build_id = 0;
};
static_assert(sizeof(query) == 104);
constexpr unsigned long query_request = _IOWR('f', 17, query);
constexpr std::uint64_t query_shared = 8; // PROCMAP_QUERY_VMA_SHARED

// Returns nullopt if there is no mapping. `known` is false if the kernel does not support the
// query.
std::optional<mapping> ask(int fd, std::uintptr_t address, bool& known) noexcept
{
  query q;
  q.address = address;
  known = true;
  if (::ioctl(fd, query_request, &q) != 0)
  {
    known = errno == ENOENT;
    return std::nullopt;
  }
  return mapping{{q.start, q.end}, q.inode == 0 && (q.mapping_flags & query_shared) == 0};
}

// The same by reading the file, which costs more.
bool read_is_private(int fd, const page_range& range) noexcept
{
  software::mapping_reader lines(fd);
  std::uintptr_t covered = range.begin;
  while (const std::optional<software::mapping> each = lines.next())
  {
    if (each->end <= covered)
      continue;
    if (each->begin > covered || !each->is_private || each->inode != 0)
      return false;
    covered = each->end;
    if (covered >= range.end)
      return true;
  }
  return false;
}

} // namespace

memory_map::memory_map()
  : fd_(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC))
{
  if (fd_ < 0)
    throw system_error(
      error_code(errno, boost::system::system_category()), "cannot read /proc/self/maps");
}

memory_map::~memory_map()
{
  ::close(fd_);
}

bool memory_map::is_private(const page_range& range) const noexcept
{
  for (std::uintptr_t at = range.begin; at < range.end;)
  {
    bool known = false;
    const std::optional<mapping> found = ask(fd_, at, known);
    if (!known)
      return read_is_private(fd_, range);
    if (!found || !found->is_private)
      return false;
    at = found->range.end;
  }
  return true;
}

} // namespace rdma::detail

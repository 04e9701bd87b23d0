//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "resource/memory_map.hpp"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
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

// Example line: "55d8c0a00000-55d8c0a21000 rw-p 00000000 00:00 0   [heap]"
std::optional<mapping> parse(const char* line) noexcept
{
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  char rights[5] = {};
  unsigned long inode = 0;
  if (std::sscanf(line, "%lx-%lx %4s %*x %*x:%*x %lu", &begin, &end, rights, &inode) != 4)
    return std::nullopt;
  return mapping{{begin, end}, rights[3] == 'p' && inode == 0};
}

// Reads /proc/self/maps into a buffer on the stack. The caller holds a mutex under which no memory
// may be allocated.
bool read_is_private(int fd, const page_range& range) noexcept
{
  std::array<char, 8192> buffer;
  std::size_t used = 0;
  std::uintptr_t covered = range.begin;
  for (off_t offset = 0;;)
  {
    const ssize_t n = ::pread(fd, buffer.data() + used, buffer.size() - 1 - used, offset);
    if (n <= 0)
      return false;
    offset += n;
    used += static_cast<std::size_t>(n);
    buffer[used] = '\0';
    char* line = buffer.data();
    while (char* end = std::strchr(line, '\n'))
    {
      *end = '\0';
      const std::optional<mapping> each = parse(line);
      line = end + 1;
      if (!each || each->range.end <= covered)
        continue;
      if (each->range.begin > covered || !each->is_private)
        return false;
      covered = each->range.end;
      if (covered >= range.end)
        return true;
    }
    used -= static_cast<std::size_t>(line - buffer.data());
    std::memmove(buffer.data(), line, used);
  }
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

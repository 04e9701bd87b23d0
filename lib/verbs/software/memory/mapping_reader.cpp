//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/memory/mapping_reader.hpp"

#include <cstdio>
#include <cstring>

#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace rdma::software {
namespace {

// Example line: "55d8c0a00000-55d8c0a21000 rw-p 00000000 00:00 0   [heap]"
std::optional<mapping> parse(const char* line) noexcept
{
  mapping m;
  char rights[5] = {};
  unsigned major = 0;
  unsigned minor = 0;
  unsigned long inode = 0;
  int name = 0;
  if (std::sscanf(line, "%lx-%lx %4s %lx %x:%x %lu %n", &m.begin, &m.end, rights, &m.offset, &major,
        &minor, &inode, &name)
    != 7)
    return std::nullopt;
  m.protection = (rights[0] == 'r' ? PROT_READ : 0) | (rights[1] == 'w' ? PROT_WRITE : 0)
    | (rights[2] == 'x' ? PROT_EXEC : 0);
  m.is_private = rights[3] == 'p';
  m.device = makedev(major, minor);
  m.inode = inode;
  m.name = line + name;
  return m;
}

} // namespace

std::optional<mapping> mapping_reader::next() noexcept
{
  for (;;)
  {
    char* const begin = buffer_.data() + line_;
    if (auto* const end = static_cast<char*>(std::memchr(begin, '\n', used_ - line_)))
    {
      *end = '\0';
      line_ = static_cast<std::size_t>(end + 1 - buffer_.data());
      return parse(begin);
    }
    used_ -= line_;
    std::memmove(buffer_.data(), begin, used_);
    line_ = 0;
    const ssize_t n = ::pread(fd_, buffer_.data() + used_, buffer_.size() - used_, offset_);
    if (n <= 0)
      return std::nullopt;
    offset_ += n;
    used_ += static_cast<std::size_t>(n);
  }
}

} // namespace rdma::software

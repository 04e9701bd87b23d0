//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/objects/host_guid.hpp"

#include "verbs/software/wire/socket.hpp"

#include <array>
#include <cstddef>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

namespace rdma::software {
namespace {

using eui64 = std::array<unsigned char, 8>;

int digit(char c) noexcept
{
  if (c >= '0' && c <= '9')
    return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// The kernel's UUID of this boot: random, and not secret, unlike /etc/machine-id (machine-id(5)).
eui64 from_boot() noexcept
{
  eui64 made{0, 0, 0, 0, 0, 0, 0, 1}; // where there is no such file, all hosts have the same
  char text[40];
  const wire::descriptor file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  const ssize_t length = file ? ::read(file.get(), text, sizeof text) : -1;
  std::size_t digits = 0;
  for (ssize_t i = 0; i < length && digits < 2 * made.size(); ++i)
  {
    const int value = digit(text[i]);
    if (value < 0)
      continue; // a hyphen
    unsigned char& byte = made[digits / 2];
    byte = static_cast<unsigned char>(digits % 2 == 0 ? value << 4 : byte | value);
    ++digits;
  }
  made[0] =
    static_cast<unsigned char>((made[0] & ~0x01u) | 0x02u); // of one device, locally administered
  return made;
}

} // namespace

__be64 host_guid() noexcept
{
  static const eui64 bytes = from_boot();
  __be64 guid;
  std::memcpy(&guid, bytes.data(), sizeof guid); // in network order as it is
  return guid;
}

} // namespace rdma::software

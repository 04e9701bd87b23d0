//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/wire/port_claim.hpp"

#include "verbs/software/queue_pair_number.hpp"
#include "verbs/software/random.hpp"
#include "verbs/software/wire/local_socket.hpp"

#include <cerrno>
#include <cstdio>
#include <string>
#include <utility>

namespace rdma::software::wire {
namespace {

// Binds the TCP port at all addresses. Returns 0 or an errno.
int bind_all(std::span<const ibv_gid> gids, std::uint16_t port, std::vector<descriptor>& to)
{
  to.clear();
  for (const ibv_gid& gid : gids)
  {
    const address at = to_address(gid, port);
    descriptor fd = make_socket(at.storage.ss_family);
    // Only one device has the port, but connections of an earlier device may still be closing
    // there.
    const int on = 1;
    if (fd)
      ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (!fd || ::bind(fd.get(), at.get(), at.size) != 0)
    {
      // The IPv6 address is still tentative (duplicate address detection), or its address family is
      // disabled.
      if (errno != EADDRNOTAVAIL && errno != EAFNOSUPPORT)
        return errno;
      fd.reset();
    }
    to.push_back(std::move(fd));
  }
  return 0;
}

} // namespace

std::uint32_t port_claim::next_number() noexcept
{
  do
    next = (next + 1) % numbers_per_index;
  while (!is_usual_number(index << number_bits | next));
  return index << number_bits | next;
}

bool port_claim::is_full() const noexcept
{
  constexpr std::uint32_t unusual_max = 2;
  return used == numbers_per_index - unusual_max;
}

int claim_port(std::span<const ibv_gid> gids, std::unique_ptr<port_claim>& to)
{
  auto made = std::make_unique<port_claim>();
  std::uint32_t first = 0;
  fill_random(&first, sizeof first);
  for (std::uint32_t i = 0; i != index_count; ++i)
  {
    made->index = (first + i) % index_count;
    const address name = to_abstract_address("index/" + std::to_string(made->index));
    made->name = make_local_socket();
    if (!made->name)
      return errno;
    int error = 0;
    if (::bind(made->name.get(), name.get(), name.size) != 0)
      error = errno;
    else
      error = bind_all(gids, port_of(made->index << number_bits), made->bound);
    if (error == EADDRINUSE)
      continue;
    if (error != 0)
      return error;
    fill_random(&made->next, sizeof made->next);
    made->listening.assign(gids.size(), false);
    made->local_listeners.reserve(gids.size());
    to = std::move(made);
    return 0;
  }
  return ENOSPC;
}

} // namespace rdma::software::wire

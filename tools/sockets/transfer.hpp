//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_SOCKETS_TRANSFER_HPP
#define BOOST_RDMA_TOOLS_SOCKETS_TRANSFER_HPP

#include "sockets/table.hpp"

#include <span>

#include <sys/types.h>
#include <sys/uio.h>

namespace rdma::sockets {

/// recv(2) and send(2) of a connection for which takes() returned true. They block as the program
/// demands, and go on in the kernel if the connection becomes the kernel's.
ssize_t receive(description& d, int fd, std::span<const iovec> to, int flags);
ssize_t send(description& d, int fd, std::span<const iovec> from, int flags);

/// The description of a connection whose bytes the library has; null: the call is the kernel's.
inline std::shared_ptr<description> taken(int fd) noexcept
{
  if (!table::has(fd))
    return nullptr;
  std::shared_ptr<description> d = table::find(fd);
  if (!d || !d->connection || !takes(*d, fd))
    return nullptr;
  return d;
}

} // namespace rdma::sockets

#endif // BOOST_RDMA_TOOLS_SOCKETS_TRANSFER_HPP

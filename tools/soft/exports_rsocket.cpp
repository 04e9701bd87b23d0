//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "soft/exports.hpp"

#include <poll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <rdma/rsocket.h>

// rsocket is a part of librdmacm that reads the private members of librdmacm's ids, so it cannot
// use the ids of this library. Without rsocket() no call has a descriptor.

using rdma::soft::refuse;

extern "C" {

int rsocket(int, int, int)
{
  return refuse(EOPNOTSUPP);
}

#define BOOST_RDMA_NO_RSOCKET(result, name, ...)                                                   \
  result name(__VA_ARGS__)                                                                         \
  {                                                                                                \
    return refuse(EBADF);                                                                          \
  }

BOOST_RDMA_NO_RSOCKET(int, rbind, int, const sockaddr*, socklen_t)
BOOST_RDMA_NO_RSOCKET(int, rlisten, int, int)
BOOST_RDMA_NO_RSOCKET(int, raccept, int, sockaddr*, socklen_t*)
BOOST_RDMA_NO_RSOCKET(int, rconnect, int, const sockaddr*, socklen_t)
BOOST_RDMA_NO_RSOCKET(int, rshutdown, int, int)
BOOST_RDMA_NO_RSOCKET(int, rclose, int)
BOOST_RDMA_NO_RSOCKET(ssize_t, rrecv, int, void*, size_t, int)
BOOST_RDMA_NO_RSOCKET(ssize_t, rrecvfrom, int, void*, size_t, int, sockaddr*, socklen_t*)
BOOST_RDMA_NO_RSOCKET(ssize_t, rrecvmsg, int, msghdr*, int)
BOOST_RDMA_NO_RSOCKET(ssize_t, rsend, int, const void*, size_t, int)
BOOST_RDMA_NO_RSOCKET(ssize_t, rsendto, int, const void*, size_t, int, const sockaddr*, socklen_t)
BOOST_RDMA_NO_RSOCKET(ssize_t, rsendmsg, int, const msghdr*, int)
BOOST_RDMA_NO_RSOCKET(ssize_t, rread, int, void*, size_t)
BOOST_RDMA_NO_RSOCKET(ssize_t, rreadv, int, const iovec*, int)
BOOST_RDMA_NO_RSOCKET(ssize_t, rwrite, int, const void*, size_t)
BOOST_RDMA_NO_RSOCKET(ssize_t, rwritev, int, const iovec*, int)
BOOST_RDMA_NO_RSOCKET(int, rpoll, pollfd*, nfds_t, int)
BOOST_RDMA_NO_RSOCKET(int, rselect, int, fd_set*, fd_set*, fd_set*, timeval*)
BOOST_RDMA_NO_RSOCKET(int, rgetpeername, int, sockaddr*, socklen_t*)
BOOST_RDMA_NO_RSOCKET(int, rgetsockname, int, sockaddr*, socklen_t*)
BOOST_RDMA_NO_RSOCKET(int, rsetsockopt, int, int, int, const void*, socklen_t)
BOOST_RDMA_NO_RSOCKET(int, rgetsockopt, int, int, int, void*, socklen_t*)
BOOST_RDMA_NO_RSOCKET(int, rfcntl, int, int, ...)
BOOST_RDMA_NO_RSOCKET(off_t, riomap, int, void*, size_t, int, int, off_t)
BOOST_RDMA_NO_RSOCKET(int, riounmap, int, void*, size_t)
BOOST_RDMA_NO_RSOCKET(size_t, riowrite, int, const void*, size_t, off_t, int)

#undef BOOST_RDMA_NO_RSOCKET

} // extern "C"

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "sockets/system.hpp"

#include <memory>
#include <new>

#include <netinet/in.h>
#include <netinet/tcp.h>

namespace rdma::sockets {

thread_local constinit bool internal_flag = false;

namespace {

// Looks all functions up before the program starts threads: dlsym(3) takes a lock, which a signal
// handler or a child of vfork(2) should not do. Functions that are called earlier look up their
// own.
[[gnu::constructor]] void look_up_all()
{
#define BOOST_RDMA_SOCKETS_LOOK_UP(result, name, parameters) original::name.get();
  BOOST_RDMA_SOCKETS_ORIGINALS(BOOST_RDMA_SOCKETS_LOOK_UP)
#undef BOOST_RDMA_SOCKETS_LOOK_UP
}

} // namespace

bool is_unconnected_tcp(int fd) noexcept
{
  const kept_errno kept;
  tcp_info info{};
  socklen_t size = sizeof info;
  return original::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0
    && info.tcpi_state == TCP_CLOSE;
}

namespace {

// A thread of the library.
struct internal_thread
{
  void* (*function)(void*);
  void* argument;

  static void* run(void* made)
  {
    is_internal() = true;
    std::unique_ptr<internal_thread> self(static_cast<internal_thread*>(made));
    const internal_thread copy = *self;
    self.reset(); // the function may end the thread
    return copy.function(copy.argument);
  }
};

} // namespace

// Threads of the library, and of libraries that it uses, use sockets of their own.
BOOST_RDMA_SOCKETS_EXPORT(int, pthread_create,
  (pthread_t * to, const pthread_attr_t* attributes, void* (*function)(void*), void* argument))
{
  if (!is_internal())
    return original::pthread_create(to, attributes, function, argument);
  std::unique_ptr<internal_thread> made(new (std::nothrow) internal_thread{function, argument});
  if (!made)
    return EAGAIN;
  const int result = original::pthread_create(to, attributes, &internal_thread::run, made.get());
  if (result == 0)
    static_cast<void>(made.release()); // the thread's
  return result;
}

} // namespace rdma::sockets

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_SOCKETS_SYSTEM_HPP
#define BOOST_RDMA_TOOLS_SOCKETS_SYSTEM_HPP

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <type_traits>

#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

namespace rdma::sockets {

// Initial-exec: the program's first use of a thread-local variable of a shared library may call
// malloc otherwise.
extern thread_local constinit bool internal_flag __attribute__((tls_model("initial-exec")));

/// True while this thread is in the library: its calls of the C library's functions are its own,
/// and go to the kernel.
/** Set by internal_call, and for threads that are started meanwhile. */
inline bool& is_internal() noexcept
{
  return internal_flag;
}

class internal_call
{
public:
  internal_call() noexcept
    : before_(is_internal())
  {
    is_internal() = true;
    // pthread_cancel(3) must not end a thread that holds the library's locks.
    if (!before_)
      ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state_);
  }
  internal_call(const internal_call&) = delete;
  internal_call& operator=(const internal_call&) = delete;
  ~internal_call()
  {
    is_internal() = before_;
    if (!before_)
      ::pthread_setcancelstate(cancel_state_, nullptr);
  }

private:
  const bool before_;
  int cancel_state_ = PTHREAD_CANCEL_ENABLE;
};

/// While the thread sleeps in the library, a signal handler may use the program's sockets.
class external_call
{
public:
  external_call() noexcept
    : before_(is_internal())
  {
    is_internal() = false;
  }
  external_call(const external_call&) = delete;
  external_call& operator=(const external_call&) = delete;
  ~external_call() { is_internal() = before_; }

private:
  const bool before_;
};

/// Leaves errno as it was.
class kept_errno
{
public:
  kept_errno() noexcept
    : before_(errno)
  {
  }
  kept_errno(const kept_errno&) = delete;
  kept_errno& operator=(const kept_errno&) = delete;
  ~kept_errno() { errno = before_; }

private:
  const int before_;
};

/// Sets errno and returns -1.
inline int fail(int error) noexcept
{
  errno = error;
  return -1;
}

/// Calls a function that may throw for a caller in C. Catches no cancellation of the thread.
template <class Result, class Function>
Result guarded(Function&& function)
{
  try
  {
    return function();
  }
  catch (const std::exception&) // std::bad_alloc in practice
  {
    errno = ENOMEM;
    return static_cast<Result>(-1);
  }
}

/// The next definition of a function behind this library's. No lock: signal handlers and programs
/// without constructors call these functions as well.
template <class Function>
class next
{
public:
  explicit constexpr next(const char* name) noexcept
    : name_(name)
  {
  }

  /// Null if the C library does not have it.
  Function* get() noexcept
  {
    void* found = found_.load(std::memory_order_relaxed);
    if (found == nullptr)
    {
      const kept_errno kept;
      found = ::dlsym(RTLD_NEXT, name_);
      found_.store(found, std::memory_order_relaxed);
    }
    return reinterpret_cast<Function*>(found);
  }

  // Not noexcept: most of these functions are cancellation points.
  template <class... Arguments>
  auto operator()(Arguments... arguments)
  {
    using result = std::invoke_result_t<Function*, Arguments...>;
    Function* const function = get();
    if constexpr (std::is_void_v<result>)
    {
      if (function != nullptr)
        function(arguments...);
    }
    else
    {
      if (function != nullptr)
        return function(arguments...);
      errno = ENOSYS;
      if constexpr (std::is_pointer_v<result>)
        return result();
      else
        return static_cast<result>(-1);
    }
  }

private:
  const char* const name_;
  std::atomic<void*> found_{nullptr};
};

using signal_handler = void (*)(int);

// All functions that the library defines instead of the C library.
#define BOOST_RDMA_SOCKETS_ORIGINALS(X)                                                            \
  X(int, connect, (int, const sockaddr*, socklen_t))                                               \
  X(int, bind, (int, const sockaddr*, socklen_t))                                                  \
  X(int, listen, (int, int))                                                                       \
  X(int, accept, (int, sockaddr*, socklen_t*))                                                     \
  X(int, accept4, (int, sockaddr*, socklen_t*, int))                                               \
  X(int, shutdown, (int, int))                                                                     \
  X(int, getsockopt, (int, int, int, void*, socklen_t*))                                           \
  X(int, setsockopt, (int, int, int, const void*, socklen_t))                                      \
  X(ssize_t, recv, (int, void*, std::size_t, int))                                                 \
  X(ssize_t, recvfrom, (int, void*, std::size_t, int, sockaddr*, socklen_t*))                      \
  X(ssize_t, recvmsg, (int, msghdr*, int))                                                         \
  X(int, recvmmsg, (int, mmsghdr*, unsigned, int, timespec*))                                      \
  X(ssize_t, read, (int, void*, std::size_t))                                                      \
  X(ssize_t, readv, (int, const iovec*, int))                                                      \
  X(ssize_t, __read_chk, (int, void*, std::size_t, std::size_t))                                   \
  X(ssize_t, __recv_chk, (int, void*, std::size_t, std::size_t, int))                              \
  X(ssize_t, __recvfrom_chk, (int, void*, std::size_t, std::size_t, int, sockaddr*, socklen_t*))   \
  X(ssize_t, send, (int, const void*, std::size_t, int))                                           \
  X(ssize_t, sendto, (int, const void*, std::size_t, int, const sockaddr*, socklen_t))             \
  X(ssize_t, sendmsg, (int, const msghdr*, int))                                                   \
  X(int, sendmmsg, (int, mmsghdr*, unsigned, int))                                                 \
  X(ssize_t, write, (int, const void*, std::size_t))                                               \
  X(ssize_t, writev, (int, const iovec*, int))                                                     \
  X(ssize_t, sendfile, (int, int, off_t*, std::size_t))                                            \
  X(ssize_t, sendfile64, (int, int, off_t*, std::size_t))                                          \
  X(ssize_t, splice, (int, off_t*, int, off_t*, std::size_t, unsigned))                            \
  X(int, close, (int))                                                                             \
  X(int, close_range, (unsigned, unsigned, int))                                                   \
  X(void, closefrom, (int))                                                                        \
  X(int, dup, (int))                                                                               \
  X(int, dup2, (int, int))                                                                         \
  X(int, dup3, (int, int, int))                                                                    \
  X(int, fcntl, (int, int, ...))                                                                   \
  X(int, fcntl64, (int, int, ...))                                                                 \
  X(int, ioctl, (int, unsigned long, ...))                                                         \
  X(int, poll, (pollfd*, nfds_t, int))                                                             \
  X(int, __poll_chk, (pollfd*, nfds_t, int, std::size_t))                                          \
  X(int, ppoll, (pollfd*, nfds_t, const timespec*, const sigset_t*))                               \
  X(int, __ppoll_chk, (pollfd*, nfds_t, const timespec*, const sigset_t*, std::size_t))            \
  X(int, select, (int, fd_set*, fd_set*, fd_set*, timeval*))                                       \
  X(int, pselect, (int, fd_set*, fd_set*, fd_set*, const timespec*, const sigset_t*))              \
  X(int, epoll_create, (int))                                                                      \
  X(int, epoll_create1, (int))                                                                     \
  X(int, epoll_ctl, (int, int, int, epoll_event*))                                                 \
  X(int, epoll_wait, (int, epoll_event*, int, int))                                                \
  X(int, epoll_pwait, (int, epoll_event*, int, int, const sigset_t*))                              \
  X(int, epoll_pwait2, (int, epoll_event*, int, const timespec*, const sigset_t*))                 \
  X(std::FILE*, fdopen, (int, const char*))                                                        \
  X(int, vdprintf, (int, const char*, va_list))                                                    \
  X(int, __vdprintf_chk, (int, int, const char*, va_list))                                         \
  X(int, sigaction, (int, const struct sigaction*, struct sigaction*))                             \
  X(signal_handler, signal, (int, signal_handler))                                                 \
  X(signal_handler, __sysv_signal, (int, signal_handler))                                          \
  X(signal_handler, sigset, (int, signal_handler))                                                 \
  X(int, siginterrupt, (int, int))                                                                 \
  X(int, pthread_create, (pthread_t*, const pthread_attr_t*, void* (*)(void*), void*))             \
  X(void, _exit, (int))                                                                            \
  X(void, _Exit, (int))

namespace original {
#define BOOST_RDMA_SOCKETS_DECLARE(result, name, parameters)                                       \
  inline constinit next<result parameters> name{#name};
BOOST_RDMA_SOCKETS_ORIGINALS(BOOST_RDMA_SOCKETS_DECLARE)
#undef BOOST_RDMA_SOCKETS_DECLARE
} // namespace original

/// Defines the C library's `function`. The C++ name differs, because the headers declare some of
/// these functions with other attributes, or as macros.
#define BOOST_RDMA_SOCKETS_EXPORT(result, function, parameters)                                    \
  extern "C" __attribute__((visibility("default")))                                                \
  result sockets_##function parameters __asm__(#function);                                         \
  extern "C" result sockets_##function parameters

/// A TCP socket that the next connect(2) begins to connect. Leaves errno.
bool is_unconnected_tcp(int fd) noexcept;

} // namespace rdma::sockets

#endif // BOOST_RDMA_TOOLS_SOCKETS_SYSTEM_HPP

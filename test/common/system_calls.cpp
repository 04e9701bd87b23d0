//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/system_calls.hpp"
#include "common/pauses.hpp"
#include "common/sanitizers.hpp"
#include "common/watchdog.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <initializer_list>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <linux/futex.h>

#if !BOOST_RDMA_TEST_THREAD_SANITIZER && defined(__GLIBC__)
#define BOOST_RDMA_TEST_OWN_CALLS 1
#else
#define BOOST_RDMA_TEST_OWN_CALLS 0
#endif

// Rules for the faults. An error is one that Linux returns for a correct call at such a moment:
//
// EINTR: of a call that waits, and would wait now. Linux interrupts no other.
//
// EAGAIN of a transfer, and a short one: of a TCP socket. Less is sent than there is room for, or
// less received than has arrived and than was asked for. The socket then becomes ready again, as
// after an EAGAIN of the kernel: a program that is told of edges waits for the next one. Local
// sockets return no EAGAIN: it means that the peer has something to read.
//
// ECONNRESET and the like: of a TCP socket. The connection is then reset, so that the peer sees it.
//
// ECONNABORTED of accept(): the client is gone.
//
// Not failed: calls that release something (close, munmap, shutdown, EPOLL_CTL_DEL, MADV_DONTNEED),
// and calls that cannot fail (getrandom, getpeername, F_GETFL, timerfd_settime, writes to eventfd).

namespace test::system_calls {
namespace {

[[maybe_unused]] constexpr int none = 0;
constexpr int shortened = -1; // instead of an error

constinit fault_counter calls;
constinit call_stack stack;                             // of the first call that failed
constinit std::atomic<const char*> first_call{nullptr}; // of that call
constinit std::atomic<int> first_fault{0};
constinit std::atomic<unsigned> first_errors{0};
constinit std::atomic<unsigned> chosen{0};
constinit std::atomic<int> additions_until_failure{-1}; // to epoll sets; negative: none fails
constinit std::atomic<int> wake_ups_refused{0};         // of the next ones
constinit thread_local pauses paused;

#if BOOST_RDMA_TEST_OWN_CALLS

/// A function of the C library.
template <auto* Function>
class original
{
public:
  explicit constexpr original(const char* symbol) noexcept
    : symbol_(symbol)
  {
  }

  template <class... Arguments>
  auto operator()(Arguments... arguments)
  {
    void* found = found_.load(std::memory_order_relaxed);
    if (found == nullptr)
    {
      found = ::dlsym(RTLD_NEXT, symbol_);
      found_.store(found, std::memory_order_relaxed);
    }
    return reinterpret_cast<decltype(Function)>(found)(arguments...);
  }

private:
  const char* const symbol_;
  std::atomic<void*> found_{nullptr};
};

#define BOOST_RDMA_TEST_ORIGINAL(function)                                                         \
  constinit original<&::function> original_##function(#function)
BOOST_RDMA_TEST_ORIGINAL(accept);
BOOST_RDMA_TEST_ORIGINAL(accept4);
BOOST_RDMA_TEST_ORIGINAL(clock_nanosleep);
BOOST_RDMA_TEST_ORIGINAL(connect);
BOOST_RDMA_TEST_ORIGINAL(epoll_ctl);
BOOST_RDMA_TEST_ORIGINAL(epoll_pwait2);
BOOST_RDMA_TEST_ORIGINAL(epoll_wait);
BOOST_RDMA_TEST_ORIGINAL(fallocate);
BOOST_RDMA_TEST_ORIGINAL(fcntl);
BOOST_RDMA_TEST_ORIGINAL(getsockopt);
BOOST_RDMA_TEST_ORIGINAL(ioctl);
BOOST_RDMA_TEST_ORIGINAL(madvise);
BOOST_RDMA_TEST_ORIGINAL(mmap);
BOOST_RDMA_TEST_ORIGINAL(nanosleep);
BOOST_RDMA_TEST_ORIGINAL(open);
BOOST_RDMA_TEST_ORIGINAL(poll);
BOOST_RDMA_TEST_ORIGINAL(pread);
BOOST_RDMA_TEST_ORIGINAL(process_vm_readv);
BOOST_RDMA_TEST_ORIGINAL(pwrite);
BOOST_RDMA_TEST_ORIGINAL(read);
BOOST_RDMA_TEST_ORIGINAL(recv);
BOOST_RDMA_TEST_ORIGINAL(recvfrom);
BOOST_RDMA_TEST_ORIGINAL(recvmmsg);
BOOST_RDMA_TEST_ORIGINAL(recvmsg);
BOOST_RDMA_TEST_ORIGINAL(sched_yield);
BOOST_RDMA_TEST_ORIGINAL(send);
BOOST_RDMA_TEST_ORIGINAL(sendmmsg);
BOOST_RDMA_TEST_ORIGINAL(sendmsg);
BOOST_RDMA_TEST_ORIGINAL(sendto);
BOOST_RDMA_TEST_ORIGINAL(setsockopt);
BOOST_RDMA_TEST_ORIGINAL(syscall);

/// Counts this call. Returns none, or the fault that it is to have.
int fault_of(const char* which, std::initializer_list<int> faults) noexcept
{
  if (!calls.is_active())
    return none;
  const bool opens = std::find(faults.begin(), faults.end(), EMFILE) != faults.end();
  if (faults.size() == 0 || (calls.is_lasting() && !opens))
    return none;
  bool is_first = false;
  if (!calls.fails(is_first))
    return none;
  const int fault = calls.is_lasting()
    ? EMFILE
    : faults.begin()[chosen.load(std::memory_order_relaxed) % faults.size()];
  if (is_first)
  {
    const int kept = errno;
    first_call.store(which, std::memory_order_relaxed);
    first_fault.store(fault, std::memory_order_relaxed);
    first_errors.store(static_cast<unsigned>(faults.size()), std::memory_order_relaxed);
    stack.record();
    errno = kept;
  }
  return fault;
}

int fail(int error) noexcept
{
  errno = error;
  return -1;
}

// A wait has ended, and the thread gets no processor yet.
int woken(int result) noexcept
{
  pause_at_random(20);
  return result;
}

int option_of(int fd, int option) noexcept
{
  int value = 0;
  socklen_t size = sizeof value;
  return original_getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

void repeat_option(int fd, int option, int value) noexcept
{
  original_setsockopt(fd, SOL_SOCKET, option, &value, static_cast<socklen_t>(sizeof value));
}

enum class socket_kind
{
  other,
  tcp,
  udp,
  local
};

socket_kind kind_of(int fd) noexcept
{
  const int kept = errno;
  const int family = option_of(fd, SO_DOMAIN);
  const int type = option_of(fd, SO_TYPE);
  errno = kept;
  if (family == AF_UNIX)
    return socket_kind::local;
  if (family != AF_INET && family != AF_INET6)
    return socket_kind::other;
  return type == SOCK_STREAM ? socket_kind::tcp
    : type == SOCK_DGRAM     ? socket_kind::udp
                             : socket_kind::other;
}

bool has_input(int fd) noexcept
{
  pollfd ready{fd, POLLIN, 0};
  return original_poll(&ready, nfds_t{1}, 0) != 0;
}

/// Breaks a connection for both sides, as a reset does.
void reset_connection(int fd) noexcept
{
  sockaddr none_at_all{};
  none_at_all.sa_family = AF_UNSPEC; // connect(2): dissolves the association
  original_connect(fd, &none_at_all, static_cast<socklen_t>(sizeof none_at_all));
}

/// Returns none, an error, or `shortened`, which only transfers of several bytes have.
int fault_of_sending(const char* which, int fd, std::size_t size) noexcept
{
  if (!calls.is_active() || calls.is_lasting())
    return none;
  switch (kind_of(fd))
  {
  case socket_kind::tcp:
  {
    const int fault = size > 1 ? fault_of(which, {shortened, EAGAIN, ECONNRESET, EPIPE})
                               : fault_of(which, {EAGAIN, ECONNRESET, EPIPE});
    if (fault == shortened || fault == EAGAIN)
      repeat_option(fd, SO_SNDBUF, option_of(fd, SO_SNDBUF) / 2); // tells of room: socket(7), x 2
    else if (fault != none)
      reset_connection(fd);
    return fault;
  }
  case socket_kind::udp:
    return fault_of(which, {ENOBUFS, ENOMEM, EPERM, ENETUNREACH});
  case socket_kind::local:
    return fault_of(which, {ENOBUFS, ENOMEM});
  case socket_kind::other:
    break;
  }
  return none;
}

int fault_of_receiving(const char* which, int fd, std::size_t size) noexcept
{
  if (!calls.is_active() || calls.is_lasting())
    return none;
  const socket_kind kind = kind_of(fd);
  int unread = 0;
  if (original_ioctl(fd, FIONREAD, &unread) != 0)
    return none;
  if (kind == socket_kind::udp)
    return fault_of(which, {ECONNREFUSED});
  if (kind != socket_kind::tcp)
    return none;
  int fault = none;
  if (unread == 0)
    fault = fault_of(which, {ECONNRESET, ETIMEDOUT});
  else if (unread > 1 && static_cast<std::size_t>(unread) < size) // the rest has not arrived yet
    fault = fault_of(which, {shortened, EAGAIN});
  if (fault == EAGAIN)
    repeat_option(fd, SO_RCVLOWAT, option_of(fd, SO_RCVLOWAT)); // tells of the data again
  else if (fault != none && fault != shortened)
    reset_connection(fd);
  return fault;
}

std::size_t short_size() noexcept
{
  return 1 + chosen.load(std::memory_order_relaxed) / failing_calls::multiple_of_errors;
}

/// The first bytes of a message's buffers, without its ancillary data.
class first_bytes
{
public:
  explicit first_bytes(const msghdr& whole) noexcept
    : header_(whole)
  {
    for (std::size_t i = 0; i != whole.msg_iovlen && only_.iov_len == 0; ++i)
      only_ = whole.msg_iov[i];
    only_.iov_len = std::min<std::size_t>(only_.iov_len, short_size());
    header_.msg_iov = &only_;
    header_.msg_iovlen = 1;
  }
  first_bytes(const first_bytes&) = delete;
  first_bytes& operator=(const first_bytes&) = delete;
  msghdr* get() noexcept { return &header_; }

private:
  msghdr header_;
  iovec only_{};
};

std::size_t first_size(std::size_t size) noexcept
{
  return std::min<std::size_t>(size - 1, short_size());
}

std::size_t size_of(const msghdr& message) noexcept
{
  std::size_t size = 0;
  for (std::size_t i = 0; i != message.msg_iovlen; ++i)
    size += message.msg_iov[i].iov_len;
  return size;
}

/// Drops the descriptors that came with a message, as the kernel does if no more can be opened.
void drop_descriptors(msghdr& message) noexcept
{
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c))
  {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
      continue;
    if (fault_of("recvmsg", {EMFILE}) == none)
      return;
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i != count; ++i)
    {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      ::close(fd);
    }
    message.msg_controllen = 0;
    message.msg_flags |= MSG_CTRUNC;
    return;
  }
}

/// Makes the rest of an accept fail: the client that it took is gone.
int abort_client(int client) noexcept
{
  if (client >= 0)
    ::close(client);
  return client >= 0 ? fail(ECONNABORTED) : client;
}

int fault_of_accepting(const char* which, int fd) noexcept
{
  return has_input(fd) ? fault_of(which, {EMFILE, ENFILE, ENOBUFS, ENOMEM, ECONNABORTED}) : none;
}

} // namespace

// Functions of one form: the faults are the same for all arguments.
#define BOOST_RDMA_TEST_CALL(result, function, parameters, arguments, ...)                         \
  result function parameters noexcept                                                              \
  {                                                                                                \
    static constinit original<&::function> next(#function);                                        \
    const int fault = fault_of(#function, {__VA_ARGS__});                                          \
    return fault != none ? fail(fault) : next arguments;                                           \
  }

extern "C" {
BOOST_RDMA_TEST_CALL(int, socket, (int domain, int type, int protocol), (domain, type, protocol),
  EMFILE, ENFILE, ENOBUFS, ENOMEM)
BOOST_RDMA_TEST_CALL(int, bind, (int fd, const sockaddr* address, socklen_t size),
  (fd, address, size), EADDRINUSE, ENOMEM)
BOOST_RDMA_TEST_CALL(int, listen, (int fd, int backlog), (fd, backlog), EADDRINUSE)
BOOST_RDMA_TEST_CALL(
  int, getsockname, (int fd, sockaddr* address, socklen_t* size), (fd, address, size), ENOBUFS)
BOOST_RDMA_TEST_CALL(int, setsockopt,
  (int fd, int level, int option, const void* value, socklen_t size),
  (fd, level, option, value, size), ENOMEM, ENOPROTOOPT)
BOOST_RDMA_TEST_CALL(int, epoll_create, (int size), (size), EMFILE, ENFILE, ENOMEM)
BOOST_RDMA_TEST_CALL(int, epoll_create1, (int flags), (flags), EMFILE, ENFILE, ENOMEM)
BOOST_RDMA_TEST_CALL(
  int, eventfd, (unsigned value, int flags), (value, flags), EMFILE, ENFILE, ENOMEM)
BOOST_RDMA_TEST_CALL(
  int, timerfd_create, (clockid_t clock, int flags), (clock, flags), EMFILE, ENFILE, ENOMEM)
BOOST_RDMA_TEST_CALL(int, pipe, (int* ends), (ends), EMFILE, ENFILE)
BOOST_RDMA_TEST_CALL(int, pipe2, (int* ends, int flags), (ends, flags), EMFILE, ENFILE)
BOOST_RDMA_TEST_CALL(
  int, memfd_create, (const char* title, unsigned flags), (title, flags), EMFILE, ENFILE, ENOMEM)
BOOST_RDMA_TEST_CALL(int, ftruncate, (int fd, off_t size), (fd, size), EFBIG)
BOOST_RDMA_TEST_CALL(
  int, mprotect, (void* at, std::size_t size, int rights), (at, size, rights), ENOMEM)
BOOST_RDMA_TEST_CALL(int, getifaddrs, (ifaddrs * *list), (list), EMFILE, ENOMEM, ENOBUFS)
}

#undef BOOST_RDMA_TEST_CALL

extern "C" {

int fallocate(int fd, int mode, off_t offset, off_t size)
{
  const int fault = fault_of("fallocate", {EINTR, ENOSPC, EOPNOTSUPP});
  return fault != none ? fail(fault) : original_fallocate(fd, mode, offset, size);
}

void* mmap(void* at, std::size_t size, int rights, int flags, int fd, off_t offset) noexcept
{
  const int fault = fault_of("mmap", {ENOMEM});
  if (fault == none)
    return original_mmap(at, size, rights, flags, fd, offset);
  errno = fault;
  return MAP_FAILED;
}

int madvise(void* at, std::size_t size, int advice) noexcept
{
  const int fault = advice != MADV_DONTNEED ? fault_of("madvise", {EAGAIN, ENOMEM, EINVAL}) : none;
  return fault != none ? fail(fault) : original_madvise(at, size, advice);
}

int open(const char* path, int flags, ...)
{
  va_list list;
  va_start(list, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(list, mode_t) : 0;
  va_end(list);
  const int fault = fault_of("open", {EMFILE, ENFILE, ENOMEM, EACCES});
  return fault != none ? fail(fault) : original_open(path, flags, mode);
}

int fcntl(int fd, int command, ...)
{
  va_list list;
  va_start(list, command);
  void* const argument = va_arg(list, void*);
  va_end(list);
  int fault = none;
  if (command == F_ADD_SEALS)
    fault = fault_of("fcntl", {EPERM, EINVAL});
  else if (command == F_DUPFD_CLOEXEC || command == F_DUPFD)
    fault = fault_of("fcntl", {EMFILE});
  return fault != none ? fail(fault) : original_fcntl(fd, command, argument);
}

int ioctl(int fd, unsigned long request, ...) noexcept
{
  va_list list;
  va_start(list, request);
  void* const argument = va_arg(list, void*);
  va_end(list);
  const int fault =
    request != FIONREAD && request != FIONBIO ? fault_of("ioctl", {ENOMEM, ENOTTY}) : none;
  return fault != none ? fail(fault) : original_ioctl(fd, request, argument);
}

long syscall(long number, ...) noexcept
{
  va_list list;
  va_start(list, number);
  std::array<long, 6> a{};
  for (long& each : a)
    each = va_arg(list, long);
  va_end(list);
  int fault = none;
  if (number == SYS_userfaultfd)
    fault = fault_of("userfaultfd", {EMFILE, ENFILE, ENOMEM, EPERM});
  else if (number == SYS_pidfd_open)
    fault = fault_of("pidfd_open", {EMFILE, ENFILE, ENOMEM, ENODEV});
  else if (number == SYS_membarrier)
    fault = fault_of("membarrier", {ENOSYS, ENOMEM});
  else if (number == SYS_futex && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT)
    fault = fault_of("futex", {EINTR});
  return fault != none ? fail(fault) : original_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

#if !BOOST_RDMA_TEST_ADDRESS_SANITIZER // it must see where a thread has its stack
BOOST_RDMA_TEST_ORIGINAL(pthread_create);
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
  void* argument) noexcept
{
  const int fault = fault_of("pthread_create", {EAGAIN});
  return fault != none ? fault : original_pthread_create(thread, attributes, start, argument);
}
#endif

int getsockopt(int fd, int level, int option, void* value, socklen_t* size) noexcept
{
#ifdef SO_PEERPIDFD
  constexpr int peer_process = SO_PEERPIDFD;
#else
  constexpr int peer_process = 77; // include/uapi/asm-generic/socket.h
#endif
  const int fault = level == SOL_SOCKET && option == peer_process
    ? fault_of("getsockopt", {EMFILE, ENOPROTOOPT})
    : none;
  return fault != none ? fail(fault) : original_getsockopt(fd, level, option, value, size);
}

int epoll_ctl(int set, int operation, int fd, epoll_event* event) noexcept
{
  if (operation == EPOLL_CTL_ADD && additions_until_failure.load() >= 0
    && additions_until_failure.fetch_sub(1) == 0)
    return fail(ENOSPC);
  // Asio does not check the result for its own eventfd and timerfd.
  const bool is_own = event != nullptr && (event->events & ~EPOLLET) == (EPOLLIN | EPOLLERR);
  const int fault =
    operation == EPOLL_CTL_ADD && !is_own ? fault_of("epoll_ctl", {ENOMEM, ENOSPC}) : none;
  return fault != none ? fail(fault) : original_epoll_ctl(set, operation, fd, event);
}

int epoll_wait(int set, epoll_event* events, int most, int milliseconds)
{
  const watchdog::wait watched(set, milliseconds == 0);
  if (milliseconds != 0 && calls.is_active())
    if (const int n = original_epoll_wait(set, events, most, 0); n != 0)
      return n;
  const int fault = milliseconds != 0 ? fault_of("epoll_wait", {EINTR}) : none;
  return fault != none ? fail(fault) : woken(original_epoll_wait(set, events, most, milliseconds));
}

int epoll_pwait2(
  int set, epoll_event* events, int most, const timespec* time, const sigset_t* signals)
{
  const watchdog::wait watched(set, false);
  constexpr timespec now{};
  if (calls.is_active())
    if (const int n = original_epoll_pwait2(set, events, most, &now, signals); n > 0)
      return n;
  const int fault = fault_of("epoll_pwait2", {EINTR});
  return fault != none ? fail(fault)
                       : woken(original_epoll_pwait2(set, events, most, time, signals));
}

int poll(pollfd* list, nfds_t count, int milliseconds)
{
  const watchdog::wait watched(-1, milliseconds == 0);
  if (milliseconds != 0 && calls.is_active())
    if (const int n = original_poll(list, count, 0); n != 0)
      return n;
  const int fault = milliseconds != 0 ? fault_of("poll", {EINTR}) : none;
  return fault != none ? fail(fault) : woken(original_poll(list, count, milliseconds));
}

int sched_yield() noexcept
{
  ++paused.yields;
  return original_sched_yield();
}

int nanosleep(const timespec* time, timespec* left)
{
  ++paused.sleeps;
  return original_nanosleep(time, left);
}

int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* left)
{
  ++paused.sleeps;
  return original_clock_nanosleep(clock, flags, time, left);
}

int connect(int fd, const sockaddr* address, socklen_t size)
{
  const int fault = address->sa_family == AF_UNIX
    ? fault_of("connect", {EAGAIN, ECONNREFUSED})
    : fault_of("connect", {EADDRNOTAVAIL, ECONNREFUSED, ENETUNREACH});
  return fault != none ? fail(fault) : original_connect(fd, address, size);
}

int accept(int fd, sockaddr* address, socklen_t* size)
{
  const int fault = fault_of_accepting("accept", fd);
  if (fault != none && fault != ECONNABORTED)
    return fail(fault);
  const int client = original_accept(fd, address, size);
  return fault == none ? client : abort_client(client);
}

int accept4(int fd, sockaddr* address, socklen_t* size, int flags)
{
  const int fault = fault_of_accepting("accept4", fd);
  if (fault != none && fault != ECONNABORTED)
    return fail(fault);
  const int client = original_accept4(fd, address, size, flags);
  return fault == none ? client : abort_client(client);
}

ssize_t read(int fd, void* to, std::size_t size)
{
  int fault = none;
  if (calls.is_active() && (original_fcntl(fd, F_GETFL) & O_NONBLOCK) == 0)
  {
    struct stat about
    {
    };
    const bool is_file = ::fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
    if (is_file && size > 1)
      fault = fault_of("read", {shortened, EIO});
    else if (!is_file && !has_input(fd))
      fault = fault_of("read", {EINTR});
  }
  if (fault == shortened)
    return original_read(fd, to, first_size(size));
  return fault != none ? fail(fault) : original_read(fd, to, size);
}

ssize_t pread(int fd, void* to, std::size_t size, off_t offset)
{
  const int fault = size > 1 ? fault_of("pread", {shortened, EIO, ENOMEM}) : none;
  if (fault == shortened)
    return original_pread(fd, to, first_size(size), offset);
  return fault != none ? fail(fault) : original_pread(fd, to, size, offset);
}

ssize_t pwrite(int fd, const void* from, std::size_t size, off_t offset)
{
  const int fault = size > 1 ? fault_of("pwrite", {shortened, ENOSPC, ENOMEM}) : none;
  if (fault == shortened)
    return original_pwrite(fd, from, first_size(size), offset);
  return fault != none ? fail(fault) : original_pwrite(fd, from, size, offset);
}

ssize_t process_vm_readv(pid_t of, const iovec* to, unsigned long to_count, const iovec* from,
  unsigned long from_count, unsigned long flags) noexcept
{
  const int fault = fault_of("process_vm_readv", {ENOMEM, EPERM});
  return fault != none ? fail(fault)
                       : original_process_vm_readv(of, to, to_count, from, from_count, flags);
}

ssize_t send(int fd, const void* from, std::size_t size, int flags)
{
  if (size == 1 && wake_ups_refused.load() > 0 && kind_of(fd) == socket_kind::local
    && wake_ups_refused.fetch_sub(1) > 0)
    return fail(ENOBUFS);
  const int fault = fault_of_sending("send", fd, size);
  if (fault == shortened)
    return original_send(fd, from, first_size(size), flags);
  return fault != none ? fail(fault) : original_send(fd, from, size, flags);
}

ssize_t sendto(int fd, const void* from, std::size_t size, int flags, const sockaddr* address,
  socklen_t address_size)
{
  const int fault = fault_of_sending("sendto", fd, 0);
  return fault != none ? fail(fault)
                       : original_sendto(fd, from, size, flags, address, address_size);
}

ssize_t sendmsg(int fd, const msghdr* message, int flags)
{
  const int fault = fault_of_sending("sendmsg", fd, size_of(*message));
  if (fault == shortened)
  {
    first_bytes first(*message);
    return original_sendmsg(fd, first.get(), flags);
  }
  return fault != none ? fail(fault) : original_sendmsg(fd, message, flags);
}

int sendmmsg(int fd, mmsghdr* messages, unsigned count, int flags)
{
  const int fault = fault_of_sending("sendmmsg", fd, 0);
  return fault != none ? fail(fault) : original_sendmmsg(fd, messages, count, flags);
}

ssize_t recv(int fd, void* to, std::size_t size, int flags)
{
  const int fault = fault_of_receiving("recv", fd, size);
  if (fault == shortened)
  {
    const ssize_t n = original_recv(fd, to, first_size(size), flags);
    repeat_option(fd, SO_RCVLOWAT, option_of(fd, SO_RCVLOWAT));
    return n;
  }
  return fault != none ? fail(fault) : original_recv(fd, to, size, flags);
}

ssize_t recvfrom(
  int fd, void* to, std::size_t size, int flags, sockaddr* address, socklen_t* address_size)
{
  const int fault = fault_of_receiving("recvfrom", fd, 0);
  return fault != none ? fail(fault)
                       : original_recvfrom(fd, to, size, flags, address, address_size);
}

ssize_t recvmsg(int fd, msghdr* message, int flags)
{
  const int fault = fault_of_receiving("recvmsg", fd, size_of(*message));
  if (fault == shortened)
  {
    first_bytes first(*message);
    const ssize_t n = original_recvmsg(fd, first.get(), flags);
    message->msg_controllen = 0;
    message->msg_flags = 0;
    repeat_option(fd, SO_RCVLOWAT, option_of(fd, SO_RCVLOWAT));
    return n;
  }
  if (fault != none)
    return fail(fault);
  const ssize_t n = original_recvmsg(fd, message, flags);
  if (n >= 0 && calls.is_active())
    drop_descriptors(*message);
  return n;
}

int recvmmsg(int fd, mmsghdr* messages, unsigned count, int flags, timespec* limit)
{
  const int fault = fault_of_receiving("recvmmsg", fd, 0);
  return fault != none ? fail(fault) : original_recvmmsg(fd, messages, count, flags, limit);
}
}

#else

} // namespace

#endif

} // namespace test::system_calls

namespace test {

using namespace system_calls;

failing_calls::failing_calls(std::size_t n, bool lasting, unsigned choice) noexcept
  : injected_faults(
    (stack.prepare(), chosen.store(choice, std::memory_order_relaxed), calls), n, lasting)
{
}

void fail_epoll_addition(int n) noexcept
{
  system_calls::additions_until_failure.store(n);
}

bool replaces_system_calls() noexcept
{
  return BOOST_RDMA_TEST_OWN_CALLS != 0;
}

void refuse_wake_ups(int n) noexcept
{
  wake_ups_refused.store(n);
}

int wake_ups_to_refuse() noexcept
{
  return std::max(wake_ups_refused.load(), 0);
}

pauses pauses_of_thread() noexcept
{
  return paused;
}

bool failing_calls::are_supported() noexcept
{
  // UBSan's checks of dynamic types make system calls, and report an error if one fails.
  return BOOST_RDMA_TEST_OWN_CALLS != 0 && BOOST_RDMA_TEST_ADDRESS_SANITIZER == 0;
}

std::string failed_call()
{
  const char* const which = first_call.load(std::memory_order_relaxed);
  const int fault = first_fault.load(std::memory_order_relaxed);
  return std::string(which != nullptr ? which : "no call") + ": "
    + (fault != shortened ? std::strerror(fault) : "a short transfer") + "\n" + stack.text();
}

unsigned errors_of_failed_call() noexcept
{
  return first_errors.load(std::memory_order_relaxed);
}

} // namespace test

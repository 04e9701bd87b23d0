//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "sockets/progress.hpp"
#include "sockets/report.hpp"
#include "sockets/system.hpp"
#include "sockets/table.hpp"

#include <cstdarg>
#include <memory>

#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <unistd.h>

// Calls for descriptors, and the end of the process.

namespace rdma::sockets {
namespace {

// The connection of the descriptor if its flags are not those of the kernel.
std::shared_ptr<description> connection_of(int fd) noexcept
{
  if (is_internal() || !table::has(fd))
    return nullptr;
  std::shared_ptr<description> d = table::find(fd);
  return d && d->connection && d->connection->current() != socket::state::kernel ? d : nullptr;
}

// The library has the bytes. Does not decide.
bool is_taken(const description& d, int fd) noexcept
{
  const internal_call here;
  return d.connection->current() != socket::state::undecided
    && takes(const_cast<description&>(d), fd);
}

void set_blocking(description& d, int fd, bool blocks) noexcept
{
  d.connection->set_non_blocking(!blocks);
  if (is_taken(d, fd))
    return;
  // If the state changes to deciding now, the library sets the flag again.
  const int flags = original::fcntl(fd, F_GETFL);
  original::fcntl(fd, F_SETFL, blocks ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
}

int status_flags(const description& d, int fd) noexcept
{
  const int flags = original::fcntl(fd, F_GETFL);
  if (flags == -1)
    return -1;
  return d.connection->non_blocking ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
}

int set_status_flags(description& d, int fd, int flags) noexcept
{
  if (is_taken(d, fd))
  {
    d.connection->set_non_blocking((flags & O_NONBLOCK) != 0);
    return original::fcntl(fd, F_SETFL, flags | O_NONBLOCK); // the library's
  }
  d.connection->set_non_blocking((flags & O_NONBLOCK) != 0);
  return original::fcntl(fd, F_SETFL, flags);
}

// A duplicate that could not be entered would be a descriptor without the connection.
int shared(int from, int made, bool close_on_exec) noexcept
{
  if (made == -1 || is_internal() || table::look_up(from) == nullptr || table::is_borrowed())
    return made;
  const internal_call here;
  const int result = guarded<int>(
    [&]
    {
      table::share(from, made, close_on_exec);
      return made;
    });
  if (result == -1)
    original::close(made);
  return result;
}

template <class Duplicate>
int duplicate_to(int from, int to, bool close_on_exec, Duplicate duplicate)
{
  if (is_internal() || from == to
    || (table::look_up(from) == nullptr && table::look_up(to) == nullptr))
    return duplicate();
  // dup2(2) closes `to` only if `from` is open.
  if (table::look_up(to) != nullptr && original::fcntl(from, F_GETFD) != -1)
  {
    const internal_call here;
    table::close(to);
  }
  return shared(from, duplicate(), close_on_exec);
}

void* argument_of(va_list list)
{
  return va_arg(list, void*);
}

template <class Original>
int control(Original& in_kernel, int fd, int command, void* argument)
{
  const int number = static_cast<int>(reinterpret_cast<std::intptr_t>(argument));
  if (!is_internal() && table::look_up(fd) != nullptr)
  {
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)
      return shared(fd, in_kernel(fd, command, number), command == F_DUPFD_CLOEXEC);
    if (const std::shared_ptr<description> d = connection_of(fd))
    {
      if (command == F_GETFL)
        return status_flags(*d, fd);
      if (command == F_SETFL)
        return set_status_flags(*d, fd, number);
      if ((command == F_GETFD || command == F_SETFD) && is_taken(*d, fd))
      {
        if (command == F_GETFD)
          return table::close_on_exec(fd) ? FD_CLOEXEC : 0;
        table::set_close_on_exec(fd, (number & FD_CLOEXEC) != 0);
        return 0;
      }
    }
  }
  return in_kernel(fd, command, argument);
}

// The process ends: only once, and not in a child of vfork(2).
void finish() noexcept
{
  if (table::is_borrowed())
    return;
  const internal_call here;
  report::finish();
  progress::finish();
}

[[gnu::destructor]] void end()
{
  finish();
}

} // namespace

// --- descriptors ---

BOOST_RDMA_SOCKETS_EXPORT(int, close, (int fd))
{
  if (!is_internal() && table::look_up(fd) != nullptr)
  {
    const internal_call here;
    table::close(fd);
  }
  return original::close(fd);
}

BOOST_RDMA_SOCKETS_EXPORT(int, close_range, (unsigned first, unsigned last, int flags))
{
  if (!is_internal() && first <= last
    && (static_cast<unsigned>(flags) & (CLOSE_RANGE_CLOEXEC | CLOSE_RANGE_UNSHARE)) == 0)
  {
    const internal_call here;
    table::close(first, last);
  }
  return original::close_range(first, last, flags);
}

BOOST_RDMA_SOCKETS_EXPORT(void, closefrom, (int first))
{
  if (!is_internal())
  {
    const internal_call here;
    table::close(first < 0 ? 0u : static_cast<unsigned>(first), ~0u);
  }
  original::closefrom(first);
}

BOOST_RDMA_SOCKETS_EXPORT(int, dup, (int fd))
{
  return shared(fd, original::dup(fd), false);
}

BOOST_RDMA_SOCKETS_EXPORT(int, dup2, (int from, int to))
{
  return duplicate_to(from, to, false, [=] { return original::dup2(from, to); });
}

BOOST_RDMA_SOCKETS_EXPORT(int, dup3, (int from, int to, int flags))
{
  return duplicate_to(
    from, to, (flags & O_CLOEXEC) != 0, [=] { return original::dup3(from, to, flags); });
}

// The C library reads the argument as a pointer as well, whatever the command.
BOOST_RDMA_SOCKETS_EXPORT(int, fcntl, (int fd, int command, ...))
{
  va_list list;
  va_start(list, command);
  void* const argument = argument_of(list);
  va_end(list);
  return control(original::fcntl, fd, command, argument);
}

BOOST_RDMA_SOCKETS_EXPORT(int, fcntl64, (int fd, int command, ...))
{
  va_list list;
  va_start(list, command);
  void* const argument = argument_of(list);
  va_end(list);
  return control(original::fcntl64, fd, command, argument);
}

BOOST_RDMA_SOCKETS_EXPORT(int, ioctl, (int fd, unsigned long request, ...))
{
  va_list list;
  va_start(list, request);
  void* const argument = argument_of(list);
  va_end(list);
  if (argument != nullptr)
    if (const std::shared_ptr<description> d = connection_of(fd))
    {
      int& value = *static_cast<int*>(argument);
      if (request == FIONBIO)
      {
        set_blocking(*d, fd, value == 0);
        return 0;
      }
      // FIONREAD is SIOCINQ, and TIOCOUTQ is SIOCOUTQ.
      if ((request == FIONREAD || request == SIOCOUTQ) && is_taken(*d, fd))
      {
        const internal_call here;
        progress::poll();
        value = request == FIONREAD ? d->connection->unread() : d->connection->unsent();
        return 0;
      }
    }
  return original::ioctl(fd, request, argument);
}

// --- the end of the process ---

// exit(3) calls the destructors, and _exit(2) does not. A signal handler may have interrupted the
// library, which is then left as it is.
BOOST_RDMA_SOCKETS_EXPORT(void, _exit, (int status))
{
  if (!is_internal())
    finish();
  original::_exit(status);
  __builtin_unreachable();
}

BOOST_RDMA_SOCKETS_EXPORT(void, _Exit, (int status))
{
  if (!is_internal())
    finish();
  original::_Exit(status);
  __builtin_unreachable();
}

} // namespace rdma::sockets

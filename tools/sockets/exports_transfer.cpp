//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "sockets/system.hpp"
#include "sockets/table.hpp"
#include "sockets/transfer.hpp"
#include "sockets/waiting.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

// Calls that transfer bytes. Each goes to the kernel at once if the descriptor is not in the table.

namespace rdma::sockets {
namespace {

constexpr std::size_t chunk_size = 64 * 1024;

// Waits for the first byte of a client that decides by it. Returns nothing if it has come.
std::optional<ssize_t> wait_for_first_byte(int fd, int flags)
{
  const external_call handlers;
  char first = 0;
  const ssize_t n = original::recv(fd, &first, 1, MSG_PEEK | (flags & MSG_DONTWAIT));
  return n > 0 ? std::nullopt : std::optional(n);
}

// Gets the description if the library has the bytes. Returns the result of a call that gets none.
std::optional<ssize_t> take_for_reading(int fd, int flags, std::shared_ptr<description>& to)
{
  const std::shared_ptr<description> d = table::find(fd);
  if (!d || !d->connection)
    return std::nullopt;
  while (!takes(*d, fd))
  {
    if (d->connection->current() != socket::state::undecided)
      return std::nullopt;
    if (const auto result = wait_for_first_byte(fd, flags))
      return result;
  }
  to = d;
  return std::nullopt;
}

// recv(2) and read(2). Returns nothing if the call is the kernel's.
std::optional<ssize_t> receive_taken(int fd, std::span<const iovec> to, int flags)
{
  if (is_internal() || !table::has(fd))
    return std::nullopt;
  const internal_call here;
  std::shared_ptr<description> d;
  if (const auto result = take_for_reading(fd, flags, d))
    return result;
  if (!d)
    return std::nullopt;
  return guarded<ssize_t>([&] { return receive(*d, fd, to, flags); });
}

std::optional<ssize_t> receive_taken(int fd, void* to, std::size_t size, int flags)
{
  const iovec buffer{.iov_base = to, .iov_len = size};
  return receive_taken(fd, std::span(&buffer, 1), flags);
}

std::optional<ssize_t> send_taken(int fd, std::span<const iovec> from, int flags)
{
  if (is_internal() || !table::has(fd))
    return std::nullopt;
  const internal_call here;
  const std::shared_ptr<description> d = taken(fd);
  if (!d)
    return std::nullopt;
  return guarded<ssize_t>([&] { return send(*d, fd, from, flags); });
}

std::optional<ssize_t> send_taken(int fd, const void* from, std::size_t size, int flags)
{
  const iovec buffer{.iov_base = const_cast<void*>(from), .iov_len = size};
  return send_taken(fd, std::span(&buffer, 1), flags);
}

bool are_valid(const iovec* buffers, std::size_t count) noexcept
{
  return count <= IOV_MAX && (buffers != nullptr || count == 0);
}

std::optional<ssize_t> receive_message(int fd, msghdr* to, int flags)
{
  if (to == nullptr || !are_valid(to->msg_iov, to->msg_iovlen))
    return std::nullopt;
  const auto got = receive_taken(fd, std::span<const iovec>(to->msg_iov, to->msg_iovlen), flags);
  if (got && *got >= 0)
  {
    // As TCP: no address, and no control messages.
    to->msg_namelen = 0;
    to->msg_controllen = 0;
    to->msg_flags = 0;
  }
  return got;
}

std::optional<ssize_t> send_message(int fd, const msghdr* from, int flags)
{
  if (from == nullptr || !are_valid(from->msg_iov, from->msg_iovlen))
    return std::nullopt;
  return send_taken(fd, std::span<const iovec>(from->msg_iov, from->msg_iovlen), flags);
}

} // namespace

// --- receiving ---

BOOST_RDMA_SOCKETS_EXPORT(ssize_t, recv, (int fd, void* to, std::size_t size, int flags))
{
  const auto got = receive_taken(fd, to, size, flags);
  return got ? *got : original::recv(fd, to, size, flags);
}

BOOST_RDMA_SOCKETS_EXPORT(ssize_t, recvfrom,
  (int fd, void* to, std::size_t size, int flags, sockaddr* peer, socklen_t* peer_size))
{
  const auto got = receive_taken(fd, to, size, flags);
  if (!got)
    return original::recvfrom(fd, to, size, flags, peer, peer_size);
  if (*got >= 0 && peer != nullptr && peer_size != nullptr)
    *peer_size = 0; // as TCP
  return *got;
}

BOOST_RDMA_SOCKETS_EXPORT(ssize_t, recvmsg, (int fd, msghdr* to, int flags))
{
  const auto got = receive_message(fd, to, flags);
  return got ? *got : original::recvmsg(fd, to, flags);
}

BOOST_RDMA_SOCKETS_EXPORT(
  int, recvmmsg, (int fd, mmsghdr* to, unsigned count, int flags, timespec* timeout))
{
  // The kernel looks at the timeout after each message only, so one message is right.
  if (count == 0)
    return original::recvmmsg(fd, to, count, flags, timeout);
  const auto got = receive_message(fd, &to->msg_hdr, flags & ~MSG_WAITFORONE);
  if (!got)
    return original::recvmmsg(fd, to, count, flags, timeout);
  if (*got < 0)
    return -1;
  to->msg_len = static_cast<unsigned>(*got);
  return 1;
}

BOOST_RDMA_SOCKETS_EXPORT(ssize_t, read, (int fd, void* to, std::size_t size))
{
  const auto got = receive_taken(fd, to, size, 0);
  return got ? *got : original::read(fd, to, size);
}

BOOST_RDMA_SOCKETS_EXPORT(ssize_t, readv, (int fd, const iovec* to, int count))
{
  if (count < 0 || !are_valid(to, static_cast<std::size_t>(count)))
    return original::readv(fd, to, count);
  const auto got = receive_taken(fd, std::span(to, static_cast<std::size_t>(count)), 0);
  return got ? *got : original::readv(fd, to, count);
}

// Programs with _FORTIFY_SOURCE call these; those of the C library abort if the buffer is too
// small.
BOOST_RDMA_SOCKETS_EXPORT(
  ssize_t, __read_chk, (int fd, void* to, std::size_t size, std::size_t available))
{
  const auto got = size <= available ? receive_taken(fd, to, size, 0) : std::nullopt;
  return got ? *got : original::__read_chk(fd, to, size, available);
}

BOOST_RDMA_SOCKETS_EXPORT(
  ssize_t, __recv_chk, (int fd, void* to, std::size_t size, std::size_t available, int flags))
{
  const auto got = size <= available ? receive_taken(fd, to, size, flags) : std::nullopt;
  return got ? *got : original::__recv_chk(fd, to, size, available, flags);
}

BOOST_RDMA_SOCKETS_EXPORT(ssize_t, __recvfrom_chk,
  (int fd, void* to, std::size_t size, std::size_t available, int flags, sockaddr* peer,
    socklen_t* peer_size))
{
  if (size > available)
    return original::__recvfrom_chk(fd, to, size, available, flags, peer, peer_size);
  return sockets_recvfrom(fd, to, size, flags, peer, peer_size);
}

// --- sending ---

BOOST_RDMA_SOCKETS_EXPORT(ssize_t, send, (int fd, const void* from, std::size_t size, int flags))
{
  const auto sent = send_taken(fd, from, size, flags);
  return sent ? *sent : original::send(fd, from, size, flags);
}

BOOST_RDMA_SOCKETS_EXPORT(ssize_t, sendto,
  (int fd, const void* from, std::size_t size, int flags, const sockaddr* to, socklen_t to_size))
{
  const auto sent = send_taken(fd, from, size, flags);
  return sent ? *sent : original::sendto(fd, from, size, flags, to, to_size);
}

BOOST_RDMA_SOCKETS_EXPORT(ssize_t, sendmsg, (int fd, const msghdr* from, int flags))
{
  const auto sent = send_message(fd, from, flags);
  return sent ? *sent : original::sendmsg(fd, from, flags);
}

BOOST_RDMA_SOCKETS_EXPORT(int, sendmmsg, (int fd, mmsghdr* from, unsigned count, int flags))
{
  if (count == 0 || is_internal() || !table::has(fd))
    return original::sendmmsg(fd, from, count, flags);
  int messages = 0;
  for (; messages != static_cast<int>(std::min<unsigned>(count, IOV_MAX)); ++messages)
  {
    const ssize_t sent = sockets_sendmsg(fd, &from[messages].msg_hdr, flags);
    if (sent == -1)
      return messages != 0 ? messages : -1;
    from[messages].msg_len = static_cast<unsigned>(sent);
  }
  return messages;
}

BOOST_RDMA_SOCKETS_EXPORT(ssize_t, write, (int fd, const void* from, std::size_t size))
{
  const auto sent = send_taken(fd, from, size, 0);
  return sent ? *sent : original::write(fd, from, size);
}

BOOST_RDMA_SOCKETS_EXPORT(ssize_t, writev, (int fd, const iovec* from, int count))
{
  if (count < 0 || !are_valid(from, static_cast<std::size_t>(count)))
    return original::writev(fd, from, count);
  const auto sent = send_taken(fd, std::span(from, static_cast<std::size_t>(count)), 0);
  return sent ? *sent : original::writev(fd, from, count);
}

// --- without buffers of the program ---

namespace {

// sendfile(2) reads at *offset, or at the file's position, and advances it by what was sent.
ssize_t send_file(description& d, int fd, int file, off_t* offset, std::size_t count)
{
  off_t at = offset != nullptr ? *offset : ::lseek(file, 0, SEEK_CUR);
  if (at == -1)
    return fail(EINVAL);
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(std::min(count, chunk_size));
  std::size_t done = 0;
  ssize_t last = 0;
  while (done != count)
  {
    const ssize_t got = ::pread(file, buffer.get(), std::min(count - done, chunk_size), at);
    if (got <= 0)
    {
      last = got;
      break;
    }
    const iovec part{.iov_base = buffer.get(), .iov_len = static_cast<std::size_t>(got)};
    last = send(d, fd, {&part, 1}, 0);
    if (last == -1)
      break;
    done += static_cast<std::size_t>(last);
    at += last;
    if (last != got)
      break;
  }
  if (offset != nullptr)
    *offset = at;
  else if (done != 0)
    ::lseek(file, at, SEEK_SET);
  return done != 0 ? static_cast<ssize_t>(done) : last;
}

std::optional<ssize_t> send_file_taken(int fd, int file, off_t* offset, std::size_t count)
{
  if (is_internal() || !table::has(fd))
    return std::nullopt;
  const internal_call here;
  const std::shared_ptr<description> d = taken(fd);
  if (!d)
    return std::nullopt;
  return guarded<ssize_t>([&] { return send_file(*d, fd, file, offset, count); });
}

// splice(2) to a pipe. The bytes are taken from the connection after the pipe has them.
ssize_t splice_from(description& d, int fd, int pipe, std::size_t size, unsigned flags)
{
  constexpr std::size_t page = 4096;  // a pipe that is writable has room for a page
  std::array<std::byte, page> buffer; // NOLINT: only written
  const iovec to{.iov_base = buffer.data(), .iov_len = std::min(size, page)};
  const bool waits = (flags & SPLICE_F_NONBLOCK) == 0;
  pollfd writable{.fd = pipe, .events = POLLOUT, .revents = 0};
  if (!waits && original::poll(&writable, 1, 0) == 0)
    return fail(EAGAIN);
  const ssize_t peeked = receive(d, fd, {&to, 1}, MSG_PEEK | (waits ? 0 : MSG_DONTWAIT));
  if (peeked <= 0)
    return peeked;
  const ssize_t written = original::write(pipe, buffer.data(), static_cast<std::size_t>(peeked));
  if (written <= 0)
    return written;
  const iovec taken{.iov_base = buffer.data(), .iov_len = static_cast<std::size_t>(written)};
  return receive(d, fd, {&taken, 1}, MSG_WAITALL);
}

// splice(2) from a pipe. Bytes that were read from the pipe cannot be put back, so the call waits
// until they have room, also on a socket that does not block.
ssize_t splice_to(description& d, int fd, int pipe, std::size_t size, unsigned flags)
{
  const bool waits = (flags & SPLICE_F_NONBLOCK) == 0;
  const bool blocks = waits && !d.connection->non_blocking;
  if (!blocks && (d.connection->events() & POLLOUT) == 0)
    return fail(EAGAIN);
  pollfd readable{.fd = pipe, .events = POLLIN, .revents = 0};
  if (!waits && original::poll(&readable, 1, 0) == 0)
    return fail(EAGAIN);
  const std::size_t most = std::min(size, chunk_size);
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(most);
  const ssize_t got = original::read(pipe, buffer.get(), most);
  if (got <= 0)
    return got;
  std::size_t done = 0;
  while (done != static_cast<std::size_t>(got))
  {
    const iovec part{
      .iov_base = buffer.get() + done, .iov_len = static_cast<std::size_t>(got) - done};
    const ssize_t sent = send(d, fd, {&part, 1}, 0);
    if (sent >= 0)
      done += static_cast<std::size_t>(sent);
    else if (errno == EAGAIN || errno == EINTR)
    {
      pollfd room{.fd = fd, .events = POLLOUT, .revents = 0};
      poll_all(&room, 1, std::nullopt, nullptr);
    }
    else
      return done != 0 ? static_cast<ssize_t>(done) : -1;
  }
  return got;
}

} // namespace

BOOST_RDMA_SOCKETS_EXPORT(ssize_t, sendfile, (int fd, int file, off_t* offset, std::size_t count))
{
  const auto sent = send_file_taken(fd, file, offset, count);
  return sent ? *sent : original::sendfile(fd, file, offset, count);
}

BOOST_RDMA_SOCKETS_EXPORT(ssize_t, sendfile64, (int fd, int file, off_t* offset, std::size_t count))
{
  return sockets_sendfile(fd, file, offset, count);
}

BOOST_RDMA_SOCKETS_EXPORT(ssize_t, splice,
  (int from, off_t* from_offset, int to, off_t* to_offset, std::size_t size, unsigned flags))
{
  if (!is_internal() && (table::has(from) || table::has(to)) && size != 0)
  {
    const internal_call here;
    std::shared_ptr<description> d;
    if (const auto result =
          take_for_reading(from, (flags & SPLICE_F_NONBLOCK) != 0 ? MSG_DONTWAIT : 0, d))
      return *result;
    if (d)
      return from_offset != nullptr
        ? fail(ESPIPE)
        : guarded<ssize_t>([&] { return splice_from(*d, from, to, size, flags); });
    if (d = taken(to); d)
      return to_offset != nullptr
        ? fail(ESPIPE)
        : guarded<ssize_t>([&] { return splice_to(*d, to, from, size, flags); });
  }
  return original::splice(from, from_offset, to, to_offset, size, flags);
}

// --- stdio, which calls functions inside the C library ---

namespace {

// The cookie is the descriptor.
int descriptor_of(void* cookie) noexcept
{
  return static_cast<int>(reinterpret_cast<std::intptr_t>(cookie));
}

ssize_t read_stream(void* cookie, char* to, std::size_t size)
{
  return sockets_read(descriptor_of(cookie), to, size);
}

// fopencookie(3): 0 is an error.
ssize_t write_stream(void* cookie, const char* from, std::size_t size)
{
  return std::max<ssize_t>(sockets_write(descriptor_of(cookie), from, size), 0);
}

int close_stream(void* cookie)
{
  return ::close(descriptor_of(cookie));
}

int print(int fd, const char* format, va_list list)
{
  char* text = nullptr;
  const int size = ::vasprintf(&text, format, list);
  if (size == -1)
    return -1;
  const std::unique_ptr<char, decltype(&std::free)> owner(text, &std::free);
  for (int done = 0; done != size;)
  {
    const ssize_t sent = sockets_write(fd, text + done, static_cast<std::size_t>(size - done));
    if (sent == -1)
      return -1;
    done += static_cast<int>(sent);
  }
  return size;
}

} // namespace

BOOST_RDMA_SOCKETS_EXPORT(std::FILE*, fdopen, (int fd, const char* mode))
{
  const std::shared_ptr<description> d = is_internal() ? nullptr : table::find(fd);
  if (!d || !d->connection)
    return original::fdopen(fd, mode);
  const cookie_io_functions_t functions{
    .read = &read_stream, .write = &write_stream, .seek = nullptr, .close = &close_stream};
  std::FILE* const stream =
    ::fopencookie(reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)), mode, functions);
  if (stream != nullptr)
    stream->_fileno = fd; // for fileno(3)
  return stream;
}

BOOST_RDMA_SOCKETS_EXPORT(int, vdprintf, (int fd, const char* format, va_list list))
{
  return !is_internal() && table::has(fd) ? print(fd, format, list)
                                          : original::vdprintf(fd, format, list);
}

BOOST_RDMA_SOCKETS_EXPORT(int, __vdprintf_chk, (int fd, int flag, const char* format, va_list list))
{
  return !is_internal() && table::has(fd) ? print(fd, format, list)
                                          : original::__vdprintf_chk(fd, flag, format, list);
}

BOOST_RDMA_SOCKETS_EXPORT(int, dprintf, (int fd, const char* format, ...))
{
  va_list list;
  va_start(list, format);
  const int size = sockets_vdprintf(fd, format, list);
  va_end(list);
  return size;
}

BOOST_RDMA_SOCKETS_EXPORT(int, __dprintf_chk, (int fd, int flag, const char* format, ...))
{
  va_list list;
  va_start(list, format);
  const int size = sockets___vdprintf_chk(fd, flag, format, list);
  va_end(list);
  return size;
}

} // namespace rdma::sockets

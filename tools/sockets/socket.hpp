//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_SOCKETS_SOCKET_HPP
#define BOOST_RDMA_TOOLS_SOCKETS_SOCKET_HPP

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

namespace rdma::sockets {

class listener;

/// Hears of changes of a socket.
class watcher
{
public:
  /// The socket's state() or events() may have changed. Called by any thread, with a mutex of the
  /// socket held: it must not call the socket.
  virtual void changed() noexcept = 0;

protected:
  ~watcher() = default;
};

/// A connected TCP socket of the program, which goes by RDMA if both ends agree.
/**
 * It does not own the program's descriptor, which remains a TCP socket of the kernel. Functions
 * never wait; any thread may call them. Those that fail set errno.
 */
class socket
{
public:
  enum class state
  {
    undecided, ///< The kernel has it. The first use decides, in the process of that use.
    deciding,  ///< In the background. Sent bytes are kept here.
    kernel,    ///< It goes on over TCP: every call belongs to the kernel. Final.
    rdma,      ///< Final.
    ended,     ///< No bytes go either way, after an error or in a child of fork(). Final.
  };

  /// For connect(2), before the system call: asks the server. Returns null if the rules say no.
  static std::shared_ptr<socket> connecting(
    int fd, const sockaddr* server, socklen_t size) noexcept;

  /// For accept(2). Returns null if the rules say no, or the listener accepts TCP only.
  static std::shared_ptr<socket> accepted(
    const sockaddr* client, socklen_t size, listener& from) noexcept;

  /// For a connection that another program has accepted, as inetd does. Returns null likewise.
  static std::shared_ptr<socket> inherited(int fd) noexcept;

  virtual ~socket() = default;

  [[nodiscard]] virtual state current() const noexcept = 0;

  /// The program uses the socket: begins to decide if that has not begun. Returns current().
  /** fd is one of the program's descriptors of it. The result is `undecided` if the first bytes of
      the client will decide: the program must not read them before another call. */
  virtual state use(int fd) noexcept = 0;

  // --- while it is deciding, rdma or ended ---

  /// Returns the number of bytes; 0 at the end of the peer's bytes. EAGAIN: there are none yet.
  /** flags: MSG_PEEK; all others are the caller's business. */
  virtual ssize_t receive(std::span<const iovec> to, int flags) noexcept = 0;

  /// Returns the number of bytes that were taken, copied or sent. EAGAIN: there is no room.
  /** EPIPE without a signal. */
  virtual ssize_t send(std::span<const iovec> from) noexcept = 0;

  /// Returns what poll(2) reports: POLLIN, POLLOUT, POLLRDHUP, POLLHUP, POLLERR.
  [[nodiscard]] virtual short events() const noexcept = 0;

  /// FIONREAD.
  [[nodiscard]] virtual int unread() const noexcept = 0;

  /// SIOCOUTQ.
  [[nodiscard]] virtual int unsent() const noexcept = 0;

  /// SO_ERROR: returns the error and clears it.
  virtual int take_error() noexcept = 0;

  /// SHUT_RD, SHUT_WR or SHUT_RDWR. Returns 0 or -1.
  virtual int shut_down(int how) noexcept = 0;

  // --- always ---

  /// The program has closed its last descriptor. Bytes that were sent, and the end, still leave.
  /** resets: SO_LINGER with 0 seconds. */
  virtual void close(bool resets) noexcept = 0;

  /// Both lock the mutex of changed().
  virtual void watch(watcher& by) noexcept = 0;
  virtual void unwatch(watcher& by) noexcept = 0;

  /// In a child of fork(2), in which no other thread exists.
  virtual void after_fork() noexcept = 0;

  /// For reports: "rdma" and the wire, "tcp" and the reason, or "none" if it has carried no bytes.
  [[nodiscard]] virtual std::string describe() const = 0;

  /// Changes non_blocking: the program's call is before or after the end of a decision.
  virtual void set_non_blocking(bool to) noexcept = 0;

  /// The program's O_NONBLOCK. The kernel's flag differs while the library uses the descriptor.
  std::atomic<bool> non_blocking{false};
};

/// A listening TCP socket whose clients may go by RDMA.
class listener
{
public:
  /// For listen(2). Returns null if the rules say no, UDP is not possible, or the socket has no
  /// port yet.
  static std::shared_ptr<listener> open(int fd) noexcept;

  virtual ~listener() = default;

  /// The program accepts or waits for clients: this process answers their questions from now on,
  /// also a child that has inherited it.
  virtual void use() noexcept = 0;

  /// Leaves the UDP port to the program.
  virtual void close() noexcept = 0;
};

/// Leaves this UDP port to the program: for bind(2) of a datagram socket.
void yield_udp_port(const sockaddr* address, socklen_t size) noexcept;

} // namespace rdma::sockets

#endif // BOOST_RDMA_TOOLS_SOCKETS_SOCKET_HPP

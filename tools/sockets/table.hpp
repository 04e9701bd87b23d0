//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_SOCKETS_TABLE_HPP
#define BOOST_RDMA_TOOLS_SOCKETS_TABLE_HPP

#include "sockets/socket.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <sys/socket.h>

namespace rdma::sockets {

class epoll_set;

/// An open file description (open(2)), which descriptors made by dup(2) share.
struct description
{
  /// One of these is set.
  std::shared_ptr<socket> connection;
  std::shared_ptr<listener> listening;
  std::shared_ptr<epoll_set> polled;

  /// SO_RCVTIMEO or SO_SNDTIMEO is set: a call that waits asks the kernel for it.
  std::atomic<bool> has_timeouts{false};

  /// Counts the sends that found no room: the next POLLOUT is an edge.
  std::atomic<unsigned> times_full{0};

  /// The state that the program's descriptors and the reports reflect.
  std::atomic<socket::state> noted{socket::state::undecided};

  /// For reports. The peer's address cannot be asked for after a reset.
  sockaddr_storage peer{};
  int number = -1;             ///< The descriptor when it was entered.
  std::atomic<int> used_by{0}; ///< The process that decided.
  std::atomic<int> slot{-1};   ///< In the listing of this process.

  // With the table's mutex:
  std::vector<int> descriptors;
  std::vector<std::weak_ptr<description>> sets; ///< epoll sets that have, or had, it
};

/// The program's descriptors of which the library knows.
/** Any thread may call these functions. A child of vfork(2) shares this memory but not the
    descriptors, so it changes nothing. */
namespace table {

constexpr unsigned block_size = 1024;
constexpr unsigned blocks_max = 1024;

enum class kind : std::uint8_t
{
  none,
  ours,
  direct, ///< a connection of the kernel: only its close is of interest
};

struct entry
{
  std::atomic<kind> is{kind::none};
  std::atomic_flag locked;    // protects `holds`
  bool close_on_exec = false; // the program's flag, while the kernel's is always set
  std::shared_ptr<description> holds;
};

using block = std::array<entry, block_size>;
extern std::array<std::atomic<block*>, blocks_max> blocks;

/// Returns null for a descriptor that is not known.
inline entry* look_up(int fd) noexcept
{
  const auto number = static_cast<unsigned>(fd);
  if (number >= block_size * blocks_max)
    return nullptr;
  // Acquire: the block is initialized by another thread.
  block* const found = blocks[number / block_size].load(std::memory_order_acquire);
  if (found == nullptr)
    return nullptr;
  entry& e = (*found)[number % block_size];
  return e.is.load(std::memory_order_relaxed) == kind::none ? nullptr : &e;
}

/// Returns true if calls with this descriptor are the library's business.
inline bool has(int fd) noexcept
{
  const entry* const e = look_up(fd);
  return e != nullptr && e->is.load(std::memory_order_relaxed) == kind::ours;
}

/// Returns null if !has(fd).
std::shared_ptr<description> find(int fd) noexcept;

/// As find(), but also connections of the kernel.
std::shared_ptr<description> find_any(int fd) noexcept;

/// The descriptor, and all its duplicates, belong to this description from now on. May throw
/// std::bad_alloc.
void enter(int fd, const std::shared_ptr<description>& to, kind is);

/// Returns a descriptor of the program; -1 if it has closed all.
int descriptor_of(const description& d) noexcept;

/// Remembers an epoll set that has the descriptor.
void add_set(description& d, std::weak_ptr<description> set);

/// After dup(2). May throw std::bad_alloc.
void share(int from, int to, bool close_on_exec);

/// Before the system call that closes the descriptor.
void close(int fd) noexcept;

/// Before close_range(2): all descriptors from first to last.
void close(unsigned first, unsigned last) noexcept;

/// fcntl(2) with F_GETFD and F_SETFD.
bool close_on_exec(int fd) noexcept;
void set_close_on_exec(int fd, bool to) noexcept;

/// True if there are connections in the table.
bool has_connections() noexcept;

/// All descriptions, for reports.
std::vector<std::shared_ptr<description>> all();

/// The kernel's flag FD_CLOEXEC is set, so that a program that is executed does not find a TCP
/// socket without bytes.
void hide(description& d) noexcept;

/// The connection is the kernel's: its descriptors are direct.
void release(description& d) noexcept;

/// True in a child of vfork(2).
bool is_borrowed() noexcept;

/// Changes in a child of fork(2).
unsigned generation() noexcept;

} // namespace table

/// The program uses the connection. Returns true if the library has its bytes; false if the call
/// belongs to the kernel.
bool takes(description& d, int fd) noexcept;

} // namespace rdma::sockets

#endif // BOOST_RDMA_TOOLS_SOCKETS_TABLE_HPP

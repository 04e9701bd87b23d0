//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_SOCKETS_LISTING_HPP
#define BOOST_RDMA_TOOLS_SOCKETS_LISTING_HPP

#include <string_view>

/// The connections of this process, for rdma_sockets --list.
/**
 * Each process has a file /dev/shm/boost_rdma_sockets.UID/PID.START, where START is its start time
 * in clock ticks (proc_pid_stat(5)). It contains lines of line_size bytes, with spaces at the end;
 * empty ones contain spaces or zeros only. The directory belongs to the user alone.
 */
namespace rdma::sockets::listing {

constexpr unsigned line_size = 256;

/// Shows a line, in this slot or in a new one (-1). Returns the slot; -1 if there is none.
int show(int slot, std::string_view line);

void remove(int slot) noexcept;

/// Removes the file.
void end() noexcept;

/// In the child: the file is the parent's.
void after_fork() noexcept;

} // namespace rdma::sockets::listing

#endif // BOOST_RDMA_TOOLS_SOCKETS_LISTING_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_SOCKETS_PROGRESS_HPP
#define BOOST_RDMA_TOOLS_SOCKETS_PROGRESS_HPP

#include <chrono>
#include <span>

namespace rdma::sockets::progress {

// Completions are found by the threads of the program: while they wait for a socket, they poll. All
// functions may be called by any thread. They do nothing in a process without RDMA.

/// Takes completions, which may change sockets. Returns true if there were some.
bool poll() noexcept;

/// How long a thread polls before it sleeps.
constexpr std::chrono::microseconds spin_time{50};

/// Call before sleeping. Returns false if there may be completions: poll() again, and look at the
/// sockets.
bool arm() noexcept;

/// Descriptors to sleep on, after arm(): one of them becomes readable when poll() may find
/// something. The list never changes once it is not empty.
std::span<const int> descriptors() noexcept;

/// Call after arm() has returned true, when the thread does not sleep any more, or will not.
void woken() noexcept;

/// Before the process ends: waits until bytes of closed sockets have left, for a limited time.
void finish() noexcept;

} // namespace rdma::sockets::progress

#endif // BOOST_RDMA_TOOLS_SOCKETS_PROGRESS_HPP

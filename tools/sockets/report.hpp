//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_SOCKETS_REPORT_HPP
#define BOOST_RDMA_TOOLS_SOCKETS_REPORT_HPP

namespace rdma::sockets {

struct description;

/// Reports the connections of a process to users: a line for each that ends, and a listing of those
/// that exist.
namespace report {

/// The state of a connection, which this process uses, has changed.
void changed(description& d) noexcept;

/// The program closes the last descriptor of a connection; `fd` is it.
void closing(description& d, int fd) noexcept;

/// The process ends. Later calls do nothing.
void finish() noexcept;

/// In the child: the listing is the parent's.
void after_fork() noexcept;

} // namespace report
} // namespace rdma::sockets

#endif // BOOST_RDMA_TOOLS_SOCKETS_REPORT_HPP

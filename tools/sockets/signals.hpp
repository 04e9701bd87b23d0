//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_SOCKETS_SIGNALS_HPP
#define BOOST_RDMA_TOOLS_SOCKETS_SIGNALS_HPP

#include <signal.h>

namespace rdma::sockets {

/// The program's signal handlers.
struct signal_handlers
{
  sigset_t restarting{}; ///< signals whose handlers have SA_RESTART
  bool has_restarting = false;
  bool has_interrupting = false; ///< there are handlers without SA_RESTART
};

/// Cheap unless the program has changed a handler since this thread's last call.
const signal_handlers& handlers_of_program() noexcept;

} // namespace rdma::sockets

#endif // BOOST_RDMA_TOOLS_SOCKETS_SIGNALS_HPP

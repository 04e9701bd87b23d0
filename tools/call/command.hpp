//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_CALL_COMMAND_HPP
#define BOOST_RDMA_TOOLS_CALL_COMMAND_HPP

#include <chrono>
#include <iosfwd>
#include <string>

namespace call {

/// The command line of rdma_call.
struct command
{
  std::string server;         ///< HOST:PORT, or [ADDRESS]:PORT
  std::string method;         ///< empty: list the methods
  std::string request;        ///< JSON; empty: null
  std::string request_layout; ///< see layout; empty: none
  std::string reply_layout;   ///< see layout; empty: none
  std::string device;         ///< see rdma::context_options::device
  bool tcp = false;           ///< use TCP only
  std::chrono::duration<double> timeout{10};
};

/// Calls the method, and prints its reply as JSON, or prints the list of methods.
/** Throws usage_error, and other exceptions if the call fails. */
void run(const command& what, std::ostream& to);

} // namespace call

#endif // BOOST_RDMA_TOOLS_CALL_COMMAND_HPP

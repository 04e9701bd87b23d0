//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_SOCKETS_SETTINGS_HPP
#define BOOST_RDMA_TOOLS_SOCKETS_SETTINGS_HPP

#include <string>

namespace rdma::sockets {

/// Read when the library is loaded: nginx replaces its environment, and programs that show their
/// state in ps(1) overwrite its text and their name.
struct settings
{
  std::string report;  ///< BOOST_RDMA_SOCKETS_REPORT: a file, or "-" for standard error
  std::string rules;   ///< BOOST_RDMA_SOCKETS_RULES: a file
  std::string program; ///< the name of the program's file
};

const settings& the_settings();

} // namespace rdma::sockets

#endif // BOOST_RDMA_TOOLS_SOCKETS_SETTINGS_HPP

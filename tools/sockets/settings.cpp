//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "sockets/settings.hpp"

#include <cerrno>
#include <cstdlib>

namespace rdma::sockets {
namespace {

std::string variable(const char* name)
{
  const char* const value = ::secure_getenv(name);
  return value != nullptr ? value : "";
}

[[gnu::constructor]] void read_settings()
{
  the_settings();
}

} // namespace

const settings& the_settings()
{
  // Never destroyed: destructors of the program may connect.
  static const settings& all = *new settings{.report = variable("BOOST_RDMA_SOCKETS_REPORT"),
    .rules = variable("BOOST_RDMA_SOCKETS_RULES"),
    .program = ::program_invocation_short_name};
  return all;
}

} // namespace rdma::sockets

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_CONNECT_OPTIONS_HPP
#define BOOST_RDMA_CONNECT_OPTIONS_HPP

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace rdma {

/// Content of the HTTP request with which a client asks a server for an RDMA connection.
struct connect_options
{
  /// Maximum number of bytes of program data in each direction.
  static constexpr std::size_t data_size_max = 1024;

  /// The request's target, for servers with more than one.
  std::string target = "/rdma";

  /// The Host field; empty means the address and port that are connected to.
  std::string host;

  /// Additional fields of the HTTP request, for instance {"Authorization", "Bearer ..."}. The
  /// server's authorise function receives them.
  std::vector<std::pair<std::string, std::string>> fields;

  /// Data for the server's program: any bytes, at most data_size_max.
  std::string data;
};

} // namespace rdma

#endif // BOOST_RDMA_CONNECT_OPTIONS_HPP

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

/// What a client says to the server that it connects to, in the HTTP request that asks for RDMA.
struct connect_options
{
  /// Bytes of data that go along each way.
  static constexpr std::size_t data_size_max = 1024;

  /// The request's target, for servers that have more than one.
  std::string target = "/rdma";

  /// The field Host; empty for the address and port that are connected to.
  std::string host;

  /// Further fields of the HTTP request, for instance {"Authorization", "Bearer ..."}, which the
  /// server's authorisation sees.
  std::vector<std::pair<std::string, std::string>> fields;

  /// For the server's program: any bytes, at most data_size_max.
  std::string data;
};

} // namespace rdma

#endif // BOOST_RDMA_CONNECT_OPTIONS_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_FUZZING_COMMON_REQUIRE_BOUNDS_HPP
#define BOOST_RDMA_TEST_FUZZING_COMMON_REQUIRE_BOUNDS_HPP

#include "boost_rdma/connect_options.hpp"
#include "connect/handshake_parameters.hpp"
#include "fuzzing/common/require.hpp"

#include <boost/beast/http/fields.hpp>

namespace test {

/// Checks that the handshake parameters of a peer are bounded and survive writing and reading.
inline void require_bounds(const rdma::detail::handshake_parameters& peer)
{
  using rdma::detail::handshake_parameters;
  require(peer.endpoints.size() <= handshake_parameters::endpoints_max, "endpoints are bounded");
  require(peer.declined.size() <= handshake_parameters::declined_max, "reasons are bounded");
  require(peer.data.size() <= rdma::connect_options::data_size_max, "data is bounded");
  require(peer.heartbeat_limit == rdma::detail::bounded_heartbeat_limit(peer.heartbeat_limit),
    "limits are bounded");
  boost::beast::http::fields fields;
  write_handshake_parameters(peer, fields);
  rdma::error_code ec;
  handshake_parameters again = rdma::detail::read_handshake_parameters(fields, ec);
  require(!ec && again.endpoints == peer.endpoints && again.data == peer.data
      && again.declined.size() == peer.declined.size(),
    "handshake parameters survive writing and reading");
}

} // namespace test

#endif // BOOST_RDMA_TEST_FUZZING_COMMON_REQUIRE_BOUNDS_HPP

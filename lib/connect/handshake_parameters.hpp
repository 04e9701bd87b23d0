//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_HANDSHAKE_PARAMETERS_HPP
#define BOOST_RDMA_LIB_CONNECT_HANDSHAKE_PARAMETERS_HPP

#include "boost_rdma/endpoint_description.hpp"
#include "boost_rdma/error.hpp"
#include "boost_rdma/transport_choice.hpp"

#include <boost/beast/http/fields.hpp>

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rdma::detail {

// What a side says of itself in the request or the answer that introduces it
// (doc/upgrade_protocol.md).
struct handshake_parameters
{
  // A wire of each kind, and the software device.
  static constexpr std::size_t endpoints_max = 4;
  static constexpr std::size_t declined_max = 8;
  static constexpr std::size_t declined_size_max = 240;

  std::vector<endpoint_description>
    endpoints;             // ways to its queue pair, the best first; of a server the chosen one
  bool falls_back = false; // its queue pair can go on on the software device
  bool software_next =
    false; // of a server: none of the client's endpoints will do, let both do so at once
  std::chrono::milliseconds heartbeat_limit{0}; // how long it endures silence; 0 is for ever
  std::vector<declined_transport>
    declined;       // what it would have preferred, and why that was not possible
  std::string data; // its program's

  friend bool operator==(const handshake_parameters&, const handshake_parameters&) = default;
};

void write_handshake_parameters(
  const handshake_parameters& self, boost::beast::http::fields& fields);

// error::malformed_description when anything is missing, repeated, too long or out of range.
handshake_parameters read_handshake_parameters(
  const boost::beast::http::fields& fields, error_code& ec);

// handshake_parameters::data alone; likewise.
std::string read_program_data(const boost::beast::http::fields& fields, error_code& ec);

// Heartbeat limits as they are agreed on: 0, or within 100 ms and an hour.
std::chrono::milliseconds bounded_heartbeat_limit(std::chrono::milliseconds limit) noexcept;

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_CONNECT_HANDSHAKE_PARAMETERS_HPP

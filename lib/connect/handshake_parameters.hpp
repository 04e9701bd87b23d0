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

// The parameters of one side in the request or the answer (doc/upgrade_protocol.md).
struct handshake_parameters
{
  // A wire of each kind, and the software device.
  static constexpr std::size_t endpoints_max = 4;
  static constexpr std::size_t declined_max = 8;
  static constexpr std::size_t declined_size_max = 240;

  std::vector<endpoint_description> endpoints; // best first; of a server the selected one
  bool falls_back = false;                     // its queue pair can use the software device
  bool software_next = false;                  // server: both sides must move to that device
  bool confirms = true; // the path; client: false permits the server to choose false
  std::chrono::milliseconds heartbeat_limit{0}; // of silence; 0 is unlimited
  std::vector<declined_transport> declined;     // better transports, and why they are not used
  std::string data;                             // of its program

  friend bool operator==(const handshake_parameters&, const handshake_parameters&) = default;
};

void write_handshake_parameters(
  const handshake_parameters& self, boost::beast::http::fields& fields);

// Sets error::malformed_description if a field is missing, repeated, too long or out of range.
handshake_parameters read_handshake_parameters(
  const boost::beast::http::fields& fields, error_code& ec);

// Reads handshake_parameters::data only.
std::string read_program_data(const boost::beast::http::fields& fields, error_code& ec);

// Returns 0 for 0, otherwise the limit clamped to 100 ms to 1 hour.
std::chrono::milliseconds bounded_heartbeat_limit(std::chrono::milliseconds limit) noexcept;

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_CONNECT_HANDSHAKE_PARAMETERS_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_UPGRADE_HPP
#define BOOST_RDMA_LIB_CONNECT_UPGRADE_HPP

#include "boost_rdma/connect_options.hpp"
#include "boost_rdma/error.hpp"
#include "connect/handshake_parameters.hpp"

#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include <cstddef>
#include <sstream>
#include <string>
#include <string_view>

// The bootstrap's request and answers, without I/O (doc/upgrade_protocol.md).

namespace rdma::detail {

constexpr std::string_view upgrade_protocol = "boost-rdma/1";
constexpr std::string_view upgrade_target = "/rdma"; // default of an acceptor
constexpr std::size_t upgrade_header_size_max = 8 * 1024;

using upgrade_request = boost::beast::http::request<boost::beast::http::empty_body>;
using upgrade_response = boost::beast::http::response<boost::beast::http::empty_body>;
using upgrade_refusal = boost::beast::http::response<boost::beast::http::string_body>;

// Makes it an error that a header which was read has more bytes than upgrade_header_size_max.
// Beast's own limit holds for the start line and the fields each, or for both together, depending
// on how they arrive.
void limit_header(std::size_t size, error_code& ec);

// Returns the client's request. Sets invalid_argument for options that are too long or would make
// the request malformed.
upgrade_request make_upgrade_request(std::string_view host, const connect_options& options,
  const handshake_parameters& client, error_code& ec);

// The server's decision about a request.
struct upgrade_verdict
{
  boost::beast::http::status status = boost::beast::http::status::switching_protocols;
  std::string reason; // of another status
  handshake_parameters client;

  [[nodiscard]] bool accepted() const noexcept
  {
    return status == boost::beast::http::status::switching_protocols;
  }
};

// An empty target accepts every target: the program has checked it.
upgrade_verdict judge_upgrade(
  const boost::beast::http::request_header<>& request, std::string_view target);

// Returns the status that answers a malformed request.
boost::beast::http::status status_of_unreadable(const error_code& ec);

upgrade_response make_upgrade_response(const handshake_parameters& server);
upgrade_refusal make_upgrade_refusal(boost::beast::http::status status, std::string_view reason);

// Returns the bytes to send.
template <class Message>
std::string text_of(const Message& message)
{
  std::ostringstream out;
  out << message;
  return std::move(out).str();
}

// Returns the server's parameters, or sets the error that the answer means.
handshake_parameters judge_answer(
  const boost::beast::http::response_header<>& answer, error_code& ec);

// Returns the server's reason for a refusal without changes: show it by untrusted().
std::string_view refusal_reason(const boost::beast::http::response_header<>& answer);

// Returns the error of a handshake whose message could not be read.
error_code error_of_unreadable(const error_code& ec);

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_CONNECT_UPGRADE_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_UPGRADE_HPP
#define BOOST_RDMA_LIB_CONNECT_UPGRADE_HPP

#include "boost_rdma/endpoint_description.hpp"
#include "boost_rdma/error.hpp"

#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/string_body.hpp>

#include <cstddef>
#include <string>
#include <string_view>

// The bootstrap's request and answers, without I/O (doc/upgrade_protocol.md).

namespace rdma::detail {

constexpr std::string_view upgrade_protocol = "boost-rdma/1";
constexpr std::string_view upgrade_target = "/rdma";
constexpr std::size_t upgrade_header_size_max = 8 * 1024;

using upgrade_request = boost::beast::http::request<boost::beast::http::empty_body>;
using upgrade_response = boost::beast::http::response<boost::beast::http::empty_body>;
using upgrade_refusal = boost::beast::http::response<boost::beast::http::string_body>;

// The client's request.
upgrade_request make_upgrade_request(std::string_view host, const endpoint_description& local);

// What the server thinks of a request.
struct upgrade_verdict
{
  boost::beast::http::status status = boost::beast::http::status::switching_protocols;
  std::string reason; // when it is another status
  endpoint_description peer;

  [[nodiscard]] bool accepted() const noexcept
  {
    return status == boost::beast::http::status::switching_protocols;
  }
};
upgrade_verdict judge_upgrade(const boost::beast::http::request_header<>& request);

// The status that answers a request which could not be read.
boost::beast::http::status status_of_unreadable(const error_code& ec);

upgrade_response make_upgrade_response(const endpoint_description& local);
upgrade_refusal make_upgrade_refusal(boost::beast::http::status status, std::string_view reason);

// What the client thinks of the answer: the server's endpoint, or an error.
endpoint_description judge_answer(
  const boost::beast::http::response_header<>& answer, error_code& ec);

// The server's reason for refusing, as it wrote it: show it through untrusted().
std::string_view refusal_reason(const boost::beast::http::response_header<>& answer);

// What became of the client when reading the answer failed.
error_code error_of_unreadable(const error_code& ec);

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_CONNECT_UPGRADE_HPP

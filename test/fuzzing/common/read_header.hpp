//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_FUZZING_COMMON_READ_HEADER_HPP
#define BOOST_RDMA_TEST_FUZZING_COMMON_READ_HEADER_HPP

#include "connect/upgrade.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace test {

// Delivers bytes as a socket does: at most a fixed number at a time, then the end of the stream.
class byte_stream
{
public:
  byte_stream(std::span<const std::uint8_t> bytes, std::size_t fragment) noexcept
    : bytes_(bytes)
    , fragment_(fragment)
  {
  }

  template <class Buffers>
  std::size_t read_some(const Buffers& buffers, rdma::error_code& ec)
  {
    namespace asio = boost::asio;
    const std::size_t count =
      asio::buffer_copy(buffers, asio::buffer(bytes_.data(), bytes_.size()), fragment_);
    bytes_ = bytes_.subspan(count);
    ec = {};
    if (count == 0)
      ec = asio::error::eof;
    return count;
  }

  template <class Buffers>
  std::size_t read_some(const Buffers& buffers) // required by Beast's SyncReadStream concept
  {
    rdma::error_code ec;
    const std::size_t count = read_some(buffers, ec);
    return ec ? throw rdma::system_error(ec) : count;
  }

private:
  std::span<const std::uint8_t> bytes_;
  std::size_t fragment_;
};

// Reads a header as lib/connect/handshake.cpp and connect.cpp do, within their limits.
template <bool is_request>
rdma::error_code read_header(std::span<const std::uint8_t> bytes, std::size_t fragment,
  boost::beast::http::parser<is_request, boost::beast::http::empty_body>& parser)
{
  byte_stream stream(bytes, fragment);
  boost::beast::flat_buffer buffer;
  parser.header_limit(rdma::detail::upgrade_header_size_max);
  buffer.max_size(2 * rdma::detail::upgrade_header_size_max);
  rdma::error_code ec;
  rdma::detail::limit_header(boost::beast::http::read_header(stream, buffer, parser, ec), ec);
  return ec;
}

// Sizes of fragments: as much as Beast requests, and small ones.
constexpr std::size_t whole = static_cast<std::size_t>(-1);
constexpr std::size_t small_fragments = 7;

} // namespace test

#endif // BOOST_RDMA_TEST_FUZZING_COMMON_READ_HEADER_HPP

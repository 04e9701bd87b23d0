//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/log.hpp"

#include <cstddef>

namespace rdma::detail {

std::string untrusted(std::string_view text, std::size_t size_max)
{
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text.substr(0, size_max))
  {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && c != '"' && c != '\\')
      out += c;
    else
      out.append("\\x").append(1, digits[byte >> 4]).append(1, digits[byte & 15]);
  }
  out += text.size() > size_max ? "\"..." : "\"";
  return out;
}

std::string text_of(const boost::asio::ip::tcp::endpoint& endpoint)
{
  const std::string address = endpoint.address().to_string();
  return (endpoint.address().is_v6() ? '[' + address + ']' : address) + ':'
    + std::to_string(endpoint.port());
}

} // namespace rdma::detail

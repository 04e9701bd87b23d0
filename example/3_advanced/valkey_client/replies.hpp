//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Valkey's text protocol (https://valkey.io/topics/protocol/): requests, and replies that are not
// arrays.

#ifndef BOOST_RDMA_EXAMPLE_VALKEY_CLIENT_REPLIES_HPP
#define BOOST_RDMA_EXAMPLE_VALKEY_CLIENT_REPLIES_HPP

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace valkey {

/// Returns the request with these words, for instance {"GET", "key"}.
inline std::string make_request(const std::vector<std::string>& words)
{
  std::string request = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string& word : words)
    request += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  return request;
}

/// Returns the size of the first reply in `text`, or 0 if it is incomplete.
/** Throws if it reports an error or is malformed. */
inline std::size_t reply_size(std::string_view text)
{
  constexpr std::size_t line_max = 64 * 1024;
  constexpr std::int64_t value_max = 512 * 1024 * 1024;
  const std::size_t line = text.substr(0, line_max).find("\r\n");
  if (line == std::string_view::npos && text.size() < line_max)
    return 0;
  const auto malformed = [] { return std::runtime_error("the server's reply is malformed"); };
  if (line == std::string_view::npos)
    throw malformed();
  switch (text.front())
  {
  case '+':
  case ':':
    return line + 2;
  case '-':
    throw std::runtime_error("the server replied: " + std::string(text.substr(1, line - 1)));
  case '$': // a length, a line end, as many bytes, a line end; -1 without bytes: no value
  {
    std::int64_t length = 0;
    const auto [end, error] = std::from_chars(text.data() + 1, text.data() + line, length);
    if (error != std::errc() || end != text.data() + line || length < -1 || length > value_max)
      throw malformed();
    if (length == -1)
      return line + 2;
    const std::size_t size = line + 2 + static_cast<std::size_t>(length) + 2;
    if (text.size() < size)
      return 0;
    if (text.substr(size - 2, 2) != "\r\n")
      throw malformed();
    return size;
  }
  default:
    throw std::runtime_error("this client does not support the type of the server's reply");
  }
}

} // namespace valkey

#endif // BOOST_RDMA_EXAMPLE_VALKEY_CLIENT_REPLIES_HPP

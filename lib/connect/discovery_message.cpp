//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/discovery_message.hpp"

#include <algorithm>

namespace rdma::detail {

namespace {

// No protocol of text, and not TLS, begins with these bytes. The last one is the version.
constexpr std::array<std::uint8_t, 16> beginning{
  0xb5, 'b', 'o', 'o', 's', 't', '_', 'r', 'd', 'm', 'a', '\r', '\n', 0x1a, '\n', 1};
constexpr std::size_t type_offset = 16;
constexpr std::size_t token_offset = 24; // the bytes between are 0

} // namespace

discovery_message::bytes_type discovery_message::encode() const noexcept
{
  bytes_type bytes{};
  std::transform(beginning.begin(), beginning.end(), bytes.begin(),
    [](std::uint8_t each) { return std::byte(each); });
  bytes[type_offset] = std::byte(type);
  std::copy(token.begin(), token.end(), bytes.begin() + token_offset);
  return bytes;
}

bool discovery_message::is_beginning(std::span<const std::byte> bytes) noexcept
{
  return std::equal(bytes.begin(),
    bytes.begin() + static_cast<std::ptrdiff_t>(std::min(bytes.size(), beginning.size())),
    beginning.begin(), [](std::byte a, std::uint8_t b) { return a == std::byte(b); });
}

std::optional<discovery_message> discovery_message::decode(
  std::span<const std::byte> bytes) noexcept
{
  if (bytes.size() != size)
    return std::nullopt;
  discovery_message m;
  m.type = static_cast<discovery_type>(bytes[type_offset]);
  std::copy(bytes.begin() + token_offset, bytes.end(), m.token.begin());
  // Also checks the bytes that are 0.
  const bytes_type expected = m.encode();
  const bool is_known = m.type == discovery_type::question || m.type == discovery_type::answer
    || m.type == discovery_type::preamble;
  return is_known && std::equal(bytes.begin(), bytes.end(), expected.begin()) ? std::optional(m)
                                                                              : std::nullopt;
}

} // namespace rdma::detail

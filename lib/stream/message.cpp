//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "stream/message.hpp"

#include <boost/endian/conversion.hpp>

#include <algorithm>

namespace rdma::detail {
namespace {

constexpr std::size_t at_version = 0;
constexpr std::size_t at_type = 1;
constexpr std::size_t at_flags = 2;
constexpr std::size_t at_zero = 3;
constexpr std::size_t at_received = 4;
constexpr std::size_t at_read = 8;
constexpr std::size_t at_count = 12;

constexpr unsigned odd_ring_flag = 1;

unsigned char* at(std::span<std::byte> bytes, std::size_t offset) noexcept
{
  return reinterpret_cast<unsigned char*>(&bytes[offset]);
}
const unsigned char* at(std::span<const std::byte> bytes, std::size_t offset) noexcept
{
  return reinterpret_cast<const unsigned char*>(&bytes[offset]);
}

// Returns true if the members that a type does not use are zero, and the others in range.
bool has_form(const stream_message& m, std::size_t size) noexcept
{
  using enum stream_message_type;
  switch (m.type)
  {
  case hello:
    return !m.odd_ring && m.count != 0 && m.ring.size() != 0 && size == m.size();
  case data:
    return m.count != 0 && size == m.size() + m.count;
  case written:
    return m.count != 0 && size == m.size();
  case ring:
    return m.count == 0 && m.ring.size() != 0 && size == m.size();
  case credit:
  case finish:
  case reset:
    return m.count == 0 && size == m.size();
  }
  return false;
}

} // namespace

void stream_message::encode(std::span<std::byte> to) const noexcept
{
  using namespace boost::endian;
  *at(to, at_version) = version;
  *at(to, at_type) = static_cast<std::uint8_t>(type);
  *at(to, at_flags) = odd_ring ? odd_ring_flag : 0;
  *at(to, at_zero) = 0;
  store_big_u32(at(to, at_received), received);
  store_big_u32(at(to, at_read), read);
  store_big_u32(at(to, at_count), count);
  if (has_ring())
    std::ranges::copy(ring.encode(), to.begin() + header_size);
}

std::optional<stream_message> stream_message::decode(std::span<const std::byte> bytes) noexcept
{
  using namespace boost::endian;
  if (bytes.size() < header_size || bytes.size() > size_max || *at(bytes, at_version) != version
    || *at(bytes, at_flags) > odd_ring_flag || *at(bytes, at_zero) != 0)
    return std::nullopt;
  stream_message result;
  result.type = static_cast<stream_message_type>(*at(bytes, at_type));
  result.odd_ring = *at(bytes, at_flags) != 0;
  result.received = load_big_u32(at(bytes, at_received));
  result.read = load_big_u32(at(bytes, at_read));
  result.count = load_big_u32(at(bytes, at_count));
  error_code ec;
  if (result.has_ring() && bytes.size() == result.size())
    result.ring = remote_buffer::decode(bytes.subspan(header_size), ec);
  if (ec || !has_form(result, bytes.size()))
    return std::nullopt;
  return result;
}

} // namespace rdma::detail

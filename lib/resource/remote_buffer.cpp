//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/remote_buffer.hpp"

#include <boost/endian/conversion.hpp>

namespace rdma {
namespace {

// Format: version (2) | rights (2) | NIC key (4) | software key (4) | zero (4) | address (8) | size
// (8)
constexpr std::uint16_t format_version = 1;

unsigned char* bytes_of(std::byte* p)
{
  return reinterpret_cast<unsigned char*>(p);
}
const unsigned char* bytes_of(const std::byte* p)
{
  return reinterpret_cast<const unsigned char*>(p);
}

} // namespace

remote_buffer::encoded remote_buffer::encode() const noexcept
{
  using namespace boost::endian;
  encoded out{};
  store_big_u16(bytes_of(&out[0]), format_version);
  store_big_u16(bytes_of(&out[2]), static_cast<std::uint16_t>(rights_));
  store_big_u32(bytes_of(&out[4]), keys_[detail::nic_index]);
  store_big_u32(bytes_of(&out[8]), keys_[detail::software_index]);
  store_big_u64(bytes_of(&out[16]), address_);
  store_big_u64(bytes_of(&out[24]), size_);
  return out;
}

remote_buffer remote_buffer::decode(std::span<const std::byte> in, error_code& ec) noexcept
{
  using namespace boost::endian;
  ec = error::malformed_description;
  if (in.size() != encoded_size || load_big_u16(bytes_of(&in[0])) != format_version)
    return {};
  const std::uint16_t rights = load_big_u16(bytes_of(&in[2]));
  if ((rights & ~static_cast<unsigned>(remote_access)) != 0 || load_big_u32(bytes_of(&in[12])) != 0)
    return {};
  const std::uint64_t address = load_big_u64(bytes_of(&in[16]));
  const std::uint64_t size = load_big_u64(bytes_of(&in[24]));
  if (size > UINT64_MAX - address)
    return {};
  ec = {};
  return {address, size, {load_big_u32(bytes_of(&in[4])), load_big_u32(bytes_of(&in[8]))},
    static_cast<access>(rights)};
}

remote_buffer remote_buffer::decode(std::span<const std::byte> in)
{
  return detail::or_throw("remote_buffer::decode", [&](error_code& ec) { return decode(in, ec); });
}

} // namespace rdma

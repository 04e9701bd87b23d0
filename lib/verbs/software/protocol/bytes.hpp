//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_PROTOCOL_BYTES_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_PROTOCOL_BYTES_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <endian.h>

namespace rdma::software::protocol {

/// Writes big-endian fields one after another. The caller ensures that there is room.
class byte_writer
{
public:
  explicit byte_writer(std::byte* to) noexcept
    : at_(to)
  {
  }

  /// One to eight bytes.
  [[gnu::always_inline]] void put(std::uint64_t value, unsigned bytes) noexcept
  {
    const std::uint64_t big = htobe64(value << (64 - 8 * bytes));
    std::memcpy(at_, &big, bytes);
    at_ += bytes;
  }

  std::byte* at() const noexcept { return at_; }

private:
  std::byte* at_;
};

/// Reads big-endian fields one after another. The caller has checked the length.
class byte_reader
{
public:
  explicit byte_reader(const std::byte* from) noexcept
    : at_(from)
  {
  }

  /// One to eight bytes.
  [[gnu::always_inline]] std::uint64_t get(unsigned bytes) noexcept
  {
    std::uint64_t big = 0;
    std::memcpy(&big, at_, bytes);
    at_ += bytes;
    return be64toh(big) >> (64 - 8 * bytes);
  }

  std::uint32_t get32(unsigned bytes = 4) noexcept
  {
    return static_cast<std::uint32_t>(get(bytes));
  }

private:
  const std::byte* at_;
};

} // namespace rdma::software::protocol

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_PROTOCOL_BYTES_HPP

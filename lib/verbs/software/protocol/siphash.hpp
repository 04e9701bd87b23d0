//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_PROTOCOL_SIPHASH_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_PROTOCOL_SIPHASH_HPP

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace rdma::software::protocol {

/// SipHash-2-4 with 128 bits of output (Aumasson, Bernstein: "SipHash: a fast short-input PRF").
/** A keyed hash: without the key its values can be neither computed nor predicted. */
class siphash
{
public:
  using bytes = std::array<std::byte, 16>;

  static bytes of(const bytes& key, std::span<const std::byte> message) noexcept
  {
    siphash s(word(std::span(key).first<8>()), word(std::span(key).last<8>()));
    const std::uint64_t size = message.size();
    for (; message.size() >= 8; message = message.subspan(8))
      s.take(word(message.first<8>()));
    std::uint64_t last = size << 56;
    for (std::size_t i = 0; i != message.size(); ++i)
      last |= std::to_integer<std::uint64_t>(message[i]) << (8 * i);
    s.take(last);
    bytes result{};
    s.v2_ ^= 0xee;
    s.put(std::span(result).first<8>());
    s.v1_ ^= 0xdd;
    s.put(std::span(result).last<8>());
    return result;
  }

private:
  siphash(std::uint64_t k0, std::uint64_t k1) noexcept
    : v0_(0x736f6d6570736575 ^ k0)
    , v1_(0x646f72616e646f6d ^ k1 ^ 0xee)
    , v2_(0x6c7967656e657261 ^ k0)
    , v3_(0x7465646279746573 ^ k1)
  {
  }

  static std::uint64_t word(std::span<const std::byte, 8> from) noexcept
  {
    std::uint64_t w = 0;
    for (std::size_t i = 0; i != 8; ++i)
      w |= std::to_integer<std::uint64_t>(from[i]) << (8 * i);
    return w;
  }

  void round() noexcept
  {
    v0_ += v1_;
    v1_ = std::rotl(v1_, 13) ^ v0_;
    v0_ = std::rotl(v0_, 32);
    v2_ += v3_;
    v3_ = std::rotl(v3_, 16) ^ v2_;
    v0_ += v3_;
    v3_ = std::rotl(v3_, 21) ^ v0_;
    v2_ += v1_;
    v1_ = std::rotl(v1_, 17) ^ v2_;
    v2_ = std::rotl(v2_, 32);
  }

  void take(std::uint64_t w) noexcept
  {
    v3_ ^= w;
    round();
    round();
    v0_ ^= w;
  }

  void put(std::span<std::byte, 8> to) noexcept
  {
    for (int i = 0; i != 4; ++i)
      round();
    const std::uint64_t w = v0_ ^ v1_ ^ v2_ ^ v3_;
    for (std::size_t i = 0; i != 8; ++i)
      to[i] = static_cast<std::byte>(w >> (8 * i));
  }

  std::uint64_t v0_;
  std::uint64_t v1_;
  std::uint64_t v2_;
  std::uint64_t v3_;
};

} // namespace rdma::software::protocol

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_PROTOCOL_SIPHASH_HPP

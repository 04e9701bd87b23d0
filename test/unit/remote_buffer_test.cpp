//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"

#include <boost_rdma/remote_buffer.hpp>

#include <random>
#include <vector>

namespace {

rdma::remote_buffer sample_buffer()
{
  return {0x1122334455667788, 4096, {0xaabbccdd, 0x01020304}, rdma::access::remote_read};
}

bool undecodable(std::span<const std::byte> bytes)
{
  rdma::error_code ec;
  const rdma::remote_buffer b = rdma::remote_buffer::decode(bytes, ec);
  return ec == rdma::error::malformed_description && b.size() == 0 && b.address() == 0;
}

} // namespace

TEST_CASE("a remote buffer survives encoding and decoding")
{
  const auto bytes = sample_buffer().encode();
  const rdma::remote_buffer b = rdma::remote_buffer::decode(bytes);
  CHECK(b.address() == sample_buffer().address());
  CHECK(b.size() == 4096);
  CHECK(b.keys() == sample_buffer().keys());
  CHECK(b.rights() == rdma::access::remote_read);
  CHECK(b.encode() == bytes);
  CHECK(rdma::remote_buffer::decode(rdma::remote_buffer().encode()).size() == 0);
}

TEST_CASE("an encoded remote buffer is big-endian and has its fields at the documented offsets")
{
  const auto bytes = sample_buffer().encode();
  const unsigned char wanted[rdma::remote_buffer::encoded_size] = {0, 1, 0, 4, 0xaa, 0xbb, 0xcc,
    0xdd, 1, 2, 3, 4, 0, 0, 0, 0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0, 0, 0, 0, 0, 0,
    0x10, 0};
  for (std::size_t i = 0; i < sizeof wanted; ++i)
    CHECK(bytes[i] == std::byte(wanted[i]));
}

TEST_CASE("decode fails with malformed_description when the bytes are not a remote buffer")
{
  const auto bytes = sample_buffer().encode();
  CHECK(undecodable({}));
  for (std::size_t n = 0; n < bytes.size(); ++n)
  {
    const std::vector<std::byte> exact(
      bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
    CHECK(undecodable(exact));
  }
  std::vector<std::byte> longer(bytes.begin(), bytes.end());
  longer.push_back(std::byte(0));
  CHECK(undecodable(longer));

  auto changed = [&](std::size_t at, int value)
  {
    auto copy = bytes;
    copy[at] = std::byte(static_cast<unsigned char>(value));
    return copy;
  };
  CHECK(undecodable(changed(1, 2)));  // another version
  CHECK(undecodable(changed(3, 1)));  // local rights are not transferable
  CHECK(undecodable(changed(2, 1)));  // unknown rights
  CHECK(undecodable(changed(12, 1))); // reserved byte
  CHECK_THROWS_AS(rdma::remote_buffer::decode({}), rdma::system_error);
}

TEST_CASE(
  "decode fails with malformed_description when a range passes the end of the address space")
{
  rdma::error_code ec;
  const rdma::remote_buffer last(UINT64_MAX - 7, 7, {1, 1}, rdma::access::remote_read);
  (void)rdma::remote_buffer::decode(last.encode(), ec);
  CHECK(ec == rdma::error_code());
  CHECK(undecodable(
    rdma::remote_buffer(UINT64_MAX - 7, 8, {1, 1}, rdma::access::remote_read).encode()));
  CHECK(
    undecodable(rdma::remote_buffer(8, UINT64_MAX, {1, 1}, rdma::access::remote_read).encode()));
}

TEST_CASE("random bytes are refused as a remote buffer or encode to themselves")
{
  const unsigned seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 20'000; ++i)
  {
    auto bytes = sample_buffer().encode();
    for (unsigned k = 1 + random() % 3; k != 0; --k)
      bytes[random() % bytes.size()] = std::byte(static_cast<unsigned char>(random()));
    rdma::error_code ec;
    const rdma::remote_buffer b = rdma::remote_buffer::decode(bytes, ec);
    if (!ec)
      REQUIRE(b.encode() == bytes);
  }
}

TEST_CASE("first and slice of a remote buffer stay within it")
{
  const rdma::remote_buffer whole(1000, 100, {1, 2}, rdma::access::remote_write);
  CHECK(whole.first(10).address() == 1000);
  CHECK(whole.first(10).size() == 10);
  CHECK(whole.first(1000).size() == 100);
  CHECK(whole.slice(90).address() == 1090);
  CHECK(whole.slice(90).size() == 10);
  CHECK(whole.slice(90, 5).size() == 5);
  CHECK(whole.slice(200).size() == 0);
  CHECK(whole.slice(200).address() == 1100);
  CHECK(whole.slice(UINT64_MAX, UINT64_MAX).size() == 0);
  CHECK(whole.slice(1, UINT64_MAX).size() == 99);
  CHECK(whole.slice(5).keys() == whole.keys());
  CHECK(whole.slice(5).rights() == whole.rights());
}

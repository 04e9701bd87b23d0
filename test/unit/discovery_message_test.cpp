//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/discovery_message.hpp"

#include "common/catch.hpp"

#include <algorithm>
#include <span>

namespace test::discovering {
namespace {

using rdma::detail::discovery_message;
using rdma::detail::discovery_type;

discovery_message sample(discovery_type type)
{
  discovery_message m{type, {}};
  m.token.front() = std::byte(1);
  m.token.back() = std::byte(255);
  return m;
}

} // namespace

TEST_CASE("discovery messages are decoded as they were encoded")
{
  for (const auto type :
    {discovery_type::question, discovery_type::answer, discovery_type::preamble})
  {
    const discovery_message m = sample(type);
    const auto read = discovery_message::decode(m.encode());
    REQUIRE(read);
    CHECK(read->type == type);
    CHECK(read->token == m.token);
  }
}

TEST_CASE("other bytes are no discovery message")
{
  const auto good = sample(discovery_type::preamble).encode();
  CHECK_FALSE(discovery_message::decode({}));
  CHECK_FALSE(discovery_message::decode(std::span(good).first(good.size() - 1)));
  std::array<std::byte, discovery_message::size + 1> longer{};
  std::copy(good.begin(), good.end(), longer.begin());
  CHECK_FALSE(discovery_message::decode(longer));
  constexpr std::size_t token_offset = 24;
  for (std::size_t i = 0; i != token_offset; ++i)
  {
    auto bad = good;
    bad[i] ^= std::byte(0x80);
    CHECK_FALSE(discovery_message::decode(bad));
  }
}

TEST_CASE("each part of a discovery message is recognised as its beginning")
{
  const auto all = sample(discovery_type::preamble).encode();
  for (std::size_t size = 0; size <= all.size(); ++size)
    CHECK(discovery_message::is_beginning(std::span(all).first(size)));
  for (std::size_t size = 1; size <= all.size(); ++size)
  {
    auto other = all;
    other[std::min<std::size_t>(size, 16) - 1] ^= std::byte(1);
    CHECK_FALSE(discovery_message::is_beginning(std::span(other).first(size)));
  }
}

} // namespace test::discovering

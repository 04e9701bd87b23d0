//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/rpc/trace_context.hpp"

#include "common/catch.hpp"

#include <string>
#include <string_view>

namespace test::rpc_trace_context_test {
namespace {

using rdma::rpc::trace_context;

constexpr std::string_view example = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

std::string changed(std::size_t at, char to)
{
  std::string text(example);
  text[at] = to;
  return text;
}

} // namespace

TEST_CASE("a traceparent header is read and written")
{
  const auto read = trace_context::parse(example);
  REQUIRE(read);
  CHECK(read->is_valid());
  CHECK(read->trace_id[0] == 0x0a);
  CHECK(read->trace_id[15] == 0x9c);
  CHECK(read->parent_id[0] == 0xb7);
  CHECK(read->parent_id[7] == 0x31);
  CHECK(read->flags == 1);
  CHECK(read->text() == example);
  CHECK_FALSE(trace_context().is_valid());
}

TEST_CASE("text that is no traceparent header is refused")
{
  CHECK_FALSE(trace_context::parse(""));
  CHECK_FALSE(trace_context::parse(example.substr(0, example.size() - 1)));
  CHECK_FALSE(trace_context::parse(std::string(example) + "0"));
  CHECK_FALSE(trace_context::parse(std::string(example) + "-0")); // version 00 has no more fields
  for (const std::size_t dash : {2u, 35u, 52u})
    CHECK_FALSE(trace_context::parse(changed(dash, '0')));
  for (const std::size_t digit : {0u, 1u, 3u, 34u, 36u, 51u, 53u, 54u})
    for (const char wrong : {'g', 'A', '-', ' '})
      CHECK_FALSE(trace_context::parse(changed(digit, wrong)));
  CHECK_FALSE(trace_context::parse("ff" + std::string(example.substr(2))));
  CHECK_FALSE(trace_context::parse("00-00000000000000000000000000000000-b7ad6b7169203331-01"));
  CHECK_FALSE(trace_context::parse("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"));
}

TEST_CASE("a traceparent header of a later version is read as version 00")
{
  const std::string later = "01" + std::string(example.substr(2));
  REQUIRE(trace_context::parse(later));
  CHECK(trace_context::parse(later)->text() == example);
  CHECK(trace_context::parse(later + "-more"));
  CHECK_FALSE(trace_context::parse(later + "more"));
}

} // namespace test::rpc_trace_context_test

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/endpoint_description.hpp"
#include "fuzzing/common/require.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

using rdma::endpoint_description;
using test::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  rdma::error_code ec;
  const std::string input(data, data + size);
  const endpoint_description read = endpoint_description::parse(input, ec);
  if (ec)
  {
    require(ec == rdma::error::malformed_description, "malformed input has one error");
    require(read == endpoint_description(), "malformed input yields an empty result");
    return 0;
  }
  require(size <= endpoint_description::text_size_max, "a text above the size limit is malformed");

  const std::string text = read.text();
  require(text.size() <= endpoint_description::text_size_max, "a text respects the size limit");
  require(std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 127; }),
    "a text fits into a line of HTTP");
  require(
    endpoint_description::parse(text, ec) == read && !ec, "a text parses to the same description");
  return 0;
}

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/remote_buffer.hpp"
#include "fuzzing/common/require.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

using rdma::remote_buffer;
using test::require;

namespace {

void require_inside(const remote_buffer& part, const remote_buffer& whole)
{
  require(part.address() >= whole.address() && part.size() <= whole.size()
      && part.address() - whole.address() <= whole.size() - part.size(),
    "a part lies inside the whole");
  require(part.keys() == whole.keys() && part.rights() == whole.rights(),
    "a part has the whole's keys and rights");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  rdma::error_code ec;
  const auto bytes = std::as_bytes(std::span(data, size));
  const remote_buffer whole = remote_buffer::decode(bytes, ec);
  if (ec)
  {
    require(ec == rdma::error::malformed_description, "malformed input has one error");
    require(whole.size() == 0 && whole.address() == 0 && whole.keys() == rdma::detail::device_keys{}
        && whole.rights() == rdma::access::local_read,
      "malformed input yields an empty result");
    return 0;
  }
  require(size == remote_buffer::encoded_size, "the encoded form has one size");
  require(
    rdma::permits(rdma::remote_access, whole.rights()), "only remote rights are transferable");
  require(whole.size() <= UINT64_MAX - whole.address(), "the range ends within the address space");
  require(std::ranges::equal(whole.encode(), bytes), "a decoded buffer encodes to the same bytes");

  // Takes parts at arbitrary offsets that the input provides.
  const std::uint64_t a = whole.address() ^ (whole.size() << 3);
  const std::uint64_t b = whole.size() ^ (whole.address() >> 5);
  require_inside(whole.slice(a, b), whole);
  require_inside(whole.slice(b, a).slice(b), whole);
  require_inside(whole.first(a), whole);
  struct odd
  {
    char bytes[24];
  };
  const remote_buffer elements = whole.elements<odd>(a % 7, b % 5, ec);
  require_inside(elements, whole);
  require(ec ? elements.size() == 0 : elements.size() == b % 5 * sizeof(odd),
    "elements returns all elements or none");
  require_inside(whole.elements<odd>(a, b, ec), whole);
  return 0;
}

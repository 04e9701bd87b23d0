//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "fuzzing/common/require.hpp"
#include "verbs/software/protocol/packet.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

// Fuzzes the headers of frames and datagrams of all services.

using namespace rdma::software::protocol;
using test::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto h = decode(bytes);
  if (!h)
    return 0;
  require(whole_opcode(*h) == data[0], "opcode and service are those of the first byte");
  const unsigned traits = traits_of(data[0]);
  require((traits & trait_valid) != 0, "the opcode is known");
  require((traits & trait_payload) != 0 || h->payload == 0, "only some opcodes have a payload");
  require(h->dest_qp <= psn_mask && h->source_qp <= psn_mask && h->psn <= psn_mask
      && h->srq <= psn_mask && h->msn <= psn_mask,
    "numbers have 24 bits");
  require(
    ((traits & trait_xrceth) != 0) == (h->kind == service_xrc && (traits & trait_request) != 0),
    "requests of XRC name a queue, and no others");
  header_bytes again;
  const std::size_t length = encode(*h, again);
  require(length == header_size(data[0]) && length <= size, "the headers have their size");
  require(
    std::equal(again.begin(), again.begin() + static_cast<std::ptrdiff_t>(length), bytes.begin()),
    "headers have one encoding");
  return 0;
}

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/log.hpp"
#include "connect/upgrade.hpp"
#include "fuzzing/common/read_header.hpp"
#include "fuzzing/common/require.hpp"
#include "fuzzing/common/require_bounds.hpp"

#include <algorithm>
#include <string>

// The client's side of the handshake: whatever a server answers.

namespace {

namespace http = boost::beast::http;
using namespace rdma::detail;
using test::require;

struct outcome
{
  rdma::error_code ec;
  handshake_parameters peer;
  std::string reason;
};

outcome judge(std::span<const std::uint8_t> bytes, std::size_t buffer)
{
  http::response_parser<http::empty_body> parser;
  outcome result;
  if (const rdma::error_code ec = test::read_header(bytes, buffer, parser))
  {
    result.ec = error_of_unreadable(ec);
    require(result.ec == rdma::error::peer_lost || result.ec == rdma::error::not_an_acceptor,
      "what cannot be read comes from a peer that left or is no acceptor");
    return result;
  }
  result.peer = judge_answer(parser.get(), result.ec);
  result.reason = untrusted(refusal_reason(parser.get()));
  return result;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  const outcome answer = judge({data, size}, test::whole);
  if (answer.ec)
    require(answer.peer == handshake_parameters(), "an error names no peer");
  else
  {
    require(answer.peer.endpoints.size() == (answer.peer.software_next ? 0u : 1u),
      "there is one way to go on");
    test::require_bounds(answer.peer);
  }
  require(std::all_of(
            answer.reason.begin(), answer.reason.end(), [](char c) { return c >= ' ' && c < 127; }),
    "a reason is shown without control characters");
  // Which error may depend on the pieces: Beast judges half a header only if that comes at once.
  const outcome same = judge({data, size}, test::crumbs);
  require(!same.ec == !answer.ec && same.peer == answer.peer,
    "whether an answer is taken does not depend on the pieces that it arrives in");
  return 0;
}

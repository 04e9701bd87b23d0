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

// Fuzzes the client's side of the handshake with the answer of a server.

namespace {

namespace http = boost::beast::http;
using namespace rdma::detail;
using test::require;

struct judgement
{
  rdma::error_code ec;
  handshake_parameters peer;
  std::string reason;
};

judgement judge(std::span<const std::uint8_t> bytes, std::size_t buffer)
{
  http::response_parser<http::empty_body> parser;
  judgement result;
  if (const rdma::error_code ec = test::read_header(bytes, buffer, parser))
  {
    result.ec = error_of_unreadable(ec);
    require(result.ec == rdma::error::peer_lost || result.ec == rdma::error::not_an_acceptor,
      "an unreadable answer is reported as peer_lost or not_an_acceptor");
    return result;
  }
  result.peer = judge_answer(parser.get(), result.ec);
  result.reason = untrusted(refusal_reason(parser.get()));
  return result;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  const judgement answer = judge({data, size}, test::whole);
  if (answer.ec)
    require(answer.peer == handshake_parameters(), "an error comes without a peer");
  else
  {
    require(answer.peer.endpoints.size() == (answer.peer.software_next ? 0u : 1u),
      "an accepted answer names one endpoint or the software device");
    test::require_bounds(answer.peer);
  }
  require(std::all_of(
            answer.reason.begin(), answer.reason.end(), [](char c) { return c >= ' ' && c < 127; }),
    "a reason contains no control characters");
  // The error may depend on the fragments: Beast evaluates half a header only if it arrives at
  // once.
  const judgement same = judge({data, size}, test::small_fragments);
  require(!same.ec == !answer.ec && same.peer == answer.peer,
    "the decision does not depend on the fragments");
  return 0;
}

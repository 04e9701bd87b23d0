//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/upgrade.hpp"
#include "fuzzing/common/read_header.hpp"
#include "fuzzing/common/require.hpp"
#include "fuzzing/common/require_bounds.hpp"

#include <boost/beast/http/status.hpp>

// Fuzzes the server's side of the handshake with the request of a client.

namespace {

namespace http = boost::beast::http;
using namespace rdma::detail;
using test::require;

upgrade_verdict judge(std::span<const std::uint8_t> bytes, std::size_t buffer)
{
  http::request_parser<http::empty_body> parser;
  if (const rdma::error_code ec = test::read_header(bytes, buffer, parser))
    return {.status = status_of_unreadable(ec), .reason = "unreadable", .client = {}};
  return judge_upgrade(parser.get(), upgrade_target);
}

// Checks that the client recognises a refusal of an acceptor as such.
void check_refusal(const upgrade_verdict& verdict)
{
  require(http::to_status_class(verdict.status) == http::status_class::client_error,
    "a refusal is a client error of HTTP");
  require(verdict.client == handshake_parameters(), "a refusal comes without a peer");
  const upgrade_refusal answer = make_upgrade_refusal(verdict.status, verdict.reason);
  rdma::error_code ec;
  judge_answer(answer, ec);
  require(
    ec && ec != rdma::error::not_an_acceptor, "the client recognises a refusal of an acceptor");
  require(refusal_reason(answer) == verdict.reason, "a refusal contains its reason");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  const upgrade_verdict verdict = judge({data, size}, test::whole);
  if (verdict.accepted())
  {
    require(verdict.reason.empty(), "an accepted request has no refusal reason");
    require(!verdict.client.endpoints.empty(), "an accepted client has an endpoint");
    test::require_bounds(verdict.client);
  }
  else
    check_refusal(verdict);

  // The reason may depend on the fragments: Beast evaluates half a header only if it arrives at
  // once.
  const upgrade_verdict same = judge({data, size}, test::small_fragments);
  require(same.accepted() == verdict.accepted() && same.client == verdict.client,
    "the decision does not depend on the fragments");
  return 0;
}

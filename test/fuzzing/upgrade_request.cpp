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

// The server's side of the handshake: whatever a client writes.

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

// That the client takes a refusal for one, and not for what some other server says.
void check_refusal(const upgrade_verdict& verdict)
{
  require(http::to_status_class(verdict.status) == http::status_class::client_error,
    "a request that is refused is the client's error");
  require(verdict.client == handshake_parameters(), "a refusal names no peer");
  const upgrade_refusal answer = make_upgrade_refusal(verdict.status, verdict.reason);
  rdma::error_code ec;
  judge_answer(answer, ec);
  require(ec && ec != rdma::error::not_an_acceptor, "a refusal is an acceptor's answer");
  require(refusal_reason(answer) == verdict.reason, "a refusal says why");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  const upgrade_verdict verdict = judge({data, size}, test::whole);
  if (verdict.accepted())
  {
    require(verdict.reason.empty(), "there is no reason to accept");
    require(!verdict.client.endpoints.empty(), "a client can be reached");
    test::require_bounds(verdict.client);
  }
  else
    check_refusal(verdict);

  // Why it is refused may depend on the pieces: Beast judges half a header only if that comes at
  // once.
  const upgrade_verdict same = judge({data, size}, test::crumbs);
  require(same.accepted() == verdict.accepted() && same.client == verdict.client,
    "whether a request is accepted does not depend on the pieces that it arrives in");
  return 0;
}

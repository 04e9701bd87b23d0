//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/rpc_fixture.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

// Tests calls of methods whose types the client does not have.

namespace test::rpc_bytes {

using rdma::rpc::offered_method;
using bytes = std::vector<std::byte>;

offered_method method_of(const rdma::rpc::client& client, std::string_view name)
{
  const auto all = client.methods();
  const auto found = std::ranges::find(all, name, &offered_method::name);
  REQUIRE(found != all.end());
  return *found;
}

bytes bytes_of(const auto& value)
{
  const auto all = std::as_bytes(std::span(&value, 1));
  return {all.begin(), all.end()};
}

std::pair<error_code, bytes> call(
  rpc_pair& pair, const offered_method& method, const bytes& request)
{
  record<bytes> r;
  pair.client.async_call_bytes(method, request, {}, r.handler());
  CHECK_FALSE(r.done());
  REQUIRE(run_until(pair.io, [&] { return r.done(); }));
  return {r.ec, r.value()};
}

TEST_CASE("methods returns the methods of the server with their types when the client is connected")
{
  rpc_pair pair;
  pair.server.handle<echo>([](std::string_view text) { return text; });
  pair.server.handle<add>([](const numbers& n) { return n.a + n.b; });
  CHECK(pair.client.methods().empty());
  pair.start();
  const auto all = pair.client.methods();
  REQUIRE(all.size() == 2);
  CHECK(all[0].name == "add/1");
  CHECK(all[0].request == (8 << 16 | 4 << 8 | 1));
  CHECK(all[0].reply == (4 << 16 | 4 << 8 | 1));
  CHECK(all[1].name == "echo/1");
  CHECK(all[1].request == (1 << 16 | 1 << 8 | 2));
}

TEST_CASE("async_call_bytes returns the bytes of the reply")
{
  rpc_pair pair;
  pair.server.handle<add>([](const numbers& n) { return n.a + n.b; });
  pair.start();
  const auto [ec, reply] = call(pair, method_of(pair.client, "add/1"), bytes_of(numbers{40, 2}));
  CHECK(ec == error_code());
  CHECK(reply == bytes_of(std::int32_t{42}));
}

TEST_CASE("async_call_bytes fails when the server refuses the bytes or has other types")
{
  rpc_pair pair;
  pair.server.handle<add>([](const numbers& n) { return n.a + n.b; });
  pair.start();
  offered_method method = method_of(pair.client, "add/1");
  CHECK(call(pair, method, bytes(7)).first == rdma::error::malformed_message);
  method.reply = 0;
  CHECK(call(pair, method, bytes(8)).first == rdma::error::method_mismatch);
  method.name = "add/2";
  CHECK(call(pair, method, bytes(8)).first == rdma::error::no_such_method);
}

TEST_CASE("async_call_bytes can be cancelled")
{
  rpc_pair pair;
  std::optional<rdma::rpc::responder<wait_for_test>> answer;
  pair.server.handle<wait_for_test>(
    [&](std::uint64_t, rdma::rpc::responder<wait_for_test> later) { answer = std::move(later); });
  pair.start();
  asio::cancellation_signal signal;
  record<bytes> r;
  pair.client.async_call_bytes(method_of(pair.client, "wait/1"), bytes(8), {},
    asio::bind_cancellation_slot(signal.slot(), r.handler()));
  REQUIRE(run_until(pair.io, [&] { return answer.has_value(); }));
  signal.emit(asio::cancellation_type::terminal);
  REQUIRE(run_until(pair.io, [&] { return r.done(); }));
  CHECK(r.ec == asio::error::operation_aborted);
}

} // namespace test::rpc_bytes

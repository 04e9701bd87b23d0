//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/allocations.hpp"
#include "software/rpc_fixture.hpp"

#include "common/catch.hpp"

#include <boost_rdma/rpc/client.hpp>
#include <boost_rdma/rpc/server.hpp>

#include <boost/asio/post.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace test::rpc_overload {

// A server to which more calls are offered than it takes.

namespace {

namespace rpc = rdma::rpc;

rpc::server_options limited(std::uint32_t calls, std::uint32_t queue)
{
  rpc::server_options options;
  options.calls = calls;
  options.queue = queue;
  return options;
}

} // namespace

TEST_CASE("a server at its limits refuses further calls, and keeps no memory for them")
{
  rpc_pair p(limited(2, 3));
  std::vector<rpc::responder<wait_for_test>> kept;
  p.server.handle<wait_for_test>([&](std::uint64_t, rpc::responder<wait_for_test> answer)
    { kept.push_back(std::move(answer)); });
  p.start();
  std::size_t refused = 0;
  std::size_t answered = 0;
  const auto count = [&](const error_code& ec, std::uint64_t)
  {
    if (ec == rdma::error::overloaded)
      ++refused;
    else if (!ec)
      ++answered;
  };
  const auto offer = [&](std::size_t calls)
  {
    const std::size_t wanted = refused + calls;
    for (std::size_t i = 0; i != calls; ++i)
      p.client.async_call<wait_for_test>(i, count);
    REQUIRE(run_until(p.io, [&] { return refused == wanted; }));
  };
  for (int i = 0; i != 5; ++i)
    p.client.async_call<wait_for_test>(1, count);
  for (int i = 0; i != 10; ++i) // buffers have their size then
    offer(100);
  {
    allocation_count allocations;
    for (int i = 0; i != 50; ++i)
      offer(100);
    allocations.stop();
    CHECK(allocations.kept() < 100); // of 5000 calls
  }
  CHECK(kept.size() == 2);
  CHECK(answered == 0);
  const auto statistics = p.server.statistics();
  CHECK(statistics.methods[0].refused == refused);
  CHECK(statistics.methods[0].in_flight == 5);

  // The calls that it has taken are not affected.
  while (answered != 5)
  {
    REQUIRE(run_until(p.io, [&] { return !kept.empty(); }));
    kept.front().reply(1);
    kept.erase(kept.begin());
    const std::size_t before = answered;
    REQUIRE(run_until(p.io, [&] { return answered == before + 1; }));
  }
}

TEST_CASE("a server refuses no call of a client that makes as many at a time as it takes")
{
  rpc_pair p(limited(1, 1));
  p.server.handle<wait_for_test>([&](std::uint64_t n, rpc::responder<wait_for_test> answer)
    { asio::post(p.io, [n, answer = std::move(answer)]() mutable { answer.reply(n); }); });
  p.start();
  constexpr std::size_t total = 2000;
  std::size_t started = 0;
  std::size_t ended = 0;
  std::size_t failed = 0;
  const std::function<void()> next = [&]
  {
    if (started++ < total)
      p.client.async_call<wait_for_test>(1,
        [&](const error_code& ec, std::uint64_t)
        {
          ++ended;
          failed += ec ? 1 : 0;
          next();
        });
  };
  next();
  next();
  REQUIRE(run_until(p.io, [&] { return ended == total; }));
  CHECK(failed == 0);
}

} // namespace test::rpc_overload

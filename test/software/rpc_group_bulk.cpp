//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/rpc_group_bulk_fixture.hpp"

#include <boost_rdma/statistics.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace test::rpc_group_bulk {

// Tests broadcasts that expose memory, with members in one process. rpc_group_bulk_processes.cpp
// has separate ones.

using namespace bulk_group;

TEST_CASE("a broadcast brings the memory of its root to all members before their handlers run")
{
  const auto transports =
    GENERATE(rdma::stream_transports::rdma_or_tcp, rdma::stream_transports::tcp);
  const auto count = GENERATE(1U, 2U, 7U);
  members m(count, 3 * part + 5, {}, transports);
  m.start();
  for (const std::size_t size : {std::size_t{1}, std::size_t{4097}, 3 * part + 5})
    for (const bool registered : {true, false})
      for (const std::uint32_t root : {0U, count - 1})
      {
        CAPTURE(size, count, registered, root);
        const auto result = m.call(registered ? rdma::const_buffer(m.block.first(size))
                                              : rdma::const_buffer(std::span(m.plain).first(size)),
          root);
        CHECK(result.answered == count);
        CHECK(result.missing.empty());
        CHECK(result.reply == count);
      }
}

TEST_CASE("the root of a broadcast to 16 members sends its memory at most twice")
{
  constexpr std::size_t size = 2 * part;
  members m(16, size);
  m.start();
  const auto sent = [&]
  {
    const auto root = m.all[0].context.statistics();
    // Its children have 7 members below them, and read from nobody else.
    const auto first = m.all[1].context.statistics();
    const auto second = m.all[9].context.statistics();
    return root.sends.bytes + root.writes.bytes + root.batches.bytes + first.reads.bytes
      + second.reads.bytes;
  };
  CHECK(m.call(std::span(m.plain).first(1)).answered == 16); // makes the connections
  const auto before = sent();
  SECTION("by one-sided operations")
  {
    CHECK(m.call(m.block).reply == 16);
  }
  SECTION("by messages")
  {
    CHECK(m.call(std::span(m.plain)).reply == 16);
  }
  CHECK(sent() - before >= 2 * size);
  CHECK(sent() - before <= 2 * size + size / 16);
}

TEST_CASE("a handler keeps the content without a copy, and content_max counts it")
{
  constexpr std::size_t size = 100'000;
  members m(4, size, {.content_max = 2 * size - 1});
  m.start();
  m.all[0].kept.emplace();
  m.all[1].kept.emplace();
  CHECK(m.call(m.block).reply == 4);
  CHECK(*m.all[0].kept == nullptr); // the root has the memory itself
  const owner kept = std::exchange(m.all[1].kept, std::nullopt).value();
  REQUIRE(kept != nullptr);
  CHECK(std::ranges::equal(kept->bytes(), m.plain));
  const auto refused = m.call(m.block);
  CHECK(refused.reply == 3);
  REQUIRE(refused.missing.size() == 1);
  CHECK(refused.missing[0].rank == 1);
  CHECK(refused.missing[0].ec == rdma::error::overloaded);
  m.all[1].kept.emplace();
  std::weak_ptr<const rdma::registered_buffer> last = kept;
  const_cast<owner&>(kept).reset();
  CHECK(last.expired());
  CHECK(m.call(m.block).reply == 4);
}

TEST_CASE(
  "a member refuses more content than content_max, and those below it are called without it")
{
  constexpr std::size_t size = 3 * part;
  members m(7, size);
  m.start(2);
  m.options.content_max = size - 1;
  for (const std::uint32_t rank : {0U, 1U}) // the root's own memory is not limited
  {
    member& each = m.all[rank];
    each.group.emplace(each.server, each.context, m.endpoints, rank, m.options);
    each.group->handle<same>([&](rpc::nothing, const rpc::call_info& info)
      { return std::uint64_t{std::ranges::equal(info.content(), m.plain)}; },
      std::plus<>());
    each.server.start();
  }
  const auto result = m.call(m.block);
  CHECK(result.reply == 6);
  REQUIRE(result.missing.size() == 1);
  CHECK(result.missing[0].rank == 1);
  CHECK(result.missing[0].ec == rdma::error::message_too_large);
}

TEST_CASE("a broadcast can be cancelled before its memory was exposed, and the next one succeeds")
{
  members m(2, part);
  m.start();
  record<same_result> r;
  asio::cancellation_signal signal;
  m.all[0].group->async_broadcast<same>({}, {.timeout = long_time, .exposed = m.block},
    asio::bind_cancellation_slot(signal.slot(), r.handler()));
  signal.emit(asio::cancellation_type::total);
  CHECK_FALSE(r.done());
  REQUIRE(run_until(m.io, [&] { return r.done(); }));
  CHECK(r.ec == asio::error::operation_aborted);
  CHECK(m.call(m.block).reply == 2);
}

} // namespace test::rpc_group_bulk

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "fuzzing/common/require.hpp"
#include "rpc/group_message.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

// Fuzzes the messages between members of a group (doc/rpc_protocol.md). The first byte of the input
// is 0 for a request, 255 and 254 for a request and an answer of failure detection, or the number
// of places of an answer. The bytes of the peer follow.

using namespace rdma::detail::rpc;
using test::require;

namespace {

void take_request(std::span<const std::byte> bytes)
{
  const auto r = decode_group_request(bytes);
  if (!r)
    return;
  require(r->range.first > 0 && r->range.count > 0
      && std::uint64_t{r->range.first} + r->range.count <= r->members,
    "the range is inside the group and without the root");
  require(r->oldest <= r->sequence, "the oldest call is not newer than this one");
  require(r->left.count() > 0 && r->patience.count() > 0, "times are positive");
  require(r->kind != group_request_kind::bulk || r->bytes != 0, "a bulk call has content");
  std::vector<std::byte> again;
  append_group_request(again, *r);
  require(std::ranges::equal(again, bytes), "a request has one encoding");
}

void take_answer(std::span<const std::byte> bytes, std::uint32_t count)
{
  if (const auto progress = decode_progress(bytes))
  {
    std::vector<std::byte> again;
    append_progress(again, *progress);
    require(std::ranges::equal(again, bytes), "an answer to a part has one encoding");
  }
  const group_range range{1, count};
  const auto answer = decode_group_answer(bytes, range);
  if (!answer || answer->is_pending)
    return;
  require(
    answer->part.answered + answer->part.missing.size() == count, "each place is counted or named");
  std::uint32_t next = range.first;
  for (const group_absence& each : answer->part.missing)
  {
    require(each.place >= next && each.place < range.first + count, "places ascend");
    require(each.ec.failed(), "an absence has an error");
    next = each.place + 1;
  }
}

constexpr std::uint32_t members = 10;

void check_reports(const std::vector<swim_report>& reports)
{
  require(reports.size() <= swim::reports_max + 1, "the number of reports is bounded");
  swim state({.members = members, .incarnation = 5, .period = std::chrono::seconds(1)}, {});
  for (const swim_report& each : reports)
  {
    require(each.rank < members, "ranks are in the group");
    require(each.incarnation <= swim_report::incarnation_max, "incarnations are bounded");
    state.take(each, {});
  }
  require(state.health(0) == swim_health::alive, "a member refutes reports of itself");
}

void take_gossip_request(std::span<const std::byte> bytes)
{
  const auto r = decode_gossip_request(bytes, members);
  if (!r)
    return;
  require(r->sender < members && r->target < members, "ranks are in the group");
  check_reports(r->reports);
  std::vector<std::byte> again;
  append_gossip_request(again, *r);
  require(std::ranges::equal(again, bytes), "a request of failure detection has one encoding");
}

void take_gossip_answer(std::span<const std::byte> bytes)
{
  const auto a = decode_gossip_answer(bytes, members);
  if (!a)
    return;
  check_reports(a->reports);
  std::vector<std::byte> again;
  append_gossip_answer(again, *a);
  require(std::ranges::equal(again, bytes), "an answer of failure detection has one encoding");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  if (size == 0)
    return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  if (data[0] == 0)
    take_request(bytes);
  else if (data[0] == 255)
    take_gossip_request(bytes);
  else if (data[0] == 254)
    take_gossip_answer(bytes);
  else
    take_answer(bytes, data[0]);
  return 0;
}

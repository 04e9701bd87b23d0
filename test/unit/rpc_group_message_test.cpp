//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/group_message.hpp"

#include "common/catch.hpp"

#include <boost/asio/error.hpp>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

// The bytes of the calls between members of a group.

namespace test::rpc_group_message_test {
namespace {

using rdma::error;
using rdma::error_code;
using namespace rdma::detail::rpc;
using namespace std::chrono_literals;
namespace asio = boost::asio;
using bytes = std::vector<std::byte>;

// Offsets of fields (doc/rpc_protocol.md).
constexpr std::size_t at_kind = 0;
constexpr std::size_t at_root = 4;
constexpr std::size_t at_members = 8;
constexpr std::size_t at_first = 12;
constexpr std::size_t at_count = 16;
constexpr std::size_t at_fan_out = 20;
constexpr std::size_t at_sequence = 32;
constexpr std::size_t at_oldest = 40;
constexpr std::size_t at_left = 48;
constexpr std::size_t at_patience = 56;
constexpr std::size_t at_name_size = 80;

bytes bytes_of(std::string_view text)
{
  const auto all = std::as_bytes(std::span(text));
  return {all.begin(), all.end()};
}

const bytes content = bytes_of("request");

group_request example()
{
  group_request r;
  r.kind = group_request_kind::call;
  r.root = 4;
  r.members = 10;
  r.range = {2, 3};
  r.fan_out = 2;
  r.incarnation = 0x0102030405060708;
  r.sequence = 20;
  r.oldest = 18;
  r.left = 5s;
  r.patience = 100ms;
  r.method = {"count/1", 11, 12};
  r.content = content;
  return r;
}

bytes encoded(const group_request& r)
{
  bytes to;
  append_group_request(to, r);
  return to;
}

void set(bytes& message, std::size_t at, std::uint64_t value, std::size_t size)
{
  for (std::size_t i = 0; i != size; ++i)
    message[at + i] = static_cast<std::byte>(value >> 8 * (size - 1 - i));
}

bool accepts(std::size_t at, std::uint64_t value, std::size_t size = 4)
{
  bytes message = encoded(example());
  set(message, at, value, size);
  return decode_group_request(message).has_value();
}

bytes encoded(const group_part& part)
{
  bytes to;
  append_part(to, part);
  return to;
}

const group_part example_part{
  2, {{4, error::peer_lost}, {6, asio::error::timed_out}}, bytes_of("sum")};

} // namespace

TEST_CASE("a group's call is decoded as it was encoded")
{
  const bytes message = encoded(example());
  CHECK(message.size() == group_request::header_size + 20 + 7 + 7);
  const auto r = decode_group_request(message);
  REQUIRE(r);
  CHECK(r->kind == group_request_kind::call);
  CHECK(r->root == 4);
  CHECK(r->members == 10);
  CHECK(r->range == group_range{2, 3});
  CHECK(r->fan_out == 2);
  CHECK(r->incarnation == 0x0102030405060708);
  CHECK(r->sequence == 20);
  CHECK(r->oldest == 18);
  CHECK(r->left == 5s);
  CHECK(r->patience == 100ms);
  CHECK(r->method.name == "count/1");
  CHECK(r->method.request == 11);
  CHECK(r->method.reply == 12);
  CHECK(bytes(r->content.begin(), r->content.end()) == content);
  CHECK(message[24] == std::byte{1}); // big-endian
  CHECK(message[31] == std::byte{8});
}

TEST_CASE("a group's call is changed for each callee, and its header is an inquiry")
{
  bytes message = encoded(example());
  set_group_callee(message, group_request_kind::inquiry, {7, 1}, 3us);
  message.resize(group_request::header_size);
  const auto r = decode_group_request(message);
  REQUIRE(r);
  CHECK(r->kind == group_request_kind::inquiry);
  CHECK(r->range == group_range{7, 1});
  CHECK(r->left == 3us);
  CHECK(r->sequence == 20);
  CHECK(message == encoded(*r));
  message.push_back({});
  CHECK_FALSE(decode_group_request(message)); // an inquiry has no content
}

TEST_CASE("a group's bulk call has the size of its content, and a part its offset")
{
  group_request r = example();
  r.kind = group_request_kind::bulk;
  r.bytes = 0x0102030405060708;
  bytes message = encoded(r);
  CHECK(message.size() == group_request::header_size + 8 + 20 + 7 + 7);
  CHECK(message[group_request::header_size] == std::byte{1}); // big-endian
  const auto call = decode_group_request(message);
  REQUIRE(call);
  CHECK(call->kind == group_request_kind::bulk);
  CHECK(call->bytes == r.bytes);
  CHECK(call->method.name == "count/1");
  CHECK(bytes(call->content.begin(), call->content.end()) == content);
  for (std::size_t size = 0; size != message.size() - content.size(); ++size)
    CHECK_FALSE(decode_group_request(std::span(message).first(size)));
  set(message, group_request::header_size, 0, 8);
  CHECK_FALSE(decode_group_request(message)); // a call has content or is no bulk call

  r.kind = group_request_kind::part;
  r.bytes = 0; // the first part
  message = encoded(r);
  CHECK(message.size() == group_request::header_size + 8);
  const auto part = decode_group_request(message);
  REQUIRE(part);
  CHECK(part->kind == group_request_kind::part);
  CHECK(part->bytes == 0);
  for (std::size_t size = 0; size != message.size(); ++size)
    CHECK_FALSE(decode_group_request(std::span(message).first(size)));
  message.push_back({});
  CHECK_FALSE(decode_group_request(message));
}

TEST_CASE("a member's answer to a part is decoded as it was encoded, and no other answer")
{
  bytes message;
  append_progress(message, 0x0102030405060708);
  CHECK(message.size() == 12);
  CHECK(decode_progress(message) == std::uint64_t{0x0102030405060708});
  CHECK_FALSE(decode_group_answer(message, {3, 4}));
  for (std::size_t size = 0; size != message.size(); ++size)
    CHECK_FALSE(decode_progress(std::span(message).first(size)));
  set(message, 0, 2, 4);
  CHECK_FALSE(decode_progress(message));
  bytes pending;
  append_pending(pending);
  CHECK_FALSE(decode_progress(pending));
}

TEST_CASE("a group's call with a wrong field is refused")
{
  CHECK(accepts(at_kind, 1));
  CHECK_FALSE(accepts(at_kind, 0));
  CHECK_FALSE(accepts(at_kind, 3)); // the size of the content is missing
  CHECK_FALSE(accepts(at_kind, 4));
  CHECK_FALSE(accepts(at_kind, 5));
  CHECK(accepts(at_root, 9));
  CHECK_FALSE(accepts(at_root, 10));
  CHECK(accepts(at_members, 5));
  CHECK_FALSE(accepts(at_members, 4));
  CHECK_FALSE(accepts(at_first, 0)); // the root
  CHECK_FALSE(accepts(at_first, 10));
  CHECK_FALSE(accepts(at_first, UINT32_MAX));
  CHECK(accepts(at_count, 8));
  CHECK_FALSE(accepts(at_count, 9));
  CHECK_FALSE(accepts(at_count, 0));
  CHECK_FALSE(accepts(at_count, UINT32_MAX));
  CHECK(accepts(at_fan_out, UINT32_MAX));
  CHECK_FALSE(accepts(at_fan_out, 0));
  CHECK_FALSE(accepts(at_sequence, 0, 8));
  CHECK_FALSE(accepts(at_sequence, 17, 8)); // older than the oldest
  CHECK(accepts(at_sequence, 18 + 4095, 8));
  CHECK_FALSE(accepts(at_sequence, 18 + 4096, 8));
  CHECK_FALSE(accepts(at_oldest, 0, 8));
  CHECK_FALSE(accepts(at_left, 0, 8));
  CHECK(accepts(at_left, std::uint64_t{1} << 40, 8));
  CHECK_FALSE(accepts(at_left, (std::uint64_t{1} << 40) + 1, 8));
  CHECK_FALSE(accepts(at_left, UINT64_MAX, 8));
  CHECK_FALSE(accepts(at_patience, 0, 8));
  CHECK_FALSE(accepts(at_patience, UINT64_MAX, 8));
  CHECK(accepts(at_patience, (std::uint64_t{1} << 40) / 4, 8)); // the height is 3
  CHECK_FALSE(accepts(at_patience, (std::uint64_t{1} << 40) / 4 + 1, 8));
  CHECK(accepts(at_name_size, 14)); // the rest
  CHECK_FALSE(accepts(at_name_size, 15));
  CHECK_FALSE(accepts(at_name_size, UINT32_MAX));
}

TEST_CASE("a group's call that is cut short is refused")
{
  const bytes message = encoded(example());
  for (std::size_t size = 0; size != message.size() - content.size(); ++size)
  {
    CAPTURE(size);
    CHECK_FALSE(decode_group_request(std::span(message).first(size)));
  }
}

TEST_CASE("a member's answer is decoded as it was encoded")
{
  const bytes message = encoded(example_part);
  const auto answer = decode_group_answer(message, {3, 4});
  REQUIRE(answer);
  CHECK_FALSE(answer->is_pending);
  CHECK(answer->part.answered == 2);
  REQUIRE(answer->part.missing.size() == 2);
  CHECK(answer->part.missing[0].place == 4);
  CHECK(answer->part.missing[0].ec == error::peer_lost);
  CHECK(answer->part.missing[1].place == 6);
  CHECK(answer->part.missing[1].ec == asio::error::timed_out);
  CHECK(answer->part.value == bytes_of("sum"));
  bytes pending;
  append_pending(pending);
  const auto later = decode_group_answer(pending, {3, 4});
  REQUIRE(later);
  CHECK(later->is_pending);
  CHECK(decode_group_answer(encoded({1, {}, {}}), {9, 1})); // a value without bytes
}

TEST_CASE("a member's answer that does not account for each place once is refused")
{
  const auto accepts_part = [](const group_part& part, group_range range = {3, 4})
  { return decode_group_answer(encoded(part), range).has_value(); };
  CHECK(accepts_part(example_part));
  CHECK_FALSE(accepts_part(example_part, {3, 3}));
  CHECK_FALSE(accepts_part(example_part, {3, 5}));
  CHECK_FALSE(accepts_part(example_part, {5, 4})); // names a place before the range
  CHECK_FALSE(accepts_part(example_part, {2, 4})); // and one behind it
  const error_code lost = error::peer_lost;
  CHECK_FALSE(accepts_part({2, {{6, lost}, {4, lost}}, {}}));
  CHECK_FALSE(accepts_part({2, {{4, lost}, {4, lost}}, {}}));
  CHECK_FALSE(accepts_part({4, {{4, lost}}, {}}));
  CHECK_FALSE(accepts_part({5, {}, {}}));
  CHECK_FALSE(accepts_part({UINT32_MAX, {}, {}}));
  CHECK(accepts_part({0, {{3, lost}, {4, lost}, {5, lost}, {6, lost}}, {}}));
  CHECK_FALSE(accepts_part({0, {{3, lost}, {4, lost}, {5, lost}, {6, lost}}, bytes_of("value")}));
}

TEST_CASE("a member's answer that is cut short or has wrong fields is refused")
{
  const bytes message = encoded(example_part);
  for (std::size_t size = 0; size != message.size() - 3; ++size)
  {
    CAPTURE(size);
    CHECK_FALSE(decode_group_answer(std::span(message).first(size), {3, 4}));
  }
  bytes wrong = message;
  set(wrong, 0, 3, 4);
  CHECK_FALSE(decode_group_answer(wrong, {3, 4}));
  wrong = message;
  set(wrong, 8, UINT32_MAX, 4);
  CHECK_FALSE(decode_group_answer(wrong, {3, 4}));
  wrong = message;
  set(wrong, 16, 0x10001, 4); // the kind of an error
  CHECK_FALSE(decode_group_answer(wrong, {3, 4}));
  wrong = message;
  set(wrong, 20, 0, 4); // no error
  CHECK_FALSE(decode_group_answer(wrong, {3, 4}));
  wrong = message;
  set(wrong, 20, 9999, 4); // of a later release
  REQUIRE(decode_group_answer(wrong, {3, 4}));
  CHECK(decode_group_answer(wrong, {3, 4})->part.missing[0].ec == error::call_failed);
  bytes pending;
  append_pending(pending);
  pending.push_back({});
  CHECK_FALSE(decode_group_answer(pending, {3, 4}));
}

TEST_CASE("changed bytes of a group's messages give a value in its bounds or nothing")
{
  std::mt19937 random(1);
  for (int i = 0; i != 20000; ++i)
  {
    group_request original = example();
    original.kind = static_cast<group_request_kind>(1 + random() % 4);
    bytes request = encoded(original);
    bytes answer = encoded(example_part);
    for (bytes* const each : {&request, &answer})
    {
      for (auto n = random() % 4; n != 0; --n)
        (*each)[random() % each->size()] = static_cast<std::byte>(random());
      each->resize(random() % 4 == 0 ? random() % each->size() : each->size());
    }
    if (const auto r = decode_group_request(request))
    {
      REQUIRE(r->range.first + std::uint64_t{r->range.count} <= r->members);
      REQUIRE(encoded(*r) == request);
    }
    if (const auto a = decode_group_answer(answer, {3, 4}); a && !a->is_pending)
      REQUIRE(a->part.answered + a->part.missing.size() == 4);
  }
}

TEST_CASE("messages of failure detection are decoded as they were encoded")
{
  const gossip_request request{
    10, 3, 4, 7, {{4, swim_health::suspected, 6}, {9, swim_health::failed, 0}}};
  bytes message;
  append_gossip_request(message, request);
  CHECK(message.size() == 20 + 2 * 16);
  const auto r = decode_gossip_request(message, 10);
  REQUIRE(r);
  CHECK(r->members == 10);
  CHECK(r->sender == 3);
  CHECK(r->target == 4);
  CHECK(r->incarnation == 7);
  CHECK(r->reports == request.reports);
  message.clear();
  append_gossip_answer(message, {8, request.reports});
  CHECK(message.size() == 8 + 2 * 16);
  const auto a = decode_gossip_answer(message, 10);
  REQUIRE(a);
  CHECK(a->incarnation == 8);
  CHECK(a->reports == request.reports);
}

TEST_CASE("messages of failure detection out of range are refused")
{
  const auto accepts = [](const gossip_request& what)
  {
    bytes request;
    append_gossip_request(request, what);
    bytes answer;
    append_gossip_answer(answer, {what.incarnation, what.reports});
    const bool is_answer = decode_gossip_answer(answer, 10).has_value();
    return std::pair(decode_gossip_request(request, 10).has_value(), is_answer);
  };
  const std::pair both(true, true);
  const std::pair none(false, false);
  const std::pair answer_only(false, true);
  constexpr auto most = swim_report::incarnation_max;
  const auto report = [&](const swim_report& what) { return accepts({10, 3, 4, 7, {what}}); };
  CHECK(accepts({10, 9, 0, most, {}}) == both);
  CHECK(accepts({11, 3, 4, 7, {}}) == answer_only);
  CHECK(accepts({10, 10, 4, 7, {}}) == answer_only);
  CHECK(accepts({10, 3, 10, 7, {}}) == answer_only);
  CHECK(accepts({10, 3, 3, 7, {}}) == answer_only);
  CHECK(accepts({10, 3, 4, most + 1, {}}) == none);
  CHECK(report({9, swim_health::alive, most}) == both);
  CHECK(report({10, swim_health::alive, 0}) == none);
  CHECK(report({9, swim_health{0}, 0}) == none);
  CHECK(report({9, swim_health{4}, 0}) == none);
  CHECK(report({9, swim_health::failed, most + 1}) == none);
  CHECK(accepts({10, 3, 4, 7, std::vector<swim_report>(swim::reports_max + 1)}) == both);
  CHECK(accepts({10, 3, 4, 7, std::vector<swim_report>(swim::reports_max + 2)}) == none);
}

TEST_CASE("messages of failure detection that are cut short are refused")
{
  bytes request;
  append_gossip_request(request, {10, 3, 4, 7, std::vector<swim_report>(1)});
  bytes answer;
  append_gossip_answer(answer, {7, std::vector<swim_report>(1)});
  for (std::size_t size = 0; size != request.size(); ++size)
    CHECK(decode_gossip_request(std::span(request).first(size), 10).has_value() == (size == 20));
  for (std::size_t size = 0; size != answer.size(); ++size)
    CHECK(decode_gossip_answer(std::span(answer).first(size), 10).has_value() == (size == 8));
}

} // namespace test::rpc_group_message_test

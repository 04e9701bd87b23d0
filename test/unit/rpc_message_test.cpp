//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/message.hpp"

#include "common/catch.hpp"
#include "rpc/message_reader.hpp"

#include <boost/asio/error.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

// The bytes of RPC messages, whole and in parts.

namespace test::rpc_message_test {
namespace {

using rdma::error;
using rdma::error_code;
using rdma::detail::rpc::append_part;
using rdma::detail::rpc::append_range;
using rdma::detail::rpc::append_trace;
using rdma::detail::rpc::decode_part;
using rdma::detail::rpc::decode_ranges;
using rdma::detail::rpc::decode_trace;
using rdma::detail::rpc::exposed_part;
using rdma::detail::rpc::exposed_range;
using rdma::detail::rpc::failure_kind;
using rdma::detail::rpc::message;
using rdma::detail::rpc::message_reader;
using rdma::detail::rpc::message_type;
using rdma::detail::rpc::method_description;
using rdma::detail::rpc::offered_method;
using rdma::detail::rpc::trace_size;
using bytes = std::vector<std::byte>;
using namespace std::chrono_literals;

// Offsets of fields (doc/rpc_protocol.md).
constexpr std::size_t at_type = 0;
constexpr std::size_t at_zero = 1;

constexpr message_type every_type[] = {message_type::hello, message_type::call, message_type::reply,
  message_type::failure, message_type::cancel, message_type::goodbye, message_type::expose,
  message_type::pull, message_type::push, message_type::part, message_type::released,
  message_type::item, message_type::credit, message_type::end_of_items, message_type::trace};

using header = std::array<std::byte, message::header_size>;

header encoded(const message& m)
{
  header to{};
  m.encode(to);
  return to;
}

bool is_accepted(const message& m)
{
  return message::decode(encoded(m)).has_value();
}

auto fields(const message& m)
{
  return std::tuple(m.type, m.selector, m.number, m.size, m.detail);
}

message make(message_type type, std::uint16_t selector = 0, std::uint32_t number = 0,
  std::uint32_t size = 0, std::uint32_t detail = 0)
{
  message m;
  m.type = type;
  m.selector = selector;
  m.number = number;
  m.size = size;
  m.detail = detail;
  return m;
}

// Has no more fields than the type requires.
message smallest(message_type type)
{
  constexpr std::uint32_t of_part = exposed_part::encoded_size;
  switch (type)
  {
  case message_type::failure:
  case message_type::credit:
    return make(type, 0, 0, 0, 1);
  case message_type::expose:
    return make(type, 0, 0, 1);
  case message_type::pull:
    return make(type, 0, 0, of_part);
  case message_type::push:
    return make(type, 0, 0, of_part + 1);
  case message_type::trace:
    return make(type, 0, 0, trace_size);
  default:
    return make(type);
  }
}

// Has all fields that the type may have.
message fullest(message_type type)
{
  switch (type)
  {
  case message_type::hello:
    return make(type, 0x0102, 0, 0x0a0b0c);
  case message_type::call:
    return make(type, 0xf1f2, 0xe1e2e3e4, 0x1a1b1c1d, 0xd1d2d3d4);
  case message_type::reply:
    return make(type, 0, 0xe1e2e3e4, 0x1a1b1c1d);
  case message_type::failure:
    return make(type, 0xf1f2, 0xe1e2e3e4, 0, 0xd1d2d3d4);
  case message_type::cancel:
    return make(type, 0, 0xe1e2e3e4);
  case message_type::goodbye:
    break;
  case message_type::expose:
    return make(type, 0, 0xe1e2e3e4, 0x1a1b1c1d);
  case message_type::pull:
    return make(type, 0xf1f2, 0xe1e2e3e4, exposed_part::encoded_size, 0xd1d2d3d4);
  case message_type::push:
    return make(type, 0xf1f2, 0xe1e2e3e4, 0x1a1b1c1d, 0xd1d2d3d4);
  case message_type::part:
    return make(type, 1, 0xe1e2e3e4, 0x1a1b1c1d);
  case message_type::released:
  case message_type::end_of_items:
    return make(type, 0, 0xe1e2e3e4);
  case message_type::trace:
    return make(type, 0, 0xe1e2e3e4, trace_size);
  case message_type::item:
    return make(type, 0, 0xe1e2e3e4, 0x1a1b1c1d);
  case message_type::credit:
    return make(type, 0, 0xe1e2e3e4, 0, 0xd1d2d3d4);
  }
  return make(type);
}

bytes bytes_of(std::string_view text)
{
  const auto all = std::as_bytes(std::span(text));
  return {all.begin(), all.end()};
}

std::string text_of(std::span<const std::byte> all)
{
  return {reinterpret_cast<const char*>(all.data()), all.size()};
}

// A failure that arrives with this error.
error_code after_travel(const error_code& ec)
{
  const message sent = rdma::detail::rpc::failure_message(7, ec);
  CAPTURE(ec.value(), sent.selector, sent.detail);
  const auto received = message::decode(encoded(sent));
  REQUIRE(received);
  CHECK(received->number == 7);
  CHECK(received->type == message_type::failure);
  return rdma::detail::rpc::failure_of(*received);
}

bytes method_bytes(std::string_view name, std::uint64_t request, std::uint64_t reply)
{
  bytes to;
  rdma::detail::rpc::append_method(to, method_description{name, request, reply});
  return to;
}

} // namespace

TEST_CASE("every RPC message survives encoding and decoding")
{
  for (const message_type type : every_type)
    for (const message& m : {smallest(type), fullest(type)})
    {
      CAPTURE(static_cast<int>(type));
      const header all = encoded(m);
      const auto read = message::decode(all);
      REQUIRE(read);
      CHECK(fields(*read) == fields(m));
      CHECK(encoded(*read) == all);
    }
}

TEST_CASE("an encoded RPC message is big-endian and has its fields at the documented offsets")
{
  const unsigned char expected[message::header_size] = {
    2, 0, 0xf1, 0xf2,       // type, zero, selector
    0xe1, 0xe2, 0xe3, 0xe4, // number
    0x1a, 0x1b, 0x1c, 0x1d, // size
    0xd1, 0xd2, 0xd3, 0xd4, // detail
  };
  header all;
  all.fill(std::byte{0xff}); // encode() writes each byte
  fullest(message_type::call).encode(all);
  for (std::size_t i = 0; i < all.size(); ++i)
  {
    CAPTURE(i);
    CHECK(std::to_integer<int>(all[i]) == expected[i]);
  }
}

TEST_CASE("the types of RPC messages have the documented values and all others are refused")
{
  for (int value = 0; value < 256; ++value)
  {
    CAPTURE(value);
    // All but the detail is zero: a form that failures and calls have.
    header plain{};
    plain[at_type] = static_cast<std::byte>(value);
    header with_detail = plain;
    with_detail.back() = std::byte{1};
    constexpr int plain_types[] = {
      1, 2, 3, 5, 6, 10, 11, 12, 14}; // the others need content or an error
    const bool takes_plain = std::ranges::count(plain_types, value) == 1;
    CHECK(message::decode(plain).has_value() == takes_plain);
    CHECK(message::decode(with_detail).has_value() == (value == 2 || value == 4 || value == 13));
  }
}

TEST_CASE("an RPC message is refused when its reserved byte is set")
{
  for (const message_type type : every_type)
    for (unsigned bit = 0; bit < 8; ++bit)
    {
      CAPTURE(static_cast<int>(type), bit);
      header all = encoded(fullest(type));
      REQUIRE(message::decode(all));
      all[at_zero] = static_cast<std::byte>(1u << bit);
      CHECK(!message::decode(all));
    }
}

TEST_CASE("an RPC message is refused when it has a field that its type does not have")
{
  struct rule
  {
    message_type type;
    bool selector, number, size, detail;
  };
  const auto [type, selector, number, size, detail] = GENERATE(values<rule>({
    {message_type::hello, true, false, true, false},
    {message_type::call, true, true, true, true},
    {message_type::reply, false, true, true, false},
    {message_type::failure, true, true, false, true},
    {message_type::cancel, false, true, false, false},
    {message_type::goodbye, false, false, false, false},
    {message_type::expose, false, true, true, false},
    {message_type::pull, true, true, false, true},
    {message_type::released, false, true, false, false},
    {message_type::trace, false, true, false, false},
    {message_type::item, false, true, true, false},
    {message_type::credit, false, true, false, true},
    {message_type::end_of_items, false, true, false, false},
  }));
  CAPTURE(static_cast<int>(type));
  // The lowest and the highest bits: no check is of a part of the field.
  for (const unsigned bit : {0u, 7u, 15u})
  {
    message m = smallest(type);
    m.selector = static_cast<std::uint16_t>(1u << bit);
    CHECK(is_accepted(m) == selector);
  }
  for (const unsigned bit : {0u, 15u, 16u, 31u})
  {
    message m = smallest(type);
    m.number = 1u << bit;
    CHECK(is_accepted(m) == number);
    m = smallest(type);
    m.detail = 1u << bit;
    CHECK(is_accepted(m) == detail);
  }
  for (const unsigned bit : {0u, 15u, 16u, 30u})
  {
    message m = smallest(type);
    m.size = 1u << bit;
    CHECK(is_accepted(m) == size);
  }
}

TEST_CASE("an RPC message of a transfer has the size and the selector of its kind")
{
  constexpr std::uint32_t of_part = exposed_part::encoded_size;
  CHECK(!is_accepted(make(message_type::pull, 0, 1, of_part - 1)));
  CHECK(!is_accepted(make(message_type::pull, 0, 1, of_part + 1)));
  CHECK(!is_accepted(make(message_type::push, 0, 1, of_part)));
  CHECK(is_accepted(make(message_type::push, 0xffff, 1, of_part + 1, 0xffff'ffff)));
  CHECK(!is_accepted(make(message_type::expose, 0, 1, 0)));
  CHECK(is_accepted(make(message_type::part, 1, 1)));
  CHECK(!is_accepted(make(message_type::part, 2, 1)));
  CHECK(!is_accepted(make(message_type::part, 0, 1, 0, 1)));
}

TEST_CASE("what an RPC exposes survives encoding and decoding, and is refused otherwise")
{
  using form = exposed_range::form_type;
  using rdma::access;
  exposed_range window;
  window.form = form::window;
  window.rights = access::remote_read | access::remote_write;
  window.size = 0x0102030405060708;
  window.address = 0x1112131415161718;
  window.key = 0x21222324;
  exposed_range content;
  content.form = form::content;
  content.rights = access::remote_read;
  content.content = bytes_of("four");
  content.size = 4;
  exposed_range by_message;
  by_message.form = form::message;
  by_message.rights = access::remote_write;
  by_message.size = 1;
  bytes all;
  for (const exposed_range& each : {window, content, by_message})
    append_range(all, each, each.content);
  REQUIRE(all.size() == 3 * 32 + 4);
  CHECK(std::to_integer<int>(all[0]) == 1);
  CHECK(std::to_integer<int>(all[1]) == 6);
  CHECK(std::to_integer<int>(all[8]) == 1);
  CHECK(std::to_integer<int>(all[16]) == 0x11);
  CHECK(std::to_integer<int>(all[24]) == 0x21);
  const auto read = decode_ranges(all);
  REQUIRE(read);
  REQUIRE(read->size() == 3);
  CHECK((*read)[0].form == form::window);
  CHECK((*read)[0].rights == window.rights);
  CHECK((*read)[0].size == window.size);
  CHECK((*read)[0].address == window.address);
  CHECK((*read)[0].key == window.key);
  CHECK((*read)[1].content == content.content);
  CHECK((*read)[2].size == 1);
  for (std::size_t size = 0; size != all.size(); ++size) // it ends between ranges, or is refused
    CHECK(decode_ranges(std::span(all).first(size)).has_value()
      == (size == 0 || size == 32 || size == 68));

  const auto refused = [](const exposed_range& what)
  {
    bytes made;
    append_range(made, what, what.content);
    return !decode_ranges(made);
  };
  const auto changed = [](exposed_range what, auto change)
  {
    change(what);
    return what;
  };
  CHECK(refused(changed(window, [](auto& r) { r.size = 0; })));
  CHECK(refused(changed(window, [](auto& r) { r.size = UINT64_MAX - r.address + 1; })));
  CHECK(refused(changed(window, [](auto& r) { r.rights = access::local_read; })));
  CHECK(refused(changed(window, [](auto& r) { r.rights = access::remote_atomic; })));
  CHECK(refused(changed(window, [](auto& r) { r.form = form{4}; })));
  CHECK(refused(changed(by_message, [](auto& r) { r.key = 1; })));
  CHECK(refused(changed(by_message, [](auto& r) { r.address = 1; })));
  CHECK(refused(changed(content, [](auto& r) { r.rights = access::remote_write; })));
  CHECK(refused(changed(content, [](auto& r) { r.size = 5; })));
  const auto sized = [&](std::size_t size)
  {
    return changed(content,
      [&](auto& r)
      {
        r.content.resize(size);
        r.size = size;
      });
  };
  CHECK_FALSE(refused(sized(exposed_range::content_max)));
  CHECK(refused(sized(exposed_range::content_max + 1)));
  for (const std::size_t zero : {2u, 7u, 28u, 31u})
  {
    bytes made = all;
    made[zero] = std::byte{1};
    CHECK(!decode_ranges(made));
  }
  bytes many;
  for (std::size_t i = 0; i != exposed_range::most; ++i)
    append_range(many, by_message, {});
  CHECK(decode_ranges(many));
  append_range(many, by_message, {});
  CHECK(!decode_ranges(many));
}

TEST_CASE("a part of what an RPC exposes survives encoding and decoding")
{
  bytes all;
  append_part(all, {0x0102030405060708, 0x11121314});
  REQUIRE(all.size() == exposed_part::encoded_size);
  CHECK(std::to_integer<int>(all[0]) == 1);
  CHECK(std::to_integer<int>(all[8]) == 0x11);
  const exposed_part read = decode_part(std::span(all).first<exposed_part::encoded_size>());
  CHECK(read.offset == 0x0102030405060708);
  CHECK(read.size == 0x11121314);
}

TEST_CASE("the trace of an RPC survives encoding and decoding")
{
  rdma::rpc::trace_context trace;
  trace.trace_id = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0xf0};
  trace.parent_id = {21, 22, 23, 24, 25, 26, 27, 0xf8};
  trace.flags = 0x81;
  bytes all;
  append_trace(all, trace);
  REQUIRE(all.size() == trace_size);
  CHECK(std::to_integer<int>(all[15]) == 0xf0);
  CHECK(std::to_integer<int>(all[16]) == 21);
  CHECK(std::to_integer<int>(all[24]) == 0x81);
  CHECK((decode_trace(std::span(all).first<trace_size>()) == trace));
}

TEST_CASE("the first credit of an RPC with items survives encoding and decoding")
{
  bytes all = bytes_of("request");
  rdma::detail::rpc::append_first_credit(all, 0x01020304);
  REQUIRE(all.size() == 7 + rdma::detail::rpc::first_credit_size);
  CHECK(std::to_integer<int>(all[7]) == 1);
  CHECK(rdma::detail::rpc::decode_first_credit(
          std::span<const std::byte>(all).last<rdma::detail::rpc::first_credit_size>())
    == 0x01020304);
}

TEST_CASE("an RPC message that gives no credit is refused")
{
  message m = fullest(message_type::credit);
  REQUIRE(is_accepted(m));
  m.detail = 0;
  CHECK(!is_accepted(m));
}

TEST_CASE("an RPC failure without an error is refused")
{
  message m = fullest(message_type::failure);
  REQUIRE(is_accepted(m));
  m.detail = 0;
  CHECK(!is_accepted(m));
}

TEST_CASE("an RPC message is refused when its content is larger than 1 GiB")
{
  for (const message_type type : {message_type::hello, message_type::call, message_type::reply})
  {
    CAPTURE(static_cast<int>(type));
    CHECK(is_accepted(make(type, 0, 0, 1024u * 1024 * 1024)));
    CHECK(!is_accepted(make(type, 0, 0, 1024u * 1024 * 1024 + 1)));
    CHECK(!is_accepted(make(type, 0, 0, UINT32_MAX)));
  }
}

TEST_CASE("begin_message and end_message put the size of what was appended between them")
{
  using namespace rdma::detail::rpc;
  bytes to = bytes_of("before");
  const std::size_t first = begin_message(to, make(message_type::call, 3, 17, 0, 99));
  CHECK(first == 6);
  REQUIRE(to.size() == 6 + message::header_size);
  const bytes content = bytes_of("request");
  to.insert(to.end(), content.begin(), content.end());
  end_message(to, first);
  const std::size_t second = begin_message(to, make(message_type::reply, 0, 18));
  end_message(to, second);
  CHECK(second == first + message::header_size + 7);
  REQUIRE(to.size() == second + message::header_size);

  const std::span<const std::byte> all(to);
  CHECK(text_of(all.first(6)) == "before");
  const auto m = message::decode(all.subspan(first).first<message::header_size>());
  REQUIRE(m);
  CHECK(fields(*m) == fields(make(message_type::call, 3, 17, 7, 99)));
  CHECK(text_of(all.subspan(first + message::header_size, 7)) == "request");
  const auto last = message::decode(all.subspan(second).first<message::header_size>());
  REQUIRE(last);
  CHECK(fields(*last) == fields(make(message_type::reply, 0, 18)));
}

TEST_CASE(
  "the time of an RPC is rounded up to microseconds, and a short one is not the value for no limit")
{
  using rdma::detail::rpc::encode_time;
  CHECK(encode_time(1us) == 1);
  CHECK(encode_time(1001ns) == 2);
  CHECK(encode_time(1999ns) == 2);
  CHECK(encode_time(2us) == 2);
  CHECK(encode_time(3s) == 3'000'000);
  // Less than a microsecond, or late.
  CHECK(encode_time(999ns) == 1);
  CHECK(encode_time(1ns) == 1);
  CHECK(encode_time(0ns) == 1);
  CHECK(encode_time(-1ns) == 1);
  CHECK(encode_time(-5s) == 1);
  CHECK(encode_time(std::chrono::nanoseconds::min()) == 1);
}

TEST_CASE("the time of an RPC is no limit if a message has no room for it")
{
  using rdma::detail::rpc::encode_time;
  constexpr std::chrono::microseconds largest(UINT32_MAX);
  CHECK(encode_time(largest - 1us) == UINT32_MAX - 1);
  CHECK(encode_time(largest - 1ns) == UINT32_MAX);
  CHECK(encode_time(largest) == UINT32_MAX);
  CHECK(encode_time(largest + 1ns) == 0);
  CHECK(encode_time(largest + 1us) == 0);
  CHECK(encode_time(2 * largest) == 0);
  CHECK(encode_time(std::chrono::nanoseconds::max()) == 0);
  std::vector<std::byte> bytes;
  begin_message(bytes, make(message_type::call, 3, 17));
  rdma::detail::rpc::set_time(bytes, 5us);
  const auto changed = message::decode(std::span(bytes).first<message::header_size>());
  REQUIRE(changed);
  CHECK(changed->detail == 5);
  CHECK(changed->number == 17);
}

TEST_CASE("every error of the library reaches the other side of an RPC")
{
  for (int i = static_cast<int>(error::no_device); i <= static_cast<int>(error::call_failed); ++i)
  {
    CAPTURE(i);
    CHECK(after_travel(static_cast<error>(i)) == static_cast<error>(i));
  }
  const message m = rdma::detail::rpc::failure_message(1, error::no_such_method);
  CHECK(m.selector == 1);
  CHECK(m.detail == static_cast<std::uint32_t>(error::no_such_method));
}

TEST_CASE("a refusal of an RPC arrives as one, and with its error")
{
  const message m = rdma::detail::rpc::refusal_message(7, error::overloaded);
  CHECK(m.number == 7);
  CHECK(m.selector == 3);
  CHECK(rdma::detail::rpc::is_refusal(m));
  CHECK(rdma::detail::rpc::failure_of(m) == error::overloaded);
  CHECK_FALSE(
    rdma::detail::rpc::is_refusal(rdma::detail::rpc::failure_message(7, error::overloaded)));
  CHECK_FALSE(rdma::detail::rpc::is_refusal(make(message_type::reply, 3, 7, 0, 1)));
}

TEST_CASE("errors of the system reach the other side of an RPC in the system category")
{
  namespace sys = boost::system;
  for (const int value : {ENOMEM, ETIMEDOUT, ECANCELED, 1, -1, INT_MAX, INT_MIN})
    for (const error_code& sent :
      {error_code(value, sys::system_category()), error_code(value, sys::generic_category())})
    {
      CAPTURE(value, sent.category().name());
      const error_code received = after_travel(sent);
      CHECK(received.value() == value);
      CHECK(received.category() == sys::system_category());
    }
  CHECK(after_travel(boost::asio::error::timed_out) == boost::asio::error::timed_out);
  CHECK(
    after_travel(boost::asio::error::operation_aborted) == boost::asio::error::operation_aborted);
  CHECK(rdma::detail::rpc::failure_message(1, boost::asio::error::timed_out).selector == 2);
}

TEST_CASE("errors of other categories reach the other side of an RPC as call_failed")
{
  CHECK(after_travel(boost::asio::error::eof) == error::call_failed);
  CHECK(after_travel(boost::asio::error::host_not_found) == error::call_failed);
  CHECK(after_travel(rdma::wc_status::remote_access_error) == error::call_failed);
}

TEST_CASE("a failure of an RPC whose error code means success arrives as call_failed")
{
  CHECK(after_travel(error_code()) == error::call_failed);
  CHECK(after_travel(error_code(0, boost::system::generic_category())) == error::call_failed);
  CHECK(after_travel(error_code(0, error_code(error::closed).category())) == error::call_failed);
}

TEST_CASE("a failure of an RPC with an unknown kind or error is read as call_failed")
{
  using rdma::detail::rpc::failure_of;
  const auto last = static_cast<std::uint32_t>(error::call_failed);
  for (const std::uint32_t detail : {0u, last + 1, 0x7fffffffu, 0x80000000u, UINT32_MAX})
  {
    CAPTURE(detail);
    CHECK(failure_of(make(message_type::failure, 1, 1, 0, detail)) == error::call_failed);
  }
  const auto closed = static_cast<std::uint32_t>(error::closed);
  REQUIRE(failure_of(make(message_type::failure, 1, 1, 0, closed)) == error::closed);
  for (const std::uint16_t kind : {0, 4, 0x0100, 0x0101, 0x0200, 0xffff})
  {
    CAPTURE(kind);
    CHECK(failure_of(make(message_type::failure, kind, 1, 0, closed)) == error::call_failed);
  }
}

TEST_CASE("methods of an RPC server survive encoding and decoding")
{
  const std::string longest(128, 'n');
  const std::string with_zero("a\0b", 3);
  const std::vector<method_description> all = {
    {"kv.get/1", 0x0102030405060708, 0x1112131415161718}, {"k", 0, UINT64_MAX},
    {longest, UINT64_MAX, 0}, {with_zero, 1, 2}, {"kv.get/1", 5, 6}, // the same name again
  };
  bytes to;
  for (const method_description& each : all)
    rdma::detail::rpc::append_method(to, each);
  const auto read = rdma::detail::rpc::decode_methods(to);
  REQUIRE(read);
  REQUIRE(read->size() == all.size());
  for (std::size_t i = 0; i < all.size(); ++i)
  {
    CAPTURE(i);
    CHECK((*read)[i].name == all[i].name);
    CHECK((*read)[i].request == all[i].request);
    CHECK((*read)[i].reply == all[i].reply);
  }
}

TEST_CASE("an encoded method of an RPC server has its fields at the documented offsets")
{
  const unsigned char expected[] = {
    0xee,                                           // what was there before
    0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, // type of the request
    0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, // type of the reply
    3, 'g', 'e', 't',                               // name
  };
  bytes to(1, std::byte{0xee});
  rdma::detail::rpc::append_method(to, {"get", 0x0102030405060708, 0x1112131415161718});
  REQUIRE(to.size() == sizeof expected);
  CHECK(std::memcmp(to.data(), expected, sizeof expected) == 0);
}

TEST_CASE("an RPC server without methods is read as such")
{
  const auto read = rdma::detail::rpc::decode_methods({});
  REQUIRE(read);
  CHECK(read->empty());
}

TEST_CASE("methods of an RPC server are refused when they are truncated anywhere")
{
  const bytes first = method_bytes("one", 1, 2);
  bytes all = first;
  const bytes second = method_bytes("second", 3, 4);
  all.insert(all.end(), second.begin(), second.end());
  for (std::size_t size = 1; size < all.size(); ++size)
  {
    CAPTURE(size);
    // Exactly so many bytes, so that the address sanitizer detects reads beyond them.
    const bytes part(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(size));
    const auto read = rdma::detail::rpc::decode_methods(part);
    REQUIRE(read.has_value() == (size == first.size()));
  }
}

TEST_CASE("methods of an RPC server are refused when a name is empty or longer than the rest")
{
  constexpr std::size_t at_name_size = 16;
  for (const std::size_t before : {0u, 1u, 2u})
  {
    CAPTURE(before);
    bytes all;
    for (std::size_t i = 0; i < before; ++i)
      rdma::detail::rpc::append_method(all, {"valid", i, i});
    const std::size_t at = all.size() + at_name_size;
    rdma::detail::rpc::append_method(all, {"x", 1, 2});
    REQUIRE(rdma::detail::rpc::decode_methods(all));
    for (const int size : {0, 2, 128, 255})
    {
      CAPTURE(size);
      all[at] = static_cast<std::byte>(size);
      CHECK(!rdma::detail::rpc::decode_methods(all));
    }
  }
}

TEST_CASE("names of methods of an RPC server can have as many characters as their size allows")
{
  // This library's own names have at most 128.
  const std::string name(255, 'z');
  const auto read = rdma::detail::rpc::decode_methods(method_bytes(name, 1, 2));
  REQUIRE(read);
  REQUIRE(read->size() == 1);
  CHECK(read->front().name == name);
}

TEST_CASE("more methods of an RPC server than can be called are read in order")
{
  constexpr std::uint64_t count = UINT16_MAX + 2;
  bytes all;
  for (std::uint64_t i = 0; i < count; ++i)
    rdma::detail::rpc::append_method(all, {"m", i, ~i});
  const auto read = rdma::detail::rpc::decode_methods(all);
  REQUIRE(read);
  REQUIRE(read->size() == count);
  bool in_order = true;
  for (std::uint64_t i = 0; i < count; ++i)
    in_order = in_order && (*read)[i].request == i && (*read)[i].reply == ~i;
  CHECK(in_order);
}

// --- message_reader ---

namespace {

struct taken
{
  message what;
  std::string content;
};

bool operator==(const taken& a, const taken& b)
{
  return fields(a.what) == fields(b.what) && a.content == b.content;
}

void append(bytes& to, const message& m, std::string_view content = {})
{
  const std::size_t at = rdma::detail::rpc::begin_message(to, m);
  const bytes follows = bytes_of(content);
  to.insert(to.end(), follows.begin(), follows.end());
  rdma::detail::rpc::end_message(to, at);
}

// One message of each type; contents before, between and behind messages without one.
struct sequence
{
  bytes all;
  std::vector<taken> expected;

  sequence()
  {
    add(make(message_type::hello, 1), "methods");
    add(make(message_type::call, 2, 3, 0, 4), "a request of some bytes");
    add(make(message_type::call, 2, 4));
    add(make(message_type::reply, 0, 3), "r");
    add(make(message_type::failure, 1, 4, 0, 5));
    add(make(message_type::cancel, 0, 6));
    add(make(message_type::reply, 0, 7));
    add(make(message_type::reply, 0, 8), std::string(300, 'l'));
    add(make(message_type::goodbye));
  }

  void add(message m, const std::string& content = {})
  {
    append(all, m, content);
    m.size = static_cast<std::uint32_t>(content.size());
    expected.push_back({m, content});
  }
};

// Takes all messages. `moves`: moves the content away as a server does that queues a call.
struct taker
{
  message_reader reader;
  bool moves = false;
  std::vector<taken> got;

  explicit taker(std::size_t content_max = 300, bool moves_content = false)
    : reader(content_max)
    , moves(moves_content)
  {
  }

  bool read(std::span<const std::byte> part)
  {
    // Exactly these bytes, so that the address sanitizer detects reads beyond them.
    const bytes copy(part.begin(), part.end());
    std::span<const std::byte> rest(copy);
    const bool is_valid = reader.read(rest,
      [&](const message& m, bytes& content)
      {
        got.push_back({m, text_of(content)});
        if (moves)
          const bytes away = std::move(content);
        return true;
      });
    CHECK((!is_valid || rest.empty()));
    return is_valid;
  }
};

// Pages of the process's address space.
std::size_t address_space()
{
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  REQUIRE(pages != 0);
  return pages;
}

} // namespace

TEST_CASE("message_reader takes the same messages wherever their bytes are split")
{
  const sequence s;
  const std::span<const std::byte> all(s.all);
  for (const bool moves : {false, true})
    for (std::size_t at = 0; at <= all.size(); ++at)
    {
      CAPTURE(moves, at);
      taker t(300, moves);
      REQUIRE(t.read(all.first(at)));
      REQUIRE(t.read(all.subspan(at)));
      REQUIRE(t.got == s.expected);
    }
}

TEST_CASE("message_reader takes the same messages byte by byte, each as soon as it is complete")
{
  const sequence s;
  std::vector<std::size_t> ends; // of messages
  std::size_t end = 0;
  for (const taken& each : s.expected)
    ends.push_back(end += message::header_size + each.content.size());
  taker t;
  std::size_t complete = 0;
  for (std::size_t i = 0; i < s.all.size(); ++i)
  {
    CAPTURE(i);
    REQUIRE(t.read(std::span(s.all).subspan(i, 1)));
    if (i + 1 == ends[complete])
      ++complete;
    REQUIRE(t.got.size() == complete);
  }
  CHECK(t.got == s.expected);
}

TEST_CASE("message_reader takes the same messages in random parts, again and again")
{
  const unsigned seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937 random(seed);
  const sequence s;
  bytes all;
  std::vector<taken> expected;
  for (int i = 0; i < 50; ++i)
  {
    all.insert(all.end(), s.all.begin(), s.all.end());
    expected.insert(expected.end(), s.expected.begin(), s.expected.end());
  }
  for (const std::size_t part_max : {3u, 40u, 1000u})
  {
    CAPTURE(part_max);
    taker t(300, random() % 2 == 0);
    for (std::span<const std::byte> rest(all); !rest.empty();)
    {
      const std::size_t size = std::min<std::size_t>(random() % (part_max + 1), rest.size());
      REQUIRE(t.read(rest.first(size)));
      rest = rest.subspan(size);
    }
    CHECK(t.got == expected);
  }
}

TEST_CASE("message_reader refuses content above the limit when the header has arrived")
{
  constexpr std::size_t limit = 5;
  bytes fits;
  append(fits, make(message_type::call, 0, 1), "12345");
  bytes too_large;
  append(too_large, make(message_type::call, 0, 2), "123456");
  taker t(limit);
  REQUIRE(t.read(fits));
  REQUIRE(t.got.size() == 1);
  const std::span<const std::byte> head = std::span(too_large).first(message::header_size);
  REQUIRE(t.read(head.first(message::header_size - 1)));
  CHECK(!t.read(head.last(1)));
  CHECK(t.got.size() == 1);
}

TEST_CASE("message_reader with a limit of zero takes only messages without content")
{
  bytes all;
  append(all, make(message_type::reply, 0, 1));
  append(all, make(message_type::reply, 0, 2), "x");
  append(all, make(message_type::reply, 0, 3));
  taker t(0);
  CHECK(!t.read(all));
  REQUIRE(t.got.size() == 1);
  CHECK(t.got[0].what.number == 1);
}

TEST_CASE("message_reader refuses bytes that are no message behind those that are")
{
  bytes all;
  append(all, make(message_type::call, 0, 1), "request");
  const std::size_t valid = all.size();
  all.resize(valid + message::header_size); // type 0
  append(all, make(message_type::call, 0, 2));
  for (const bool splits : {false, true})
  {
    CAPTURE(splits);
    taker t;
    if (splits)
      REQUIRE(t.read(std::span(all).first(valid + message::header_size - 1)));
    const std::size_t at = splits ? valid + message::header_size - 1 : 0;
    CHECK(!t.read(std::span(all).subspan(at)));
    REQUIRE(t.got.size() == 1);
    CHECK(t.got[0].content == "request");
  }
}

TEST_CASE("message_reader stops behind the message whose taker returns false, and continues there")
{
  const sequence s;
  for (std::size_t last = 0; last < s.expected.size(); ++last)
  {
    CAPTURE(last);
    message_reader reader(300);
    std::vector<taken> got;
    const auto take = [&](const message& m, const bytes& content)
    {
      got.push_back({m, text_of(content)});
      return got.size() != last + 1;
    };
    std::size_t size = 0; // of the messages that are taken first
    for (std::size_t i = 0; i <= last; ++i)
      size += message::header_size + s.expected[i].content.size();
    std::span<const std::byte> rest(s.all);
    REQUIRE(reader.read(rest, take));
    REQUIRE(got.size() == last + 1);
    CHECK(got.back() == s.expected[last]);
    CHECK(s.all.size() - rest.size() == size);
    REQUIRE(reader.read(rest, take));
    CHECK(rest.empty());
    CHECK(got == s.expected);
  }
}

TEST_CASE("message_reader leaves bytes that are no message to the next call when it stops before")
{
  bytes all;
  append(all, make(message_type::call, 0, 1), "request");
  all.resize(all.size() + message::header_size); // type 0
  message_reader reader(300);
  int count = 0;
  const auto take = [&](const message&, const bytes&)
  {
    ++count;
    return false;
  };
  std::span<const std::byte> rest(all);
  CHECK(reader.read(rest, take));
  CHECK(rest.size() == message::header_size);
  CHECK(!reader.read(rest, take));
  CHECK(count == 1);
}

TEST_CASE("message_reader gives the content away without a copy")
{
  const std::string content(300, 'c');
  bytes all;
  append(all, make(message_type::call, 0, 1), content);
  append(all, make(message_type::call, 0, 2), "second");
  message_reader reader(300);
  std::vector<bytes> kept;
  const std::byte* place = nullptr;
  std::span<const std::byte> rest(all);
  REQUIRE(reader.read(rest,
    [&](const message&, bytes& received)
    {
      if (kept.empty())
        place = received.data();
      kept.push_back(std::move(received));
      return true;
    }));
  REQUIRE(kept.size() == 2);
  CHECK(kept[0].data() == place);
  CHECK(text_of(kept[0]) == content);
  CHECK(text_of(kept[1]) == "second");
}

TEST_CASE("message_reader allocates as content arrives, not as the header announces it")
{
  taker t(message::size_max);
  const message m = make(message_type::call, 0, 1, message::size_max);
  const std::size_t before = address_space();
  REQUIRE(t.read(encoded(m)));
  for (int i = 0; i < 100; ++i)
    REQUIRE(t.read(bytes(1000)));
  constexpr std::size_t page = 4096;
  CHECK(address_space() < before + message::size_max / 2 / page);
  CHECK(t.got.empty());
}

} // namespace test::rpc_message_test

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"

#include "call/command.hpp"
#include "call/values.hpp"

#include <boost_rdma/context.hpp>
#include <boost_rdma/rpc/json.hpp>
#include <boost_rdma/rpc/server.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

// Tests rdma_call: the conversion of values, and calls of a server in another thread.

namespace test::call_test {

namespace asio = boost::asio;
namespace json = boost::json;
namespace rpc = rdma::rpc;

struct record
{
  std::uint8_t kind;
  std::int64_t key;
  std::array<char, 5> name;
  float weight;
  std::array<std::uint16_t, 3> parts;
  bool set;
};

constexpr char record_layout[] =
  "u8 kind, i64 key, char[5] name, f32 weight, u16[3] parts, bool set";
constexpr char record_text[] =
  R"({"kind":7,"key":-9000000000000000000,"name":"ab","weight":1.5E0,"parts":[1,2,65535],"set":true})";

using get = rpc::method<"get/1", std::int64_t, record>;
using sum = rpc::method<"sum/1", std::span<const std::int32_t>, std::int64_t>;
using echo = rpc::method<"echo/1", std::string_view, std::string_view>;
using query = rpc::method<"query/1", json::value, json::value>;
using ping = rpc::method<"ping/1", rpc::nothing, rpc::nothing>;
using count = rpc::streaming_method<"count/1", rpc::nothing, rpc::nothing, rpc::nothing, int>;

record made(std::int64_t key)
{
  return {7, key, {'a', 'b'}, 1.5F, {1, 2, 65'535}, true};
}

// A server in a thread of its own.
class served
{
public:
  served()
    : server_(io_, context_, {asio::ip::address_v4::loopback(), 0})
  {
    server_.handle<get>([](std::int64_t key) { return made(key); });
    server_.handle<sum>(
      [](std::span<const std::int32_t> values)
      {
        std::int64_t total = 0;
        for (const std::int32_t each : values)
          total += each;
        return total;
      });
    server_.handle<echo>([](std::string_view text) { return text; });
    server_.handle<query>(
      [](const json::value& value) -> json::value
      {
        if (value.is_null())
          throw rdma::system_error(rdma::error::message_too_large);
        return {{"got", value}};
      });
    server_.handle<ping>([](rpc::nothing) { return rpc::nothing(); });
    server_.handle<count>(
      [](rpc::nothing, rpc::server_flow<count>&) -> asio::awaitable<rpc::nothing>
      { co_return rpc::nothing(); });
    server_.start();
    thread_ = std::thread([this] { io_.run(); });
  }
  ~served()
  {
    io_.stop();
    thread_.join();
  }

  std::string operator()(call::command what) const
  {
    what.server = "127.0.0.1:" + std::to_string(server_.local_endpoint().port());
    std::ostringstream to;
    call::run(what, to);
    return to.str();
  }

private:
  static rdma::context made_context()
  {
    rdma::context_options options;
    options.device = "soft0";
    return rdma::context(options);
  }

  rdma::context context_ = made_context();
  asio::io_context io_;
  rpc::server server_;
  std::thread thread_;
};

call::command calls(const char* method, const char* request = "")
{
  call::command result;
  result.method = method;
  result.request = request;
  result.device = "soft0";
  return result;
}

template <class T>
std::string decoded(const char* members, const T& value)
{
  const call::layout how{members};
  REQUIRE(how.size() == sizeof value);
  REQUIRE(how.alignment() == alignof(T));
  return json::serialize(how.decode(reinterpret_cast<const std::byte*>(&value)));
}

void check_refused(const char* members, const char* value)
{
  CAPTURE(members, value);
  const call::layout how{members};
  std::vector<std::byte> to(how.size());
  CHECK_THROWS_AS(how.encode(json::parse(value), to.data()), call::usage_error);
}

TEST_CASE("a layout has the size, the alignment and the values of the structure")
{
  const record one = made(-9'000'000'000'000'000'000);
  CHECK(decoded(record_layout, one) == record_text);

  const call::layout how{record_layout};
  record copy{};
  how.encode(json::parse(record_text), reinterpret_cast<std::byte*>(&copy));
  CHECK(copy.kind == one.kind);
  CHECK(copy.key == one.key);
  CHECK(copy.name == one.name);
  CHECK(copy.weight == one.weight);
  CHECK(copy.parts == one.parts);
  CHECK(copy.set);
}

TEST_CASE("members without names are an array, and a single one is a value")
{
  struct two
  {
    std::uint64_t first;
    std::uint8_t second;
  };
  CHECK(decoded("u64,u8", two{18'446'744'073'709'551'615U, 2}) == "[18446744073709551615,2]");
  CHECK(decoded("f64", 0.25) == "2.5E-1");
  CHECK(decoded("f32", std::numeric_limits<float>::infinity()) == "null");
  CHECK(decoded("i32 [2]", std::array<int, 2>{1, -1}) == "[1,-1]");
  CHECK(decoded("char", 'x') == R"("x")");
}

TEST_CASE("a layout refuses values that do not fit its members")
{
  check_refused("i8", "128");
  check_refused("u8", "-1");
  check_refused("u32", "1.5");
  check_refused("i32", "\"1\"");
  check_refused("bool", "1");
  check_refused("char[2]", "\"abc\"");
  check_refused("u8[2]", "[1]");
  check_refused("u8[2]", "1");
  check_refused("u8,u8", "[1,2,3]");
  check_refused("u8 a, u8 b", R"({"a":1})");
  check_refused("u8 a, u8 b", R"({"a":1,"c":1})");
  check_refused("u8 a", "1");
}

TEST_CASE("a layout that is no list of types is refused")
{
  const char* const text = GENERATE("", "int", "i32 a,", "i32 a b", "i32[0]", "i32[1000001]",
    "i32[", "i32 a, i32", "i32 a, i32 a", "i32,,i32", "i32 a;");
  CAPTURE(text);
  CHECK_THROWS_AS(call::layout{text}, call::usage_error);
}

TEST_CASE("rdma_call lists the methods of a server")
{
  const served server;
  const std::string text = server(calls(""));
  const std::string expected =
    "echo/1   string -> string\n"
    "get/1    value (8 bytes, alignment 8) -> value (40 bytes, alignment 8)\n"
    "ping/1   nothing -> nothing\n"
    "query/1  JSON -> JSON\n"
    "sum/1    sequence of values (4 bytes, alignment 4) -> value (8 bytes, alignment 8)\n";
  CHECK(text.substr(0, 15) == "count/1  other ");
  CHECK(text.substr(text.find('\n') + 1) == expected);
}

TEST_CASE("rdma_call calls methods of all types")
{
  const served server;
  CHECK(server(calls("echo/1", R"("a \"text\" \u00e4")")) == "\"a \\\"text\\\" \xc3\xa4\"\n");
  CHECK(server(calls("query/1", "[1, {}]")) == "{\"got\":[1,{}]}\n");
  CHECK(server(calls("ping/1")) == "null\n");

  call::command with_layouts = calls("get/1", "-9000000000000000000");
  with_layouts.request_layout = "i64";
  with_layouts.reply_layout = record_layout;
  CHECK(server(with_layouts) == std::string(record_text) + "\n");

  with_layouts = calls("sum/1", "[1, 2, -5]");
  with_layouts.request_layout = "i32";
  with_layouts.reply_layout = "i64";
  with_layouts.tcp = true;
  CHECK(server(with_layouts) == "-2\n");

  // Bytes that are no text.
  with_layouts = calls("echo/1", "[0, 255]");
  with_layouts.request_layout = "u8";
  CHECK_THROWS_AS(server(with_layouts), std::runtime_error);
  with_layouts.reply_layout = "u8";
  CHECK(server(with_layouts) == "[0,255]\n");
}

TEST_CASE("rdma_call refuses layouts and requests that the method does not have")
{
  const served server;
  const auto refuses = [&server](call::command what, const char* request, const char* reply)
  {
    what.request_layout = request;
    what.reply_layout = reply;
    CHECK_THROWS_AS(server(what), call::usage_error);
  };
  refuses(calls("get/1", "1"), "", record_layout);
  refuses(calls("get/1", "1"), "i64", "");
  refuses(calls("get/1", "1"), "i32", record_layout);
  refuses(calls("get/1", "1"), "i32[2]", record_layout);
  refuses(calls("get/1", "no"), "i64", record_layout);
  refuses(calls("query/1", "1"), "i64", "");
  refuses(calls("ping/1", "1"), "", "");
  refuses(calls("echo/1", "1"), "", "");
  refuses(calls("sum/1", "1"), "i32", "i64");
  refuses(calls("count/1"), "", "");
}

TEST_CASE("rdma_call reports the errors of connecting and of calls")
{
  const served server;
  const auto error_of = [&server](const call::command& what)
  {
    try
    {
      server(what);
      return rdma::error_code();
    }
    catch (const rdma::system_error& failure)
    {
      return failure.code();
    }
  };
  CHECK(error_of(calls("get/2")) == rdma::error::no_such_method);
  CHECK(error_of(calls("query/1")) == rdma::error::message_too_large);

  call::command elsewhere = calls("");
  elsewhere.server = "nowhere";
  std::ostringstream to;
  CHECK_THROWS_AS(call::run(elsewhere, to), call::usage_error);
}

} // namespace test::call_test

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "call/command.hpp"

#include "call/values.hpp"

#include <boost_rdma/context.hpp>
#include <boost_rdma/rpc/client.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <exception>
#include <optional>
#include <ostream>
#include <tuple>
#include <utility>
#include <vector>

namespace call {

namespace asio = boost::asio;
namespace json = boost::json;
namespace rpc = rdma::rpc;
using asio::use_awaitable;
using asio::ip::tcp;

namespace {

// Returns the host and the port.
std::pair<std::string, std::string> split(const std::string& server)
{
  const std::size_t colon = server.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == server.size())
    throw usage_error("\"" + server + "\" is no HOST:PORT");
  std::string host = server.substr(0, colon);
  if (host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  return {host, server.substr(colon + 1)};
}

std::optional<layout> layout_of(const std::string& text)
{
  return text.empty() ? std::nullopt : std::optional<layout>(text);
}

json::value json_of(const std::string& text)
{
  if (text.empty())
    return nullptr;
  rdma::error_code ec;
  json::value result = json::parse(text, ec);
  if (ec)
    throw usage_error("the request is no JSON: " + ec.message());
  return result;
}

asio::awaitable<void> connect(rpc::client& client, const std::string& server)
{
  const auto [host, port] = split(server);
  tcp::resolver resolver(co_await asio::this_coro::executor);
  rdma::error_code ec;
  for (const auto& each : co_await resolver.async_resolve(host, port, use_awaitable))
  {
    std::tie(ec) = co_await client.async_connect(each.endpoint(), asio::as_tuple(use_awaitable));
    if (!ec)
      co_return;
  }
  throw rdma::system_error(ec, server);
}

// The server chooses the names.
std::string printable(std::string name)
{
  std::ranges::replace_if(
    name, [](char c) { return c <= ' ' || c > '~'; }, '?');
  return name;
}

void print(const std::vector<rpc::offered_method>& methods, std::ostream& to)
{
  std::size_t width = 0;
  for (const rpc::offered_method& each : methods)
    width = std::max(width, each.name.size());
  for (const rpc::offered_method& each : methods)
  {
    std::string name = printable(each.name);
    name.resize(width, ' ');
    to << name << "  " << wire_type(each.request).text() << " -> " << wire_type(each.reply).text()
       << '\n';
  }
}

asio::awaitable<void> work(const command& what, rpc::client& client, std::ostream& to)
{
  co_await connect(client, what.server);
  const std::vector<rpc::offered_method> methods = client.methods();
  if (what.method.empty())
  {
    print(methods, to);
    co_return;
  }
  const auto method = std::ranges::find(methods, what.method, &rpc::offered_method::name);
  if (method == methods.end())
    throw rdma::system_error(rdma::error::no_such_method, what.method);
  const auto request_members = layout_of(what.request_layout);
  const auto reply_members = layout_of(what.reply_layout);
  const wire_type request(method->request);
  const wire_type reply(method->reply);
  request.check("request", request_members);
  reply.check("reply", reply_members);
  const auto bytes = request.encode(json_of(what.request), request_members);
  const rpc::call_options options{
    .timeout = std::chrono::duration_cast<std::chrono::nanoseconds>(what.timeout)};
  const auto [ec, content] =
    co_await client.async_call_bytes(*method, bytes, options, asio::as_tuple(use_awaitable));
  if (ec)
    throw rdma::system_error(ec, what.method);
  to << json::serialize(reply.decode(content, reply_members)) << '\n';
}

} // namespace

void run(const command& what, std::ostream& to)
{
  rdma::context_options device;
  device.device = what.device;
  const rdma::context context(device);
  asio::io_context io;
  rpc::client_options options;
  options.queue_pair.connect_timeout = std::chrono::ceil<std::chrono::milliseconds>(what.timeout);
  if (what.tcp)
    options.stream.transports = rdma::stream_transports::tcp;
  rpc::client client(io, context, options);
  std::exception_ptr failure;
  asio::co_spawn(
    io, work(what, client, to), [&failure](std::exception_ptr thrown) { failure = thrown; });
  io.run();
  if (failure)
    std::rethrow_exception(failure);
}

} // namespace call

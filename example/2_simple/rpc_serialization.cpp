//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Requests and replies that Boost.Serialization encodes. In two terminals:
//
//   rpc_serialization serve --port 7471
//   rpc_serialization connect 127.0.0.1 7471
//
// The codec is in rpc_serialization/codec.hpp. The client also sends bytes that are no value, which
// the server refuses.

#include "2_simple/rpc_serialization/codec.hpp"
#include "common/command_line.hpp"
#include "common/run.hpp"

#include <boost_rdma/context.hpp>
#include <boost_rdma/error.hpp>
#include <boost_rdma/rpc/client.hpp>
#include <boost_rdma/rpc/method.hpp>
#include <boost_rdma/rpc/server.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/serialization/string.hpp>
#include <boost/serialization/vector.hpp>

#include <cstdint>
#include <iostream>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace asio = boost::asio;
namespace rpc = rdma::rpc;
using asio::use_awaitable;
using asio::ip::tcp;

// --- the method, which both sides know ---

struct measurement
{
  std::string place;
  std::vector<double> values;
  bool calibrated = false;

  template <class Archive>
  void serialize(Archive& archive, unsigned)
  {
    archive& place& values& calibrated;
  }
};

struct report
{
  static constexpr std::uint64_t archive_type = 0x7265706f727400; // with a last byte of 0
  std::vector<measurement> measurements;

  template <class Archive>
  void serialize(Archive& archive, unsigned)
  {
    archive& measurements;
  }
};

struct summary
{
  static constexpr std::uint64_t archive_type = 0x73756d6d61727900;
  std::uint64_t values = 0;
  std::vector<std::string> uncalibrated;

  template <class Archive>
  void serialize(Archive& archive, unsigned)
  {
    archive& values& uncalibrated;
  }
};

using summarize = rpc::method<"summarize/1", report, summary>;
using stop = rpc::method<"stop/1", rpc::nothing, rpc::nothing>;

// --- the server ---

summary summary_of(const report& all)
{
  summary result;
  for (const measurement& each : all.measurements)
  {
    result.values += each.values.size();
    if (!each.calibrated)
      result.uncalibrated.push_back(each.place);
  }
  return result;
}

asio::awaitable<void> serve(const rdma::context& context, const tcp::endpoint& endpoint)
{
  const auto executor = co_await asio::this_coro::executor;
  asio::steady_timer stopped(executor, asio::steady_timer::time_point::max());
  rpc::server server(executor, context, endpoint);
  server.handle<summarize>(summary_of);
  server.handle<stop>(
    [&stopped](rpc::nothing)
    {
      stopped.cancel();
      return rpc::nothing();
    });
  server.start();
  std::cout << "listening on " << server.local_endpoint() << std::endl;
  co_await stopped.async_wait(asio::as_tuple(use_awaitable));
  co_await server.async_shutdown(use_awaitable);
}

// --- the client ---

void check(bool right)
{
  if (!right)
    throw std::logic_error("a call has another result than expected");
}

// Sends each beginning of an archive, and the archive with each byte changed.
asio::awaitable<void> send_malformed(rpc::client& client, const report& all)
{
  std::vector<std::byte> archive;
  rpc::output to(archive);
  rpc::codec<report>::encode(all, to);
  std::uint64_t refused = 0;
  for (std::size_t i = 0; i < 2 * archive.size(); ++i)
  {
    std::vector<std::byte> bytes = archive;
    if (i < archive.size())
      bytes.resize(i);
    else
      bytes[i - archive.size()] = std::byte{255};
    for (const rpc::offered_method& each : client.methods())
      if (each.name == summarize::name)
      {
        const auto [ec, reply] =
          co_await client.async_call_bytes(each, bytes, {}, asio::as_tuple(use_awaitable));
        check(!ec || ec == rdma::error::malformed_message);
        refused += ec ? 1 : 0;
      }
  }
  std::cout << refused << " requests refused\n";
  check(refused > archive.size()); // some changes are other values
}

asio::awaitable<void> connect(const rdma::context& context, const tcp::endpoint& endpoint)
{
  rpc::client client(co_await asio::this_coro::executor, context);
  co_await client.async_connect(endpoint, use_awaitable);
  report all;
  all.measurements.push_back({"roof", {1.5, 2.5, 3.5}, true});
  all.measurements.push_back({"cellar", {}, false});
  const summary result = co_await client.async_call<summarize>(all, use_awaitable);
  std::cout << result.values << " values, not calibrated: " << result.uncalibrated.at(0) << '\n';
  check(result.values == 3 && result.uncalibrated == std::vector<std::string>{"cellar"});
  co_await send_malformed(client, all);
  co_await client.async_call<stop>({}, use_awaitable);
}

int main(int argc, char** argv)
{
  const auto options =
    example::parse_command_line(argc, argv, "Requests and replies of Boost.Serialization");
  return example::run(
    [&options](const rdma::context& context) {
      return options.serve ? serve(context, options.endpoint) : connect(context, options.endpoint);
    });
}

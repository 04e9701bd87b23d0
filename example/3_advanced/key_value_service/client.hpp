//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// The methods of the service, and its client.

#ifndef BOOST_RDMA_EXAMPLE_KEY_VALUE_SERVICE_CLIENT_HPP
#define BOOST_RDMA_EXAMPLE_KEY_VALUE_SERVICE_CLIENT_HPP

#include <boost_rdma/context.hpp>
#include <boost_rdma/queue_pair.hpp>
#include <boost_rdma/remote_buffer.hpp>
#include <boost_rdma/rpc/client.hpp>
#include <boost_rdma/rpc/method.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace key_value {

struct place
{
  std::uint64_t version = 0; // 0: no value
  rdma::remote_buffer::encoded block{};
};

using reading_port = rdma::rpc::method<"kv.reading_port/1", rdma::rpc::nothing, std::uint16_t>;
// A call exposes the value. The reply is its version.
using put = rdma::rpc::method<"kv.put/1", std::string_view, std::uint64_t>;
using find = rdma::rpc::method<"kv.find/1", std::string_view, place>;
using erase = rdma::rpc::method<"kv.remove/1", std::string_view, bool>;

inline constexpr std::size_t block_size = 1024;
inline constexpr std::size_t version_size = sizeof(std::uint64_t);
inline constexpr std::size_t value_max = block_size - version_size;

struct versioned_value
{
  std::uint64_t version; // greater than that of older values
  std::string_view bytes;
};

struct key_value_client
{
  key_value_client(const boost::asio::any_io_executor& executor, const rdma::context& context)
    : methods(executor, context)
    , reader(executor, context)
  {
  }

  boost::asio::awaitable<void> connect(boost::asio::ip::tcp::endpoint server)
  {
    co_await methods.async_connect(server, boost::asio::use_awaitable);
    server.port(co_await methods.async_call<reading_port>({}, boost::asio::use_awaitable));
    co_await reader.async_connect(server, boost::asio::use_awaitable);
  }

  // Reads a value. The bytes are in `block`, which has block_size bytes.
  boost::asio::awaitable<std::optional<versioned_value>> get(
    std::string key, const rdma::registered_buffer& block)
  {
    for (;; ++overwritten)
    {
      auto known = places.find(key);
      if (known == places.end())
      {
        const place found = co_await methods.async_call<find>(key, boost::asio::use_awaitable);
        if (found.version == 0)
          co_return std::nullopt;
        known = places.insert_or_assign(key, found).first;
      }
      const std::uint64_t version = known->second.version;
      const auto remote = rdma::remote_buffer::decode(known->second.block).first(block_size);
      co_await reader.async_read(block.first(remote.size()), remote, boost::asio::use_awaitable);
      // Another operation, because the words of one operation are read in any order.
      co_await reader.async_read(
        block.first(version_size), remote.first(version_size), boost::asio::use_awaitable);
      if (std::memcmp(block.data(), &version, version_size) == 0)
      {
        const std::string_view all(reinterpret_cast<const char*>(block.data()), remote.size());
        co_return versioned_value{version, all.substr(version_size)};
      }
      known = places.find(key); // another coroutine may have found the new place
      if (known != places.end() && known->second.version == version)
        places.erase(known);
    }
  }

  rdma::rpc::client methods;
  rdma::queue_pair reader;
  std::map<std::string, place> places;
  std::size_t overwritten = 0; // values that were overwritten before they were read
};

} // namespace key_value

#endif // BOOST_RDMA_EXAMPLE_KEY_VALUE_SERVICE_CLIENT_HPP

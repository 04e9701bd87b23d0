//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_SOFTWARE_RPC_GROUP_BULK_FIXTURE_HPP
#define BOOST_RDMA_TEST_SOFTWARE_RPC_GROUP_BULK_FIXTURE_HPP

#include "rpc/group_content.hpp"
#include "software/rpc_fixture.hpp"

#include <boost_rdma/error.hpp>
#include <boost_rdma/rpc/group.hpp>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

// Groups in one process whose broadcasts expose memory.

namespace test::bulk_group {

namespace rpc = rdma::rpc;
using namespace rdma::detail::rpc;
using namespace std::chrono_literals;

// The number of members that have the same content as the root.
using same = rpc::method<"same/1", rpc::nothing, std::uint64_t>;
using same_result = rpc::group_result<std::uint64_t>;
using owner = std::shared_ptr<const rdma::registered_buffer>;

// Longer than anything takes, so that only members without a connection are bypassed.
constexpr std::chrono::minutes long_time{10};
constexpr std::size_t part = group_content::part_max;

struct member
{
  member(asio::io_context& io, const rpc::server_options& options)
    : context(make_context())
    , server(io, context, {asio::ip::address_v4::loopback(), 0}, options)
  {
  }

  rdma::context context;
  rpc::server server;
  std::optional<rpc::group> group;
  std::optional<owner> kept; // by the handler, if there is a value
};

inline std::vector<std::byte> pattern(std::size_t size)
{
  std::vector<std::byte> made(size);
  for (std::size_t i = 0; i != size; ++i)
    made[i] = static_cast<std::byte>(i * 7 + (i >> 8) + (i >> 18));
  return made;
}

struct members
{
  members(std::uint32_t count, std::size_t size, const rpc::group_options& how = {},
    rdma::stream_transports transports = rdma::stream_transports::rdma_or_tcp)
    : options(how)
    , plain(pattern(size))
    , expected(size)
  {
    options.client.stream.transports = transports;
    for (std::uint32_t i = 0; i != count; ++i)
      endpoints.push_back(all.emplace_back(io, served_by(transports)).server.local_endpoint());
    block = all[0].context.allocate(size);
    std::memcpy(block.data(), plain.data(), size);
  }

  // Ranks from `first` on are members of the group.
  void start(std::uint32_t first = 0)
  {
    for (std::uint32_t i = first; i != all.size(); ++i)
    {
      member& m = all[i];
      m.group.emplace(m.server, m.context, endpoints, i, options);
      m.group->handle<same>(
        [this, &m](rpc::nothing, const rpc::call_info& info)
        {
          if (m.kept)
            m.kept = info.content_owner();
          const auto content = info.content();
          return std::uint64_t{
            content.size() == expected && std::memcmp(content.data(), plain.data(), expected) == 0};
        },
        std::plus<>());
      m.server.start();
    }
  }

  // `exposed` has the first bytes of `plain`.
  same_result call(const rdma::const_buffer& exposed, std::uint32_t root = 0)
  {
    expected = exposed.size();
    record<same_result> r;
    all[root].group->async_broadcast<same>(
      {}, {.timeout = long_time, .exposed = exposed}, r.handler());
    CHECK_FALSE(r.done());
    REQUIRE(run_until(io, [&] { return r.done(); }));
    CHECK(r.ec == error_code());
    return r.value();
  }

  asio::io_context io;
  rpc::group_options options;
  std::vector<rpc::group::endpoint_type> endpoints;
  std::deque<member> all;
  const std::vector<std::byte> plain;
  std::size_t expected; // bytes of the content
  rdma::registered_buffer block;
};

} // namespace test::bulk_group

#endif // BOOST_RDMA_TEST_SOFTWARE_RPC_GROUP_BULK_FIXTURE_HPP

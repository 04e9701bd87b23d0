//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/device_traits.hpp"
#include "unit/rpc_hostile_simulation.hpp"
#include "unit/rpc_simulated_server.hpp"
#include "unit/rpc_simulated_stream.hpp"
#include "unit/simulated_seeds.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

// See rpc_hostile_simulation.hpp, and rpc_simulation_test.cpp for an honest peer.

namespace test::rpc_hostile_peer_test {

TEST_CASE("a side of RPC keeps its limits and its memory, whatever the peer sends")
{
  const bool peer_is_server = GENERATE(false, true);
  const unsigned seeds = exhaustive() ? 10'000 : 100;
  std::size_t ended = 0;
  const bool all = run_seeds(0, seeds,
    [&](unsigned seed)
    {
      CAPTURE(seed, peer_is_server);
      try
      {
        ended += hostile_simulation(dice(seed), peer_is_server).run() ? 1 : 0;
      }
      catch (const std::logic_error& e)
      {
        FAIL(e.what());
      }
    });
  if (!all)
    return;
  CHECK(ended > seeds / 10);
  CHECK(ended < seeds - seeds / 10);
}

// Otherwise the transfer waits for an answer that a client without unanswered parts never sends,
// and a server that has too many bytes of requests does not read the end of the connection.
TEST_CASE("a server of RPC ends the connection when a client answers a part that was not asked for")
{
  using namespace rdma::detail::rpc;
  simulated_world world{dice(0)};
  const auto stream = std::make_shared<simulated_stream>(world.random, 10'000);
  const auto far = std::make_shared<simulated_stream>(world.random, 10'000);
  simulated_stream::join(stream, far);
  rdma::rpc::server_options options;
  options.bytes = 1;
  simulated_server server(world, stream, options);
  const auto come_to_rest = [&]
  {
    for (bool progress = true; progress;)
    {
      progress = simulated_world::run_one(world.server_io);
      progress = stream->arrive() || progress;
      progress = stream->report(false) || progress;
      progress = stream->write_more() || progress;
      progress = server.resume() || progress;
    }
  };
  const auto send = [&](std::vector<std::byte>& bytes)
  {
    for (std::size_t done = 0; done != bytes.size();)
    {
      rdma::error_code ec;
      done +=
        far->write_some(rdma::detail::stream_core::sources(asio::buffer(bytes) + done), false, ec);
      come_to_rest();
    }
    bytes.clear();
  };

  std::vector<std::byte> out;
  const auto add = [&](const message& m, const auto& append)
  {
    const std::size_t at = begin_message(out, m);
    append();
    end_message(out, at);
  };
  message m;
  m.type = message_type::hello;
  m.selector = message::version;
  add(m, [] {});
  m = {};
  m.type = message_type::expose;
  m.number = 1;
  exposed_range range;
  range.form = exposed_range::form_type::message;
  range.rights = rdma::access::remote_read;
  range.size = 8;
  add(m, [&] { append_range(out, range, {}); });
  m.type = message_type::call;
  m.selector = 3; // simulated::bulk
  const auto words = simulated::item_of(1, 0);
  const auto content = std::as_bytes(std::span(words));
  add(m, [&] { out.insert(out.end(), content.begin(), content.end()); });
  send(out);
  REQUIRE(!server.has_ended);

  std::optional<std::uint32_t> asked;
  message_reader reader(message::size_max);
  while (far->arrive())
  {
  }
  for (auto found = far->peek(); !found.empty(); found = far->peek())
    for (const asio::const_buffer& each : found)
    {
      std::span<const std::byte> bytes(static_cast<const std::byte*>(each.data()), each.size());
      reader.read(bytes,
        [&](const message& arrived, const auto&)
        {
          if (arrived.type == message_type::pull)
            asked = arrived.detail;
          return true;
        });
      far->consume(each.size());
    }
  REQUIRE(asked);
  m = {};
  m.type = message_type::part;
  m.number = *asked + 1;
  add(m, [&] { out.resize(out.size() + range.size); });
  send(out);
  CHECK(server.has_ended);
  server.end();
  come_to_rest();
}

} // namespace test::rpc_hostile_peer_test

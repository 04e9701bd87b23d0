//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "software/connect_fixture.hpp"

#include <spdlog/sinks/ringbuffer_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

// Tests the warning about a send that waits for a receive at the peer.

using namespace test;

namespace {

/// Collects the library's log while it exists.
class collected_log
{
public:
  collected_log()
  {
    spdlog::register_logger(std::make_shared<spdlog::logger>("boost_rdma", sink_));
  }
  ~collected_log() { spdlog::drop("boost_rdma"); }

  /// Returns the number of lines that contain all of these.
  [[nodiscard]] std::ptrdiff_t count(const std::vector<std::string>& parts) const
  {
    const auto lines = sink_->last_formatted();
    return std::count_if(lines.begin(), lines.end(),
      [&](const std::string& line)
      {
        return std::all_of(parts.begin(), parts.end(),
          [&](const std::string& part) { return line.find(part) != std::string::npos; });
      });
  }

private:
  std::shared_ptr<spdlog::sinks::ringbuffer_sink_mt> sink_ =
    std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(256);
};

/// A connection that a handshake made.
struct connection
{
  explicit connection(connect_fixture& f)
    : near(f.io, f.client_context)
  {
    connect_fixture::accepted server;
    plain_record connected;
    f.acceptor.async_accept(server.handler());
    near.async_connect(f.acceptor.local_endpoint(), connected.handler());
    REQUIRE(run_until(f.io, [&] { return connected.done() && server.calls == 1; }));
    REQUIRE(connected.ec == error_code());
    far.emplace(std::move(*server.peer));
  }

  /// Returns the words of the warning that are known beforehand.
  [[nodiscard]] std::vector<std::string> warning() const
  {
    return {"[warning]", "queue pair " + std::to_string(near.number()) + ": a send",
      "peer's queue pair " + std::to_string(far->number()) + " has no receive posted",
      "Post receives at the peer before", "rnr_retry_count"};
  }

  rdma::queue_pair near;
  std::optional<rdma::queue_pair> far;
};

/// As run_until(), for a condition that other threads bring about.
template <class Condition>
[[nodiscard]] bool run_while_waiting(asio::io_context& io, Condition done)
{
  const auto limit = std::chrono::steady_clock::now() + patience;
  while (!done() && std::chrono::steady_clock::now() < limit)
  {
    io.restart();
    io.run_for(std::chrono::milliseconds(10));
  }
  return done();
}

} // namespace

TEST_CASE("a send without a receive at the peer is logged once with both queue pair numbers")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  collected_log log;
  connect_fixture f;
  connection first(f);
  connection second(f);
  rdma::registered_buffer into = f.server_context.allocate(16);
  const rdma::registered_buffer text = buffer_of(f.client_context, "hello");

  bytes_record sent;
  first.near.async_send(text, sent.handler());
  REQUIRE(run_while_waiting(f.io, [&] { return log.count(first.warning()) != 0; }));

  // The second connection's warning needs at least as long as a repetition of the first one's.
  bytes_record other;
  second.near.async_send(text, other.handler());
  REQUIRE(run_while_waiting(f.io, [&] { return log.count(second.warning()) != 0; }));
  CHECK(log.count(first.warning()) == 1);
  CHECK_FALSE(sent.done());

  // When the peer has taken the message, the next one is another episode.
  bytes_record received;
  first.far->async_receive(into, received.handler());
  REQUIRE(run_until(f.io, [&] { return sent.done() && received.done(); }));
  CHECK(sent.ec == error_code());
  first.near.async_send(text, sent.handler());
  REQUIRE(run_while_waiting(f.io, [&] { return log.count(first.warning()) == 2; }));
  CHECK(log.count(second.warning()) == 1);
}

TEST_CASE("a send that the peer receives late is not logged when other sends completed meanwhile")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  collected_log log;
  connect_fixture f;
  connection busy(f);
  connection stalled(f);
  rdma::registered_buffer into = f.server_context.allocate(16);
  const rdma::registered_buffer text = buffer_of(f.client_context, "hello");
  bytes_record never;
  stalled.near.async_send(text, never.handler());

  // One send of this connection always waits, but never the same one for long.
  int failed = 0;
  std::function<void()> go = [&]
  {
    busy.near.async_send(text,
      [&](error_code ec, std::size_t)
      {
        if (ec)
          ++failed;
        else
          go();
      });
    busy.far->async_receive(into, [](error_code, std::size_t) {});
  };
  go();
  REQUIRE(run_while_waiting(f.io, [&] { return log.count(stalled.warning()) == 1; }));
  CHECK(log.count(busy.warning()) == 0);
  CHECK(failed == 0);
}

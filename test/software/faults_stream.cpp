//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/faults.hpp"
#include "software/stream_fixture.hpp"

#include <boost/asio/buffer.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// Streams while some step fails.

using namespace test;

namespace {

/// A stream acceptor and the streams of a round.
struct stream_round
{
  void run(faulty_round& round)
  {
    if (!round.make([&] { client.emplace(io, client_context, connected_pair::of(true)); }))
      return;
    const auto& accepted = round.start([&](auto handler) { acceptor.async_accept(handler); },
      [&](rdma::stream made) { server.emplace(std::move(made)); });
    if (!accepted.is_started)
      return;
    const auto& connected =
      round.start([&](auto handler) { client->async_connect(acceptor.local_endpoint(), handler); });
    round.await(connected);
    if (!connected.succeeded() || !server)
      return; // the acceptor has lost this client and waits for the next
    // In a message, in the first ring, and in larger ones.
    for (const std::string* text : {&sent, &large, &large, &large})
      if (!carries(round, *text))
        return;
    end_bytes(round, *client, *server);
    end_bytes(round, *server, *client);
  }

  void end_bytes(faulty_round& round, rdma::stream& from, rdma::stream& to)
  {
    error_code ec;
    from.shutdown(tcp::socket::shutdown_send, ec);
    if (!ec)
      round.await(
        round.start([&](auto handler) { to.async_read_some(asio::buffer(room), handler); }));
  }

  [[nodiscard]] bool carries(faulty_round& round, const std::string& text)
  {
    const auto& written =
      round.start([&](auto handler) { client->async_write_some(asio::buffer(text), handler); },
        [this](std::size_t size) { unread = size; });
    round.await(written);
    bool good = written.succeeded();
    while (good && unread != 0)
    {
      const auto& read =
        round.start([&](auto handler) { server->async_read_some(asio::buffer(room), handler); },
          [this](std::size_t size) { unread -= std::min(unread, size); });
      round.await(read);
      good = read.succeeded();
    }
    return good;
  }

  void end()
  {
    acceptor.cancel();
    server.reset();
    client.reset();
  }

  [[nodiscard]] bool serves_next()
  {
    bool received_text = false;
    bool accepts = false;
    std::size_t reads = 0;
    std::deque<rdma::stream> streams;
    std::function<void()> accept = [&]
    {
      accepts = true;
      acceptor.async_accept(
        [&](error_code ec, rdma::stream made)
        {
          accepts = false;
          if (ec || received_text)
            return;
          streams.push_back(std::move(made));
          ++reads;
          streams.back().async_read_some(asio::buffer(received),
            [&](error_code failed, std::size_t size)
            {
              --reads;
              received_text = received_text || (!failed && size != 0);
            });
          accept();
        });
    };
    accept();
    rdma::stream next(io, client_context, connected_pair::of(true));
    plain_record connected;
    next.async_connect(acceptor.local_endpoint(), connected.handler());
    if (!run_until(io, [&] { return connected.done(); }) || connected.ec)
      return false;
    bytes_record written;
    next.async_write_some(asio::buffer(sent), written.handler());
    const bool done = run_until(io, [&] { return received_text && written.done(); });
    acceptor.cancel();
    streams.clear();
    next.close();
    return run_until(io, [&] { return !accepts && reads == 0; }) && done && !written.ec;
  }

  asio::io_context io;
  rdma::context server_context = make_context();
  rdma::context client_context = make_context();
  rdma::stream_acceptor acceptor{io, server_context, loopback()};
  std::optional<rdma::stream> server;
  std::optional<rdma::stream> client;
  std::string sent = "hello";
  std::string large = std::string(300'000, 'x');
  std::array<char, 64> received{};
  std::vector<char> room = std::vector<char>(300'000);
  std::size_t unread = 0;
};

} // namespace

TEST_CASE("streams that connect while allocations fail end each operation once")
{
  // Not by TCP: Boost 1.81's any_completion_handler returns an empty executor without memory, which
  // Asio's sockets do not check.
  with_failing_allocations<stream_round>();
}

TEST_CASE("streams that connect while system calls fail end each operation once")
{
  with_failing_calls<stream_round>();
}

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/connect_fixture.hpp"
#include "software/faults.hpp"

#include <boost_rdma/upgrade.hpp>

#include <boost/asio/post.hpp>
#include <boost/beast/http.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

// Upgrades of streams while some step fails.

using namespace test;

namespace {

/// A web site, and the streams and queue pairs of a round.
struct upgrading
{
  void run(faulty_round& round)
  {
    {
      const spared_faults own;
      client_stream.emplace(io);
      client_stream->connect(listener.local_endpoint());
      server_stream.emplace(listener.accept());
    }
    if (!round.make([&] { client.emplace(io, client_context, faulty_round_options()); }))
      return;
    read(round);
    const auto& connected = round.start([&](auto handler)
      { rdma::async_upgrade(std::move(*client_stream), *client, wishes, handler); });
    round.await(connected);
    if (!connected.succeeded() || !server)
      return;
    const auto& receive =
      round.start([&](auto handler) { server->async_receive(received, handler); });
    const auto& send = round.start([&](auto handler) { client->async_send(sent, handler); });
    round.await(send);
    if (send.succeeded())
      round.await(receive);
  }

  // Faults spare the handler, which is the program's, and not what is posted.
  void read(faulty_round& round)
  {
    round.start([&](auto handler) { server_stream->async_read_some(asio::buffer(room), handler); },
      [&](std::size_t size)
      {
        text.append(room.data(), size);
        asio::post(io,
          [this, &round, complete = text.ends_with("\r\n\r\n")]
          {
            if (complete)
              accept(round);
            else
              read(round);
          });
      });
  }

  void accept(faulty_round& round)
  {
    boost::beast::http::request_parser<boost::beast::http::empty_body> parser;
    {
      const spared_faults own;
      error_code ec;
      parser.put(asio::buffer(text), ec);
    }
    round.start([&](auto handler)
      { rdma::async_upgrade(std::move(*server_stream), parser.get(), server_context, handler); },
      [&](rdma::queue_pair made) { server.emplace(std::move(made)); });
  }

  void end()
  {
    io.restart();
    io.poll(); // what is posted belongs to this round
    server_stream.reset();
    client_stream.reset();
    server.reset();
    client.reset();
    text.clear();
  }

  [[nodiscard]] bool serves_next()
  {
    faulty_round next(io, fault::call);
    run(next);
    const bool served = server && server->is_connected();
    end();
    next.check();
    return served;
  }

  asio::io_context io;
  rdma::context server_context = make_context();
  rdma::context client_context = make_context();
  tcp::acceptor listener{io, loopback()};
  rdma::connect_options wishes{.host = "localhost", .fields = {}, .data = {}};
  std::optional<tcp::socket> server_stream;
  std::optional<tcp::socket> client_stream;
  std::array<char, 1024> room{};
  std::string text;
  std::optional<rdma::queue_pair> server;
  std::optional<rdma::queue_pair> client;
  const rdma::registered_buffer sent = buffer_of(client_context, "hello");
  const rdma::registered_buffer received = server_context.allocate(64);
};

} // namespace

// Not with failing allocations: Boost 1.81's any_io_executor, which the program's sockets use,
// allocates in noexcept functions.
TEST_CASE("streams that are upgraded while system calls fail end each operation once")
{
  with_failing_calls<upgrading>();
}

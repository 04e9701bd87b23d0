//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/faults.hpp"
#include "software/upgrade_fixture.hpp"

#include <boost_rdma/upgrade.hpp>

#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/core/stream_traits.hpp>
#include <boost/beast/http.hpp>

#include <array>
#include <cstddef>
#include <exception>
#include <optional>
#include <string>
#include <utility>

// Upgrades of streams while some step fails.

using namespace test;

namespace {

/// A web site, and the streams and queue pairs of a round.
template <class Streams>
struct upgrading
{
  void run(faulty_round& round)
  {
    connect_streams();
    if (!round.make([&] { client.emplace(io, client_context, options); }))
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

  void connect_streams()
  {
    const spared_faults own;
    tcp::socket near(io);
    near.connect(listener.local_endpoint());
    client_stream.emplace(streams.make(std::move(near), false));
    server_stream.emplace(streams.make(listener.accept(), true));
    int ready = 0;
    const auto shake_hands = [&](auto& stream, ssl::stream_base::handshake_type type)
    {
      asio::co_spawn(io, streams.shake_hands(stream, type),
        [&](const std::exception_ptr& problem) { ready += problem ? 0 : 1; });
    };
    shake_hands(*client_stream, ssl::stream_base::client);
    shake_hands(*server_stream, ssl::stream_base::server);
    REQUIRE(run_until(io, [&] { return ready == 2; }));
    socket_of(*server_stream).non_blocking(true); // the client sends the rest on this thread
  }

  // Faults spare the handler, which is the program's, and not what is posted.
  void read(faulty_round& round)
  {
    round.start([&](auto handler)
      { socket_of(*server_stream).async_wait(tcp::socket::wait_read, handler); },
      [&]
      {
        error_code ec;
        text.append(room.data(), server_stream->read_some(asio::buffer(room), ec));
        if (ec && ec != asio::error::would_block) // a part of a TLS record has arrived
          return;                                 // the client has ended
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
    options = {}; // of a client that must not fail
    run(next);
    options = faulty_round_options();
    const bool served = server && server->is_connected();
    end();
    next.check();
    return served;
  }

  template <class Stream>
  static auto& socket_of(Stream& stream)
  {
    auto& lowest = beast::get_lowest_layer(stream);
    if constexpr (requires { lowest.socket(); })
      return lowest.socket();
    else
      return lowest;
  }

  asio::io_context io;
  Streams streams;
  rdma::context server_context = make_context();
  rdma::context client_context = make_context();
  tcp::acceptor listener{io, loopback()};
  rdma::queue_pair_options options = faulty_round_options();
  rdma::connect_options wishes{.host = "localhost", .fields = {}, .data = {}};
  std::optional<typename Streams::stream> server_stream;
  std::optional<typename Streams::stream> client_stream;
  std::array<char, 1024> room{};
  std::string text;
  std::optional<rdma::queue_pair> server;
  std::optional<rdma::queue_pair> client;
  const rdma::registered_buffer sent = buffer_of(client_context, "hello");
  const rdma::registered_buffer received = server_context.allocate(64);
};

} // namespace

TEMPLATE_TEST_CASE("streams that are upgraded while allocations fail end each operation once", "",
  bare_socket, plain, asio_tls, tls)
{
  with_failing_allocations<upgrading<TestType>>();
}

TEMPLATE_TEST_CASE("streams that are upgraded while system calls fail end each operation once", "",
  bare_socket, asio_tls)
{
  with_failing_calls<upgrading<TestType>>();
}

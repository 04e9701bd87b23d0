//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_SOFTWARE_CONNECT_FIXTURE_HPP
#define BOOST_RDMA_TEST_SOFTWARE_CONNECT_FIXTURE_HPP

#include "common/rdma_fixture.hpp"
#include "completion/queue_pair_core.hpp"
#include "connect/control_frame.hpp"
#include "connect/upgrade.hpp"

#include <boost_rdma/acceptor.hpp>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/write.hpp>

#include <array>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <vector>

namespace test {

using asio::ip::tcp;
using rdma::error;

inline tcp::endpoint loopback(std::uint16_t port = 0)
{
  return {asio::ip::address_v4::loopback(), port};
}

/// An acceptor and a context for its clients.
struct connect_fixture
{
  explicit connect_fixture(const rdma::acceptor_options& options = {})
    : acceptor(io, server_context, loopback(), options)
  {
    need(feature::endpoint_descriptions);
  }

  /// Stores the result of an accept.
  struct accepted
  {
    int calls = 0;
    error_code ec;
    std::optional<rdma::queue_pair> peer;

    auto handler()
    {
      return [this](error_code result, rdma::queue_pair queue_pair)
      {
        ++calls;
        ec = result;
        peer.emplace(std::move(queue_pair));
      };
    }
  };

  /// Returns true if a new client is accepted, that is, if no other client blocks it.
  [[nodiscard]] bool serves_a_good_client()
  {
    accepted server;
    acceptor.async_accept(server.handler());
    return serves_a_good_client(server);
  }

  /// The same with an accept that is outstanding already.
  [[nodiscard]] bool serves_a_good_client(const accepted& server)
  {
    if (server.calls != 0)
      return false;
    plain_record connected;
    rdma::queue_pair client(io, client_context);
    client.async_connect(acceptor.local_endpoint(), connected.handler());
    return run_until(io, [&] { return connected.done() && server.calls != 0; }) && !connected.ec
      && !server.ec && server.peer->is_connected() && client.is_connected();
  }

  asio::io_context io;
  rdma::context server_context = make_context();
  rdma::context client_context = make_context();
  rdma::acceptor acceptor;
};

/// A peer that uses plain TCP and sends only the bytes that the test provides. Its calls block,
/// with a time limit, because nothing that they wait for needs this thread.
class plain_peer
{
public:
  explicit plain_peer(tcp::socket socket)
    : socket_(std::move(socket))
  {
    const timeval limit{patience.count(), 0};
    ::setsockopt(socket_.native_handle(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }

  /// `from` is the peer's own address.
  static plain_peer connect(asio::io_context& io, const tcp::endpoint& to,
    const asio::ip::address& from = asio::ip::address_v4::loopback())
  {
    tcp::socket socket(io);
    socket.open(to.protocol());
    socket.bind({from, 0});
    socket.connect(to);
    return plain_peer(std::move(socket));
  }

  void send(std::string_view text)
  {
    error_code ignored; // the other side may have disconnected
    asio::write(socket_, asio::buffer(text.data(), text.size()), ignored);
  }

  void send(rdma::detail::frame_type type)
  {
    asio::write(socket_, asio::buffer(rdma::detail::encode_frame(type)));
  }

  /// Waits for the next frame of this type and skips others. Returns false at the end.
  [[nodiscard]] bool await(rdma::detail::frame_type type)
  {
    while (const auto found = read_frame())
      if (*found == type)
        return true;
    return false;
  }

  /// Returns the type of the next frame, or nothing at the end, and stores its payload in
  /// `payload`.
  std::optional<rdma::detail::frame_type> read_frame()
  {
    using reader = rdma::detail::frame_reader;
    for (;;)
    {
      std::array<std::uint8_t, 1> byte{};
      error_code ec;
      if (asio::read(socket_, asio::buffer(byte), ec) != 1)
        return std::nullopt;
      std::span<const std::uint8_t> input(byte);
      const reader::result result = frames_.read(input);
      if (result == reader::result::malformed)
        return std::nullopt;
      if (result == reader::result::frame)
      {
        payload = frames_.payload();
        return static_cast<rdma::detail::frame_type>(frames_.type());
      }
    }
  }

  /// Returns the types of all frames up to the end, except heartbeats.
  std::vector<rdma::detail::frame_type> read_frames()
  {
    std::vector<rdma::detail::frame_type> result;
    while (const auto found = read_frame())
      if (*found != rdma::detail::frame_type::heartbeat)
        result.push_back(*found);
    return result;
  }

  std::string payload;

  void finish_sending()
  {
    error_code ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
  }

  /// Reads up to an empty line or the end.
  std::string read_header()
  {
    std::string text;
    error_code ignored;
    asio::read_until(socket_, asio::dynamic_buffer(text, 64 * 1024), "\r\n\r\n", ignored);
    return text;
  }

  /// Reads up to the end. Returns false if the time limit expires first.
  [[nodiscard]] bool read_end(std::string& text)
  {
    error_code ec;
    asio::read(socket_, asio::dynamic_buffer(text), ec);
    return ec == asio::error::eof || ec == asio::error::connection_reset;
  }
  [[nodiscard]] bool read_end()
  {
    std::string ignored;
    return read_end(ignored);
  }

private:
  tcp::socket socket_;
  rdma::detail::frame_reader frames_;
};

/// Waits for one client.
class plain_server
{
public:
  plain_server()
    : acceptor_(io_, loopback())
  {
  }
  [[nodiscard]] tcp::endpoint endpoint() const { return acceptor_.local_endpoint(); }
  [[nodiscard]] asio::io_context& io() { return io_; }
  plain_peer accept() { return plain_peer(acceptor_.accept()); }

private:
  asio::io_context io_;
  tcp::acceptor acceptor_;
};

template <class Message>
std::string http_text(const Message& message)
{
  std::ostringstream out;
  out << message;
  return out.str();
}

/// Returns the handshake parameters of a client or server with only this queue pair.
inline rdma::detail::handshake_parameters handshake_parameters_of(
  const rdma::endpoint_description& endpoint)
{
  rdma::detail::handshake_parameters self;
  self.endpoints.push_back(endpoint);
  return self;
}

inline std::string good_request(const rdma::endpoint_description& endpoint)
{
  error_code ec;
  return http_text(
    rdma::detail::make_upgrade_request("localhost", {}, handshake_parameters_of(endpoint), ec));
}

inline std::string good_answer(const rdma::endpoint_description& endpoint)
{
  return http_text(rdma::detail::make_upgrade_response(handshake_parameters_of(endpoint)));
}

/// Returns the first endpoint in a request or an answer.
inline rdma::endpoint_description endpoint_in(const std::string& header)
{
  const std::string field = "Rdma-Endpoint: ";
  const std::size_t at = header.find(field) + field.size();
  return rdma::endpoint_description::parse(header.substr(at, header.find('\r', at) - at));
}

/// Connects a queue pair as the client of a handshake that the test performs (it is ready last), or
/// as the server.
inline void connect_as_client(rdma::queue_pair& own, const rdma::endpoint_description& server)
{
  error_code ec;
  own.core()->connect(server, ec, rdma::detail::queue_pair_core::side::last);
  if (ec)
    throw rdma::system_error(ec);
}
inline void connect_as_server(rdma::queue_pair& own, const rdma::endpoint_description& client)
{
  error_code ec;
  own.core()->connect(client, ec, rdma::detail::queue_pair_core::side::first);
  if (ec)
    throw rdma::system_error(ec);
}

/// Performs the client's part of the handshake after this answer, until the acceptor's queue pair
/// is connected with `own`.
[[nodiscard]] inline bool confirm_as_client(
  plain_peer& peer, rdma::queue_pair& own, const std::string& answer)
{
  using rdma::detail::frame_type;
  connect_as_client(own, endpoint_in(answer));
  peer.send(frame_type::confirmed);
  return peer.await(frame_type::confirmed);
}

/// Performs the server's part of the handshake for this request.
[[nodiscard]] inline bool confirm_as_server(
  plain_peer& peer, rdma::queue_pair& own, const std::string& request, const std::string& more = {})
{
  using rdma::detail::frame_type;
  const std::string answer = good_answer(own.local_endpoint());
  connect_as_server(own, endpoint_in(request));
  peer.send(answer);
  const bool confirmed = peer.await(frame_type::confirmed);
  peer.send(rdma::detail::encode_frame(frame_type::confirmed) + more);
  return confirmed;
}

/// Returns true if the choice names a declined transport with this reason.
inline bool names(
  const rdma::transport_choice& choice, const std::string& transport, const std::string& reason)
{
  for (const rdma::declined_transport& each : choice.declined)
    if (each.transport.find(transport) != std::string::npos
      && each.reason.find(reason) != std::string::npos)
      return true;
  return false;
}

} // namespace test

#endif // BOOST_RDMA_TEST_SOFTWARE_CONNECT_FIXTURE_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_SOFTWARE_RAW_CM_PEER_HPP
#define BOOST_RDMA_TEST_SOFTWARE_RAW_CM_PEER_HPP

#include "common/catch.hpp"
#include "common/patience.hpp"
#include "verbs/software/cm/message.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/udp.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <poll.h>

// A peer of RDMA-CM that the test plays message by message.

namespace test {

class raw_cm_peer
{
public:
  using message = rdma::software::cm::message;
  using message_type = rdma::software::cm::message_type;
  using udp = boost::asio::ip::udp;

  /// A client of a listener.
  raw_cm_peer(boost::asio::io_context& io, const boost::asio::ip::tcp::endpoint& listener)
    : to_(listener.address(), listener.port())
    , socket_(io, udp::endpoint(boost::asio::ip::address_v4::loopback(), 0))
  {
    socket_.non_blocking(true);
  }
  /// A listener, whose client is the sender of the last message.
  explicit raw_cm_peer(boost::asio::io_context& io)
    : raw_cm_peer(io, {boost::asio::ip::address_v4::loopback(), 0})
  {
  }

  udp::endpoint local() const { return socket_.local_endpoint(); }
  /// Returns the other side: the listener, or the sender of the last message.
  const udp::endpoint& peer() const noexcept { return to_; }
  void send_to(const boost::asio::ip::tcp::endpoint& listener)
  {
    to_ = {listener.address(), listener.port()};
  }

  void send(std::span<const std::byte> what)
  {
    socket_.send_to(boost::asio::buffer(what.data(), what.size()), to_);
    ++sent;
  }
  void send(const message& what) { send(rdma::software::cm::encode(what)); }

  /// Returns the next message; nothing if there is none for a while.
  std::optional<message> receive()
  {
    std::array<std::byte, 2 * rdma::software::cm::message_size> into;
    for (;;)
    {
      pollfd readable{socket_.native_handle(), POLLIN, 0};
      // A datagram may be lost; the caller sends again.
      if (::poll(&readable, 1, 200) <= 0)
        return std::nullopt;
      boost::system::error_code ec;
      const std::size_t n = socket_.receive_from(boost::asio::buffer(into), to_, 0, ec);
      if (ec)
        continue;
      ++answers;
      const auto what = rdma::software::cm::decode(std::span(into).first(n));
      REQUIRE(what);
      return what;
    }
  }
  /// Returns the next message of this type, and drops others.
  std::optional<message> receive(message_type wanted)
  {
    auto what = receive();
    while (what && what->type != wanted)
      what = receive();
    return what;
  }

  /// Waits for a message of this type.
  message await(message_type wanted)
  {
    std::optional<message> answer;
    REQUIRE(until([&] { return (answer = receive(wanted)).has_value(); }));
    return *answer;
  }

  /// Sends `what` until it is answered by this type.
  message ask(const message& what, message_type wanted)
  {
    std::optional<message> answer;
    REQUIRE(until(
      [&]
      {
        send(what);
        return (answer = receive(wanted)).has_value();
      }));
    return *answer;
  }

  /// Sends `what` until it is answered. Returns the first message of its transaction.
  message ask(const message& what)
  {
    std::optional<message> answer;
    REQUIRE(until(
      [&]
      {
        send(what);
        do
          answer = receive();
        while (answer && answer->transaction != what.transaction);
        return answer.has_value();
      }));
    return *answer;
  }

  /// Waits until the other side has taken all that was sent before. Returns its other messages.
  std::vector<message> settle()
  {
    message last;
    last.type = message_type::disconnect; // each is answered
    last.local_id = 1;
    last.transaction = ++settled_;
    std::vector<message> others;
    const auto is_answered = [&]
    {
      send(last);
      for (auto what = receive(); what; what = receive())
      {
        if (what->type == message_type::disconnected && what->transaction == last.transaction)
          return true;
        if (what->type != message_type::disconnected || what->remote_id != last.local_id)
          others.push_back(*what); // and not an earlier answer, if `last` was sent twice
      }
      return false;
    };
    REQUIRE(until(is_answered));
    return others;
  }

  /// A request to the listener.
  message request(std::uint32_t id) const
  {
    constexpr std::uint64_t tcp_space = 0x106; // RDMA_PS_TCP
    message m;
    m.type = message_type::request;
    m.transaction = m.local_id = id;
    m.service_id = tcp_space << 16 | to_.port();
    m.source_port = 40000;
    const auto v6 =
      boost::asio::ip::make_address_v6(boost::asio::ip::v4_mapped, to_.address().to_v4());
    m.source = m.destination = v6.to_bytes();
    m.queue_pair = 77;
    m.path_mtu = 5;
    m.retry_count = m.rnr_retry_count = 7;
    m.local_ack_timeout = 16;
    return m;
  }

  unsigned sent = 0;
  unsigned answers = 0;

private:
  udp::endpoint to_;
  udp::socket socket_;
  std::uint64_t settled_ = 0;
};

} // namespace test

#endif // BOOST_RDMA_TEST_SOFTWARE_RAW_CM_PEER_HPP

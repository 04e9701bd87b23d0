//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_BENCH_CONNECTIONS_HPP
#define BOOST_RDMA_BENCH_CONNECTIONS_HPP

#include <boost_rdma/acceptor.hpp>
#include <boost_rdma/context.hpp>
#include <boost_rdma/memory_region.hpp>
#include <boost_rdma/queue_pair.hpp>
#include <boost_rdma/software/device.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

// The compared kinds of connection, and the resources that all connections of a side share. Clients
// connect() and make round trips; servers accept and echo.

namespace bench {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;

constexpr std::size_t message_size = 64;

inline void check(const rdma::error_code& ec)
{
  if (ec)
    throw rdma::system_error(ec);
}

/// The content of a message, by connection and round. The reply must be equal.
inline std::byte pattern(std::size_t connection, std::size_t round, std::size_t i)
{
  return static_cast<std::byte>(connection * 31 + round * 7 + i);
}

/// Plain Asio TCP: one HTTP exchange after the connect, then messages.
class tcp_connection
{
public:
  struct shared
  {
    shared(asio::io_context& to_run, std::size_t, std::uint32_t)
      : io(to_run)
      , acceptor(to_run)
    {
    }

    std::uint16_t listen()
    {
      acceptor.open(tcp::v4());
      acceptor.set_option(tcp::acceptor::reuse_address(true));
      acceptor.bind({asio::ip::address_v4::loopback(), 0});
      acceptor.listen();
      return acceptor.local_endpoint().port();
    }

    asio::io_context& io;
    tcp::acceptor acceptor;
  };

  tcp_connection(shared& all, std::size_t)
    : socket_(all.io)
  {
  }
  tcp_connection(shared&, std::size_t, tcp::socket socket)
    : socket_(std::move(socket))
  {
  }

  asio::awaitable<void> connect(tcp::endpoint server)
  {
    co_await socket_.async_connect(server, asio::use_awaitable);
    socket_.set_option(tcp::no_delay(true));
    http::request<http::empty_body> request(http::verb::get, "/echo", 11);
    request.set(http::field::host, "127.0.0.1");
    request.keep_alive(true);
    co_await http::async_write(socket_, request, asio::use_awaitable);
    boost::beast::flat_buffer buffer;
    http::response<http::empty_body> response;
    co_await http::async_read(socket_, buffer, response, asio::use_awaitable);
    if (response.result() != http::status::ok)
      throw std::runtime_error("the server did not respond with 200 OK");
  }

  static asio::awaitable<tcp::socket> accept(shared& all)
  {
    co_return co_await all.acceptor.async_accept(asio::use_awaitable);
  }

  /// The server's side of the HTTP exchange.
  asio::awaitable<void> answer()
  {
    socket_.set_option(tcp::no_delay(true));
    boost::beast::flat_buffer buffer;
    http::request<http::empty_body> request;
    co_await http::async_read(socket_, buffer, request, asio::use_awaitable);
    http::response<http::empty_body> response(http::status::ok, 11);
    response.content_length(0);
    response.keep_alive(true);
    co_await http::async_write(socket_, response, asio::use_awaitable);
  }

  void echo()
  {
    asio::async_read(socket_, asio::buffer(data_),
      [this](rdma::error_code read_ec, std::size_t)
      {
        if (read_ec)
          return; // the client has closed
        asio::async_write(socket_, asio::buffer(data_),
          [this](rdma::error_code ec, std::size_t)
          {
            check(ec);
            echo();
          });
      });
  }

  [[nodiscard]] std::byte* outgoing() { return data_.data(); }
  [[nodiscard]] std::byte* incoming() { return data_.data(); }

  template <class Handler>
  void round_trip(Handler handler)
  {
    asio::async_write(socket_, asio::buffer(data_),
      [this, handler](rdma::error_code ec, std::size_t) mutable
      {
        check(ec);
        data_.fill({});
        asio::async_read(socket_, asio::buffer(data_),
          [handler](rdma::error_code read_ec, std::size_t) mutable
          {
            check(read_ec);
            handler();
          });
      });
  }

private:
  tcp::socket socket_;
  std::array<std::byte, message_size> data_{};
};

/// A queue pair on the software device.
class rdma_connection
{
public:
  struct shared
  {
    // Depth 0 means the library's default.
    shared(asio::io_context& to_run, std::size_t connections, std::uint32_t depth)
      : io(to_run)
      , memory(context, connections * 2 * message_size)
    {
      options.device = rdma::software::device_name;
      options.confirm_timeout = options.connect_timeout; // many connect at the same time
      if (depth != 0)
        options.send_depth = options.receive_depth = depth;
    }

    std::uint16_t listen()
    {
      rdma::acceptor_options how;
      how.queue_pair = options;
      acceptor.emplace(io, context, tcp::endpoint(asio::ip::address_v4::loopback(), 0), how);
      return acceptor->local_endpoint().port();
    }

    asio::io_context& io;
    rdma::context context;
    rdma::memory_region memory; // 2 messages per connection
    rdma::queue_pair_options options;
    std::optional<rdma::acceptor> acceptor;
  };

  rdma_connection(shared& all, std::size_t index)
    : rdma_connection(all, index, rdma::queue_pair(all.io, all.context, all.options))
  {
  }
  rdma_connection(shared& all, std::size_t index, rdma::queue_pair accepted)
    : all_(all)
    , offset_(index * 2 * message_size)
    , peer_(std::move(accepted))
  {
  }

  asio::awaitable<void> connect(tcp::endpoint server)
  {
    co_await peer_.async_connect(server, asio::use_awaitable);
  }

  static asio::awaitable<rdma::queue_pair> accept(shared& all)
  {
    co_return co_await all.acceptor->async_accept(asio::use_awaitable);
  }

  asio::awaitable<void> answer() { co_return; }

  // Two message buffers alternate, so that a receive is posted before the client gets its reply.
  void echo(std::size_t turn = 0)
  {
    peer_.async_receive(message(turn),
      [this, turn](rdma::error_code receive_ec, std::size_t)
      {
        if (receive_ec)
          return; // the client has closed
        echo(1 - turn);
        peer_.async_send(
          message(turn), [](rdma::error_code, std::size_t) {}); // the client detects a lost reply
      });
  }

  [[nodiscard]] std::byte* outgoing() { return all_.memory.data() + offset_; }
  [[nodiscard]] std::byte* incoming() { return outgoing() + message_size; }

  template <class Handler>
  void round_trip(Handler handler)
  {
    peer_.async_receive(message(1),
      [handler](rdma::error_code ec, std::size_t) mutable
      {
        check(ec);
        handler();
      });
    peer_.async_send(message(0), [](rdma::error_code ec, std::size_t) { check(ec); });
  }

private:
  [[nodiscard]] rdma::mutable_buffer message(std::size_t which) const
  {
    return all_.memory.slice(offset_ + which * message_size, message_size);
  }

  shared& all_;
  std::size_t offset_;
  rdma::queue_pair peer_;
};

} // namespace bench

#endif // BOOST_RDMA_BENCH_CONNECTIONS_HPP

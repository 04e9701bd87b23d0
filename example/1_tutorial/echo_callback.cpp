//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Echo with a callback for each operation. In two terminals:
//
//   echo_callback serve --port 7471
//   echo_callback connect 127.0.0.1 7471 "Hello, RDMA"
//
// The server returns the messages that it receives, until its client disconnects.

#include "common/command_line.hpp"
#include "common/report.hpp"

#include <boost_rdma/acceptor.hpp>
#include <boost_rdma/context.hpp>
#include <boost_rdma/queue_pair.hpp>

#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <iostream>
#include <optional>
#include <string_view>

namespace asio = boost::asio;
using asio::ip::tcp;

class server
{
public:
  server(asio::io_context& io, const rdma::context& context, const tcp::endpoint& endpoint)
    : acceptor_(io, context, endpoint)
    , buffer_(context.allocate(4096))
  {
    std::cout << "listening on " << acceptor_.local_endpoint() << std::endl;
    acceptor_.async_accept(
      [this](rdma::error_code ec, rdma::queue_pair peer)
      {
        if (ec)
          return fail("accept", ec);
        peer_.emplace(std::move(peer));
        receive();
      });
  }

  [[nodiscard]] bool failed() const { return failed_; }

private:
  void receive()
  {
    peer_->async_receive(buffer_,
      [this](rdma::error_code ec, std::size_t n)
      {
        if (ec == rdma::error::peer_closed)
          return; // the client is done
        if (ec)
          return fail("receive", ec);
        send(n);
      });
  }

  void send(std::size_t n)
  {
    peer_->async_send(buffer_.first(n),
      [this](rdma::error_code ec, std::size_t)
      {
        if (ec)
          return fail("send", ec);
        receive();
      });
  }

  void fail(std::string_view what, const rdma::error_code& ec)
  {
    example::complain(what, ec);
    failed_ = true;
  }

  rdma::acceptor acceptor_;
  rdma::registered_buffer buffer_;
  std::optional<rdma::queue_pair> peer_;
  bool failed_ = false;
};

class client
{
public:
  client(asio::io_context& io, const rdma::context& context, const tcp::endpoint& endpoint,
    std::string_view message)
    : peer_(io, context)
    , request_(context.allocate(message.size()))
    , answer_(context.allocate(message.size()))
  {
    std::ranges::copy(std::as_bytes(std::span(message)), request_.data());
    peer_.async_connect(endpoint,
      [this](rdma::error_code ec)
      {
        if (ec)
          return fail("connect", ec);
        // The receive must be posted before the answer arrives.
        peer_.async_receive(answer_,
          [this](rdma::error_code receive_ec, std::size_t n)
          {
            if (receive_ec)
              return fail("receive", receive_ec);
            std::cout << std::string_view(reinterpret_cast<char*>(answer_.data()), n) << '\n';
          });
        peer_.async_send(request_,
          [this](rdma::error_code send_ec, std::size_t)
          {
            if (send_ec)
              fail("send", send_ec);
          });
      });
  }

  [[nodiscard]] bool failed() const { return failed_; }

private:
  void fail(std::string_view what, const rdma::error_code& ec)
  {
    example::complain(what, ec);
    failed_ = true;
  }

  rdma::queue_pair peer_;
  rdma::registered_buffer request_;
  rdma::registered_buffer answer_;
  bool failed_ = false;
};

int main(int argc, char** argv)
{
  const auto options = example::parse_command_line(argc, argv, "Echo with callbacks");
  try
  {
    asio::io_context io;
    rdma::context context;
    if (options.serve)
    {
      server server(io, context, options.endpoint);
      io.run();
      return server.failed() ? 1 : 0;
    }
    client client(io, context, options.endpoint, options.message);
    io.run();
    return client.failed() ? 1 : 0;
  }
  catch (const std::exception& failure)
  {
    example::complain(failure);
    return 1;
  }
}

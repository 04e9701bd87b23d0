//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// transport_pair serve|connect ADDRESS PORT [OPTION...]
//
// One side of a connection, for test/vm/fallback. Prints the transport in use and the reasons why
// better ones are not used, and sends a message in each direction.
//
//   --device NAME   sets queue_pair_options::device
//   --no-fall-back  turns queue_pair_options::fall_back off
//   --until-lost    keeps a receive outstanding and writes until the connection ends;
//                   heartbeat_limit is 1 s
//   --impatient     sets heartbeat_limit and confirm_timeout to 1 s and connect_timeout to 3 s;
//                   a server waits for another client if a connection does not end as expected
//   --patient       sets confirm_timeout to 10 s and connect_timeout to 30 s
//
// Each line of output is a key, a colon and a text. Exit codes: 0 if the messages arrived and the
// connection ended as expected, 1 if not, 2 for wrong arguments. A server logs a failed handshake
// and waits for the next client.

#include <boost_rdma/acceptor.hpp>
#include <boost_rdma/context.hpp>
#include <boost_rdma/memory_region.hpp>
#include <boost_rdma/queue_pair.hpp>

#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

class party
{
public:
  party(asio::io_context& io, const rdma::context& context, bool serves, bool until_lost,
    bool impatient)
    : io_(io)
    , serves_(serves)
    , until_lost_(until_lost)
    , impatient_(impatient)
    , shared_(context, 4096, rdma::access::local_write | rdma::remote_access)
    , in_(context.allocate(256))
    , out_(context.allocate(rdma::remote_buffer::encoded_size + name().size()))
    , data_(context.allocate(4096))
  {
    const rdma::remote_buffer::encoded handle = shared_.remote().encode();
    std::ranges::copy(handle, out_.data());
    std::ranges::copy(std::as_bytes(std::span(name())), out_.data() + handle.size());
  }

  void serve(const rdma::context& context, const tcp::endpoint& endpoint,
    const rdma::queue_pair_options& options)
  {
    rdma::acceptor_options accepting;
    accepting.queue_pair = options;
    // Differs if --patient or --impatient was given.
    if (options.connect_timeout != rdma::queue_pair_options().connect_timeout)
      accepting.handshake_timeout = options.connect_timeout;
    acceptor_.emplace(io_, context, endpoint, accepting);
    accept();
    print("listening on", std::to_string(acceptor_->local_endpoint().port()));
  }

  void connect(const rdma::context& context, const tcp::endpoint& endpoint,
    const rdma::queue_pair_options& options)
  {
    peer_.emplace(io_, context, options);
    receive(); // before the device is chosen
    print("connecting", endpoint.address().to_string());
    peer_->async_connect(endpoint,
      [this](rdma::error_code ec)
      {
        if (ec)
          print("not connected", peer_->diagnose().text());
        else
          begin();
      });
  }

  [[nodiscard]] bool succeeded() const { return succeeded_; }

private:
  /// Counts a handler of the current connection. After the last one, a server may accept the next
  /// connection.
  class completion
  {
  public:
    explicit completion(party& of)
      : of_(of)
    {
    }
    ~completion()
    {
      if (--of_.outstanding_ != 0)
        return;
      of_.judge();
      if (!of_.serves_ || !of_.impatient_ || of_.succeeded_)
        return;
      of_.peer_.reset();
      of_.accept();
    }
    completion(const completion&) = delete;
    completion& operator=(const completion&) = delete;

  private:
    party& of_;
  };

  [[nodiscard]] std::string_view name() const
  {
    return serves_ ? "the server's message" : "the client's message";
  }

  static void print(std::string_view what, std::string_view text)
  {
    std::cout << what << ": " << text << std::endl;
  }

  void accept()
  {
    passed_ = 0;
    ended_.reset();
    acceptor_->async_accept(
      [this](rdma::error_code ec, rdma::queue_pair peer)
      {
        if (ec)
          return print("accept", ec.message());
        peer_.emplace(std::move(peer));
        receive();
        begin();
      });
  }

  void begin()
  {
    print("transport", peer_->transport().text());
    ++outstanding_;
    peer_->async_wait_close(
      [this](rdma::error_code ec)
      {
        const completion one(*this);
        print("ended", ec.message());
        ended_ = ec;
      });
    ++outstanding_;
    peer_->async_send(out_,
      [this](rdma::error_code ec, std::size_t)
      {
        const completion one(*this);
        if (ec)
          return print("send", ec.message());
        pass();
      });
  }

  // Runs when all handlers of a connection have been called. The order varies: the last message may
  // be reported after the end.
  void judge()
  {
    const rdma::error_code wanted = until_lost_ ? rdma::error::peer_lost
      : serves_                                 ? rdma::error_code(rdma::error::peer_closed)
                                                : rdma::error_code();
    succeeded_ = passed_ == 2 && ended_ == wanted;
  }

  void receive()
  {
    ++outstanding_;
    peer_->async_receive(in_,
      [this](rdma::error_code ec, std::size_t n)
      {
        const completion one(*this);
        if (ec)
          return print("receive", ec.message());
        const auto message = in_.bytes().first(n);
        remote_ = rdma::remote_buffer::decode(message.first(rdma::remote_buffer::encoded_size));
        const auto text = message.subspan(rdma::remote_buffer::encoded_size);
        print("received", {reinterpret_cast<const char*>(text.data()), text.size()});
        pass();
      });
  }

  // A message has arrived on one of the sides.
  void pass()
  {
    if (++passed_ != 2)
      return;
    if (until_lost_)
    {
      receive();
      write();
      print("writing", "until the end");
    }
    else if (!serves_)
      peer_->async_shutdown([](rdma::error_code) {}); // async_wait_close reports the end
  }

  void write()
  {
    peer_->async_write(data_, remote_,
      [this](rdma::error_code ec, std::size_t)
      {
        if (ec)
          return print("write", ec.message());
        write();
      });
  }

  asio::io_context& io_;
  const bool serves_;
  const bool until_lost_;
  const bool impatient_;
  rdma::memory_region shared_;
  rdma::registered_buffer in_;
  rdma::registered_buffer out_;
  rdma::registered_buffer data_;
  rdma::remote_buffer remote_;
  std::optional<rdma::acceptor> acceptor_;
  std::optional<rdma::queue_pair> peer_;
  int outstanding_ = 0;
  int passed_ = 0;
  std::optional<rdma::error_code> ended_;
  bool succeeded_ = false;
};

int wrong()
{
  std::cerr << "transport_pair serve|connect ADDRESS PORT [--device NAME] [--no-fall-back] "
               "[--until-lost] [--impatient] [--patient]\n";
  return 2;
}

} // namespace

int main(int count, char** arguments)
try
{
  std::vector<std::string> words(arguments + 1, arguments + count);
  if (words.size() < 3 || (words[0] != "serve" && words[0] != "connect"))
    return wrong();
  const bool serves = words[0] == "serve";
  const tcp::endpoint endpoint(
    asio::ip::make_address(words[1]), static_cast<std::uint16_t>(std::stoul(words[2])));
  rdma::queue_pair_options options;
  bool until_lost = false;
  bool impatient = false;
  for (auto word = words.begin() + 3; word != words.end(); ++word)
    if (*word == "--no-fall-back")
      options.fall_back = false;
    else if (*word == "--until-lost")
    {
      until_lost = true;
      options.heartbeat_limit = std::chrono::seconds(1);
      options.timeout = 20; // 4.3 s for an acknowledgement, longer than the heartbeat limit
    }
    else if (*word == "--impatient")
    {
      impatient = true;
      options.heartbeat_limit = options.confirm_timeout = std::chrono::seconds(1);
      options.connect_timeout = std::chrono::seconds(3);
    }
    else if (*word == "--patient")
    {
      options.confirm_timeout = std::chrono::seconds(10);
      options.connect_timeout = std::chrono::seconds(30);
      options.timeout = 20; // 4.3 s for the device's connection, too
    }
    else if (*word == "--device" && word + 1 != words.end())
      options.device = *++word;
    else
      return wrong();

  // A server reports failed clients in its log.
  const auto logger = spdlog::stdout_logger_mt("boost_rdma");
  logger->set_pattern("log: %v");
  logger->flush_on(spdlog::level::trace);
  asio::io_context io;
  const rdma::context context;
  party own(io, context, serves, until_lost, impatient);
  if (serves)
    own.serve(context, endpoint, options);
  else
    own.connect(context, endpoint, options);
  io.run();
  return own.succeeded() ? 0 : 1;
}
catch (const std::exception& e)
{
  std::cout << "failed: " << e.what() << std::endl;
  return 1;
}

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// An echo service in a form suitable for production: one io_context per core (or one for a pool of
// threads), logs, counters for each connection, and an orderly shutdown on SIGINT and SIGTERM.
//
//   echo_service --port 7471 --contexts 4    four io_contexts with one thread each, on one port
//   echo_service --port 7471 --threads 4     one io_context with four threads
//   talk 127.0.0.1 7471                      a client; several may run at once
//
// On SIGTERM or SIGINT the service stops accepting. It shuts each connection down when the answers
// in progress have arrived; a connection between two messages is shut down immediately. Connections
// that take longer than --grace seconds are cut off. A second signal ends the program at once.

#include "common/command_line.hpp"
#include "common/report.hpp"

#include <boost_rdma/acceptor.hpp>
#include <boost_rdma/context.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <CLI/CLI.hpp>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iostream>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace asio = boost::asio;
using asio::ip::tcp;
using namespace asio::experimental::awaitable_operators;

namespace {

struct settings
{
  tcp::endpoint endpoint;
  std::size_t contexts = std::max(1u, std::thread::hardware_concurrency());
  std::size_t threads = 0;
  std::size_t message_size_max = 64 * 1024;
  unsigned grace_s = 5;
  std::string log_level = "info";
};

auto into(rdma::error_code& ec)
{
  return asio::redirect_error(asio::use_awaitable, ec);
}

/// One client. Runs in a strand: a queue pair is for one thread at a time.
class session : public std::enable_shared_from_this<session>
{
public:
  session(rdma::queue_pair peer, const settings& how)
    : peer_(std::move(peer))
    , strand_(asio::make_strand(peer_.get_executor()))
    , how_(how)
    , number_(++sessions_)
  {
  }

  void start()
  {
    spdlog::info("connection {}: {}", number_, peer_.transport().text());
    asio::co_spawn(
      strand_, [self = shared_from_this()] { return self->echo(); }, asio::detached);
  }

  void stop()
  {
    asio::co_spawn(
      strand_, [self = shared_from_this()] { return self->shut_down(); }, asio::detached);
  }

  static inline std::atomic<std::uint64_t> messages_in_all{0};
  static inline std::atomic<std::uint64_t> bytes_in_all{0};

private:
  asio::awaitable<void> echo()
  {
    auto buffer = peer_.context().allocate(how_.message_size_max);
    rdma::error_code ec;
    for (;;)
    {
      const std::size_t n = co_await peer_.async_receive(buffer, into(ec));
      if (ec)
        break;
      spdlog::debug("connection {}: echoing {} bytes", number_, n);
      co_await peer_.async_send(buffer.first(n), into(ec));
      if (ec == asio::error::shut_down)
        ++unanswered_; // and continue: the client's shutdown waits until everything is received
      else if (ec)
        break;
      else
      {
        ++messages_;
        bytes_ += n;
      }
    }
    messages_in_all += messages_;
    bytes_in_all += bytes_;
    const bool in_order = ec == rdma::error::peer_closed || ec == rdma::error::closed
      || ec == asio::error::operation_aborted;
    spdlog::log(in_order ? spdlog::level::info : spdlog::level::warn,
      "connection {}: {} messages, {} bytes, {} unanswered; {}", number_, messages_, bytes_,
      unanswered_, example::explain(ec));
    peer_.close();
  }

  asio::awaitable<void> shut_down()
  {
    spdlog::debug("connection {}: shutting down", number_);
    asio::steady_timer timer(strand_, std::chrono::seconds(how_.grace_s));
    rdma::error_code ec;
    rdma::error_code ignored;
    const auto first = co_await (peer_.async_shutdown(into(ec)) || timer.async_wait(into(ignored)));
    if (first.index() == 1)
      spdlog::warn("connection {}: not done after {} s, cut off", number_, how_.grace_s);
    else if (!ec)
      spdlog::info("connection {}: shut down", number_);
    peer_.close();
  }

  rdma::queue_pair peer_;
  asio::strand<asio::any_io_executor> strand_;
  const settings& how_;
  const std::uint64_t number_;
  std::uint64_t messages_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t unanswered_ = 0;
  static inline std::atomic<std::uint64_t> sessions_{0};
};

/// Accepts on one io_context, and keeps a list of its sessions.
class listener
{
public:
  listener(asio::io_context& io, const rdma::context& context, const settings& how)
    : how_(how)
    , acceptor_(io, context, how.endpoint, options())
  {
    accept();
  }

  [[nodiscard]] tcp::endpoint endpoint() const { return acceptor_.local_endpoint(); }

  /// Thread-safe.
  void stop()
  {
    const std::lock_guard lock(mutex_);
    acceptor_.close();
    for (const auto& each : sessions_)
      if (const auto alive = each.lock())
        alive->stop();
  }

private:
  static rdma::acceptor_options options()
  {
    rdma::acceptor_options result;
    result.reuse_port = true; // the kernel distributes clients over the io_contexts
    return result;
  }

  void accept()
  {
    acceptor_.async_accept(
      [this](rdma::error_code ec, rdma::queue_pair peer)
      {
        const std::lock_guard lock(mutex_);
        if (ec == asio::error::operation_aborted || !acceptor_.is_open())
          return;
        if (ec)
          spdlog::error("accepting: {}", example::explain(ec));
        else
        {
          const auto made = std::make_shared<session>(std::move(peer), how_);
          std::erase_if(sessions_, [](const auto& each) { return each.expired(); });
          sessions_.push_back(made);
          made->start();
        }
        accept();
      });
  }

  const settings& how_;
  std::mutex mutex_;
  std::list<std::weak_ptr<session>> sessions_;
  rdma::acceptor acceptor_;
};

settings parse(int argc, char** argv)
{
  settings result;
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;
  CLI::App app("An echo service");
  app.footer("Examples:\n"
             "  echo_service --port 7471 --contexts 4\n"
             "  echo_service --address 0.0.0.0 --port 7471 --threads 8 --log-level debug\n"
             "talk is a client. SIGTERM and SIGINT shut the service down in order.");
  app.add_option("--address", address)->check(example::an_address())->capture_default_str();
  app.add_option("--port", port, "the TCP port; 0 for any free port")->capture_default_str();
  app.add_option("--contexts", result.contexts, "number of io_contexts, with one thread each")
    ->check(CLI::Range(1, 256));
  app.add_option("--threads", result.threads, "number of threads of a single io_context instead")
    ->check(CLI::Range(1, 256));
  app.add_option("--message-size", result.message_size_max, "size of the largest message in bytes")
    ->capture_default_str();
  app.add_option("--grace", result.grace_s, "seconds in which connections may finish at the end")
    ->capture_default_str();
  app.add_option("--log-level", result.log_level)
    ->check(CLI::IsMember({"debug", "info", "warn", "error", "off"}))
    ->capture_default_str();
  try
  {
    app.parse(argc, argv);
  }
  catch (const CLI::ParseError& failure)
  {
    std::exit(app.exit(failure));
  }
  result.endpoint = {asio::ip::make_address(address), port};
  return result;
}

void run(settings how)
{
  const std::size_t contexts = how.threads != 0 ? 1 : how.contexts;
  rdma::context context;
  std::vector<std::unique_ptr<asio::io_context>> ios;
  std::list<listener> listeners;
  for (std::size_t i = 0; i < contexts; ++i)
  {
    ios.push_back(
      std::make_unique<asio::io_context>(how.threads != 0 ? static_cast<int>(how.threads) : 1));
    listeners.emplace_back(*ios.back(), context, how);
    how.endpoint = listeners.front().endpoint(); // the port that was chosen
  }
  std::cout << "listening on " << how.endpoint << std::endl;

  asio::signal_set signals(*ios.front(), SIGINT, SIGTERM);
  signals.async_wait(
    [&](rdma::error_code, int number)
    {
      spdlog::info("signal {}: shutting down", number);
      signals.clear(); // the next one has its default effect
      for (listener& each : listeners)
        each.stop();
    });
  {
    // Each io_context runs out of work after its acceptor and all its connections are closed.
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < std::max(contexts, how.threads); ++i)
      threads.emplace_back([&io = *ios[i % contexts]] { io.run(); });
  }
  spdlog::info(
    "served {} messages, {} bytes", session::messages_in_all.load(), session::bytes_in_all.load());
}

} // namespace

int main(int argc, char** argv)
{
  const settings how = parse(argc, argv);
  spdlog::set_default_logger(spdlog::stderr_logger_mt("echo_service"));
  spdlog::stderr_logger_mt("boost_rdma"); // the library's log
  spdlog::set_level(spdlog::level::from_str(how.log_level));
  try
  {
    run(how);
    return 0;
  }
  catch (const std::exception& failure)
  {
    example::complain(failure);
    return 1;
  }
}

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// A key-value service. In two terminals:
//
//   key_value_service serve --port 7471 --metrics-port 9100
//   key_value_service load 127.0.0.1 7471 --callers 16 --puts 5
//   curl http://127.0.0.1:9100/metrics
//
// Clients call methods to put, to find and to remove values. The reply of `find` is a place in the
// server's memory and a version. Clients read the value there by RDMA, without the server's
// program, and keep the place until the value has been overwritten. SIGTERM ends the server.
//
// A block of the server's memory has the version of its value, and the value. The server writes a
// new value to a free block. Before it uses a block again, it sets the version to 0. A client reads
// the block, and after that the version. If the version is that of the place, then the block has
// not been used again meanwhile, because no version occurs twice: the value is complete.

#include "common/command_line.hpp"
#include "common/run.hpp"
#include "key_value_service/client.hpp"
#include "key_value_service/load_generator.hpp"

#include <boost_rdma/acceptor.hpp>
#include <boost_rdma/context.hpp>
#include <boost_rdma/memory_region.hpp>
#include <boost_rdma/rpc/server.hpp>
#include <boost_rdma/statistics.hpp>

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>

#include <CLI/CLI.hpp>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iostream>
#include <list>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
namespace rpc = rdma::rpc;
using namespace asio::experimental::awaitable_operators;
using asio::use_awaitable;
using asio::ip::tcp;
using namespace key_value;

struct settings
{
  tcp::endpoint endpoint;
  std::uint16_t metrics_port = 0;
  load_options load;
};

class value_store
{
public:
  explicit value_store(const rdma::context& context)
    : memory_(context, blocks * block_size, rdma::access::local_write | rdma::access::remote_read)
  {
    for (std::size_t i = blocks; i != 0; --i)
      free_.push_back(i - 1);
  }

  // The server's device reads the value from the client's memory.
  asio::awaitable<std::uint64_t> put_value(std::string_view key, rpc::bulk value)
  {
    if (value.size() > value_max)
      throw rdma::system_error(rdma::error::message_too_large);
    if (free_.empty())
      throw rdma::system_error(rdma::error::object_full);
    const std::size_t block = free_.back();
    free_.pop_back();
    rdma::error_code ec;
    co_await value.async_pull(0, memory_.slice(block * block_size + version_size, value.size()),
      asio::redirect_error(use_awaitable, ec));
    if (ec)
    {
      free_.push_back(block);
      throw rdma::system_error(ec);
    }
    const entry made{block, value.size(), ++last_version_};
    mark(block, made.version);
    const auto [at, is_new] = values_.try_emplace(std::string(key), made);
    if (!is_new)
      release(std::exchange(at->second, made).block);
    co_return made.version;
  }

  [[nodiscard]] place find_value(std::string_view key) const
  {
    const auto found = values_.find(key);
    if (found == values_.end())
      return {};
    const auto& [block, size, version] = found->second;
    return {version, memory_.remote().slice(block * block_size, version_size + size).encode()};
  }

  bool remove_value(std::string_view key)
  {
    const auto found = values_.find(key);
    if (found == values_.end())
      return false;
    release(found->second.block);
    values_.erase(found);
    return true;
  }

private:
  struct entry
  {
    std::size_t block;
    std::size_t size;
    std::uint64_t version;
  };

  void release(std::size_t block)
  {
    mark(block, 0);
    free_.push_back(block);
  }

  // Devices see the steps before the new version, and those after it, in this order.
  void mark(std::size_t block, std::uint64_t version)
  {
    auto& word = *reinterpret_cast<std::uint64_t*>(memory_.data() + block * block_size);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    std::atomic_ref(word).store(version, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }

  static constexpr std::size_t blocks = 8192;

  rdma::memory_region memory_;
  std::vector<std::size_t> free_;
  std::map<std::string, entry, std::less<>> values_;
  std::uint64_t last_version_ = 0;
};

// Keeps the queue pairs through which clients read.
asio::awaitable<void> accept_readers(rdma::acceptor& acceptor)
{
  const auto all = std::make_shared<std::list<rdma::queue_pair>>();
  for (;;)
  {
    const auto peer = all->insert(all->end(), co_await acceptor.async_accept(use_awaitable));
    peer->async_wait_close(
      [kept = std::weak_ptr(all), peer](rdma::error_code)
      {
        if (const auto list = kept.lock()) // otherwise all are closed
          list->erase(peer);
      });
  }
}

// Answers every request with the metrics.
asio::awaitable<void> serve_metrics(
  tcp::acceptor& acceptor, const rdma::context& context, const rpc::server& server)
{
  for (;;)
  {
    beast::tcp_stream stream(co_await acceptor.async_accept(use_awaitable));
    stream.expires_after(std::chrono::seconds(5)); // the next one waits
    beast::flat_buffer buffer;
    http::request<http::empty_body> request;
    rdma::error_code ec;
    co_await http::async_read(stream, buffer, request, asio::redirect_error(use_awaitable, ec));
    std::ostringstream text;
    rdma::write_prometheus(text, context.statistics());
    rpc::write_prometheus(text, server.statistics());
    http::response<http::string_body> page(http::status::ok, request.version());
    page.set(http::field::content_type, "text/plain; version=0.0.4");
    page.body() = std::move(text).str();
    page.keep_alive(false);
    page.prepare_payload();
    if (!ec)
      co_await http::async_write(stream, page, asio::redirect_error(use_awaitable, ec));
    if (ec)
      example::complain("a client of the metrics", ec);
  }
}

asio::awaitable<void> serve(const rdma::context& context, const settings& of)
{
  const auto executor = co_await asio::this_coro::executor;
  value_store values(context);
  rdma::acceptor readers(executor, context, {of.endpoint.address(), 0});
  tcp::acceptor metrics(executor, {of.endpoint.address(), of.metrics_port});
  rpc::server server(executor, context, of.endpoint);
  server.handle<reading_port>(
    [port = readers.local_endpoint().port()](rpc::nothing) { return port; });
  server.handle<put>([&](std::string_view key, const rpc::call_info& call)
    { return values.put_value(key, call.exposed(0)); });
  server.handle<find>([&](std::string_view key) { return values.find_value(key); });
  server.handle<erase>([&](std::string_view key) { return values.remove_value(key); });
  server.start();
  std::cout << "metrics at http://" << metrics.local_endpoint() << "/metrics\n"
            << "listening on " << server.local_endpoint() << std::endl;
  asio::signal_set signals(executor, SIGINT, SIGTERM);
  co_await (accept_readers(readers) || serve_metrics(metrics, context, server)
    || signals.async_wait(use_awaitable));
  co_await server.async_shutdown(use_awaitable); // when all calls are answered
}

asio::awaitable<void> generate_load(const rdma::context& context, const settings& of)
{
  key_value_client client(co_await asio::this_coro::executor, context);
  co_await client.connect(of.endpoint);
  load_generator load(client, context, of.load);
  co_await load.run();
}

int main(int argc, char** argv)
{
  settings of;
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;
  CLI::App app("A key-value service: calls of methods change values, clients read them by RDMA");
  app.footer("Examples, in two terminals:\n"
             "  key_value_service serve --port 7471 --metrics-port 9100\n"
             "  key_value_service load 127.0.0.1 7471 --callers 16 --puts 5");
  app.require_subcommand(1);
  CLI::App* const server = app.add_subcommand("serve", "until SIGINT or SIGTERM");
  server->add_option("--address", address)->check(example::an_address())->capture_default_str();
  server->add_option("--port", port, "0 for any free port")->capture_default_str();
  server->add_option("--metrics-port", of.metrics_port, "for HTTP; 0 for any free port");
  CLI::App* const load = app.add_subcommand("load", "generate load");
  load->add_option("ADDRESS", address)->required()->check(example::an_address());
  load->add_option("PORT", port)->required();
  load->add_option("--callers", of.load.callers)->check(CLI::Range(1, 256))->capture_default_str();
  load->add_option("--operations", of.load.operations, "of each caller")->capture_default_str();
  load->add_option("--keys", of.load.keys)->check(CLI::Range(1, 1000))->capture_default_str();
  load->add_option("--puts", of.load.puts_percent, "percentage of puts")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  of.endpoint = {asio::ip::make_address(address), port};
  return example::run([&](const rdma::context& context)
    { return server->parsed() ? serve(context, of) : generate_load(context, of); });
}

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Calls of methods: empty ones, and those whose handler pulls memory that they expose.

#include "perf/pipeline.hpp"
#include "perf/side.hpp"
#include "perf/transports.hpp"

#include <boost_rdma/completion_queue.hpp>
#include <boost_rdma/rpc/client.hpp>
#include <boost_rdma/rpc/server.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace perf {
namespace {

namespace asio = boost::asio;
namespace rpc = rdma::rpc;

using empty = rpc::method<"empty/1", rpc::nothing, rpc::nothing>;
using pull = rpc::method<"pull/1", rpc::nothing, rpc::nothing>;
using pull_many = rpc::method<"pull_many/1", std::uint32_t, rpc::nothing>;
using line = std::array<char, 64>; // as large as a message of many_sockets()
using echo = rpc::method<"echo/1", line, line>;
using wait = rpc::method<"wait/1", rpc::nothing, rpc::nothing>;
using finish = rpc::method<"finish/1", rpc::nothing, rpc::nothing>;

rdma::queue_pair_options queue_pair_of(asio::io_context& io, const test_case& what)
{
  rdma::completion_queue_options completions;
  completions.mode = what.mode;
  if (what.mode == busy)
    completions.spin_slice = std::chrono::microseconds(100); // this thread has no other work
  rdma::queue_pair_options options;
  options.completions.emplace(io, context_of(what.transport), completions);
  return options;
}

// One call that pulls the parts of its memory in turn.
class many_pulls : public std::enable_shared_from_this<many_pulls>
{
public:
  many_pulls(rpc::bulk from, const rdma::mutable_buffer& to, std::size_t size, std::uint32_t count,
    rpc::responder<pull_many> answer)
    : from_(std::move(from))
    , to_(to)
    , size_(size)
    , left_(count)
    , answer_(std::move(answer))
  {
  }

  void start(std::uint32_t in_flight)
  {
    for (; under_way_ != in_flight && left_ != 0; ++under_way_)
    {
      const std::size_t offset = --left_ * size_ % to_.size();
      from_.async_pull(offset, to_.slice(offset, size_),
        [self = shared_from_this(), in_flight](rdma::error_code ec, std::size_t)
        {
          check(ec);
          --self->under_way_;
          self->start(in_flight);
        });
    }
    if (under_way_ == 0)
      answer_.reply({});
  }

private:
  const rpc::bulk from_;
  const rdma::mutable_buffer to_;
  const std::size_t size_; // of a pull
  std::uint32_t left_;
  std::uint32_t under_way_ = 0;
  rpc::responder<pull_many> answer_;
};

class rpc_server final : public side
{
public:
  rpc_server(const test_case& what, bench::control_channel& control)
    : server_(
      io_, context_of(what.transport), {asio::ip::address_v4::loopback(), 0}, options(io_, what))
    , room_(context_of(what.transport).allocate(what.memory()))
  {
    std::ranges::fill(room_.bytes(), std::byte{1}); // faults in every page
    server_.handle<empty>([](rpc::nothing) { return rpc::nothing(); });
    server_.handle<echo>([](const line& what) { return what; });
    server_.handle<pull>(
      [this, size = what.size](
        rpc::nothing, const rpc::call_info& call, rpc::responder<pull> answer)
      {
        call.exposed(0).async_pull(0, room_.slice(pulls_++ * size % room_.size(), size),
          [answer = std::move(answer)](rdma::error_code ec, std::size_t) mutable
          {
            check(ec);
            answer.reply({});
          });
      });
    server_.handle<pull_many>(
      [this, size = what.size, in_flight = what.depth](
        std::uint32_t count, const rpc::call_info& call, rpc::responder<pull_many> answer)
      {
        std::make_shared<many_pulls>(call.exposed(0), room_, size, count, std::move(answer))
          ->start(in_flight);
      });
    server_.handle<wait>(
      [this](rpc::nothing) -> asio::awaitable<rpc::nothing>
      {
        asio::steady_timer never(io_, clock::time_point::max());
        co_await never.async_wait(asio::use_awaitable); // until the call is cancelled
        co_return rpc::nothing();
      });
    server_.handle<finish>(
      [this](rpc::nothing)
      {
        finished_ = true;
        return rpc::nothing();
      });
    server_.start();
    control.send_text(std::to_string(server_.local_endpoint().port()));
  }

  ~rpc_server() override
  {
    server_.close();
    if (std::uncaught_exceptions() == 0)
      io_.run();
  }

  void serve(std::uint64_t, const std::function<void()>& ready) override
  {
    finished_ = false;
    ready();
    while (!finished_)
      io_.run_one();
  }

  seconds run(std::uint64_t, histogram*) override { return {}; } // the client's

private:
  static rpc::server_options options(asio::io_context& io, const test_case& what)
  {
    rpc::server_options made;
    made.acceptor.queue_pair = queue_pair_of(io, what);
    return made;
  }

  asio::io_context io_{1};
  rpc::server server_;
  rdma::registered_buffer room_;
  std::uint64_t pulls_ = 0;
  bool finished_ = false;
};

class rpc_client final : public side
{
public:
  rpc_client(const test_case& what, bench::control_channel& control)
    : what_(what)
    , pool_(context_of(what.transport), {.peers_only_read = true})
    , memory_(pool_.make_buffer(what.memory()))
    , port_(control.receive_text())
  {
    std::ranges::fill(memory_.bytes(), std::byte{1}); // faults in every page
    rpc::client_options options;
    options.queue_pair = queue_pair_of(io_, what);
    for (std::uint32_t i = 0; i != what.queue_pairs; ++i)
      clients_.emplace_back(io_, context_of(what.transport), options);
  }

  ~rpc_client() override
  {
    for (rpc::client& each : clients_)
      each.close();
    if (std::uncaught_exceptions() == 0) // else the handlers' frames are gone
    {
      io_.restart();
      io_.run();
    }
  }

  seconds run(std::uint64_t count, histogram* latencies) override
  {
    connect();
    io_.restart();
    const clock::time_point begin = clock::now();
    if (what_.operation == operation::expire)
      let_expire(count, latencies);
    else if (what_.queue_pairs != 1)
      make_calls_of_all(count / what_.queue_pairs);
    else
      make_calls(count, latencies);
    const seconds elapsed = clock::now() - begin;
    first().async_call<finish>({}, [](rdma::error_code ec, rpc::nothing) { check(ec); });
    io_.restart();
    io_.run();
    return elapsed;
  }

  void serve(std::uint64_t, const std::function<void()>&) override {} // the server's

  [[nodiscard]] std::string wire() const override
  {
    return rdma::name_of(clients_.front().transport().wire);
  }

  [[nodiscard]] std::uint64_t unit() const override
  {
    return std::uint64_t{what_.batch} * what_.queue_pairs;
  }

private:
  [[nodiscard]] rpc::client& first() { return clients_.front(); }

  void make_calls(std::uint64_t count, histogram* latencies)
  {
    clock::time_point last = clock::now();
    const std::uint32_t pulls = what_.batch; // of a call
    const pipeline calls(pulls == 1 ? what_.depth : 1, count / pulls,
      [&](std::uint64_t index, auto done)
      {
        const auto ended = [&last, latencies, done](rdma::error_code ec, rpc::nothing)
        {
          if (latencies != nullptr)
          {
            const clock::time_point now = clock::now();
            latencies->record(
              static_cast<std::uint64_t>(std::chrono::nanoseconds(now - last).count()));
            last = now;
          }
          done(ec, 0);
        };
        if (pulls != 1)
          first().async_call<pull_many>(pulls, {.exposed = rpc::expose(memory_)}, ended);
        else if (what_.operation == operation::read)
          first().async_call<pull>({},
            {.exposed =
                rpc::expose(memory_.slice(index * what_.size % memory_.size(), what_.size))},
            ended);
        else
          first().async_call<empty>({}, ended);
      });
    io_.run();
  }

  // Each client has one call at a time.
  void make_calls_of_all(std::uint64_t count)
  {
    const auto start = [](rpc::client& by)
    {
      return [&by](std::uint64_t, auto done)
      { by.async_call<echo>({}, [done](rdma::error_code ec, const line&) { done(ec, 0); }); };
    };
    std::deque<pipeline<decltype(start(first()))>> all;
    for (rpc::client& each : clients_)
      all.emplace_back(1, count, start(each));
    io_.run();
  }

  void let_expire(std::uint64_t count, histogram* latencies)
  {
    constexpr std::chrono::milliseconds limit(1);
    const pipeline calls(what_.depth, count,
      [&](std::uint64_t, auto done)
      {
        first().async_call<wait>({}, {.timeout = limit, .exposed = rpc::expose(memory_)},
          [latencies, done, deadline = clock::now() + limit](rdma::error_code ec, rpc::nothing)
          {
            if (ec != asio::error::timed_out)
              check(ec);
            if (latencies != nullptr)
              latencies->record(static_cast<std::uint64_t>(
                std::chrono::nanoseconds(clock::now() - deadline).count()));
            done({}, 0);
          });
      });
    io_.run();
  }

  // The server accepts while it serves.
  void connect()
  {
    if (std::exchange(connected_, true))
      return;
    std::uint16_t port = 0;
    std::from_chars(port_.data(), port_.data() + port_.size(), port);
    for (rpc::client& each : clients_)
      each.async_connect({asio::ip::address_v4::loopback(), port}, check);
    io_.restart();
    io_.run();
  }

  test_case what_;
  asio::io_context io_{1};
  std::deque<rpc::client> clients_;
  rdma::memory_pool pool_;
  rdma::registered_buffer memory_;
  std::string port_;
  bool connected_ = false;
};

} // namespace

std::unique_ptr<side> make_rpc_side(
  const test_case& what, bench::control_channel& control, bool server)
{
  if (server)
    return std::make_unique<rpc_server>(what, control);
  return std::make_unique<rpc_client>(what, control);
}

} // namespace perf

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/device_traits.hpp"
#include "common/handlers.hpp"
#include "software/rpc_fixture.hpp"

#include "common/catch.hpp"

#include <boost_rdma/context.hpp>
#include <boost_rdma/rpc/client.hpp>
#include <boost_rdma/rpc/server.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <thread>
#include <vector>

namespace test::rpc_random {

// Ends calls at random points while another thread serves them.

namespace {

namespace asio = boost::asio;
namespace rpc = rdma::rpc;
using std::chrono::microseconds;

/// The handler fills the memory of the call with the last byte of the request.
using fill = rpc::method<"fill/1", std::uint64_t, std::uint64_t>;
/// The reply is the sum of the bytes.
using add_up = rpc::method<"add up/1", rpc::nothing, std::uint64_t>;

/// A server with a thread of its own.
class host
{
public:
  explicit host(rdma::stream_transports transports)
    : server_(io_, context_, {asio::ip::address_v4::loopback(), 0}, served_by(transports))
  {
    server_.handle<add>([](const numbers& n) { return n.a + n.b; });
    server_.handle<fill>(
      [this](std::uint64_t mark, const rpc::call_info& call) -> asio::awaitable<std::uint64_t>
      {
        const rpc::bulk to = call.exposed(0);
        const rdma::registered_buffer from = context_.allocate(to.size());
        std::memset(from.data(), static_cast<int>(mark & 0xff), from.size());
        co_return co_await to.async_push(0, from, asio::use_awaitable);
      });
    server_.handle<add_up>(
      [this](rpc::nothing, const rpc::call_info& call) -> asio::awaitable<std::uint64_t>
      {
        const rpc::bulk from = call.exposed(0);
        const rdma::registered_buffer to = context_.allocate(from.size());
        co_await from.async_pull(0, to, asio::use_awaitable);
        std::uint64_t sum = 0;
        for (const std::byte each : std::span(static_cast<const std::byte*>(to.data()), to.size()))
          sum += static_cast<std::uint64_t>(each);
        co_return sum;
      });
    server_.start();
    thread_ = std::thread([this] { io_.run(); });
  }
  host(const host&) = delete;
  host& operator=(const host&) = delete;
  ~host() { close(); }

  void close()
  {
    if (!thread_.joinable())
      return;
    asio::post(io_, [this] { server_.close(); });
    thread_.join();
  }

  [[nodiscard]] asio::ip::tcp::endpoint endpoint() const { return server_.local_endpoint(); }
  [[nodiscard]] std::size_t buffers() { return context_.pool().statistics().buffers; }

private:
  rdma::context context_ = make_context();
  asio::io_context io_;
  rpc::server server_;
  std::thread thread_;
};

/// Makes one call after the other, each in the same memory.
class caller
{
public:
  caller(const rdma::context& context, std::size_t size, std::uint32_t seed)
    : memory_(context.allocate(size))
    , random_(seed)
  {
    rest();
  }

  /// A call that has failed may not change the memory later.
  void check() { changed_later += is_filled(bytes(), mark_) ? 0 : 1; }

  void start(rpc::client& by)
  {
    check();
    is_idle = false;
    rpc::call_options options;
    if (one_in(2))
      options.timeout = microseconds(std::uniform_int_distribution(1, 500)(random_));
    const std::size_t size = memory_.size() >> std::uniform_int_distribution(0, 14)(random_);
    const auto part = rdma::mutable_buffer(memory_).first(size);
    const auto slot = cancel.slot();
    switch (std::uniform_int_distribution(0, 3)(random_))
    {
    case 0:
      options.exposed.add(rpc::expose(part, rdma::access::remote_write));
      ++fill_;
      return by.async_call<fill>(fill_, options,
        asio::bind_cancellation_slot(slot,
          [this, size](const error_code& ec, std::uint64_t filled)
          {
            if (!ec
              && (filled != size
                || !is_filled(bytes().first(size), static_cast<std::byte>(fill_ & 0xff))))
              ++wrong_fills;
            end(ec);
          }));
    case 1:
      options.exposed.add(rpc::expose(part));
      return by.async_call<add_up>({}, options,
        asio::bind_cancellation_slot(slot,
          [this, size](const error_code& ec, std::uint64_t sum)
          {
            if (!ec && sum != size * static_cast<std::uint64_t>(mark_))
              ++wrong_sums;
            end(ec);
          }));
    default:
      return by.async_call<add>({1, 2}, options,
        asio::bind_cancellation_slot(slot,
          [this](const error_code& ec, std::int32_t sum)
          {
            if (!ec && sum != 3)
              ++wrong_sums;
            end(ec);
          }));
    }
  }

  asio::cancellation_signal cancel;
  bool is_idle = true;
  std::size_t ended = 0;
  std::size_t succeeded = 0;
  std::size_t changed_later = 0;
  std::size_t wrong_fills = 0;
  std::size_t wrong_sums = 0;
  std::size_t ended_twice = 0;

private:
  static bool is_filled(std::span<const std::byte> what, std::byte with)
  {
    return what[0] == with && std::memcmp(what.data(), what.data() + 1, what.size() - 1) == 0;
  }

  [[nodiscard]] bool one_in(int n) { return std::uniform_int_distribution(1, n)(random_) == 1; }

  [[nodiscard]] std::span<std::byte> bytes()
  {
    return {static_cast<std::byte*>(memory_.data()), memory_.size()};
  }

  void end(const error_code& ec)
  {
    if (is_idle)
      ++ended_twice;
    is_idle = true;
    ++ended;
    if (!ec)
      ++succeeded;
    rest();
  }

  void rest()
  {
    mark_ = static_cast<std::byte>(random_() & 0xff);
    std::memset(memory_.data(), static_cast<int>(mark_), memory_.size());
  }

  const rdma::registered_buffer memory_;
  std::minstd_rand random_;
  std::byte mark_{};
  std::uint64_t fill_ = 0;
};

} // namespace

TEST_CASE("calls that end at random points end once, and their memory is not changed later")
{
  const auto transports =
    GENERATE(rdma::stream_transports::rdma_or_tcp, rdma::stream_transports::tcp);
  // With one caller, nothing else makes the client go on while its call ends.
  const std::size_t caller_count = GENERATE(1, 8);
  const std::size_t most =
    caller_count == 1 ? 500'000 : 4'500'000; // 10,000,000 with both transports
  const std::size_t total = exhaustive() ? most : emulated() ? 100 : 1000;
  const std::uint32_t seed = std::random_device()();
  CAPTURE(seed);
  host far(transports);
  const rdma::context context = make_context();
  asio::io_context io;
  std::minstd_rand random(seed);
  std::optional<rpc::client> client;
  std::vector<std::unique_ptr<caller>> callers;
  while (callers.size() != caller_count)
    callers.push_back(
      std::make_unique<caller>(context, callers.empty() ? 256 * 1024 : 16 * 1024, random()));
  const auto all_idle = [&]
  { return std::ranges::all_of(callers, [](const auto& each) { return each->is_idle; }); };
  std::size_t started = 0;
  while (started != total)
  {
    if (!client || !client->is_open()) // a transfer was under way when its call ended
    {
      REQUIRE(run_until(io, all_idle));
      client.emplace(io, context, client_by(transports));
      plain_record r;
      client->async_connect(far.endpoint(), r.handler());
      REQUIRE(run_until(io, [&] { return r.done(); }));
      REQUIRE(r.ec == error_code());
    }
    for (const auto& each : callers)
      if (each->is_idle && started != total)
      {
        each->start(*client);
        ++started;
      }
    io.restart();
    io.run_one_for(microseconds(random() % 200));
    if (random() % 2 == 0)
      callers[random() % callers.size()]->cancel.emit(asio::cancellation_type::terminal);
  }
  REQUIRE(run_until(io, all_idle));
  client.reset();
  std::size_t ended = 0;
  std::size_t succeeded = 0;
  for (const auto& each : callers)
  {
    each->check();
    CHECK(each->changed_later == 0);
    CHECK(each->wrong_fills == 0);
    CHECK(each->wrong_sums == 0);
    CHECK(each->ended_twice == 0);
    ended += each->ended;
    succeeded += each->succeeded;
  }
  CHECK(ended == total);
  CHECK(succeeded != 0);
  CHECK(succeeded != total);
  far.close();
  CHECK(far.buffers() == 0);
}

} // namespace test::rpc_random

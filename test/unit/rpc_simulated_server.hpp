//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_UNIT_RPC_SIMULATED_SERVER_HPP
#define BOOST_RDMA_TEST_UNIT_RPC_SIMULATED_SERVER_HPP

#include "boost_rdma/detail/rpc/flow_handler.hpp"
#include "boost_rdma/detail/rpc/typed_handler.hpp"
#include "rpc/server_connection.hpp"
#include "unit/rpc_simulated_stream.hpp"
#include "unit/rpc_simulated_world.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

// The program of a server that is simulated.

namespace test {

class simulated_server
{
public:
  using connection_type = rdma::detail::rpc::server_connection;

  simulated_server(simulated_world& world, std::shared_ptr<simulated_stream> stream,
    const rdma::rpc::server_options& options)
    : world_(world)
    , options_(options)
  {
    using namespace simulated;
    add<value>([this](words r) { return begin(r), result_of(r[0]); });
    add<coroutine>([this](words r) { return run(r); });
    add<deferred>(
      [this](words r, rdma::rpc::responder<deferred> answer)
      {
        begin(r);
        deferred_.push_back({r[0], std::move(answer), std::make_unique<running>(*this)});
        if (expected_error(r[0]) == rdma::error::call_failed && hash(r[0]) / 64 % 2 == 0)
        {
          deferred_.back().counted.reset();
          throw std::runtime_error("the responder is still there");
        }
        if (hash(r[0]) % 5 == 0)
          this->answer(deferred_.size() - 1);
      });
    add<bulk>([this](words r, const rdma::rpc::call_info& call) { return transfer(r, call); });
    rdma::detail::rpc::method_table& all = *methods_;
    const auto flow = [this](words r, rdma::rpc::server_flow<items>& of)
    { return exchange(r, of); };
    all.push_back(std::make_unique<rdma::detail::rpc::served_method>(
      std::make_unique<rdma::detail::rpc::flow_handler<items, executor_type, decltype(flow)>>(
        executor_type(world.server_io.get_executor()), flow),
      nullptr));
    const auto made = std::make_shared<connection_type>(std::move(stream),
      executor_type(world.server_io.get_executor()),
      rdma::detail::alarm(world.alarm_io, world.inbox), methods_, options,
      [this](connection_type&) { has_ended = true; });
    connection = made;
    made->open();
  }

  simulated_server(const simulated_server&) = delete;
  simulated_server& operator=(const simulated_server&) = delete;
  ~simulated_server() { end(); }

  void end()
  {
    if (const auto found = connection.lock())
      found->end(asio::error::operation_aborted);
  }

  // --- steps ---

  /// A coroutine goes on.
  bool resume()
  {
    if (parked_.empty())
      return false;
    const std::size_t at = world_.random() % parked_.size();
    parked_[at]->cancel();
    parked_.erase(parked_.begin() + static_cast<std::ptrdiff_t>(at));
    return true;
  }

  /// A call is answered that the handler has kept.
  bool answer()
  {
    if (deferred_.empty())
      return false;
    answer(world_.random() % deferred_.size());
    return true;
  }

  void check()
  {
    std::uint64_t in_flight = 0;
    for (const auto& each : *methods_)
    {
      rdma::rpc::method_statistics counted;
      each->counters.read(counted);
      in_flight += counted.in_flight;
    }
    world_.expect(running_ <= options_.calls, "more calls run than the server permits");
    world_.expect(in_flight <= std::uint64_t{options_.calls} + options_.queue,
      "more calls run and wait than the server permits");
    world_.expect(
      in_flight <= client_calls, "more calls are with the server than the client permits");
    in_flight_ = in_flight;
  }

  /// Nothing is left of any call.
  void check_end()
  {
    check();
    world_.expect(in_flight_ == 0 && running_ == 0 && deferred_.empty() && parked_.empty(),
      "a call is left at the server");
  }

  std::weak_ptr<connection_type> connection;
  bool has_ended = false;
  std::set<std::uint64_t> started;
  std::uint64_t client_calls = UINT64_MAX;

private:
  using executor_type = asio::any_io_executor;
  using awaitable = asio::awaitable<simulated::owned_words>;

  struct running
  {
    explicit running(simulated_server& by)
      : of(by)
    {
      ++of.running_;
      of.check();
    }
    running(const running&) = delete;
    running& operator=(const running&) = delete;
    ~running() { --of.running_; }
    simulated_server& of;
  };

  struct kept
  {
    std::uint64_t id;
    rdma::rpc::responder<simulated::deferred> responder;
    std::unique_ptr<running> counted;
  };

  template <class Method, class Function>
  void add(Function function)
  {
    methods_->push_back(std::make_unique<rdma::detail::rpc::served_method>(
      std::make_unique<rdma::detail::rpc::typed_handler<Method, executor_type, Function>>(
        executor_type(world_.server_io.get_executor()), std::move(function)),
      nullptr));
  }

  void begin(simulated::words r)
  {
    if (r.empty()) // of a peer that is not honest
      throw rdma::system_error(rdma::error::malformed_message);
    world_.expect(started.insert(r[0]).second, "a request is run twice");
  }

  static simulated::owned_words result_of(std::uint64_t id)
  {
    if (const auto ec = simulated::expected_error(id); ec == rdma::error::call_failed)
      throw std::runtime_error("an exception without a code");
    else if (ec)
      throw rdma::system_error(ec);
    return simulated::expected_reply(id);
  }

  void answer(std::size_t at)
  {
    kept last = std::move(deferred_[at]);
    deferred_.erase(deferred_.begin() + static_cast<std::ptrdiff_t>(at));
    last.counted.reset();
    if (const auto ec = simulated::expected_error(last.id); ec == rdma::error::call_failed)
      return; // without an answer
    else if (ec)
      return last.responder.fail(ec);
    const auto result = simulated::expected_reply(last.id);
    last.responder.reply(result);
  }

  // Waits for a step, or for the cancellation of the call.
  asio::awaitable<void> park()
  {
    const auto timer =
      std::make_shared<asio::steady_timer>(world_.server_io, asio::steady_timer::time_point::max());
    parked_.push_back(timer);
    rdma::error_code ignored;
    co_await timer->async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    std::erase(parked_, timer);
  }

  awaitable run(simulated::words r)
  {
    begin(r);
    const running counted(*this);
    for (std::uint64_t n = simulated::hash(r[0]) / 64 % 3; n != 0; --n)
      co_await park();
    co_return result_of(r[0]);
  }

  awaitable transfer(simulated::words r, rdma::rpc::call_info call)
  {
    begin(r);
    const running counted(*this);
    const std::uint64_t id = r[0];
    const std::uint64_t h = simulated::hash(id);
    for (std::size_t i = 0; i != call.exposed_count(); ++i)
    {
      const rdma::rpc::bulk memory = call.exposed(i);
      const auto room = std::make_shared<std::vector<std::byte>>(
        std::min<std::size_t>(memory.size(), 1'000'000), simulated::pushed_of(id));
      const rdma::mutable_buffer local{std::span(*room)};
      if (h / 128 % 4 == 0) // nobody waits for it
        start(memory, room);
      if (h / 512 % 2 == 0)
        co_await park();
      if (!permits(memory.rights(), rdma::access::remote_write))
      {
        co_await memory.async_pull(0, local, asio::use_awaitable);
        world_.expect(simulated::is_filled(*room, simulated::pattern_of(id)) || !honest,
          "a pull reads what the client exposes");
      }
      else if (simulated::pushes(id))
        co_await memory.async_push(0, local, asio::use_awaitable);
    }
    co_return result_of(id);
  }

  void start(const rdma::rpc::bulk& memory, const std::shared_ptr<std::vector<std::byte>>& room)
  {
    if (permits(memory.rights(), rdma::access::remote_write))
      return;
    world_.initiate(
      [&]
      {
        const auto to = std::make_shared<std::vector<std::byte>>(room->size());
        memory.async_pull(0, rdma::mutable_buffer(std::span(*to)),
          world_.once([to](const rdma::error_code&, std::size_t) {}));
      });
  }

  awaitable exchange(simulated::words r, rdma::rpc::server_flow<simulated::items>& flow)
  {
    begin(r);
    const running counted(*this);
    const std::uint64_t id = r[0];
    const std::uint64_t h = simulated::hash(id);
    std::uint64_t read = 0;
    std::uint64_t written = 0;
    while (h / 64 % 4 != 0 || read != h / 256 % 5) // not always to the end
    {
      if (h / 1024 % 3 == 0)
        co_await park();
      const auto item = co_await flow.async_read(asio::use_awaitable);
      if (!item)
        break;
      world_.expect(*item == simulated::item_of(id, read) || !honest,
        "items arrive in their order at the server");
      ++read;
      for (std::uint64_t n = h / 4096 % 8; n != 0; --n)
      {
        const auto next = simulated::item_of(id, written);
        co_await flow.async_write(next, asio::use_awaitable);
        ++written;
      }
    }
    co_return result_of(id);
  }

public:
  bool honest = true; ///< the client is

private:
  simulated_world& world_;
  const rdma::rpc::server_options options_;
  const std::shared_ptr<rdma::detail::rpc::method_table> methods_ =
    std::make_shared<rdma::detail::rpc::method_table>();
  std::vector<kept> deferred_;
  std::vector<std::shared_ptr<asio::steady_timer>> parked_;
  std::uint32_t running_ = 0;
  std::uint64_t in_flight_ = 0;
};

} // namespace test

#endif // BOOST_RDMA_TEST_UNIT_RPC_SIMULATED_SERVER_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_UNIT_RPC_SIMULATED_CLIENT_HPP
#define BOOST_RDMA_TEST_UNIT_RPC_SIMULATED_CLIENT_HPP

#include "boost_rdma/rpc/flow.hpp"
#include "rpc/client_impl.hpp"
#include "unit/rpc_simulated_server.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// The program of a client that is simulated.

namespace test {

class simulated_client
{
public:
  using core_type = rdma::detail::rpc::client_core;

  simulated_client(simulated_world& world, std::shared_ptr<simulated_stream> stream,
    const rdma::rpc::client_options& options)
    : world_(world)
    , executor_(world.client_io.get_executor())
    , core_(std::make_shared<rdma::detail::rpc::client_impl>(
        executor_, std::move(stream), rdma::detail::alarm(world.alarm_io, world.inbox), options))
    , core(core_)
  {
    world_.initiate(
      [&]
      {
        rdma::detail::rpc::start_connect(executor_, core_.get(), {},
          world_.once([this](const rdma::error_code& ec) { connected = !ec; }));
      });
  }

  simulated_client(const simulated_client&) = delete;
  simulated_client& operator=(const simulated_client&) = delete;
  ~simulated_client() { destroy(); }

  // --- steps ---

  /// Makes a call of any method.
  void call(std::uint64_t id, std::size_t memory_max)
  {
    using namespace simulated;
    one& made = *calls_.emplace_back(std::make_unique<one>(id, words_of(id, 0)));
    rdma::rpc::call_options options;
    made.is_limited = limits_time && world_.one_in(6);
    if (made.is_limited)
      options.timeout = std::chrono::nanoseconds(1); // over at the next step
    else if (world_.one_in(3))
      options.timeout = std::chrono::hours(1); // never over
    if (world_.one_in(8))
      options.trace = {{1}, {2}, 0};
    ++outstanding;
    switch (world_.random() % 6)
    {
    case 0:
      return start<value>(made, options);
    case 1:
      return start<coroutine>(made, options);
    case 2:
      return start<deferred>(made, options);
    case 3:
      return open(made, options);
    default:
      for (std::size_t i = world_.any(0, 3); i != 0; --i)
      {
        const bool writable = world_.one_in(2);
        const std::size_t size =
          world_.one_in(10) ? world_.any(1, memory_max) : world_.any(1, 6000);
        auto& room = made.memory.emplace_back(std::vector(size, pattern_of(id)), writable);
        const rdma::mutable_buffer bytes{std::span(room.bytes)};
        options.exposed.add(writable ? rdma::rpc::expose(bytes, rdma::access::remote_write)
                                     : rdma::rpc::expose(bytes));
      }
      return start<bulk>(made, options);
    }
  }

  /// Cancels a call, or an operation of its items, or destroys the items.
  bool cancel()
  {
    if (calls_.empty())
      return false;
    one& which = *calls_[world_.random() % calls_.size()];
    if (which.ended)
      return false;
    if (which.flow && !world_.one_in(3))
    {
      operation& of = world_.one_in(2) ? which.read : which.write;
      of.is_cancelled = true;
      of.signal.emit(asio::cancellation_type::terminal);
      return true;
    }
    which.is_cancelled = true;
    if (which.flow)
      reset(which);
    else
      which.signal.emit(asio::cancellation_type::terminal);
    return true;
  }

  void cancel_all()
  {
    for (const auto& each : calls_)
      each->is_cancelled = true;
    core_->cancel();
  }

  /// Finishes items before their end.
  bool finish()
  {
    for (const auto& each : calls_)
      if (each->flow && !each->is_finishing && world_.one_in(3))
        return finish(*each), true;
    return false;
  }

  /// Reads the next item of a call.
  bool read()
  {
    const auto found = std::ranges::find_if(calls_,
      [](const auto& each) { return each->flow && !each->is_finishing && each->read.is_late; });
    if (found == calls_.end())
      return false;
    (*found)->read.is_late = false;
    read_item(**found);
    return true;
  }

  /// Everything has run that ends calls at their time limits.
  void check_limits()
  {
    for (const auto& each : calls_)
      world_.expect(
        !each->is_limited || each->is_streaming || each->ended, "a call has no time limit");
  }

  void close() { core_->close(); }
  void destroy()
  {
    if (core_)
      close();
    for (const auto& each : calls_)
      if (each->flow)
        reset(*each);
    core_.reset();
  }
  [[nodiscard]] bool is_open() const { return core_ && core_->is_open(); }

  /// No byte of the memory of a call may change when its handler has run.
  void check()
  {
    for (const auto& each : calls_)
      for (const exposed& m : each->memory)
        world_.expect(!each->ended || simulated::is_filled(m.bytes, simulated::pattern_of(0)),
          "memory is written when the call has ended");
  }

  /// Returns numbers of calls whose results show that they were not started.
  [[nodiscard]] const std::vector<std::uint64_t>& refused() const { return refused_; }

  bool connected = false;
  bool is_lost = false;    ///< the connection may end
  bool is_left = false;    ///< the server shuts down
  bool honest = true;      ///< the server is
  bool limits_time = true; ///< of some calls
  std::size_t outstanding = 0;
  std::size_t succeeded = 0;

private:
  struct exposed
  {
    std::vector<std::byte> bytes;
    bool writable;
  };

  /// A read or a write of items.
  struct operation
  {
    asio::cancellation_signal signal;
    bool is_cancelled = false;
    bool is_late = false;   // does not go on yet
    std::uint64_t done = 0; // items
  };

  /// A call.
  struct one
  {
    one(std::uint64_t number, simulated::owned_words content)
      : id(number)
      , request(std::move(content))
    {
    }

    const std::uint64_t id;
    const simulated::owned_words request;
    std::vector<exposed> memory;
    asio::cancellation_signal signal;
    bool is_limited = false;
    bool is_cancelled = false;
    bool ended = false;

    std::optional<rdma::rpc::client_flow<simulated::items>> flow;
    operation read;
    operation write;
    bool is_streaming = false;
    bool is_finishing = false;
  };

  template <class Method>
  static rdma::detail::rpc::call_core::request encoded(const simulated::words& request)
  {
    return {&request,
      [](const void* what, rdma::rpc::output& to)
      {
        rdma::rpc::detail::codec_of<simulated::words>::encode(
          *static_cast<const simulated::words*>(what), to);
      },
      &rdma::rpc::detail::description_of<Method>};
  }

  template <class Method>
  void start(one& what, const rdma::rpc::call_options& options)
  {
    const simulated::words request(what.request);
    world_.initiate(
      [&]
      {
        rdma::detail::rpc::start_call<simulated::owned_words>(executor_, core_,
          asio::bind_cancellation_slot(what.signal.slot(),
            world_.once([this, &what](const rdma::error_code& ec,
                          const simulated::owned_words& reply) { end(what, ec, reply); })),
          encoded<Method>(request), options);
      });
  }

  void end(one& what, const rdma::error_code& ec, const simulated::owned_words& reply = {})
  {
    using namespace simulated;
    world_.expect(!std::exchange(what.ended, true), "a call ends twice");
    --outstanding;
    for (exposed& each : what.memory)
    {
      const bool pushed = each.writable && pushes(what.id);
      world_.expect(
        !honest || ec || !pushed || simulated::is_filled(each.bytes, pushed_of(what.id)),
        "a push has arrived before the reply");
      world_.expect(each.writable || simulated::is_filled(each.bytes, pattern_of(what.id)),
        "the server has written memory that it may only read");
      std::ranges::fill(each.bytes, pattern_of(0));
    }
    if (!ec)
      ++succeeded;
    if (ec == rdma::error::overloaded)
      refused_.push_back(what.id);
    if (!honest)
      return;
    if (!ec)
      world_.expect(!expected_error(what.id) && reply == expected_reply(what.id),
        "the reply is that of another request");
    else if (ec != expected_error(what.id) && ec != rdma::error::overloaded)
      world_.expect(is_lost || (what.is_limited && ec == asio::error::timed_out)
          || (what.is_cancelled && ec == asio::error::operation_aborted)
          || (is_left && (ec == rdma::error::peer_closed || ec == asio::error::connection_reset)),
        "a call ends with an error that has no reason: " + ec.message());
  }

  // --- items ---

  void open(one& what, const rdma::rpc::call_options& options)
  {
    const simulated::words request(what.request);
    what.is_streaming = true;
    world_.initiate(
      [&]
      {
        what.flow.emplace(executor_,
          rdma::detail::rpc::open_flow(
            core_.get(), encoded<simulated::items>(request), options, true));
      });
    read_item(what);
    write_item(what);
  }

  void read_item(one& what)
  {
    world_.initiate(
      [&]
      {
        what.flow->async_read(asio::bind_cancellation_slot(what.read.signal.slot(),
          world_.once(
            [this, &what](
              const rdma::error_code& ec, const std::optional<simulated::owned_words>& item)
            {
              const bool again = std::exchange(what.read.is_cancelled, false)
                && ec == asio::error::operation_aborted;
              if (item)
                world_.expect(!honest || *item == simulated::item_of(what.id, what.read.done++),
                  "items arrive in their order at the client");
              if (!what.flow || what.is_finishing)
                return;
              what.read.is_late = (item || again) && world_.one_in(2);
              if (what.read.is_late)
                return;
              if (item || again)
                read_item(what);
              else
                finish(what);
            })));
      });
  }

  void write_item(one& what)
  {
    if (what.write.done == simulated::hash(what.id) / 8 % 40)
      return what.flow->end_writing();
    const auto item = simulated::item_of(what.id, what.write.done);
    world_.initiate(
      [&]
      {
        what.flow->async_write(item,
          asio::bind_cancellation_slot(what.write.signal.slot(),
            world_.once(
              [this, &what](const rdma::error_code& ec)
              {
                const bool again = std::exchange(what.write.is_cancelled, false)
                  && ec == asio::error::operation_aborted;
                if (!ec)
                  ++what.write.done;
                if (!what.flow || what.is_finishing)
                  return;
                if (!ec || again)
                  write_item(what);
              })));
      });
  }

  /// Destroys the items, which ends the call.
  void reset(one& what)
  {
    if (!what.is_finishing)
      end(what, asio::error::operation_aborted);
    what.flow.reset();
  }

  void finish(one& what)
  {
    what.is_finishing = true;
    world_.initiate(
      [&]
      {
        what.flow->async_finish(
          world_.once([this, &what](const rdma::error_code& ec, const simulated::owned_words& reply)
            { end(what, ec, reply); }));
      });
  }

  simulated_world& world_;
  const asio::any_io_executor executor_;
  std::shared_ptr<core_type> core_;
  std::deque<std::unique_ptr<one>> calls_;
  std::vector<std::uint64_t> refused_;

public:
  const std::weak_ptr<core_type> core;
};

} // namespace test

#endif // BOOST_RDMA_TEST_UNIT_RPC_SIMULATED_CLIENT_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_SOFTWARE_ASIO_TOKENS_HPP
#define BOOST_RDMA_TEST_SOFTWARE_ASIO_TOKENS_HPP

#include "common/every_operation.hpp"
#include "common/handlers.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/consign.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>

#include <future>

// Tests an operation with every kind of token, or with those that depend on the operation. This
// takes long to compile, so of the operations that share an initiation only one is tested with
// every kind. The test cases are in asio_tokens_*.cpp.

namespace test {

using awaiting_queue_pair = asio::use_awaitable_t<>::as_default_on_t<rdma::queue_pair>;

// A queue pair with a concrete executor type, for code paths that depend on it.
using io_queue_pair = rdma::basic_queue_pair<asio::io_context::executor_type>;

template <class Operation, class Fixture, class... Token>
asio::awaitable<void> await_into(
  Fixture& f, result<typename Operation::result>& into, Token... token)
{
  if constexpr (std::is_same_v<typename Operation::result, std::monostate>)
  {
    co_await Operation::start(f, token...);
    into.set({});
  }
  else
  {
    auto value = co_await Operation::start(f, token...);
    into.set({}, std::move(value));
  }
}

template <class Operation, class Fixture>
asio::awaitable<void> await_tuple_into(Fixture& f, result<typename Operation::result>& into)
{
  auto all = co_await Operation::start(f, asio::as_tuple(asio::use_awaitable));
  std::apply([&](auto... each) { into.set(std::move(each)...); }, std::move(all));
}

template <class Future, class Value>
void take(Future& future, result<Value>& into)
{
  if constexpr (std::is_same_v<Value, std::monostate>)
  {
    future.get();
    into.set({});
  }
  else
    into.set({}, future.get());
}

// Prepares the operation, starts it by `go`, waits for the result and checks it.
template <class Operation, class QueuePair = rdma::queue_pair, class Go>
void carry_out(const char* kind, Go go)
{
  INFO("token: " << kind);
  typename Operation::template fixture<QueuePair> f;
  Operation::prepare(f);
  result<typename Operation::result> r;
  go(f, r);
  REQUIRE(run_until(f.io, [&] { return r.calls != 0; }));
  CHECK(r.ec == error_code());
  Operation::check(f, r.value);
  CHECK(r.calls == 1);
}

// Tests the tokens that depend on an operation's own function: how it forwards its token, stores
// its arguments and declares its default token. Everything else about a token is up to the
// initiation, which operations with the same result share.
template <class Operation>
void with_own_tokens()
{
  using value = typename Operation::result;

  carry_out<Operation>("move-only handler",
    [](auto& f, auto& r) { Operation::start(f, move_only_handler<value>(r)); });

  carry_out<Operation>("handler that throws when copied",
    [](auto& f, auto& r) { Operation::start(f, throwing_copy_handler<value>(r)); });

  carry_out<Operation, awaiting_queue_pair>("the queue pair's own default",
    [](auto& f, auto& r)
    {
      // The check of the result uses callbacks.
      asio::co_spawn(f.io, await_into<Operation>(f, r), asio::detached);
    });

  carry_out<Operation>("deferred",
    [](auto& f, auto& r)
    {
      auto later = Operation::start(f, asio::deferred);
      std::move(later)([&r](auto... a) { r.set(std::move(a)...); });
    });
}

// Binds an executor, an allocator, a cancellation slot and objects to the handler.
template <class Operation>
void with_associations()
{
  using value = typename Operation::result;

  carry_out<Operation>("bind_executor",
    [](auto& f, auto& r)
    {
      auto strand = asio::make_strand(f.io);
      Operation::start(f,
        asio::bind_executor(strand,
          [&r, strand](auto... a)
          {
            CHECK(strand.running_in_this_thread());
            r.set(std::move(a)...);
          }));
    });

  int allocations = 0;
  int live = 0;
  carry_out<Operation>("bind_allocator",
    [&](auto& f, auto& r)
    {
      Operation::start(f,
        asio::bind_allocator(
          counting_allocator<void*>(allocations, live), move_only_handler<value>(r)));
      CHECK(live == 1);
    });
  CHECK(allocations >= 1);
  CHECK(live == 0);

  asio::cancellation_signal signal;
  carry_out<Operation>("bind_cancellation_slot",
    [&](auto& f, auto& r)
    {
      Operation::start(f,
        asio::bind_cancellation_slot(signal.slot(), [&r](auto... a) { r.set(std::move(a)...); }));
      CHECK(signal.slot().has_handler());
    });
  signal.emit(asio::cancellation_type::all); // after the completion; must have no effect

  carry_out<Operation>("consign",
    [](auto& f, auto& r)
    {
      auto guarded = std::make_shared<int>(1);
      std::weak_ptr<int> watch = guarded;
      Operation::start(f,
        asio::consign(
          [&r, watch](auto... a)
          {
            CHECK_FALSE(watch.expired());
            r.set(std::move(a)...);
          },
          std::move(guarded)));
    });
}

template <class Operation>
void with_every_token()
{
  using value = typename Operation::result;

  with_own_tokens<Operation>();

  carry_out<Operation>("callback",
    [](auto& f, auto& r) { Operation::start(f, [&r](auto... a) { r.set(std::move(a)...); }); });

  carry_out<Operation, io_queue_pair>("callback on io_context::executor_type",
    [](auto& f, auto& r) { Operation::start(f, [&r](auto... a) { r.set(std::move(a)...); }); });

  carry_out<Operation>(
    "large handler", [](auto& f, auto& r) { Operation::start(f, large_handler<value>{&r}); });

  carry_out<Operation>("use_future",
    [](auto& f, auto& r)
    {
      auto future = Operation::start(f, asio::use_future);
      REQUIRE(run_until(f.io,
        [&] { return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }));
      take(future, r);
    });

  carry_out<Operation>("use_awaitable",
    [](auto& f, auto& r)
    { asio::co_spawn(f.io, await_into<Operation>(f, r, asio::use_awaitable), asio::detached); });

  carry_out<Operation>("as_tuple(use_awaitable)",
    [](auto& f, auto& r)
    { asio::co_spawn(f.io, await_tuple_into<Operation>(f, r), asio::detached); });

  carry_out<Operation>("deferred in a coroutine",
    [](auto& f, auto& r)
    { asio::co_spawn(f.io, await_into<Operation>(f, r, asio::deferred), asio::detached); });

  carry_out<Operation>("a token of the user's own",
    [](auto& f, auto& r)
    {
      auto watched = Operation::start(f, watched_t<value>());
      REQUIRE(run_until(f.io, [&] { return watched->calls != 0; }));
      r = *watched;
    });

  with_associations<Operation>();

  {
    INFO("token: detached");
    typename Operation::template fixture<rdma::queue_pair> f;
    Operation::prepare(f);
    Operation::start(f, asio::detached);
    REQUIRE(run_out(f.io));
  }
}

} // namespace test

#endif // BOOST_RDMA_TEST_SOFTWARE_ASIO_TOKENS_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_PERF_TURNS_HPP
#define BOOST_RDMA_TOOLS_PERF_TURNS_HPP

#include "perf/plain_coroutine.hpp"
#include "perf/side.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>

#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <utility>

namespace perf {

namespace asio = boost::asio;

// Exchanges messages in turns, `count` times, with each kind of completion token. A Link has io(),
// receive(token) and send(handler). The token applies to the receive. The completion of each send
// is not awaited, because the answer implies it. The receive for an answer is posted before the
// message that requests it, for every token, so that no RNR retry occurs.

/// The turns of either side, and the client's latencies.
class turn_counter
{
public:
  turn_counter(std::uint64_t count, bool client, histogram* latencies)
    : left_(count)
    , client_(client)
    , latencies_(latencies)
    , begin_(clock::now())
    , last_(begin_)
  {
  }

  [[nodiscard]] bool client() const { return client_; }
  [[nodiscard]] bool more() const { return left_ != 0; }

  // Counts a message. The next turn begins immediately, so one clock reading per turn suffices.
  void turn()
  {
    --left_;
    if (latencies_ != nullptr)
    {
      const clock::time_point now = clock::now();
      latencies_->record(
        static_cast<std::uint64_t>(std::chrono::nanoseconds(now - last_).count()) / 2);
      last_ = now;
    }
  }

  [[nodiscard]] seconds elapsed() const { return clock::now() - begin_; }

private:
  std::uint64_t left_;
  bool client_;
  histogram* latencies_;
  clock::time_point begin_;
  clock::time_point last_;
};

inline constexpr auto sent = [](rdma::error_code ec, std::size_t) { check(ec); };

// Receives the next message. With `answer`, sends one as soon as the receive is posted.
template <class Link, class CompletionToken>
auto next_message(Link& link, bool answer, CompletionToken&& token)
{
  return asio::async_initiate<CompletionToken, void(rdma::error_code, std::size_t)>(
    [&link, answer](auto handler)
    {
      link.receive(std::move(handler));
      if (answer)
        link.send(sent);
    },
    token);
}

template <class Link>
class callback_turns
{
public:
  callback_turns(Link& link, turn_counter& counter, bool deferred)
    : link_(link)
    , counter_(counter)
    , deferred_(deferred)
  {
    next(counter_.client());
  }

private:
  void next(bool answer)
  {
    const auto handler = [this](rdma::error_code ec, std::size_t)
    {
      check(ec);
      counter_.turn();
      if (counter_.more())
        next(true);
      else if (!counter_.client())
        link_.send(sent);
    };
    if (deferred_)
      next_message(link_, answer, asio::deferred)(handler);
    else
      next_message(link_, answer, handler);
  }

  Link& link_;
  turn_counter& counter_;
  bool deferred_;
};

template <class Link>
void future_turns(Link& link, turn_counter& counter, const std::function<void()>& ready)
{
  using namespace std::chrono_literals;
  // Between two messages the io_context has no work and would stop.
  auto work = asio::make_work_guard(link.io());
  bool begun = false;
  for (bool answer = counter.client(); counter.more(); answer = true)
  {
    std::future<std::size_t> message = next_message(link, answer, asio::use_future);
    if (!std::exchange(begun, true))
      ready();
    while (message.wait_for(0s) != std::future_status::ready)
      link.io().run_one();
    message.get();
    counter.turn();
  }
  if (!counter.client())
    link.send(sent);
  work.reset();
}

template <class Link>
asio::awaitable<void> awaitable_turns(Link& link, turn_counter& counter)
{
  for (bool answer = counter.client(); counter.more(); answer = true)
  {
    co_await next_message(link, answer, asio::use_awaitable);
    counter.turn();
  }
  if (!counter.client())
    link.send(sent);
}

template <class Link>
plain_coroutine coroutine_turns(Link& link, turn_counter& counter)
{
  for (bool answer = counter.client(); counter.more(); answer = true)
  {
    co_await result_of(next_message(link, answer, asio::deferred));
    counter.turn();
  }
  if (!counter.client())
    link.send(sent);
}

/// Runs all turns of one side, up to the last handler. Calls `ready` when the first receive is
/// posted.
template <class Link>
seconds take_turns(Link& link, token how, std::uint64_t count, bool client, histogram* latencies,
  const std::function<void()>& ready)
{
  link.io().restart();
  turn_counter counter(count, client, latencies);
  const auto finish = [&]
  {
    link.io().run();
    return counter.elapsed();
  };
  switch (how)
  {
  case token::callback:
  case token::deferred:
  {
    callback_turns<Link> turns(link, counter, how == token::deferred);
    ready();
    return finish();
  }
  case token::future:
    future_turns(link, counter, ready);
    return finish();
  case token::awaitable:
    asio::co_spawn(link.io(), awaitable_turns(link, counter),
      [](std::exception_ptr failure)
      {
        if (failure)
          std::rethrow_exception(failure);
      });
    asio::post(link.io(), ready); // after the coroutine's first turn
    return finish();
  case token::coroutine:
  {
    const plain_coroutine turns = coroutine_turns(link, counter);
    ready();
    return finish();
  }
  }
  return {};
}

} // namespace perf

#endif // BOOST_RDMA_TOOLS_PERF_TURNS_HPP

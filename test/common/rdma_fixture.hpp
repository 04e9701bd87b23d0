//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_COMMON_RDMA_FIXTURE_HPP
#define BOOST_RDMA_TEST_COMMON_RDMA_FIXTURE_HPP

#include "common/device_traits.hpp"
#include "common/patience.hpp"
#include "common/watchdog.hpp"

#include <boost_rdma/context.hpp>
#include <boost_rdma/memory_region.hpp>
#include <boost_rdma/memory_window.hpp>
#include <boost_rdma/queue_pair.hpp>
#include <boost_rdma/shared_receive_queue.hpp>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string_view>
#include <tuple>

namespace test {

namespace asio = boost::asio;
using rdma::error_code;

/// Runs io until done() holds, also without work. Returns false if the time limit expires.
template <class Condition>
[[nodiscard]] bool run_until(asio::io_context& io, Condition done)
{
  const auto limit = std::chrono::steady_clock::now() + patience;
  const auto work = asio::make_work_guard(io); // the condition may depend on another thread alone
  while (!done())
  {
    if (io.stopped())
      io.restart();
    const watchdog::event_loop watched;
    if (io.run_one_until(limit) == 0)
      return done();
  }
  return true;
}

/// Runs both contexts in turns until done() holds.
template <class Condition>
[[nodiscard]] bool run_until(asio::io_context& a, asio::io_context& b, Condition done)
{
  const auto limit = std::chrono::steady_clock::now() + patience;
  while (!done())
  {
    a.restart();
    b.restart();
    if (a.poll() + b.poll() == 0)
      a.run_one_for(std::chrono::milliseconds(1));
    if (std::chrono::steady_clock::now() > limit)
      return done();
  }
  return true;
}

/// Runs io until no work is left. Returns false if the time limit expires.
[[nodiscard]] inline bool run_out(asio::io_context& io)
{
  const watchdog::event_loop watched;
  io.restart();
  io.run_for(patience);
  return io.stopped();
}

inline rdma::context make_context(rdma::context_options options = {})
{
  options.device = device_name();
  return rdma::context(options);
}

/// Returns options with these depths of the send and the receive queue.
inline rdma::queue_pair_options of_depths(std::uint32_t sends, std::uint32_t receives)
{
  rdma::queue_pair_options options;
  options.send_depth = sends;
  options.receive_depth = receives;
  return options;
}

inline rdma::queue_pair_options of_depth(std::uint32_t both)
{
  return of_depths(both, both);
}

/// Connects two queue pairs in this process with the endpoint texts that users would exchange.
template <class A, class B>
  requires requires(A& a, B& b) { a.local_endpoint(), b.local_endpoint(); }
void connect(A& a, B& b)
{
  need(feature::endpoint_descriptions);
  const std::string from_a = a.local_endpoint().text();
  const std::string from_b = b.local_endpoint().text();
  a.connect(rdma::endpoint_description::parse(from_b));
  b.connect(rdma::endpoint_description::parse(from_a));
}

/// Two connected queue pairs in one io_context, each in its own context as if on two hosts.
template <class QueuePair = rdma::queue_pair>
struct basic_link
{
  explicit basic_link(const rdma::queue_pair_options& near_options = {},
    const rdma::queue_pair_options& far_options = {})
    : near(io, near_context, near_options)
    , far(io, far_context, far_options)
  {
    connect(near, far);
  }

  asio::io_context io;
  rdma::context near_context = make_context();
  rdma::context far_context = make_context();
  QueuePair near;
  QueuePair far;
};
using linked_pair = basic_link<>;

/// Stores the arguments of a handler and the number of its calls.
template <class... Values>
struct record
{
  int calls = 0;
  error_code ec;
  std::tuple<Values...> values{};

  [[nodiscard]] auto handler()
  {
    return [this](error_code result, Values... v)
    {
      ++calls;
      ec = result;
      values = {v...};
    };
  }
  [[nodiscard]] bool done() const { return calls != 0; }
  [[nodiscard]] auto value() const { return std::get<0>(values); }
};
using plain_record = record<>;
using bytes_record = record<std::size_t>;
using message_record = record<rdma::message>;
using value_record = record<std::uint64_t>;
using remote_record = record<rdma::remote_buffer>;

inline void fill(const rdma::mutable_buffer& buffer, std::string_view text)
{
  std::memcpy(buffer.data(), text.data(), std::min(text.size(), buffer.size()));
}

inline std::string text_of(const rdma::const_buffer& buffer)
{
  return {static_cast<const char*>(buffer.data()), buffer.size()};
}

/// Returns a buffer of the pool that contains this text.
inline rdma::registered_buffer buffer_of(const rdma::context& context, std::string_view text)
{
  rdma::registered_buffer buffer = context.allocate(text.size());
  fill(buffer, text);
  return buffer;
}

inline constexpr rdma::access exposed = rdma::access::local_write | rdma::remote_access;

} // namespace test

#endif // BOOST_RDMA_TEST_COMMON_RDMA_FIXTURE_HPP

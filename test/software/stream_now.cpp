//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/stream_fixture.hpp"

#include "stream/stream_impl.hpp"

#include <boost/asio/error.hpp>

#include <algorithm>
#include <array>
#include <memory>

#include <poll.h>

// Tests streams whose caller does not wait, on a completion queue that it polls itself.

using namespace test;

namespace {

using rdma::detail::stream_core;
using rdma::detail::stream_impl;

struct counter final : rdma::detail::stream_observer
{
  void changed() noexcept override { ++count; }
  int count = 0;
};

/// Two streams on one external queue. Nothing runs the io_context after they have connected.
struct unattended_pair
{
  explicit unattended_pair(const rdma::stream_options& options)
    // Two queue pairs with the default depths: siw's completion queues do not grow.
    : completions(io, context, {.mode = rdma::completion_mode::external, .depth = 512})
  {
    rdma::queue_pair_options with = for_stream();
    with.completions = completions;
    rdma::queue_pair near(io, context, with);
    rdma::queue_pair far(io, context, with);
    connect_for_streams(io, context, near, far);
    a = made_of(near, options);
    b = made_of(far, options);
  }

  static std::shared_ptr<stream_impl> made_of(
    rdma::queue_pair& from, const rdma::stream_options& options)
  {
    return std::static_pointer_cast<stream_impl>(stream_core::make(from.release_core(), options));
  }

  /// Polls and sleeps until the condition holds.
  template <class Condition>
  [[nodiscard]] bool wait(Condition done)
  {
    constexpr std::chrono::milliseconds limit = patience;
    while (!done())
    {
      if (completions.poll() != 0 || !completions.arm())
        continue;
      pollfd sleeps{completions.native_handle(), POLLIN, 0};
      if (!done() && ::poll(&sleeps, 1, static_cast<int>(limit.count())) != 1)
        return false;
    }
    return true;
  }

  asio::io_context io;
  rdma::context context = make_context();
  rdma::completion_queue completions;
  std::shared_ptr<stream_impl> a;
  std::shared_ptr<stream_impl> b;
};

stream_core::sources source(std::string_view text)
{
  return stream_core::sources(asio::buffer(text));
}

} // namespace

TEST_CASE("a stream without an execution context moves bytes until there is no room or no byte")
{
  unattended_pair pair(of_ring(16 * 1024));
  const auto seen = std::make_shared<counter>();
  pair.b->observe(seen);
  REQUIRE(pair.wait([&] { return pair.a->look().writable && pair.b->look().writable; }));
  error_code ec;
  std::array<char, 5000> bytes{};
  const stream_core::targets to(asio::buffer(bytes));
  CHECK(pair.b->read_now(to, ec) == 0);
  CHECK(ec == asio::error::would_block);

  const std::string all = random_text(300'000, 1);
  std::string received;
  std::size_t sent = 0;
  int refused = 0;
  while (received.size() != all.size())
  {
    while (sent != all.size())
    {
      sent += pair.a->write_now(source(std::string_view(all).substr(sent)), ec);
      if (ec)
        break;
    }
    if (sent != all.size())
    {
      CHECK(ec == asio::error::would_block);
      ++refused;
    }
    const int before = seen->count;
    const bool waits = pair.b->look().readable == 0; // otherwise the waits before have seen it come
    REQUIRE(pair.wait([&] { return pair.b->look().readable != 0; }));
    if (waits)
      CHECK(seen->count > before);
    for (std::size_t n = 1; n != 0;)
    {
      n = pair.b->read_now(to, ec);
      received.append(bytes.data(), n);
    }
    // Bytes that were on the way may have filled the ring again.
    if (sent != all.size())
      REQUIRE(pair.wait([&] { return pair.a->look().writable || pair.b->look().readable != 0; }));
  }
  CHECK(refused > 10);
  CHECK(received == all);
}

TEST_CASE("a stream without an execution context ends as others do")
{
  unattended_pair pair({});
  REQUIRE(pair.wait([&] { return pair.a->look().writable && pair.b->look().writable; }));
  error_code ec;
  REQUIRE(pair.a->write_now(source("last"), ec) == 4);
  const bool resets = GENERATE(false, true);
  if (resets)
  {
    REQUIRE(pair.b->write_now(source("unread"), ec) == 6);
    REQUIRE(pair.wait([&] { return pair.a->look().readable == 6; }));
    pair.a->close();
  }
  else
  {
    pair.a->shut_down(ec);
    CHECK(pair.a->write_now(source("more"), ec) == 0);
    CHECK(ec == asio::error::broken_pipe);
  }
  REQUIRE(pair.wait(
    [&]
    {
      const auto now = pair.b->look();
      return resets ? static_cast<bool>(now.failure) : now.peer_has_finished;
    }));
  std::array<char, 8> bytes{};
  const stream_core::targets to(asio::buffer(bytes));
  CHECK(pair.b->read_now(to, ec) == 4);
  CHECK(pair.b->read_now(to, ec) == 0);
  CHECK(ec == (resets ? error_code(asio::error::connection_reset) : error_code(asio::error::eof)));
}

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_SOFTWARE_STREAM_FIXTURE_HPP
#define BOOST_RDMA_TEST_SOFTWARE_STREAM_FIXTURE_HPP

#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"
#include "software/cm_fixture.hpp"
#include "software/connect_fixture.hpp"

#include <boost_rdma/stream.hpp>
#include <boost_rdma/stream_acceptor.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>

#include <cstddef>
#include <exception>
#include <optional>
#include <random>
#include <string>
#include <utility>

namespace test {

inline rdma::queue_pair_options for_stream()
{
  rdma::queue_pair_options options;
  options.for_stream = true;
  return options;
}

/// Connects two queue pairs for_stream() as the device permits.
inline void connect_for_streams(asio::io_context& io, const rdma::context& far_context,
  rdma::queue_pair& near, rdma::queue_pair& far)
{
  if (missing(feature::endpoint_descriptions).empty())
    return connect(near, far);
  cm::acceptor acceptor(io, far_context, tcp::endpoint(device_address(), 0));
  connect_by_cm(io, acceptor, near, far);
}

/// Two connected queue pairs for streams.
struct stream_link
{
  stream_link() { connect_for_streams(io, far_context, near, far); }

  asio::io_context io;
  rdma::context near_context = make_context();
  rdma::context far_context = make_context();
  rdma::queue_pair near{io, near_context, for_stream()};
  rdma::queue_pair far{io, far_context, for_stream()};
};

/// Two streams over connected queue pairs.
struct stream_pair : stream_link
{
  explicit stream_pair(const rdma::stream_options& options = {})
    : a(std::move(near), options)
    , b(std::move(far), options)
  {
  }

  rdma::stream a;
  rdma::stream b;
};

/// A connected stream and its client.
struct connected_pair
{
  explicit connected_pair(bool by_rdma)
    : acceptor(io, server_context, loopback())
    , b(io, client_context, of(by_rdma))
  {
    need(feature::endpoint_descriptions);
    plain_record connected;
    acceptor.async_accept(
      [&](error_code, rdma::stream made) { accepted.emplace(std::move(made)); });
    b.async_connect(acceptor.local_endpoint(), connected.handler());
    REQUIRE(run_until(io, [&] { return connected.done() && accepted; }));
    REQUIRE((b.transport().wire != rdma::wire::socket) == by_rdma);
  }

  static rdma::stream_options of(bool by_rdma)
  {
    rdma::stream_options options;
    if (!by_rdma)
      options.transports = rdma::stream_transports::tcp;
    return options;
  }

  [[nodiscard]] rdma::stream& a() { return *accepted; }

  asio::io_context io;
  rdma::context server_context = make_context();
  rdma::context client_context = make_context();
  rdma::stream_acceptor acceptor;
  std::optional<rdma::stream> accepted;
  rdma::stream b;
};

/// Returns options with a ring that does not grow.
inline rdma::stream_options of_ring(std::uint32_t size)
{
  rdma::stream_options options;
  options.ring_min = size;
  options.ring_max = size;
  return options;
}

inline std::string random_text(std::size_t size, unsigned seed)
{
  std::mt19937 random(seed);
  std::string text(size, '\0');
  for (char& each : text)
    each = static_cast<char>('a' + random() % 26);
  return text;
}

/// Runs these coroutines at once until all have ended. Rethrows the first exception.
template <class... Functions>
void run_all(asio::io_context& io, const Functions&... functions)
{
  std::size_t running = sizeof...(functions);
  std::exception_ptr failure;
  const auto ended = [&](std::exception_ptr thrown)
  {
    --running;
    if (!failure)
      failure = std::move(thrown);
  };
  (asio::co_spawn(io, functions, ended), ...);
  const bool in_time = run_until(io, [&] { return running == 0 || failure; });
  if (failure)
    std::rethrow_exception(failure);
  REQUIRE(in_time);
}

} // namespace test

#endif // BOOST_RDMA_TEST_SOFTWARE_STREAM_FIXTURE_HPP

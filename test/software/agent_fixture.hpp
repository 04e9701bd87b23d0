//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_SOFTWARE_AGENT_FIXTURE_HPP
#define BOOST_RDMA_TEST_SOFTWARE_AGENT_FIXTURE_HPP

#include "common/catch.hpp"
#include "software/connect_fixture.hpp"

#include <boost_rdma/agent.hpp>
#include <boost_rdma/lessor.hpp>

#include <optional>
#include <utility>

namespace test {

/// Stores the result of an operation that completes with a move-only value.
template <class Value>
struct moved_record
{
  int calls = 0;
  error_code ec;
  Value value{};

  [[nodiscard]] auto handler()
  {
    return [this](error_code result, Value given)
    {
      ++calls;
      ec = result;
      value = std::move(given);
    };
  }
  [[nodiscard]] bool done() const { return calls != 0; }
};
using memory_record = moved_record<rdma::remote_memory>;
using loan_record = moved_record<rdma::loan>;
using buffer_record = moved_record<rdma::registered_buffer>;

/// A connected client and server, each in its own context; the server has a lessor.
struct agent_fixture
{
  explicit agent_fixture(
    const rdma::lessor_options& quotas = {}, const rdma::queue_pair_options& server_options = {})
    : lessor(server_context, quotas)
    , acceptor(io, server_context, loopback(), options_of(lessor, server_options))
  {
    need(feature::endpoint_descriptions);
    connect(client, server);
  }

  static rdma::acceptor_options options_of(
    const rdma::lessor& from, const rdma::queue_pair_options& server_options = {})
  {
    rdma::acceptor_options options;
    options.queue_pair = server_options;
    options.queue_pair.grant_from(from);
    return options;
  }

  /// Connects another client's queue pair and returns the server's queue pair in `far`.
  void connect(rdma::queue_pair& near, std::optional<rdma::queue_pair>& far)
  {
    connect_fixture::accepted accepted;
    plain_record connected;
    acceptor.async_accept(accepted.handler());
    near.async_connect(acceptor.local_endpoint(), connected.handler());
    REQUIRE(run_until(io, [&] { return accepted.calls != 0 && connected.done(); }));
    REQUIRE(accepted.ec == error_code());
    REQUIRE(connected.ec == error_code());
    far.emplace(std::move(*accepted.peer));
  }

  /// Allocates memory of the server for the client.
  rdma::remote_memory allocate(std::size_t size, const rdma::allocation_options& options = {})
  {
    return allocate(client, size, options);
  }
  rdma::remote_memory allocate(
    rdma::queue_pair& by, std::size_t size, const rdma::allocation_options& options = {})
  {
    memory_record granted;
    by.agent().async_allocate(size, options, granted.handler());
    REQUIRE(run_until(io, [&] { return granted.done(); }));
    REQUIRE(granted.ec == error_code());
    return std::move(granted.value);
  }

  /// Returns the error of an allocation that must fail.
  error_code refusal(std::size_t size, const rdma::allocation_options& options = {})
  {
    memory_record granted;
    client.agent().async_allocate(size, options, granted.handler());
    REQUIRE(run_until(io, [&] { return granted.done(); }));
    CHECK_FALSE(granted.value.is_valid());
    return granted.ec;
  }

  error_code write(rdma::queue_pair& by, std::string_view text, const rdma::remote_buffer& to)
  {
    bytes_record written;
    by.async_write(buffer_of(by.context(), text), to, written.handler());
    REQUIRE(run_until(io, [&] { return written.done(); }));
    return written.ec;
  }

  /// Returns the content, or an empty string and the error.
  std::string read(rdma::queue_pair& by, const rdma::remote_buffer& from, error_code& ec)
  {
    bytes_record done;
    const rdma::registered_buffer into = by.context().allocate(from.size());
    by.async_read(into, from, done.handler());
    REQUIRE(run_until(io, [&] { return done.done(); }));
    ec = done.ec;
    return ec ? std::string() : text_of(into);
  }
  std::string read(const rdma::remote_buffer& from)
  {
    error_code ec;
    std::string text = read(client, from, ec);
    REQUIRE(ec == error_code());
    return text;
  }

  [[nodiscard]] bool all_back()
  {
    return run_until(io,
      [&]
      {
        const rdma::lessor_statistics granted = lessor.statistics();
        return granted.bytes == 0 && granted.regions == 0;
      });
  }

  asio::io_context io;
  rdma::context server_context = make_context();
  rdma::context client_context = make_context();
  rdma::lessor lessor;
  rdma::acceptor acceptor;
  rdma::queue_pair client{io, client_context};
  std::optional<rdma::queue_pair> server;
};

} // namespace test

#endif // BOOST_RDMA_TEST_SOFTWARE_AGENT_FIXTURE_HPP

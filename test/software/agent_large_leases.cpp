//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/agent_fixture.hpp"

#include <chrono>
#include <ctime>
#include <future>
#include <optional>
#include <thread>

// Leases of much memory.

namespace test {

namespace {

std::chrono::nanoseconds processor_time(clockid_t of)
{
  timespec used{};
  REQUIRE(::clock_gettime(of, &used) == 0);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

/// A server with a lessor and a thread of its own.
class lessor_host
{
public:
  lessor_host()
  {
    acceptor_.async_accept(accepted_.handler());
    thread_ = std::jthread([this] { io_.run(); });
  }
  lessor_host(const lessor_host&) = delete;
  lessor_host& operator=(const lessor_host&) = delete;
  ~lessor_host() { io_.stop(); }

  [[nodiscard]] tcp::endpoint endpoint() const { return acceptor_.local_endpoint(); }
  [[nodiscard]] std::size_t leased() const { return lessor_.statistics().bytes; }

  /// Returns the processor time of the server's thread.
  [[nodiscard]] std::chrono::nanoseconds used()
  {
    std::promise<std::chrono::nanoseconds> result;
    asio::post(io_, [&] { result.set_value(processor_time(CLOCK_THREAD_CPUTIME_ID)); });
    return result.get_future().get();
  }

private:
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  rdma::context context_ = make_context();
  rdma::lessor lessor_{context_};
  rdma::acceptor acceptor_{io_, context_, loopback(), agent_fixture::options_of(lessor_)};
  connect_fixture::accepted accepted_;
  std::jthread thread_;
};

} // namespace

TEST_CASE("the threads of a server do not clear large leases")
{
  BOOST_RDMA_TEST_NEEDS(software_device); // others limit the memory that can be registered
  constexpr std::size_t size = std::size_t{64} << 20;
  lessor_host server;
  const rdma::context context = make_context();
  asio::io_context io;
  rdma::queue_pair client(io, context);
  plain_record connected;
  client.async_connect(server.endpoint(), connected.handler());
  REQUIRE(run_until(io, [&] { return connected.done(); }));
  REQUIRE(connected.ec == error_code());
  const auto at_first = server.used();
  const auto all_at_first = processor_time(CLOCK_PROCESS_CPUTIME_ID);
  for (int i = 0; i != 8; ++i)
  {
    // The quota of a peer is enough for four, so the ones before have been released.
    memory_record granted;
    client.agent().async_allocate(size, {}, granted.handler());
    REQUIRE(run_until(io, [&] { return granted.done(); }));
    REQUIRE(granted.ec == error_code());
    bytes_record written;
    bytes_record read;
    const rdma::registered_buffer text = buffer_of(context, "hello");
    const rdma::registered_buffer back = context.allocate(text.size());
    client.async_read(back, granted.value.first(back.size()), read.handler());
    REQUIRE(run_until(io, [&] { return read.done(); }));
    CHECK(text_of(back) == std::string(text.size(), '\0'));
    client.async_write(text, granted.value.first(text.size()), written.handler());
    REQUIRE(run_until(io, [&] { return written.done(); }));
    CHECK(written.ec == error_code());
  }
  REQUIRE(until(
    [&]
    {
      io.poll();
      return server.leased() == 0;
    }));
  const auto served = server.used() - at_first;
  const auto all = processor_time(CLOCK_PROCESS_CPUTIME_ID) - all_at_first;
  CAPTURE(served.count(), all.count());
  CHECK(served * 4 < all);
}

} // namespace test

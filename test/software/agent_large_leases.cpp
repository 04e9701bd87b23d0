//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "agent/lease_worker.hpp"
#include "common/sanitizers.hpp"
#include "common/watchdog.hpp"
#include "software/agent_fixture.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <future>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

// Processor time of a server's thread for leases.

namespace test {

namespace {

std::chrono::nanoseconds processor_time(clockid_t of)
{
  timespec used{};
  REQUIRE(::clock_gettime(of, &used) == 0);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

/// Returns a factor of the run time of instrumented code, and of a machine without an accelerator.
int slowness()
{
  return emulated()                                                         ? 20
    : BOOST_RDMA_TEST_ADDRESS_SANITIZER || BOOST_RDMA_TEST_THREAD_SANITIZER ? 10
                                                                            : 1;
}

/// A server with a lessor and a thread of its own. Accepts two clients.
class lessor_host
{
public:
  lessor_host()
  {
    for (connect_fixture::accepted& each : accepted_)
      acceptor_.async_accept(each.handler());
    thread_ = std::jthread([this] { io_.run(); });
  }
  lessor_host(const lessor_host&) = delete;
  lessor_host& operator=(const lessor_host&) = delete;
  ~lessor_host() { io_.stop(); }

  [[nodiscard]] tcp::endpoint endpoint() const { return acceptor_.local_endpoint(); }
  [[nodiscard]] std::size_t leased() const { return lessor_.statistics().bytes; }

  /// Occupies the thread for large leases until the promise is kept or gone.
  void occupy(std::promise<void>& until)
  {
    rdma::detail::lease_worker::run(
      io_.get_executor(), [end = until.get_future().share()] { end.wait(); });
  }

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
  std::array<connect_fixture::accepted, 2> accepted_;
  std::jthread thread_;
};

/// A client with an io_context of its own.
struct lessee
{
  explicit lessee(const lessor_host& server)
  {
    plain_record connected;
    peer.async_connect(server.endpoint(), connected.handler());
    REQUIRE(run_until(io, [&] { return connected.done(); }));
    REQUIRE(connected.ec == error_code());
  }

  rdma::remote_memory allocate(std::size_t size)
  {
    memory_record granted;
    peer.agent().async_allocate(size, {}, granted.handler());
    REQUIRE(run_until(io, [&] { return granted.done(); }));
    REQUIRE(granted.ec == error_code());
    return std::move(granted.value);
  }

  asio::io_context io;
  rdma::context context = make_context();
  rdma::queue_pair peer{io, context};
};

/// Returns the first line of /proc/self/maps that contains this address.
std::string mapping_of(std::uint64_t address)
{
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
  {
    const std::size_t to = line.find('-') + 1;
    if (address >= std::stoull(line, nullptr, 16)
      && address < std::stoull(line.substr(to), nullptr, 16))
      return line;
  }
  return {};
}

} // namespace

TEST_CASE("large leases are made and released by a thread that no other lease needs")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  constexpr std::size_t size = std::size_t{1} << 20;
  lessor_host server;
  lessee client(server);
  rdma::remote_memory large = client.allocate(size);
  std::promise<void> go;
  server.occupy(go);
  memory_record second;
  client.peer.agent().async_allocate(size, {}, second.handler());
  client.allocate(4096).release();
  plain_record released;
  client.peer.agent().async_release(std::move(large), released.handler());
  REQUIRE(run_until(client.io, [&] { return released.done(); }));
  CHECK(released.ec == error_code());
  CHECK_FALSE(second.done());
  CHECK(server.leased() == size); // the first one
  go.set_value();
  REQUIRE(run_until(client.io, [&] { return second.done(); }));
  CHECK(second.ec == error_code());
  second.value = {};
  CHECK(until(
    [&]
    {
      client.io.poll();
      return server.leased() == 0;
    }));
}

TEST_CASE("large leases share no mapping with small ones, which do not wait for its pool")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  lessor_host server;
  lessee client(server);
  std::vector<rdma::remote_memory> held;
  std::set<std::string> large;
  for (int i = 0; i != 8; ++i)
  {
    held.push_back(client.allocate(std::size_t{160} << 10));
    large.insert(mapping_of(held.back().buffer().address()));
  }
  REQUIRE_FALSE(large.contains({}));
  for (int i = 0; i != 8; ++i)
  {
    held.push_back(client.allocate(4096));
    CHECK_FALSE(large.contains(mapping_of(held.back().buffer().address())));
  }
}

TEST_CASE("the threads of a server do not clear large leases")
{
  BOOST_RDMA_TEST_NEEDS(software_device); // others limit the memory that can be registered
  constexpr std::size_t size = std::size_t{64} << 20;
  lessor_host server;
  lessee client(server);
  const auto at_first = server.used();
  const auto all_at_first = processor_time(CLOCK_PROCESS_CPUTIME_ID);
  for (int i = 0; i != 8; ++i)
  {
    // The quota of a peer is enough for four, so the ones before have been released.
    const rdma::remote_memory granted = client.allocate(size);
    bytes_record written;
    bytes_record read;
    const rdma::registered_buffer text = buffer_of(client.context, "hello");
    const rdma::registered_buffer back = client.context.allocate(text.size());
    client.peer.async_read(back, granted.first(back.size()), read.handler());
    REQUIRE(run_until(client.io, [&] { return read.done(); }));
    CHECK(text_of(back) == std::string(text.size(), '\0'));
    client.peer.async_write(text, granted.first(text.size()), written.handler());
    REQUIRE(run_until(client.io, [&] { return written.done(); }));
    CHECK(written.ec == error_code());
  }
  REQUIRE(until(
    [&]
    {
      client.io.poll();
      return server.leased() == 0;
    }));
  const auto served = server.used() - at_first;
  const auto all = processor_time(CLOCK_PROCESS_CPUTIME_ID) - all_at_first;
  CAPTURE(served.count(), all.count());
  CHECK(served * 4 < all);
}

TEST_CASE("a lease takes no milliseconds of a server's thread")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const std::size_t size = GENERATE(std::size_t{128} << 10, std::size_t{256} << 10);
  constexpr std::size_t count = 500; // for which a pool grows several times
  lessor_host server;
  lessee client(server);
  std::vector<rdma::remote_memory> held;
  std::vector<std::chrono::nanoseconds> grants;
  const auto stolen_before = watchdog::stolen_time();
  auto before = server.used();
  for (std::size_t i = 0; i != count; ++i)
  {
    held.push_back(client.allocate(size));
    const auto now = server.used();
    grants.push_back(now - before);
    before = now;
  }
  std::sort(grants.begin(), grants.end());
  const auto median = grants[count / 2];
  const auto third_longest = grants[count - 3];
  const auto stolen = watchdog::stolen_time() - stolen_before;
  CAPTURE(size, grants.front().count(), median.count(), third_longest.count(), stolen.count());
  // Each grant clears memory, whose page faults can take ten times as long in a virtual machine
  // whose host is short of memory: not all of the time. Sanitizers clear their shadow of it, too.
  CHECK(grants[count / 4] < std::chrono::milliseconds(1) * slowness());
  CHECK(third_longest < 20 * median + watchdog::turn_limit() * slowness() + stolen);
}

TEST_CASE("small leases are granted while a large one is made, for another client and for the same")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  constexpr std::size_t large_size = std::size_t{128} << 20;
  // A server's thread that makes the large lease grants at most one small lease meanwhile: the one
  // whose grant the client reads first.
  constexpr int wanted = 3;
  lessor_host server;
  lessee client(server);
  lessee other(server);
  lessee& by = GENERATE(false, true) ? client : other;
  int granted_meanwhile = 0;
  for (int i = 0; i != 40 && granted_meanwhile < wanted; ++i)
  {
    granted_meanwhile = 0;
    memory_record large;
    client.peer.agent().async_allocate(large_size, {}, large.handler());
    while (!large.done())
    {
      memory_record small;
      by.peer.agent().async_allocate(4096, {}, small.handler());
      REQUIRE(run_until(by.io, client.io, [&] { return small.done(); }));
      REQUIRE(small.ec == error_code());
      granted_meanwhile += large.done() ? 0 : 1;
    }
    REQUIRE(large.ec == error_code());
    // Leases of a client wait for its releases, of which they may need the quota.
    large.value = {};
    REQUIRE(run_until(by.io, client.io, [&] { return server.leased() == 0; }));
  }
  CHECK(granted_meanwhile >= wanted);
}

} // namespace test

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/cm_fixture.hpp"

#include <boost_rdma/acceptor.hpp>

#include <array>
#include <cstdio>
#include <map>
#include <memory>
#include <sstream>
#include <string>

namespace {

using namespace test;

constexpr int times = 1000;

// Returns the kernel's object counts of the device (`rdma resource`), e.g. "0: rxe0: pd 1 cq 1 qp 1
// cm_id 0 mr 0 ...". The number of open contexts (ctx) is excluded: librdmacm keeps its devices
// open until the process ends.
std::map<std::string, int> kernel_objects()
{
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(
    ::popen("rdma resource", "r"), ::pclose);
  REQUIRE(pipe);
  std::string all;
  std::array<char, 256> part{};
  while (std::fgets(part.data(), part.size(), pipe.get()) != nullptr)
    all += part.data();
  std::map<std::string, int> counts;
  std::istringstream lines(all);
  for (std::string line; std::getline(lines, line);)
  {
    std::istringstream words(line);
    std::string number;
    std::string name;
    words >> number >> name;
    if (name != device_name() + ":")
      continue;
    std::string kind;
    for (int count = 0; words >> kind >> count;)
      counts[kind] = count;
  }
  counts.erase("ctx");
  for (const char* wanted : {"pd", "cq", "qp", "mr", "cm_id"})
    REQUIRE(counts.count(wanted) == 1);
  return counts;
}

std::string text(const std::map<std::string, int>& counts)
{
  std::string out;
  for (const auto& [kind, count] : counts)
    out += kind + " " + std::to_string(count) + " ";
  return out;
}

// The kernel destroys objects a moment after the process has released them.
bool come_to(const std::map<std::string, int>& wanted)
{
  return until([&] { return kernel_objects() == wanted; });
}

bool all_gone(asio::io_context& io, const std::map<std::string, int>& wanted)
{
  const auto end = std::chrono::steady_clock::now() + patience;
  while (kernel_objects() != wanted && std::chrono::steady_clock::now() < end)
  {
    io.restart();
    io.run_for(std::chrono::milliseconds(10));
  }
  return kernel_objects() == wanted;
}

} // namespace

TEST_CASE("a thousand connects and disconnects by RDMA-CM leave no kernel objects")
{
  const auto before = kernel_objects();
  {
    cm_fixture f;
    f.connect(); // creates the permanent objects: completion queues, and the pair of the fixture
    const auto standing = kernel_objects();
    for (int i = 0; i < times; ++i)
    {
      accept_record accepted;
      data_record connected;
      rdma::queue_pair client(f.io, f.client_context);
      f.acceptor.async_accept(accepted.handler());
      cm::async_connect(client, f.acceptor.local_endpoint(), connected.handler());
      REQUIRE(run_until(f.io, [&] { return accepted.done() && connected.done(); }));
      REQUIRE(connected.ec == error_code());
      REQUIRE(accepted.ec == error_code());
      if (i % 2 == 0)
        client.close();
      else
        accepted.object->close();
    }
    const bool gone = all_gone(f.io, standing);
    INFO("expected: " << text(standing) << "left: " << text(kernel_objects()));
    CHECK(gone);
  }
  const bool gone = come_to(before);
  INFO("before: " << text(before) << "after: " << text(kernel_objects()));
  CHECK(gone);
}

TEST_CASE("a thousand connects and disconnects by HTTP Upgrade leave no kernel objects")
{
  BOOST_RDMA_TEST_NEEDS(endpoint_descriptions);
  const auto before = kernel_objects();
  {
    asio::io_context io;
    const rdma::context server_context = make_context();
    const rdma::context client_context = make_context();
    rdma::acceptor acceptor(io, server_context, {device_address(), 0});
    accept_record first_accepted;
    plain_record first_connected;
    rdma::queue_pair first(io, client_context); // creates the permanent objects
    acceptor.async_accept(first_accepted.handler());
    first.async_connect(acceptor.local_endpoint(), first_connected.handler());
    REQUIRE(run_until(io, [&] { return first_accepted.done() && first_connected.done(); }));
    REQUIRE(first_connected.ec == error_code());
    const auto standing = kernel_objects();
    for (int i = 0; i < times; ++i)
    {
      accept_record accepted;
      plain_record connected;
      rdma::queue_pair client(io, client_context);
      acceptor.async_accept(accepted.handler());
      client.async_connect(acceptor.local_endpoint(), connected.handler());
      REQUIRE(run_until(io, [&] { return accepted.done() && connected.done(); }));
      REQUIRE(connected.ec == error_code());
      REQUIRE(accepted.ec == error_code());
      if (i % 2 == 0)
        client.close();
      else
        accepted.object->close();
    }
    const bool gone = all_gone(io, standing);
    INFO("expected: " << text(standing) << "left: " << text(kernel_objects()));
    CHECK(gone);
  }
  const bool gone = come_to(before);
  INFO("before: " << text(before) << "after: " << text(kernel_objects()));
  CHECK(gone);
}

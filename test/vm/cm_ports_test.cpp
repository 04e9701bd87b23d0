//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/cm_fixture.hpp"
#include "vm/device_machine.hpp"

#include <fstream>
#include <memory>
#include <sstream>
#include <vector>

namespace {

using namespace test;

constexpr const char* port_range_file = "/proc/sys/net/ipv4/ip_local_port_range";

// Limits RDMA-CM to a small port range in which TCP sockets listen on every other port.
class few_ports
{
public:
  explicit few_ports(asio::io_context& io)
  {
    for (int port = first_port; port <= last_port; port += 2)
      taken_.push_back(std::make_unique<tcp::acceptor>(
        io, tcp::endpoint(device_address(), static_cast<unsigned short>(port))));
    set(std::to_string(first_port) + " " + std::to_string(last_port));
  }
  ~few_ports() { set(before_); }
  few_ports(const few_ports&) = delete;
  few_ports& operator=(const few_ports&) = delete;

private:
  static constexpr int first_port = 50'000;
  static constexpr int last_port = 50'127;

  static std::string range()
  {
    std::ostringstream text;
    text << std::ifstream(port_range_file).rdbuf();
    return text.str();
  }
  static void set(const std::string& range) { shell("echo " + range + " >" + port_range_file); }

  const std::string before_ = range().substr(0, range().find('\n'));
  std::vector<std::unique_ptr<tcp::acceptor>> taken_;
};

} // namespace

TEST_CASE("RDMA-CM connects and listens when TCP sockets occupy ports of its range")
{
  BOOST_RDMA_TEST_IN_MACHINE("siw0");
  asio::io_context io;
  const few_ports few(io);
  for (int i = 0; i != 16; ++i)
  {
    cm_fixture f;
    f.connect("hello", "welcome");
    CHECK(f.client.is_connected());
  }
}

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/texts.hpp"

#include <array>
#include <cstdio>
#include <stdexcept>
#include <string>

// Tests the messages on a host without libibverbs or without the requested device. A loaded library
// stays loaded, so each case runs in its own process.

namespace {

std::string print_devices(const std::string& settings, const std::string& name = {})
{
  const std::string command =
    "env " + settings + " '" BOOST_RDMA_TEST_PROGRAMS "/print_devices' " + name + " </dev/null";
  std::FILE* output = ::popen(command.c_str(), "r");
  if (output == nullptr)
    throw std::runtime_error("cannot start " + command);
  std::string result;
  std::array<char, 4096> part;
  while (std::fgets(part.data(), static_cast<int>(part.size()), output) != nullptr)
    result += part.data();
  CHECK(::pclose(output) == 0);
  return result;
}

} // namespace

TEST_CASE(
  "a program without libibverbs opens the software device and reports the package to install")
{
  const std::string text =
    print_devices("-u BOOST_RDMA_DEVICE BOOST_RDMA_LIBIBVERBS=/nowhere/libibverbs.so.1");
  test::contains_all(text,
    {"device=soft0", "library=cannot load /nowhere/libibverbs.so.1", "libibverbs1",
      "opened=soft0"});
}

TEST_CASE("opening a NIC without libibverbs fails with the reason of the library")
{
  const std::string settings = "BOOST_RDMA_LIBIBVERBS=/nowhere/libibverbs.so.1";
  test::contains_all(print_devices("-u BOOST_RDMA_DEVICE " + settings, "mlx5_0"),
    {"refused=cannot open the RDMA device 'mlx5_0'", "cannot load /nowhere/libibverbs.so.1",
      "libibverbs1", "cause=", "list_devices()"});
  test::contains_all(print_devices("BOOST_RDMA_DEVICE=mlx5_0 " + settings),
    {"refused=cannot open the RDMA device 'mlx5_0'"});
}

TEST_CASE("opening an unknown device fails and lists the available names")
{
  test::contains_all(print_devices("-u BOOST_RDMA_DEVICE", "no_such_device"),
    {"refused=cannot open the RDMA device 'no_such_device'", "soft0", "cause="});
}

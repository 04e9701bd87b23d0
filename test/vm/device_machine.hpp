//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_VM_DEVICE_MACHINE_HPP
#define BOOST_RDMA_TEST_VM_DEVICE_MACHINE_HPP

#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <unistd.h>

// Helpers for tests that change interfaces and devices of the machine of tools/rdma_vm.

namespace test {

/// Runs a shell command; throws if it fails.
inline void shell(const std::string& command)
{
  if (std::system(command.c_str()) != 0)
    throw std::runtime_error("failed: " + command);
}

/// Reverts a change of the machine.
class afterwards
{
public:
  explicit afterwards(std::string command)
    : command_(std::move(command))
  {
  }
  ~afterwards()
  {
    if (std::system(command_.c_str()) != 0)
      WARN("failed: " << command_);
  }
  afterwards(const afterwards&) = delete;
  afterwards& operator=(const afterwards&) = delete;

private:
  std::string command_;
};

} // namespace test

/// Skips a test case on another device; fails it if it does not run as root in the machine.
#define BOOST_RDMA_TEST_IN_MACHINE(device)                                                         \
  do                                                                                               \
  {                                                                                                \
    if (::test::device_name() != device)                                                           \
    {                                                                                              \
      WARN("skipped on " << ::test::device_name()                                                  \
                         << ": tests " device " in the machine of tools/rdma_vm");                 \
      return;                                                                                      \
    }                                                                                              \
    REQUIRE(::geteuid() == 0);                                                                     \
    REQUIRE(::access("/sys/class/net/veth0", F_OK) == 0);                                          \
  } while (false)

#endif // BOOST_RDMA_TEST_VM_DEVICE_MACHINE_HPP

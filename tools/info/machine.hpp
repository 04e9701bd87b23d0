//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_INFO_MACHINE_HPP
#define BOOST_RDMA_TOOLS_INFO_MACHINE_HPP

#include "info/choice.hpp"
#include "info/device_report.hpp"
#include "info/file_tree.hpp"
#include "info/self_test.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace info {

/// One of rdma-core's libraries, which the library loads at run time.
struct library_report
{
  std::string path;    ///< the file, with its version; empty where none was loaded
  std::string version; ///< rdma-core's; empty where the file's name does not tell
  std::string reason;  ///< why it cannot be used
  [[nodiscard]] bool usable() const { return reason.empty(); }
};

struct interface_report
{
  std::string name;
  bool up = false;
  bool loopback = false;
  std::vector<std::string> addresses; ///< without IPv6 link-local ones
};

/// A system call that the library makes, tried out.
struct call_report
{
  std::string name;
  int error = 0; ///< errno; 0 where it works
};

/// What is known of a machine: of this one everything, of a saved file tree what the files tell.
struct machine
{
  file_tree files;

  // What the files tell, and the library where the tree is this machine's own.
  std::vector<device_report> devices;

  // Of this machine alone.
  std::optional<library_report> verbs;
  std::optional<library_report> connection_manager;
  std::optional<default_report> by_default;
  std::optional<std::vector<interface_report>> interfaces;
  std::vector<call_report> calls;
  std::optional<test_report> software_test;

  /// errno of opening a device's file for reading and writing; 0 where that is permitted.
  std::function<int(const std::string&)> why_not_open;

  /// NICs among the devices, in order.
  [[nodiscard]] std::vector<const device_report*> nics() const;
  [[nodiscard]] bool has_nic() const { return !nics().empty(); }
};

/// Looks at this machine. `with_test` passes a message over the software device.
machine look_at_this_machine(bool with_test);

/// Looks at a saved tree, or one that was made up.
machine look_at_tree(const std::filesystem::path& root);

/// The version of rdma-core in the name of its libraries' files: "libibverbs.so.1.14.44.0" is
/// of 44.0.
std::string version_of_library(const std::filesystem::path& file);

} // namespace info

#endif // BOOST_RDMA_TOOLS_INFO_MACHINE_HPP

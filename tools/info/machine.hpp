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

/// A library of rdma-core, which this library loads at run time.
struct library_report
{
  std::string path;    ///< the file, with its version; empty if not loaded
  std::string version; ///< version of rdma-core; empty if the file name does not contain it
  std::string reason;  ///< the reason why it cannot be used
  [[nodiscard]] bool usable() const { return reason.empty(); }
};

struct interface_report
{
  std::string name;
  bool up = false;
  bool loopback = false;
  std::vector<std::string> addresses; ///< without IPv6 link-local ones
};

/// The result of a system call that the library needs.
struct call_report
{
  std::string name;
  int error = 0; ///< errno; 0 on success
};

/// The known facts about a machine. For a saved file tree, only those in the files.
struct machine
{
  file_tree files;

  // From the files, and from the library if the tree is this machine's own.
  std::vector<device_report> devices;

  // Only for this machine.
  std::optional<library_report> verbs;
  std::optional<library_report> connection_manager;
  std::optional<default_report> by_default;
  std::optional<std::vector<interface_report>> interfaces;
  std::vector<call_report> calls;
  std::optional<test_report> software_test;

  /// Returns the errno of opening a device's file for reading and writing, or 0 on success.
  std::function<int(const std::string&)> why_not_open;

  /// Returns the NICs among the devices, in order.
  [[nodiscard]] std::vector<const device_report*> nics() const;
  [[nodiscard]] bool has_nic() const { return !nics().empty(); }
};

/// Inspects this machine. `with_test` passes a message over the software device.
machine look_at_this_machine(bool with_test);

/// Inspects a saved or simulated tree.
machine look_at_tree(const std::filesystem::path& root);

/// Returns the version of rdma-core from the file name of its library: 44.0 for
/// "libibverbs.so.1.14.44.0".
std::string version_of_library(const std::filesystem::path& file);

} // namespace info

#endif // BOOST_RDMA_TOOLS_INFO_MACHINE_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Shows the RDMA capabilities of this machine, and everything that stops RDMA or slows it down:
//
//   rdma_info                  libraries, devices, ports, GIDs, limits, and the severe findings
//   rdma_info --doctor         all findings: the observation, its consequence and the remedy
//   rdma_info --for ADDRESS    the device and GID that the library uses for a peer or a local
//   address rdma_info --test           passes a message over each device
//
// --json prints the same for programs. The exit code is 1 if the doctor finds something that stops
// RDMA, or if a test fails, otherwise 0.

#include "info/choice.hpp"
#include "info/doctor.hpp"
#include "info/machine.hpp"
#include "info/print.hpp"
#include "info/self_test.hpp"

#include <CLI/CLI.hpp>

#include <boost/asio/ip/address.hpp>

#include <algorithm>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

namespace {

struct settings
{
  bool doctor = false;
  bool test = false;
  bool json = false;
  std::vector<std::string> addresses;
  std::string root;
};

std::string why_no_address(const std::string& text)
{
  boost::system::error_code ec;
  boost::asio::ip::make_address(text, ec);
  return ec ? text + " is not an IP address" : std::string();
}

int show(const settings& how)
{
  info::report what;
  for (const std::string& text : how.addresses)
    what.choices.push_back(info::choose_for(boost::asio::ip::make_address(text)));
  const bool plain = !how.doctor && !how.test && how.addresses.empty();
  const bool looks = plain || how.doctor || how.test;
  const info::machine found = !how.root.empty() ? info::look_at_tree(how.root)
    : looks                                     ? info::look_at_this_machine(plain || how.doctor)
                                                : info::machine();
  if (plain)
    what.looked_at = &found;
  if (plain || how.doctor)
    what.doctor = info::examine(found);
  what.briefly = !how.doctor;
  if (how.test)
    for (const info::device_report& each : found.devices)
      what.tests.push_back(each.usable
          ? info::test_device(each.name)
          : info::test_report{each.name, info::test_outcome::failed, each.remark});
  how.json ? info::print_json(std::cout, what) : info::print_text(std::cout, what);
  if (!std::cout.flush())
  {
    std::cerr << "error: cannot write the output\n";
    return 1;
  }
  const bool failed = std::ranges::any_of(what.tests,
    [](const info::test_report& each) { return each.outcome == info::test_outcome::failed; });
  const bool stopped = how.doctor
    && std::ranges::any_of(*what.doctor,
      [](const info::diagnosed& each) { return each.what.how == info::level::stops; });
  return failed || stopped ? 1 : 0;
}

} // namespace

int main(int argc, char** argv)
{
  settings how;
  CLI::App app("Shows the RDMA capabilities of this machine, and everything that stops RDMA or "
               "slows it down.");
  app.add_flag("--doctor", how.doctor, "show all findings, with their consequences and remedies");
  auto* addresses =
    app
      .add_option("--for", how.addresses,
        "show the device and GID that the library uses for this peer, or for this address "
        "of the host (may be repeated)")
      ->type_name("ADDRESS")
      ->check(CLI::Validator(why_no_address, ""));
  auto* test = app.add_flag("--test", how.test, "pass a message over each device");
  app.add_flag("--json", how.json, "print JSON");
  app
    .add_option("--root", how.root,
      "read /proc and /sys below this directory, for example a copy from "
      "another machine")
    ->type_name("DIRECTORY")
    ->check(CLI::ExistingDirectory)
    ->excludes(addresses)
    ->excludes(test);
  CLI11_PARSE(app, argc, argv);
  try
  {
    return show(how);
  }
  catch (const std::exception& failure)
  {
    std::cerr << "error: " << failure.what() << '\n';
    return 2;
  }
}

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "info/print.hpp"

#include <boost_rdma/device.hpp>

#include <algorithm>
#include <iomanip>
#include <string_view>

// Prints the report as aligned text, for people.

namespace info {
namespace {

constexpr std::size_t width_max = 110;

// Prints a label and words after it, which continue in the same column.
void print_row(std::ostream& to, std::string_view indent, std::size_t column,
  std::string_view label, std::string_view words)
{
  to << indent << std::left << std::setw(static_cast<int>(column - indent.size())) << label;
  std::size_t at = column;
  bool first = true;
  while (!words.empty())
  {
    const std::size_t end = std::min(words.find(' '), words.size());
    if (!first && at + 1 + end > width_max)
    {
      to << '\n' << std::string(column, ' ');
      at = column;
    }
    else if (!first)
    {
      to << ' ';
      ++at;
    }
    to << words.substr(0, end);
    at += end;
    first = false;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  to << '\n';
}

constexpr std::size_t column = 18;

void row(std::ostream& to, std::string_view label, const std::string& words)
{
  if (!words.empty())
    print_row(to, "", column, label, words);
}

void part(std::ostream& to, std::string_view label, const std::string& words)
{
  if (!words.empty())
    print_row(to, "  ", column, label, words);
}

std::string words_of(const library_report& library)
{
  if (!library.usable())
    return "none: " + library.reason;
  return library.path + (library.version.empty() ? "" : " (rdma-core " + library.version + ')');
}

std::string words_of(const port_report& port)
{
  std::string result = port.state;
  if (!port.physical_state.empty())
    result += " (" + port.physical_state + ')';
  for (const std::string& more : {port.link_layer, port.rate, port.interface})
    if (!more.empty())
      result += ", " + more;
  if (port.active_mtu)
    result += ", MTU " + std::to_string(*port.active_mtu) + " of "
      + std::to_string(port.max_mtu.value_or(*port.active_mtu));
  if (port.interface_mtu)
    result += ", interface's " + std::to_string(*port.interface_mtu);
  return result;
}

std::string words_of(const gid_report& gid)
{
  std::string result = gid.type + ", " + (gid.address.empty() ? gid.gid : gid.address);
  return result + (gid.interface.empty() ? "" : ", " + gid.interface);
}

void print_device(std::ostream& to, const device_report& device)
{
  row(to, device.name,
    device.is_nic() ? device.emulated ? "NIC, emulated by the kernel" : "NIC"
                    : "software device of this library");
  if (!device.usable && device.remark.empty())
    part(to, "not opened", "the properties come from the kernel's files");
  else if (!device.usable)
    part(to, "not usable", device.remark);
  part(to, "node GUID", device.is_nic() ? device.node_guid : "");
  part(to, "firmware", device.firmware);
  if (!device.vendor.empty())
    part(to, "vendor, part",
      device.vendor + ", " + device.part + (device.board.empty() ? "" : ", " + device.board));
  part(to, "driver", device.driver);
  if (device.numa_node)
    part(to, "NUMA node", std::to_string(*device.numa_node));
  for (const port_report& port : device.ports)
  {
    part(to, "port " + std::to_string(port.number), words_of(port));
    for (const gid_report& gid : port.gids)
      print_row(to, "    ", column, "GID " + std::to_string(gid.index), words_of(gid));
  }
  std::string words;
  for (const std::string& each : device.capabilities)
    words += (words.empty() ? "" : ", ") + each;
  part(to, "can", words);
  words.clear();
  for (const limit_report& each : device.limits)
    words += (words.empty() ? "" : ", ") + each.name + '=' + std::to_string(each.value);
  part(to, "limits", words);
}

void print_machine(std::ostream& to, const machine& on)
{
  if (on.verbs)
    row(to, "libibverbs", words_of(*on.verbs));
  if (on.connection_manager)
    row(to, "librdmacm", words_of(*on.connection_manager));
  row(to, "kernel", on.files.read("/proc/sys/kernel/osrelease").text.value_or(""));
  if (on.by_default)
    row(to, "programs get",
      !on.by_default->trouble.empty() ? "nothing: " + on.by_default->trouble
        : on.by_default->why_no_nic.empty()
        ? on.by_default->device + ", and soft0 as well"
        : on.by_default->device + " (no NIC: " + on.by_default->why_no_nic + ')');
  for (const device_report& each : on.devices)
  {
    to << '\n';
    print_device(to, each);
  }
}

void print_choice(std::ostream& to, const choice_report& choice)
{
  row(to, "for " + choice.asked,
    choice.device.empty() ? "no device"
                          : choice.device + " port " + std::to_string(choice.port) + ", GID "
        + std::to_string(choice.gid.index) + " (" + choice.gid.type
        + (choice.gid.address.empty() ? "" : ", " + choice.gid.address) + "), path MTU "
        + std::to_string(choice.path_mtu));
  part(to, "from", choice.local);
  part(to, "no NIC", choice.why_no_nic);
}

const char* name_of(test_outcome outcome)
{
  switch (outcome)
  {
  case test_outcome::passed:
    return "passed";
  case test_outcome::failed:
    return "FAILED";
  case test_outcome::not_made:
    break;
  }
  return "not made";
}

void print_finding(std::ostream& to, const diagnosed& each)
{
  row(to, name_of(each.what.how), std::string(each.check) + ": " + each.what.seen);
  if (!each.what.why.empty())
    print_row(to, "    ", column, "why", each.what.why);
  if (!each.what.remedy.empty())
    print_row(to, "    ", column, "remedy", each.what.remedy);
}

void print_doctor(std::ostream& to, const std::vector<diagnosed>& found, bool briefly)
{
  std::size_t left_out = 0;
  for (const diagnosed& each : found)
    if (briefly && each.what.how < level::slows)
      ++left_out;
    else
      print_finding(to, each);
  if (!briefly)
    return;
  if (left_out == found.size())
    to << "Nothing that would stop RDMA or slow it down was found. ";
  to << left_out << (left_out == found.size() ? " findings" : " other findings")
     << " with rdma_info --doctor.\n";
}

} // namespace

void print_text(std::ostream& to, const report& what)
{
  bool first = true;
  const auto section = [&]
  {
    if (!first)
      to << '\n';
    first = false;
  };
  if (what.looked_at != nullptr)
  {
    section();
    print_machine(to, *what.looked_at);
  }
  for (const choice_report& each : what.choices)
  {
    section();
    print_choice(to, each);
  }
  if (!what.tests.empty())
    section();
  for (const test_report& each : what.tests)
    row(to, each.device + ' ' + name_of(each.outcome), each.text);
  if (what.doctor)
  {
    section();
    print_doctor(to, *what.doctor, what.briefly);
  }
}

} // namespace info

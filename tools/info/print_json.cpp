//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "info/print.hpp"

#include <boost/json/src.hpp> // Boost.JSON's own way of being header-only: in one source file

#include <utility>

// Prints the report as JSON, for programs. Unknown values are null.

namespace info {
namespace {

namespace json = boost::json;

json::value or_null(const std::string& text)
{
  return text.empty() ? json::value(nullptr) : json::value(text);
}

template <class Number>
json::value or_null(const std::optional<Number>& number)
{
  return number ? json::value(*number) : json::value(nullptr);
}

json::value value_of(const std::optional<library_report>& library)
{
  if (!library)
    return nullptr;
  return json::object{{"path", or_null(library->path)}, {"version", or_null(library->version)},
    {"usable", library->usable()}, {"reason", or_null(library->reason)}};
}

json::object value_of(const gid_report& gid)
{
  return {{"index", gid.index}, {"type", gid.type}, {"gid", gid.gid},
    {"address", or_null(gid.address)}, {"interface", or_null(gid.interface)}};
}

json::object value_of(const port_report& port)
{
  json::array gids;
  for (const gid_report& each : port.gids)
    gids.push_back(value_of(each));
  return {{"number", port.number}, {"state", port.state},
    {"physical_state", or_null(port.physical_state)}, {"link_layer", port.link_layer},
    {"rate", or_null(port.rate)}, {"interface", or_null(port.interface)},
    {"active_mtu", or_null(port.active_mtu)}, {"max_mtu", or_null(port.max_mtu)},
    {"interface_mtu", or_null(port.interface_mtu)}, {"gids", std::move(gids)}};
}

json::object value_of(const device_report& device)
{
  json::array ports;
  for (const port_report& each : device.ports)
    ports.push_back(value_of(each));
  json::object limits;
  for (const limit_report& each : device.limits)
    limits[each.name] = each.value;
  json::array capabilities;
  for (const std::string& each : device.capabilities)
    capabilities.push_back(json::value(each));
  return {{"name", device.name}, {"kind", device.is_nic() ? "nic" : "software"},
    {"usable", device.usable}, {"remark", or_null(device.remark)},
    {"driver", or_null(device.driver)}, {"emulated", device.emulated},
    {"node_guid", or_null(device.node_guid)}, {"firmware", or_null(device.firmware)},
    {"vendor", or_null(device.vendor)}, {"part", or_null(device.part)},
    {"board", or_null(device.board)}, {"numa_node", or_null(device.numa_node)},
    {"ports", std::move(ports)}, {"capabilities", std::move(capabilities)},
    {"limits", std::move(limits)}};
}

json::object value_of(const choice_report& choice)
{
  return {{"asked", choice.asked}, {"local", or_null(choice.local)},
    {"device", or_null(choice.device)}, {"port", choice.port}, {"gid_index", choice.gid.index},
    {"wire", or_null(choice.gid.type)}, {"address", or_null(choice.gid.address)},
    {"path_mtu", choice.path_mtu}, {"why_no_nic", or_null(choice.why_no_nic)}};
}

const char* key_of(test_outcome outcome)
{
  switch (outcome)
  {
  case test_outcome::passed:
    return "passed";
  case test_outcome::failed:
    return "failed";
  case test_outcome::not_made:
    break;
  }
  return "not_made";
}

} // namespace

void print_json(std::ostream& to, const report& what)
{
  json::object result;
  if (what.looked_at != nullptr)
  {
    const machine& on = *what.looked_at;
    result["libibverbs"] = value_of(on.verbs);
    result["librdmacm"] = value_of(on.connection_manager);
    result["kernel"] = or_null(on.files.read("/proc/sys/kernel/osrelease").text.value_or(""));
    result["default_device"] =
      on.by_default ? or_null(on.by_default->device) : json::value(nullptr);
    result["why_no_nic"] =
      on.by_default ? or_null(on.by_default->why_no_nic) : json::value(nullptr);
    json::array devices;
    for (const device_report& each : on.devices)
      devices.push_back(value_of(each));
    result["devices"] = std::move(devices);
  }
  if (!what.choices.empty())
  {
    json::array choices;
    for (const choice_report& each : what.choices)
      choices.push_back(value_of(each));
    result["for"] = std::move(choices);
  }
  if (!what.tests.empty())
  {
    json::array tests;
    for (const test_report& each : what.tests)
      tests.push_back(json::object{
        {"device", each.device}, {"outcome", key_of(each.outcome)}, {"text", each.text}});
    result["tests"] = std::move(tests);
  }
  if (what.doctor)
  {
    json::array found;
    for (const diagnosed& each : *what.doctor)
      found.push_back(json::object{{"check", each.check}, {"level", name_of(each.what.how)},
        {"seen", each.what.seen}, {"why", or_null(each.what.why)},
        {"remedy", or_null(each.what.remedy)}});
    result["doctor"] = std::move(found);
  }
  to << json::serialize(result) << '\n';
}

} // namespace info

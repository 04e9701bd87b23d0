//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "perf/transports.hpp"

#include <boost_rdma/device.hpp>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <stdexcept>

namespace perf {
namespace {

std::vector<transport>& chosen()
{
  static std::vector<transport> list;
  return list;
}

// Returns the wires of the software device, the best first, or the value of BOOST_RDMA_WIRES.
std::vector<std::string> wires_there_are()
{
  const char* listed = std::getenv("BOOST_RDMA_WIRES");
  std::istringstream names(listed != nullptr ? listed : "local,tcp");
  std::vector<std::string> all;
  for (std::string name; std::getline(names, name, ',');)
    if (!name.empty())
      all.push_back(name);
  return all;
}

} // namespace

void choose_transports(const std::vector<std::string>& wanted)
{
  chosen().clear();
  {
    const rdma::context context; // must outlive the device handle
    const rdma::device device = context.default_device();
    if (device.kind() == rdma::device_kind::nic)
    {
      chosen().push_back({device.name(), false});
      return;
    }
  }
  const std::vector<std::string> there = wires_there_are();
  for (const std::string& name : wanted)
    if (std::ranges::find(there, name) == there.end())
      throw std::runtime_error("the software device has no wire \"" + name
        + "\" here. The wires are local and tcp, or those in BOOST_RDMA_WIRES.");
  for (const std::string& name : there)
    if (wanted.empty() || std::ranges::find(wanted, name) != wanted.end())
      chosen().push_back({name, true});
}

const std::vector<transport>& transports()
{
  return chosen();
}

const rdma::context& context_of(std::size_t transport)
{
  static std::vector<std::optional<rdma::context>> open(chosen().size());
  std::optional<rdma::context>& result = open.at(transport);
  if (!result)
  {
    rdma::context_options options;
    if (chosen()[transport].software)
    {
      options.device = rdma::software::device_name;
      options.software.wires = {chosen()[transport].name};
    }
    result.emplace(options);
  }
  return *result;
}

} // namespace perf

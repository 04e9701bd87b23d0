//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"

#include "resource/device_traits.hpp"

#include <string>

// Tests the table of device deviations.

namespace {

using rdma::device_kind;
using rdma::wire;
using rdma::detail::device_family;
using rdma::detail::device_traits;
using rdma::detail::family_of;
using rdma::detail::traits_of;

constexpr std::uint32_t soft_roce_vendor = 0xffffff;
constexpr std::uint32_t mellanox_vendor = 0x02c9;

// Returns the deviations of a row as text.
std::string deviations(const device_traits& of)
{
  std::string result;
  const auto add = [&result](bool deviates, const std::string& text)
  {
    if (deviates)
      result += (result.empty() ? "" : " ") + text;
  };
  add(of.only_wire != wire::unknown, name_of(of.only_wire));
  add(of.routes_any_gid, "routes_any_gid");
  add(of.gids_without_addresses, "gids_without_addresses");
  add(of.retry_count_max != 7, "retries=" + std::to_string(of.retry_count_max));
  add(of.connection_manager_only, "cm_only");
  add(of.connection_manager_moves, "cm_moves");
  add(of.connection_manager_blocks, "cm_blocks");
  add(of.private_data_of_any_size, "private_data_of_any_size");
  add(of.flushes_before_disconnect, "flushes_before_disconnect");
  add(of.no_immediate_data, "no_immediate_data");
  add(of.signals_each, "signals_each");
  add(of.windows_unprotected, "windows_unprotected");
  add(of.windows_delay_close, "windows_delay_close");
  add(of.copies_shared_memory, "copies_shared_memory");
  add(of.polls_in_kernel, "polls_in_kernel");
  return result;
}

} // namespace

TEST_CASE("each family of devices has the deviations that its sources show")
{
  CHECK(deviations(traits_of(device_family::other)).empty());
  CHECK(deviations(traits_of(device_family::soft_roce))
    == "retries=6 windows_unprotected windows_delay_close");
  CHECK(deviations(traits_of(device_family::iwarp))
    == "iWARP gids_without_addresses cm_only cm_moves cm_blocks private_data_of_any_size "
       "flushes_before_disconnect no_immediate_data signals_each");
  CHECK(deviations(traits_of(device_family::software))
    == "TCP routes_any_gid copies_shared_memory polls_in_kernel");
}

TEST_CASE("the family of a device follows from its kind, its transport and its vendor id")
{
  CHECK(family_of(device_kind::nic, IBV_TRANSPORT_IB, mellanox_vendor) == device_family::other);
  CHECK(family_of(device_kind::nic, IBV_TRANSPORT_IB, 0) == device_family::other);
  CHECK(family_of(device_kind::nic, IBV_TRANSPORT_UNKNOWN, 0) == device_family::other);
  CHECK(
    family_of(device_kind::nic, IBV_TRANSPORT_IB, soft_roce_vendor) == device_family::soft_roce);
  CHECK(family_of(device_kind::nic, IBV_TRANSPORT_IWARP, mellanox_vendor) == device_family::iwarp);
  CHECK(family_of(device_kind::nic, IBV_TRANSPORT_IWARP, soft_roce_vendor) == device_family::iwarp);
  CHECK(family_of(device_kind::software, IBV_TRANSPORT_IB, soft_roce_vendor)
    == device_family::software);
}

TEST_CASE("a vendor id changes nothing in the columns for RDMA-CM")
{
  ibv_device device{};
  device.transport_type = IBV_TRANSPORT_IWARP;
  CHECK(&rdma::detail::connection_manager_traits(device) == &traits_of(device_family::iwarp));
  device.transport_type = IBV_TRANSPORT_IB;
  const device_traits& general = rdma::detail::connection_manager_traits(device);
  for (const device_family family : {device_family::other, device_family::soft_roce})
  {
    const device_traits& row = traits_of(family);
    CHECK(row.connection_manager_moves == general.connection_manager_moves);
    CHECK(row.connection_manager_blocks == general.connection_manager_blocks);
    CHECK(row.private_data_of_any_size == general.private_data_of_any_size);
  }
}

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_INFO_CHECKS_HPP
#define BOOST_RDMA_TOOLS_INFO_CHECKS_HPP

#include "info/doctor.hpp"

namespace info {

// The checks that doctor.cpp lists, one function each.

findings check_default(const machine& on);
findings check_devices(const machine& on);
findings check_drivers(const machine& on);
findings check_libraries(const machine& on);
findings check_device_files(const machine& on);
findings check_opening(const machine& on);
findings check_connection_manager(const machine& on);
findings check_several_devices(const machine& on);
findings check_emulated_devices(const machine& on);

findings check_ports(const machine& on);
findings check_roce_versions(const machine& on);
findings check_addresses(const machine& on);
findings check_mtu(const machine& on);
findings check_congestion(const machine& on);
findings check_firewall(const machine& on);

findings check_locked_memory(const machine& on);
findings check_registration_cache(const machine& on);
findings check_huge_pages(const machine& on);
findings check_shared_huge_pages(const machine& on);
findings check_overcommit(const machine& on);
findings check_fork(const machine& on);

findings check_processors(const machine& on);
findings check_processor_quota(const machine& on);
findings check_governor(const machine& on);
findings check_numa(const machine& on);
findings check_pci(const machine& on);
findings check_iommu(const machine& on);

findings check_calls(const machine& on);
findings check_descriptors(const machine& on);
findings check_backlog(const machine& on);
findings check_container(const machine& on);

findings check_software_addresses(const machine& on);
findings check_software_test(const machine& on);

/// Returns a finding "cannot tell ...: reason".
finding cannot_tell(const std::string& what, const std::string& reason, std::string why = {});

} // namespace info

#endif // BOOST_RDMA_TOOLS_INFO_CHECKS_HPP

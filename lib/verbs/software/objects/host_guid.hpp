//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_HOST_GUID_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_HOST_GUID_HPP

#include <infiniband/verbs.h>

namespace rdma::software {

/// Returns the device's GUID: one for each host, the same in all its processes until the next boot,
/// never zero.
/**
 * Programs distinguish devices by it, and zero means "none". It is a locally administered EUI-64,
 * which no manufacturer's device has.
 */
__be64 host_guid() noexcept;

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_HOST_GUID_HPP

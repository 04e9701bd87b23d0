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

/// The device's GUID: one for each host, the same in all its processes until it boots anew, never
/// zero.
/**
 * Programs tell devices apart by it, and take zero for "none". It is an EUI-64 of the locally
 * administered kind, which no manufacturer's device has.
 */
__be64 host_guid() noexcept;

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_HOST_GUID_HPP

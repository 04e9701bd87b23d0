//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_NATIVE_HPP
#define BOOST_RDMA_NATIVE_HPP

// The only public header that pulls in rdma-core's. Include it to call verbs on the objects that
// the native_handle() members return; it needs libibverbs-dev.

#include <infiniband/verbs.h>

#endif // BOOST_RDMA_NATIVE_HPP

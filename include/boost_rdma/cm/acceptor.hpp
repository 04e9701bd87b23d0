//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_CM_ACCEPTOR_HPP
#define BOOST_RDMA_CM_ACCEPTOR_HPP

#include <boost_rdma/cm/basic_acceptor.hpp>
#include <boost_rdma/queue_pair.hpp>

namespace rdma::cm {

/// RDMA-CM acceptor with the default executor type.
using acceptor = basic_acceptor<>;

} // namespace rdma::cm

#endif // BOOST_RDMA_CM_ACCEPTOR_HPP

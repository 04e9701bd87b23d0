//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_QUEUE_PAIR_HPP
#define BOOST_RDMA_QUEUE_PAIR_HPP

#include <boost_rdma/basic_queue_pair.hpp>

namespace rdma {

/// Queue pair with the default executor type.
using queue_pair = basic_queue_pair<>;

} // namespace rdma

#endif // BOOST_RDMA_QUEUE_PAIR_HPP

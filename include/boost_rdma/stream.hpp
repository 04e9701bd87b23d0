//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_STREAM_HPP
#define BOOST_RDMA_STREAM_HPP

#include <boost_rdma/basic_stream.hpp>

namespace rdma {

/// Stream with the default executor type.
using stream = basic_stream<>;

} // namespace rdma

#endif // BOOST_RDMA_STREAM_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_STREAM_ACCEPTOR_HPP
#define BOOST_RDMA_STREAM_ACCEPTOR_HPP

#include <boost_rdma/basic_stream_acceptor.hpp>
#include <boost_rdma/stream.hpp>

namespace rdma {

/// Stream acceptor with the default executor type.
using stream_acceptor = basic_stream_acceptor<>;

} // namespace rdma

#endif // BOOST_RDMA_STREAM_ACCEPTOR_HPP

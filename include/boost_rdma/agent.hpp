//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_AGENT_HPP
#define BOOST_RDMA_AGENT_HPP

#include <boost_rdma/basic_agent.hpp>

namespace rdma {

/// Agent of an rdma::queue_pair.
using agent = basic_agent<>;

} // namespace rdma

#endif // BOOST_RDMA_AGENT_HPP

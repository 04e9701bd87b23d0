//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_COMPLETION_ABANDONABLE_HPP
#define BOOST_RDMA_LIB_COMPLETION_ABANDONABLE_HPP

namespace rdma::detail {

// What must let go of what it has of an execution context, and destroy its handlers uncalled, when that goes.
class abandonable
{
public:
  virtual ~abandonable() = default;
  virtual void abandon() noexcept = 0;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_COMPLETION_ABANDONABLE_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_COMPLETION_ABANDONABLE_HPP
#define BOOST_RDMA_LIB_COMPLETION_ABANDONABLE_HPP

namespace rdma::detail {

// An object, other than a work source, that keeps handlers of an execution context.
class abandonable
{
public:
  virtual ~abandonable() = default;

  // The execution context is being destroyed: destroys its handlers without calling them, and all
  // other objects of the execution context.
  virtual void abandon() noexcept = 0;

  // Called in a child process that uses the execution context: the parent's operations end with
  // error::forked.
  virtual void end_in_child() = 0;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_COMPLETION_ABANDONABLE_HPP

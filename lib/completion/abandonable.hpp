//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_COMPLETION_ABANDONABLE_HPP
#define BOOST_RDMA_LIB_COMPLETION_ABANDONABLE_HPP

namespace rdma::detail {

// What has handlers of an execution context's in waiting, and is no work source.
class abandonable
{
public:
  virtual ~abandonable() = default;

  // The execution context is going: its handlers are destroyed uncalled, and all else that it has
  // of it.
  virtual void abandon() noexcept = 0;

  // In a child process that goes on with the execution context: the parent's operations end with
  // error::forked.
  virtual void end_in_child() = 0;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_COMPLETION_ABANDONABLE_HPP

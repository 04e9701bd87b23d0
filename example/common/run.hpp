//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_EXAMPLE_COMMON_RUN_HPP
#define BOOST_RDMA_EXAMPLE_COMMON_RUN_HPP

#include "common/report.hpp"

#include <boost_rdma/context.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <exception>

namespace example {

/// Runs a program that is one coroutine, `work(context)`, until all its operations have ended.
/// Prints a failure. Returns the exit code for main().
template <class Work>
int run(const Work& work)
{
  try
  {
    const rdma::context context;
    boost::asio::io_context io;
    std::exception_ptr failure;
    boost::asio::co_spawn(
      io, work(context), [&failure](std::exception_ptr thrown) { failure = thrown; });
    io.run();
    complain(failure);
    return failure ? 1 : 0;
  }
  catch (const std::exception& failure)
  {
    complain(failure);
    return 1;
  }
}

} // namespace example

#endif // BOOST_RDMA_EXAMPLE_COMMON_RUN_HPP

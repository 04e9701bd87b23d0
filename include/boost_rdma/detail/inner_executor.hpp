//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_INNER_EXECUTOR_HPP
#define BOOST_RDMA_DETAIL_INNER_EXECUTOR_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>

namespace rdma::detail {

// Returns the inner executor of a strand, or the executor itself. A completion queue serves many
// queue pairs. It must neither run in nor block the strand of the queue pair that was created
// first.
template <class Executor>
boost::asio::any_io_executor inner_executor(const Executor& executor)
{
  return executor;
}

template <class Executor>
boost::asio::any_io_executor inner_executor(const boost::asio::strand<Executor>& executor)
{
  return inner_executor(executor.get_inner_executor());
}

inline boost::asio::any_io_executor inner_executor(const boost::asio::any_io_executor& executor)
{
  namespace asio = boost::asio;
  if (const auto* strand = executor.target<asio::strand<asio::any_io_executor>>())
    return inner_executor(strand->get_inner_executor());
  if (const auto* strand = executor.target<asio::strand<asio::io_context::executor_type>>())
    return inner_executor(strand->get_inner_executor());
  return executor;
}

} // namespace rdma::detail

#endif // BOOST_RDMA_DETAIL_INNER_EXECUTOR_HPP

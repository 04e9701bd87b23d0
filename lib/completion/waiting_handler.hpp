//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_COMPLETION_WAITING_HANDLER_HPP
#define BOOST_RDMA_LIB_COMPLETION_WAITING_HANDLER_HPP

#include "boost_rdma/error.hpp"

#include <boost/asio/any_completion_executor.hpp>
#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>

#include <utility>

namespace rdma::detail {

// A handler in waiting, with what keeps the user's execution contexts running meanwhile.
template <class... Results>
class waiting_handler
{
public:
  using handler_type = boost::asio::any_completion_handler<void(error_code, Results...)>;

  waiting_handler(const boost::asio::any_io_executor& io_executor, handler_type handler)
    : io_work_(boost::asio::prefer(io_executor, boost::asio::execution::outstanding_work.tracked))
    , work_(boost::asio::prefer(boost::asio::get_associated_executor(handler, io_executor),
        boost::asio::execution::outstanding_work.tracked))
    , handler_(std::move(handler))
  {
  }

  // From any thread; the handler is never called in here.
  void complete(const error_code& ec, Results... results) &&
  {
    const auto target = io_executor();
    boost::asio::post(target, std::move(*this).call(ec, std::move(results)...));
  }

  // From the I/O executor, outside initiating functions: the handler may be called in here.
  void complete_here(const error_code& ec, Results... results) &&
  {
    const auto target = io_executor();
    boost::asio::dispatch(target, std::move(*this).call(ec, std::move(results)...));
  }

private:
  // First to the I/O executor, as Asio's own operations do: an associated executor that runs things
  // at once where it is called must not run the handler on our thread.
  [[nodiscard]] boost::asio::any_io_executor io_executor() const
  {
    return boost::asio::prefer(io_work_, boost::asio::execution::outstanding_work.untracked);
  }

  // What counts as work goes with the handler: a program that forks in there would have a copy of
  // what is still counted here, for ever.
  auto call(const error_code& ec, Results... results) &&
  {
    return [work = std::move(io_work_), handler_work = std::move(work_),
             handler = std::move(handler_), ec, ... values = std::move(results)]() mutable
    {
      auto executor = boost::asio::get_associated_executor(handler, work);
      boost::asio::dispatch(executor,
        [handler = std::move(handler), ec, ... inner = std::move(values)]() mutable
        { std::move(handler)(ec, std::move(inner)...); });
    };
  }

  boost::asio::any_io_executor io_work_;
  boost::asio::any_completion_executor work_;
  handler_type handler_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_COMPLETION_WAITING_HANDLER_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_STREAM_STREAM_DEADLINE_HPP
#define BOOST_RDMA_LIB_STREAM_STREAM_DEADLINE_HPP

#include "boost_rdma/detail/mapped_handler.hpp"
#include "boost_rdma/detail/process_mark.hpp"
#include "boost_rdma/detail/stream_core.hpp"

#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/error.hpp>

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

namespace rdma::detail {

// The time limit of a stream's operations. Its timer waits only while there are some.
class stream_deadline : public std::enable_shared_from_this<stream_deadline>
{
public:
  using time_point = stream_core::time_point;

  stream_deadline(const stream_core::io_executor& executor, std::weak_ptr<stream_core> stream)
    : stream_(std::move(stream))
    , timer_(executor)
  {
  }

  void expires_at(time_point time);

  // Starts an operation with this handler: start(handler).
  template <class Handler, class Start>
  void run(Handler handler, Start start)
  {
    start(map_handler(
      [counted = operation(shared_from_this())](Handler own, error_code ec, auto... results) mutable
      {
        operation ended(std::move(counted));
        ended.end(); // the time of the handler does not count
        if (const error_code why = ended.deadline_->reason(); ec && why)
          ec = why;
        std::move(own)(ec, results...);
      },
      std::move(handler)));
  }

private:
  class operation
  {
  public:
    explicit operation(std::shared_ptr<stream_deadline> of)
      : deadline_(std::move(of))
    {
      deadline_->add();
    }
    operation(operation&& other) noexcept = default;
    // After the handler, which may have started the next operation, or without it.
    ~operation()
    {
      if (!deadline_)
        return;
      end();
      deadline_->stop_if_idle();
    }

    void end() noexcept
    {
      if (!std::exchange(has_ended_, true))
        deadline_->remove();
    }

    std::shared_ptr<stream_deadline> deadline_;

  private:
    bool has_ended_ = false;
  };

  void add();
  void remove() noexcept;
  void stop_if_idle() noexcept;
  [[nodiscard]] error_code reason();
  void wait(const std::lock_guard<std::mutex>& lock);
  void on_timer();

  const std::weak_ptr<stream_core> stream_;
  const process_mark process_;
  std::mutex mutex_; // not locked in a child process: a thread of the parent may hold it
  boost::asio::steady_timer timer_;
  time_point time_ = time_point::max(); // never
  std::size_t operations_ = 0;
  bool waits_ = false;
  error_code reason_; // why it ended the stream
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_STREAM_STREAM_DEADLINE_HPP

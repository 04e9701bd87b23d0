//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "stream/stream_deadline.hpp"

#include <boost/asio/error.hpp>

#include <new>

namespace rdma::detail {

void stream_deadline::expires_at(time_point time)
{
  if (process_.foreign())
    return;
  const std::lock_guard lock(mutex_);
  time_ = time;
  if (waits_)
    timer_.cancel(); // on_timer() waits again
}

void stream_deadline::add()
{
  if (process_.foreign())
    return;
  const std::lock_guard lock(mutex_);
  if (!waits_)
    wait(lock);
  ++operations_;
}

void stream_deadline::remove() noexcept
{
  if (process_.foreign())
    return;
  const std::lock_guard lock(mutex_);
  --operations_;
}

void stream_deadline::stop_if_idle() noexcept
{
  if (process_.foreign())
    return;
  const std::lock_guard lock(mutex_);
  if (operations_ == 0 && waits_)
    timer_.cancel(); // otherwise it would keep the execution context running
}

error_code stream_deadline::reason()
{
  if (process_.foreign())
    return {};
  const std::lock_guard lock(mutex_);
  return reason_;
}

void stream_deadline::wait(const std::lock_guard<std::mutex>&)
{
  if (time_ == time_point::max())
    return;
  timer_.expires_at(time_);
  timer_.async_wait([self = shared_from_this()](const error_code&) { self->on_timer(); });
  waits_ = true;
}

// Also after a cancellation: another operation or time may have come since then.
void stream_deadline::on_timer()
{
  if (process_.foreign())
    return;
  {
    const std::lock_guard lock(mutex_);
    waits_ = false;
    if (operations_ == 0)
      return;
    reason_ = {};
    try
    {
      if (time_ > time_point::clock::now())
        return wait(lock);
      reason_ = boost::beast::error::timeout;
    }
    catch (const std::bad_alloc&)
    {
      reason_ = boost::asio::error::no_memory; // nothing would limit the time
    }
  }
  if (const auto stream = stream_.lock())
    stream->abort();
}

} // namespace rdma::detail

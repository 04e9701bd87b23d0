//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "stream/stream_impl.hpp"

#include <boost/asio/error.hpp>

#include <utility>

// A stream whose caller does not wait.

namespace rdma::detail {

namespace asio = boost::asio;

void stream_impl::observe(std::weak_ptr<stream_observer> by)
{
  const std::lock_guard lock(mutex_);
  observer_ = std::move(by);
  is_observed_ = true;
}

stream_impl::status stream_impl::look() const
{
  if (core_->forked())
    return {.failure = error::forked};
  const std::lock_guard lock(mutex_);
  return {.readable = available_,
    .writable = fsm_.can_send_bytes() && fsm_.writable().size != 0 && copied_ < options_.ring_max,
    .peer_has_finished = fsm_.peer_has_finished(),
    .failure = write_failure()};
}

std::size_t stream_impl::read_now(const targets& to, error_code& ec)
{
  ec = {};
  if (core_->forked())
  {
    ec = error::forked;
    return 0;
  }
  const std::lock_guard lock(mutex_);
  const std::size_t size = fill(to);
  if (size == 0 && !to.empty())
  {
    if (fsm_.peer_has_finished())
      ec = asio::error::eof;
    else
      ec = failure_ ? failure_ : make_error_code(asio::error::would_block);
    return 0;
  }
  if (!failure_ && !send_failure_)
    tell(); // the peer may wait for the room
  return size;
}

std::size_t stream_impl::write_now(const sources& from, error_code& ec)
{
  ec = {};
  if (core_->forked())
  {
    ec = error::forked;
    return 0;
  }
  const std::lock_guard lock(mutex_);
  transfer made;
  if (fsm_.has_finished() || last_write_ != UINT64_MAX)
    ec = asio::error::broken_pipe;
  else if (write_failure())
    ec = write_failure();
  else if (!from.empty()
    && !(asio::buffer_size(from) <= stream_message::data_max ? write_message(made, from.list())
                                                             : write_copy(made, from.list())))
    ec = asio::error::would_block;
  else
    ec = write_failure();
  return ec ? 0 : made.bytes;
}

} // namespace rdma::detail

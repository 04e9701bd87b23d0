//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "completion/blocked_thread.hpp"
#include "stream/stream_impl.hpp"

#include <boost/asio/error.hpp>

#include <chrono>
#include <new>
#include <utility>

// Functions without handlers.

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
    .writable = has_room(),
    .peer_has_finished = fsm_.peer_has_finished(),
    .failure = write_failure()};
}

std::size_t stream_impl::read_now(const targets& to, error_code& ec)
{
  ec = error::forked;
  if (core_->forked())
    return 0; // a thread of the parent may hold the mutex
  const lock_type lock(mutex_);
  ec = closed_ ? make_error_code(error::closed) : error_code();
  if (ec || to.empty())
    return 0;
  const std::size_t size = reads_.empty() ? fill(to) : 0;
  if (size != 0)
  {
    if (!failure_ && !send_failure_)
      tell(); // the peer may wait for the room
    return size;
  }
  if (!reads_.empty())
    ec = asio::error::would_block;
  else if (fsm_.peer_has_finished())
    ec = asio::error::eof;
  else
    ec = failure_ ? failure_ : make_error_code(asio::error::would_block);
  return 0;
}

std::size_t stream_impl::write_now(const sources& from, error_code& ec)
{
  ec = error::forked;
  if (core_->forked())
    return 0;
  const lock_type lock(mutex_);
  ec = closed_ ? make_error_code(error::closed) : error_code();
  if (ec || from.empty())
    return 0;
  transfer made;
  if (last_write_ != UINT64_MAX)
    ec = asio::error::broken_pipe;
  else if (write_failure())
    ec = write_failure();
  else if (!writes_.empty()
    || !(asio::buffer_size(from) <= stream_message::data_max ? write_message(made, from.list())
                                                             : write_copy(made, from.list())))
    ec = asio::error::would_block;
  else
    ec = write_failure();
  return ec ? 0 : made.bytes;
}

std::size_t stream_impl::read_some(const targets& to, bool waits, error_code& ec)
{
  std::size_t size = 0;
  repeat(waits, ec, [&](error_code& result) { size = read_now(to, result); });
  return size;
}

std::size_t stream_impl::write_some(const sources& from, bool waits, error_code& ec)
{
  std::size_t size = 0;
  repeat(waits, ec, [&](error_code& result) { size = write_now(from, result); });
  return size;
}

void stream_impl::wait(wait_type what, bool waits, error_code& ec)
{
  repeat(waits, ec,
    [&](error_code& result)
    {
      result = error::forked;
      if (core_->forked())
        return;
      const lock_type lock(mutex_);
      result = closed_ ? make_error_code(error::closed) : error_code();
      if (!closed_ && !is_over(what))
        result = asio::error::would_block;
    });
}

// Calls function(ec) until it sets another error than would_block, or none.
template <class Function>
void stream_impl::repeat(bool waits, error_code& ec, Function function)
{
  function(ec);
  if (!waits && ec == asio::error::would_block)
  {
    core_->completions().poll_here();
    return function(ec);
  }
  if (!waits)
    return;
  lingers_.store(true, std::memory_order_relaxed);
  const auto is_over = [&]
  {
    if (ec == asio::error::would_block)
      function(ec);
    return ec != asio::error::would_block;
  };
  if (is_over())
    return;
  // No thread may run the queue pair's timer for devices that do not flush.
  blocked_thread thread(core_->completions());
  while (!thread.wait(is_over, blocked_thread::clock::now() + std::chrono::seconds(1)))
    core_->force_flush();
}

// No thread may run the execution context: sends the end, and waits until it has left.
void stream_impl::linger()
try
{
  const auto has_left = [this]
  {
    const lock_type lock(mutex_);
    return static_cast<bool>(failure_);
  };
  const auto limit = blocked_thread::clock::now() + options_.close_limit;
  if (!blocked_thread(core_->completions()).wait(has_left, limit))
    end(asio::error::timed_out);
}
catch (const std::bad_alloc&)
{
  end(asio::error::no_memory);
}

} // namespace rdma::detail

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "stream/stream_impl.hpp"

#include <boost/asio/error.hpp>

#include <utility>

// Waiting for bytes, and using them where they are.

namespace rdma::detail {

namespace asio = boost::asio;

bool stream_impl::is_over(wait_type what) const
{
  switch (what)
  {
  case wait_type::wait_read:
    return failure_ || available_ != 0 || fsm_.peer_has_finished();
  case wait_type::wait_write:
    return failure_ || send_failure_ || last_write_ != UINT64_MAX
      || (writes_.empty() && has_room());
  case wait_type::wait_error:
    break;
  }
  return failure_ || send_failure_;
}

// Returns true if a write of any size can move bytes.
bool stream_impl::has_room() const
{
  return fsm_.can_send_bytes() && fsm_.writable().size != 0 && copied_ < options_.ring_max;
}

void stream_impl::advance_waits(transfer_list& ended)
{
  for (auto next = waits_.begin(); next != waits_.end();)
  {
    const auto each = next++;
    if (!is_over(*each->waits_for))
      continue;
    if (closed_)
      each->ec = asio::error::operation_aborted;
    ended.splice(ended.end(), waits_, each);
  }
}

stream_core::sources stream_impl::peek()
{
  if (core_->forked())
    return {};
  const std::lock_guard lock(mutex_);
  sources found;
  for (std::size_t i = first_unread_; i != unread_.size(); ++i)
    if (!found.add(asio::const_buffer(unread_[i].at, unread_[i].size)))
      break;
  return found;
}

void stream_impl::consume(std::size_t size)
{
  if (core_->forked())
    return;
  lock_type lock(mutex_);
  take_unread(nullptr, size);
  transfer_list ended;
  advance(ended);
  complete(std::move(lock), ended, false);
}

} // namespace rdma::detail

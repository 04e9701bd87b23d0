//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/group_impl.hpp"

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/error.hpp>

#include <algorithm>
#include <utility>

// Failure detection, as the calls and barriers of a group use it.

namespace rdma::detail::rpc {

namespace asio = boost::asio;

void group_impl::start_gossip()
{
  if (!gossip_)
    return;
  gossip_->start({
    .connection = [weak = weak_from_this()](std::uint32_t rank) -> group_gossip::client_ptr
    {
      const auto self = weak.lock();
      if (!self)
        return nullptr;
      const lock_type lock(self->mutex_);
      const auto found = self->members_.find(rank);
      return found != self->members_.end() && found->second.connected && found->second.by->is_open()
        ? found->second.by
        : nullptr;
    },
    .changed =
      [weak = weak_from_this()](const rdma::rpc::group_membership& now)
    {
      if (const auto self = weak.lock())
        self->on_membership(now);
    },
  });
}

void group_impl::take_gossip(
  std::span<const std::byte> request, rdma::rpc::responder<gossip_transport> to)
{
  gossip_->take(request, std::move(to));
}

// Bypasses the members that have failed in the calls that go on.
void group_impl::on_membership(const rdma::rpc::group_membership& now)
{
  {
    const lock_type lock(mutex_);
    std::vector<record_ptr> all;
    for (const auto& [time, each] : queue_)
      all.push_back(each);
    for (const record_ptr& each : all)
      or_end(lock, each,
        [&]
        {
          for (const std::uint32_t rank : now.failed)
            each->state.take_failure(
              place_of(*each, rank), error::peer_lost, std::chrono::steady_clock::now());
          advance(lock, each);
        });
  }
  if (std::ranges::binary_search(now.failed, 0U))
    barrier_->lose_root();
}

rdma::rpc::group_membership group_impl::membership() const
{
  return gossip_ && !process_.foreign() ? gossip_->current() : rdma::rpc::group_membership();
}

void group_impl::wait_change(
  const io_executor& executor, std::uint64_t known, membership_handler handler)
{
  const auto slot = asio::get_associated_cancellation_slot(handler);
  group_gossip::handler_type waiting(executor, std::move(handler));
  if (process_.foreign())
    std::move(waiting).complete(error::forked, {});
  else if (!gossip_)
    std::move(waiting).complete(asio::error::operation_not_supported, {});
  else
    gossip_->wait(known, std::move(waiting), slot);
}

void start_wait_change(const group_core::io_executor& executor, group_core* core,
  std::uint64_t known, group_core::membership_handler handler)
{
  if (core != nullptr)
    core->wait_change(executor, known, std::move(handler));
  else
    group_gossip::handler_type(executor, std::move(handler)).complete(error::closed, {});
}

} // namespace rdma::detail::rpc

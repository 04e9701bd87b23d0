//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/flow.hpp"
#include "rpc/server_connection.hpp"

#include <algorithm>
#include <utility>

namespace rdma::detail::rpc {

std::shared_ptr<flow_core> kept_call::open_flow(bool reads)
{
  const std::uint32_t window = reads ? by_->flow_bytes_ : 0;
  const auto made = std::make_shared<flow>(by_, arrival.number, window);
  const server_connection::lock_type lock(by_->mutex_);
  made->open(lock, first_credit);
  items = made;
  ++by_->flows_;
  if (!is_linked()) // the connection has ended
    made->abort(lock);
  return made;
}

bool server_connection::take_items(const message& m, std::vector<std::byte>& content)
{
  const lock_type lock(mutex_);
  const auto found = kept_.find(m.number);
  if (found != kept_.end())
    return found->items && found->items->take(lock, m, content);
  // It has been answered or cancelled, or it waits. A client has no credit for a call that waits.
  if (m.type != message_type::end_of_items)
    return true;
  const auto waiting = std::ranges::find_if(
    queue_, [&](const queued_call& each) { return each.what.number == m.number; });
  return waiting == queue_.end() || !std::exchange(waiting->has_end_of_items, true);
}

// The client has ended its items while the call waited.
void server_connection::end_items(std::uint32_t number)
{
  message m;
  m.type = message_type::end_of_items;
  m.number = number;
  std::vector<std::byte> content;
  if (!take_items(m, content))
    end(error::malformed_message);
}

} // namespace rdma::detail::rpc

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "completion/queue_pair_core.hpp"
#include "resource/device_impl.hpp"
#include "verbs/software/queue_pair_number.hpp"

#include <utility>

// The attachment of a higher layer, and a second queue pair to the same peer.

namespace rdma::detail {

std::shared_ptr<agent_attachment> queue_pair_core::attachment_by(
  agent_attachment_source& source, error_code& ec)
{
  ec = {};
  const auto self = std::static_pointer_cast<queue_pair_core>(shared_from_this());
  decltype(agent_channel_event_) received;
  std::shared_ptr<agent_attachment> result;
  {
    const std::lock_guard lock(mutex_);
    // An attachment that knows of the end may still have results.
    if (!attachment_ || connection_.state() == connection_state::abandoned)
      ec = connection_.use_error();
    if (ec)
      return nullptr;
    if (!attachment_)
      attachment_ = source.make(self);
    result = attachment_;
    received.swap(agent_channel_event_);
  }
  if (received)
    result->on_agent_channel(received->first, received->second);
  return result;
}

bool queue_pair_core::send_agent_channel(agent_channel_event event, const std::string& text)
{
  std::shared_ptr<connection_guard> guard;
  {
    const std::lock_guard lock(mutex_);
    guard = guard_;
  }
  return guard && guard->send_agent_channel(event, text);
}

void queue_pair_core::on_agent_channel(agent_channel_event event, const std::string& text)
{
  std::shared_ptr<agent_attachment> attachment;
  {
    const std::lock_guard lock(mutex_);
    attachment = attachment_;
    if (!attachment && !options_.lessor && !agent_channel_event_)
      agent_channel_event_.emplace(event, text); // until this side's program uses an agent
    else if (!attachment && event == agent_channel_event::over)
      agent_channel_event_.emplace(event, text);
  }
  if (!attachment && event == agent_channel_event::offer && options_.lessor)
  {
    error_code ec;
    attachment =
      attachment_by(*options_.lessor, ec); // null when the connection has ended meanwhile
  }
  if (attachment)
    attachment->on_agent_channel(event, text);
}

queue_pair_options queue_pair_core::options_of_sibling() const
{
  const std::lock_guard lock(mutex_);
  queue_pair_options result;
  result.device = device_->name();
  result.fall_back = false;
  result.local_address = own_.address;
  result.path_mtu_max = options_.path_mtu_max;
  result.timeout = options_.timeout;
  result.retry_count = options_.retry_count;
  result.rnr_retry_count = 7; // infinite: its receives are posted again
  result.min_rnr_timer = options_.min_rnr_timer;
  result.read_atomic_depth = 0;
  return result;
}

endpoint_description queue_pair_core::describe_sibling(
  queue_pair_core& sibling, error_code& ec) const
{
  wire by = wire::unknown;
  std::optional<boost::asio::ip::address> address;
  {
    const std::lock_guard lock(mutex_);
    by = own_.description.wire;
    address = own_.address;
  }
  const std::lock_guard lock(sibling.mutex_);
  return sibling.describe_self(address, by, ec, lock);
}

void queue_pair_core::connect_sibling(
  queue_pair_core& sibling, const endpoint_description& remote, error_code& ec) const
{
  side which = side::unknown;
  {
    const std::lock_guard lock(mutex_);
    which = side_;
  }
  sibling.connect(remote, ec, which);
}

bool queue_pair_core::is_at_peer(const endpoint_description& remote) const
{
  const std::lock_guard lock(mutex_);
  // On the software device the index in the number selects the process at an address.
  return remote.kind == remote_.kind && remote.gid == remote_.gid && remote.lid == remote_.lid
    && (remote.kind != device_kind::software
      || software::index_of(remote.queue_pair_number)
        == software::index_of(remote_.queue_pair_number));
}

} // namespace rdma::detail

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "completion/queue_pair_core.hpp"
#include "resource/device_impl.hpp"

#include <utility>

// What a higher layer keeps beside a queue pair, and a second queue pair to the same peer.

namespace rdma::detail {

std::shared_ptr<agent_attachment> queue_pair_core::attachment_by(
  agent_attachment_source& source, error_code& ec)
{
  ec = {};
  const auto self = std::static_pointer_cast<queue_pair_core>(shared_from_this());
  decltype(agent_channel_event_) said;
  std::shared_ptr<agent_attachment> result;
  {
    const std::lock_guard lock(mutex_);
    if (attachment_ && lifecycle_ != lifecycle::abandoned)
      ec = {}; // which knows of the end, and may have something yet
    else if (lifecycle_ == lifecycle::closed || lifecycle_ == lifecycle::abandoned)
      ec = error::closed;
    else if (lifecycle_ == lifecycle::broken)
      ec = reason_;
    else if (error_state_)
      ec = device_reason_ ? device_reason_ : flush_reason();
    else if (lifecycle_ != lifecycle::connected)
      ec = error::not_connected;
    if (ec)
      return nullptr;
    if (!attachment_)
      attachment_ = source.make(self);
    result = attachment_;
    said.swap(agent_channel_event_);
  }
  if (said)
    result->on_agent_channel(said->first, said->second);
  return result;
}

bool queue_pair_core::send_agent_channel(agent_channel_event word, const std::string& text)
{
  std::shared_ptr<connection_guard> guard;
  {
    const std::lock_guard lock(mutex_);
    guard = guard_;
  }
  return guard && guard->send_agent_channel(word, text);
}

void queue_pair_core::on_agent_channel(agent_channel_event word, const std::string& text)
{
  std::shared_ptr<agent_attachment> beside;
  {
    const std::lock_guard lock(mutex_);
    beside = attachment_;
    if (!beside && !options_.lessor && !agent_channel_event_)
      agent_channel_event_.emplace(
        word, text); // until this side's program wants a agent_attachment
    else if (!beside && word == agent_channel_event::over)
      agent_channel_event_.emplace(word, text);
  }
  if (!beside && word == agent_channel_event::offer && options_.lessor)
  {
    error_code ec;
    beside = attachment_by(*options_.lessor, ec); // null when the connection has ended meanwhile
  }
  if (beside)
    beside->on_agent_channel(word, text);
}

queue_pair_options queue_pair_core::options_of_sibling() const
{
  const std::lock_guard lock(mutex_);
  queue_pair_options result;
  result.device = device_->name();
  result.fall_back = false;
  result.local_address = described_by_;
  result.path_mtu_max = options_.path_mtu_max;
  result.timeout = options_.timeout;
  result.retry_count = options_.retry_count;
  result.rnr_retry_count = 7; // for ever: its receives come back by themselves
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
    by = local_.wire;
    address = described_by_;
  }
  const std::lock_guard lock(sibling.mutex_);
  endpoint_description result = sibling.describe_self(address, by, ec);
  if (!ec)
    sibling.stay();
  return result;
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
  return remote.kind == remote_.kind && remote.gid == remote_.gid && remote.lid == remote_.lid;
}

} // namespace rdma::detail

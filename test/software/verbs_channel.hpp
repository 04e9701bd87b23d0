//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_SOFTWARE_VERBS_CHANNEL_HPP
#define BOOST_RDMA_TEST_SOFTWARE_VERBS_CHANNEL_HPP

#include "software/verbs_fixture.hpp"

#include <chrono>

#include <fcntl.h>
#include <poll.h>

namespace test {

/// A completion channel.
class channel
{
public:
  explicit channel(const verbs_device& on)
    : api_(on.api())
    , channel_(api_.create_comp_channel(on.context()))
  {
    must(channel_ != nullptr, "create_comp_channel");
  }
  ~channel() { must(api_.destroy_comp_channel(channel_) == 0, "destroy_comp_channel"); }
  channel(const channel&) = delete;
  channel& operator=(const channel&) = delete;

  ibv_comp_channel* get() const noexcept { return channel_; }
  /// Lets take() return immediately.
  void unblock() const
  {
    const int flags = ::fcntl(channel_->fd, F_GETFL);
    must(::fcntl(channel_->fd, F_SETFL, flags | O_NONBLOCK) == 0, "fcntl");
  }
  bool is_readable(std::chrono::milliseconds within) const
  {
    pollfd readable{channel_->fd, POLLIN, 0};
    return ::poll(&readable, 1, static_cast<int>(within.count())) > 0;
  }
  /// Takes and acknowledges an event.
  ibv_cq* take() const
  {
    ibv_cq* cq = nullptr;
    void* user = nullptr;
    if (api_.get_cq_event(channel_, &cq, &user) != 0)
      return nullptr;
    api_.ack_cq_events(cq, 1);
    return cq;
  }

private:
  const rdma::verbs::api& api_;
  ibv_comp_channel* channel_;
};

/// Requests an event for the next completion.
inline void arm(const completions& cq, bool solicited = false)
{
  must(cq.get()->context->ops.req_notify_cq(cq.get(), solicited ? 1 : 0) == 0, "req_notify_cq");
}

/// Returns options for a queue pair whose completions raise events on the channel.
inline pair_options with_events(const channel& on)
{
  pair_options result;
  result.channel = on.get();
  return result;
}

} // namespace test

#endif // BOOST_RDMA_TEST_SOFTWARE_VERBS_CHANNEL_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_AGENT_ATTACHMENT_HPP
#define BOOST_RDMA_DETAIL_AGENT_ATTACHMENT_HPP

#include <boost_rdma/error.hpp>

#include <memory>
#include <string>

namespace rdma::detail {

class queue_pair_core;

// What attachments tell each other by the control channel: which queue pair their own messages go
// by.
enum class agent_channel_event
{
  offer, // my queue pair; the text describes it
  over,  // no more; the text says why
};

// What a higher floor keeps beside a queue pair, for as long as that is connected. Owned by the
// queue pair, which it refers to weakly.
class agent_attachment
{
public:
  virtual ~agent_attachment() = default;

  // From the control channel's thread.
  virtual void on_agent_channel(agent_channel_event word, const std::string& text) = 0;

  // The connection has ended, so. The queue pair's mutex is held.
  virtual void on_end(const error_code& reason) noexcept = 0;

  // The io_context is going: no handler is called any more.
  virtual void abandon() noexcept = 0;
};

// Makes one when it is first needed.
class agent_attachment_source
{
public:
  virtual ~agent_attachment_source() = default;
  virtual std::shared_ptr<agent_attachment> make(
    const std::shared_ptr<queue_pair_core>& beside) = 0;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_DETAIL_AGENT_ATTACHMENT_HPP

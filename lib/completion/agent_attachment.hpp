//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_COMPLETION_AGENT_ATTACHMENT_HPP
#define BOOST_RDMA_LIB_COMPLETION_AGENT_ATTACHMENT_HPP

#include "boost_rdma/error.hpp"

#include <memory>
#include <string>

namespace rdma::detail {

class queue_pair_core;

// Messages of the attachments on the control channel. They establish the queue pair that carries
// the attachments' own messages.
enum class agent_channel_event
{
  offer, // the sender's queue pair; the text describes it
  over,  // the agent channel has ended; the text contains the reason
};

// State of a higher layer for a connected queue pair. The queue pair owns it, and it refers to the
// queue pair weakly.
class agent_attachment
{
public:
  virtual ~agent_attachment() = default;

  // Called on the control channel's thread.
  virtual void on_agent_channel(agent_channel_event event, const std::string& text) = 0;

  // The connection has ended for this reason. The queue pair's mutex is held.
  virtual void on_end(const error_code& reason) noexcept = 0;

  // The io_context is being destroyed: no handler is called any more.
  virtual void abandon() noexcept = 0;
};

// Creates attachments when they are first needed.
class agent_attachment_source
{
public:
  virtual ~agent_attachment_source() = default;
  virtual std::shared_ptr<agent_attachment> make(
    const std::shared_ptr<queue_pair_core>& beside) = 0;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_COMPLETION_AGENT_ATTACHMENT_HPP

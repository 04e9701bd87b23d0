//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_AGENT_AGENT_CHANNEL_HPP
#define BOOST_RDMA_LIB_AGENT_AGENT_CHANNEL_HPP

#include "agent/message.hpp"
#include "boost_rdma/registered_buffer.hpp"
#include "completion/queue_pair_core.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace rdma::detail {

class agent_channel;

// The listener of an agent_channel. Called on the I/O executor, one call after another.
class agent_channel_listener
{
public:
  // `receive_index` identifies the receive that held the message. give_back() posts it again.
  virtual void on_message(const agent_message& message, std::uint32_t receive_index) = 0;
  // The peer's device has received the message that was sent with this receive_index.
  virtual void on_answered(std::uint32_t receive_index) = 0;
  virtual void on_malformed() = 0;
  virtual void on_channel_failed(const agent_channel& which, const error_code& ec) = 0;

protected:
  ~agent_channel_listener() = default;
};

// The queue pair between two agents.
//
// A peer cannot flood it: the receive of a request is posted again only after its answer has been
// sent, so there are never more answers in progress than receives.
class agent_channel : public std::enable_shared_from_this<agent_channel>
{
public:
  // Enough for the requests in flight on both sides, and for recalls.
  static constexpr std::uint32_t receive_count = 48;
  static constexpr std::uint32_t no_receive = ~std::uint32_t{0};

  // Creates the queue pair with posted receives, not connected yet. Throws system_error.
  static std::shared_ptr<agent_channel> open(
    queue_pair_core& beside, std::weak_ptr<agent_channel_listener> listener);

  agent_channel(std::shared_ptr<queue_pair_core> core, registered_buffer memory,
    std::weak_ptr<agent_channel_listener> listener);

  // The description that the peer needs to connect.
  [[nodiscard]] const std::string& description() const noexcept { return description_; }

  // With the peer's, of which is_at_peer() holds.
  void connect(const queue_pair_core& beside, const endpoint_description& remote, error_code& ec);

  // Sends in order. Messages wait while the send queue is full. If receive_index is set, the
  // receive is given back after the message has been sent. Throws std::bad_alloc, like give_back().
  void send(const agent_message& message, std::uint32_t receive_index = no_receive);
  void give_back(std::uint32_t receive_index);

  // Processes the messages that have arrived. Runs on the I/O executor. Returns false if another
  // thread, or a caller on this thread, is processing them.
  [[nodiscard]] bool deliver_received();

  // Sets whether it keeps the execution context running. It always does while messages wait for the
  // send queue.
  void count_as_work(bool counts) noexcept;
  void close();

private:
  struct received;
  struct sent;
  struct outgoing
  {
    agent_message message;
    std::uint32_t receive_index;
  };

  void on_received(std::uint32_t receive_index, const error_code& ec, std::size_t size);
  void on_sent(std::uint32_t place, std::uint32_t receive_index, const error_code& ec);
  void start_send(const outgoing& what, std::uint32_t place);
  void send_next(std::uint32_t place);
  void fail(const error_code& ec);
  [[nodiscard]] mutable_buffer place_at(std::size_t index) const noexcept;

  const std::shared_ptr<queue_pair_core> core_;
  const boost::asio::any_io_executor executor_;
  const registered_buffer memory_; // first the receive buffers, then the send buffers
  const std::weak_ptr<agent_channel_listener> listener_;
  std::string description_;

  std::mutex mutex_;
  std::vector<std::uint32_t> vacant_; // free send buffers
  std::deque<outgoing> waiting_;
  bool counts_ = false;
  bool failed_ = false;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_AGENT_AGENT_CHANNEL_HPP

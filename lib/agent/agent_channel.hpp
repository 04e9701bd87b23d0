//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_AGENT_AGENT_CHANNEL_HPP
#define BOOST_RDMA_LIB_AGENT_AGENT_CHANNEL_HPP

#include "agent/message.hpp"
#include "boost_rdma/detail/queue_pair_core.hpp"
#include "boost_rdma/registered_buffer.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace rdma::detail {

class agent_channel;

// Who listens to a agent_channel; called on the I/O executor, one after another.
class agent_channel_listener
{
public:
  // `receive_index` stands for the receive that it came by, which is posted again when it is given
  // back.
  virtual void on_message(const agent_message& message, std::uint32_t receive_index) = 0;
  // The peer's device has the message that was sent with the receive_index.
  virtual void on_answered(std::uint32_t receive_index) = 0;
  virtual void on_malformed() = 0;
  virtual void on_channel_failed(const agent_channel& which, const error_code& ec) = 0;

protected:
  ~agent_channel_listener() = default;
};

// The queue pair that two agents talk by.
//
// A peer that floods it waits for its own answers: a receive that a request came by is posted again
// when the answer has been sent, so that there are never more answers on their way than receives.
class agent_channel : public std::enable_shared_from_this<agent_channel>
{
public:
  static constexpr std::uint32_t receive_count =
    48; // the requests of both sides in flight, and room for recalls
  static constexpr std::uint32_t no_receive = ~std::uint32_t{0};

  // With receives posted, and not connected yet. Throws system_error.
  static std::shared_ptr<agent_channel> open(
    queue_pair_core& beside, std::weak_ptr<agent_channel_listener> listener);

  agent_channel(std::shared_ptr<queue_pair_core> core, registered_buffer memory,
    std::weak_ptr<agent_channel_listener> listener);

  // What the peer has to know of it.
  [[nodiscard]] const std::string& description() const noexcept { return description_; }
  void connect(const std::string& description, error_code& ec);

  // In order; what there is no room for waits. The receive_index, where there is one, is given back
  // when the message has gone.
  void send(const agent_message& message, std::uint32_t receive_index = no_receive);
  void give_back(std::uint32_t receive_index);

  // On the I/O executor: what has arrived is heard of. False when another thread is at it, or a
  // caller of this one.
  [[nodiscard]] bool deliver_received();

  // Whether it keeps the execution context running; it does while messages wait for room.
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
  void fail(const error_code& ec);
  [[nodiscard]] mutable_buffer place_at(std::size_t index) const noexcept;

  const std::shared_ptr<queue_pair_core> core_;
  const boost::asio::any_io_executor executor_;
  const registered_buffer memory_; // the receives' places, and then the sends'
  const std::weak_ptr<agent_channel_listener> listener_;
  std::string description_;

  std::mutex mutex_;
  std::vector<std::uint32_t> vacant_; // places to send from
  std::deque<outgoing> waiting_;
  bool counts_ = false;
  bool failed_ = false;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_AGENT_AGENT_CHANNEL_HPP

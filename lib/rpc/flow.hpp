//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RPC_FLOW_HPP
#define BOOST_RDMA_LIB_RPC_FLOW_HPP

#include "boost_rdma/detail/rpc/flow_core.hpp"
#include "completion/waiting_handler.hpp"
#include "rpc/connection.hpp"
#include "rpc/flow_fsm.hpp"

#include <boost/asio/cancellation_signal.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

namespace rdma::detail::rpc {

// The items of one call, at either side. The connection's mutex guards it.
class flow
  : public flow_core
  , public std::enable_shared_from_this<flow>
{
public:
  using lock_type = connection::lock_type;

  // Items wait while the connection has so many bytes that have not left. The credit does not limit
  // them: the peer chooses it.
  static constexpr std::size_t unsent_max = 256 * 1024;

  static constexpr std::uint32_t window_min = 1024;

  flow(std::shared_ptr<connection> by, std::uint32_t number, std::uint32_t window);

  void read(const io_executor& executor, bytes_handler handler) override;
  void write(const io_executor& executor, const item_source& what, plain_handler handler) override;
  void end_writing() override;
  void finish(const io_executor& executor, bytes_handler handler) override;
  void cancel() override;
  void close() override;
  [[nodiscard]] bool is_open() const override;

  // At the server: tells the client how many items it can send.
  void open(const lock_type& lock, std::uint32_t first_credit);

  // Takes a message about the items. Returns false if it is malformed.
  [[nodiscard]] bool take(const lock_type& lock, const message& m, std::vector<std::byte>& content);

  // The connection has room for a write that waits for it.
  void on_room(const lock_type& lock);

  // The call has ended at the server.
  void abort(const lock_type& lock);

  [[nodiscard]] std::uint32_t window() const noexcept { return fsm_.window(); }

protected:
  // The messages that leave next, behind the call.
  [[nodiscard]] virtual std::vector<std::byte>& messages(const lock_type& lock)
  {
    return by_->messages(lock);
  }

  // Completes the operations; the state machine has the result of the call.
  void settle(const lock_type& lock);

  // This side uses no more items.
  void drop(const lock_type& lock);

  const std::shared_ptr<connection> by_;
  std::uint32_t number_; // of the call
  flow_fsm fsm_;
  bytes reply_;
  bool settled_ = false;

private:
  template <class... Results>
  struct operation
  {
    std::optional<waiting_handler<Results...>> handler;
    std::uint64_t uses = 0; // a cancellation slot may outlive its operation
  };
  template <class... Results>
  using member = operation<Results...> flow::*;

  template <class... Results>
  void start(const lock_type& lock, member<Results...> which, waiting_handler<Results...> handler,
    boost::asio::cancellation_slot slot);
  template <class... Results>
  void cancel(const lock_type& lock, member<Results...> which);
  template <class... Results>
  static void complete(operation<Results...>& which, const error_code& ec, Results... results);

  void end_writing(const lock_type& lock);
  void end_write(const lock_type& lock);
  void advance(const lock_type& lock);
  void give(const lock_type& lock, std::uint32_t credit);
  void wait_for_room(const lock_type& lock);

  std::deque<bytes> arrived_;
  std::vector<std::byte> unwritten_; // the message of the write that waits
  operation<std::optional<bytes>> reading_;
  operation<> writing_;
  operation<std::optional<bytes>> finishing_;
  bool ends_after_write_ = false;
  bool waits_for_room_ = false;
  bool closed_ = false;
};

} // namespace rdma::detail::rpc

#endif // BOOST_RDMA_LIB_RPC_FLOW_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RPC_SERVER_CONNECTION_HPP
#define BOOST_RDMA_LIB_RPC_SERVER_CONNECTION_HPP

#include "boost_rdma/detail/rpc/server_core.hpp"
#include "connect/alarm.hpp"
#include "rpc/call_memory.hpp"
#include "rpc/connection.hpp"
#include "rpc/flow.hpp"
#include "rpc/method_counters.hpp"

#include <boost/intrusive/set.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <vector>

namespace rdma::detail::rpc {

// A method that a server offers.
struct served_method
{
  served_method(std::unique_ptr<method_handler> by, std::shared_ptr<rdma::rpc::tracer> calls)
    : handler(std::move(by))
    , tracer(std::move(calls))
  {
  }

  const std::unique_ptr<method_handler> handler;
  const std::shared_ptr<rdma::rpc::tracer> tracer; // null: none
  method_counters counters;
};

// The methods of a server; connections keep them.
using method_table = std::vector<std::unique_ptr<served_method>>;

// A call, as far as its answer needs it.
struct call_arrival
{
  using clock = std::chrono::steady_clock;

  std::uint32_t number = 0;
  served_method* method = nullptr;
  clock::time_point time;
  rdma::rpc::trace_context parent; // that the client has sent
  rdma::rpc::trace_context trace;  // of the handler

  // The call is counted, and begins for the tracer. One of the other functions follows.
  void begin() noexcept
  {
    method->counters.arrived();
    trace = method->tracer ? method->tracer->start(traced()) : parent;
  }
  void ended(call_outcome how, const error_code& ec) const noexcept
  {
    method->counters.ended(how);
    if (method->tracer)
      method->tracer->end(traced(), ec);
  }
  void answered() const noexcept
  {
    method->counters.answered(clock::now() - time);
    if (method->tracer)
      method->tracer->end(traced(), {});
  }
  [[nodiscard]] rdma::rpc::traced_call traced() const noexcept
  {
    return {rdma::rpc::call_side::server, method->handler->description.name, parent, trace, time};
  }
};

class server_connection;

// A call that is answered later.
class kept_call final
  : public running_call
  , public boost::intrusive::set_base_hook<>
  , public std::enable_shared_from_this<kept_call>
{
public:
  kept_call(std::shared_ptr<server_connection> by, const call_arrival& of,
    std::shared_ptr<call_memory> memory, std::uint32_t credit)
    : arrival(of)
    , exposed(std::move(memory))
    , first_credit(credit)
    , by_(std::move(by))
  {
  }

  void reply(const reply_source& what) override;
  void fail(const error_code& ec) override;
  std::shared_ptr<flow_core> open_flow(bool reads) override;

  const call_arrival arrival;
  const std::shared_ptr<call_memory> exposed; // null: nothing
  const std::uint32_t first_credit;           // of the client
  std::shared_ptr<flow> items;                // null: none
  std::size_t held = 0;
  bool has_ended = false;               // changes with the connection's mutex
  std::shared_ptr<kept_call> next_lost; // see server_connection::lost_

private:
  const std::shared_ptr<server_connection> by_;
};

// A server's connection to one client.
class server_connection final : public connection
{
public:
  // `ended` is called once, by any thread.
  server_connection(std::shared_ptr<stream_core> stream, const io_executor& executor, alarm by,
    std::shared_ptr<const method_table> methods, const rdma::rpc::server_options& options,
    std::function<void(server_connection&)> ended);

  // Sends the first message.
  void open();

  // The time for the client's first message has passed.
  void on_alarm();

  // Takes no more calls. Ends when all that have arrived are answered.
  void leave();

  using connection::end;

private:
  friend class kept_call;
  friend class call_memory;
  friend class bulk_transfer;
  class new_call;

  struct queued_call
  {
    call_arrival what;
    std::vector<std::byte> content;
    std::chrono::steady_clock::time_point deadline;
    std::shared_ptr<call_memory> exposed;
    bool has_end_of_items = false;
  };

  error_code take(const message& m, std::vector<std::byte>& content) override;
  void on_taken() override { taken_at_ = {}; }
  void on_end(const error_code& ec) noexcept override;
  void on_memory() override;
  [[nodiscard]] bool expects(const lock_type& lock) const override
  {
    return unsent(lock) < unread_max_ && (held_ < held_max_ || unanswered_ != 0 || flows_ != 0);
  }
  [[nodiscard]] bool is_done(const lock_type& lock) const override
  {
    return leaving_ && running_ == 0 && transfers_ == 0 && queue_.empty() && unsent(lock) == 0;
  }

  error_code take_call(const message& m, std::vector<std::byte>& content);
  [[nodiscard]] bool take_exposed(const message& m, std::span<const std::byte> content);
  [[nodiscard]] bool take_trace(const message& m, std::span<const std::byte> content);
  [[nodiscard]] bool take_part(const message& m, std::span<const std::byte> content);
  [[nodiscard]] bool take_items(const message& m, std::vector<std::byte>& content);
  void end_items(std::uint32_t number);
  void take_cancel(std::uint32_t number);
  void start(const call_arrival& what, std::vector<std::byte>& content,
    std::chrono::steady_clock::time_point deadline, std::shared_ptr<call_memory> exposed);
  void start_queued();
  static void cancel(std::shared_ptr<kept_call> lost);
  void reply(
    const lock_type& lock, const call_arrival& of, call_memory* exposed, const reply_source& what);
  void fail(const lock_type& lock, const call_arrival& of, call_memory* exposed, call_outcome how,
    const error_code& ec);
  void send_failure(const lock_type& lock, const message& what, call_memory* exposed);
  void end_memory(const lock_type& lock, call_memory* exposed, std::size_t at);
  void release(const lock_type& lock, call_memory& exposed);

  [[nodiscard]] bool has_turn(bulk_transfer& what);
  void send_part(const lock_type& lock, const message& m, const exposed_part& part,
    std::span<const std::byte> pushed);
  void end_transfer(const lock_type& lock, bulk_transfer& what);
  void end_if_done(lock_type lock);
  void finish(kept_call& of, const reply_source* what, const error_code& ec);
  [[nodiscard]] std::shared_ptr<server_connection> self()
  {
    return std::static_pointer_cast<server_connection>(shared_from_this());
  }

  alarm alarm_;
  const std::chrono::milliseconds hello_timeout_;
  const std::shared_ptr<const method_table> methods_;
  const std::uint32_t calls_max_;
  const std::uint32_t queue_max_;
  const std::size_t unread_max_;
  const std::size_t held_max_;
  const std::uint32_t flow_bytes_;
  std::function<void(server_connection&)> ended_;
  std::atomic<bool> greeted_{false}; // by the client; no other data depends on it

  struct number_of
  {
    using type = std::uint32_t;
    type operator()(const kept_call& of) const noexcept { return of.arrival.number; }
  };
  // The time at which messages were taken. It is read once for all that are taken together.
  std::chrono::steady_clock::time_point taken_at_;
  std::optional<std::uint32_t> trace_of_; // the number of the call that comes next
  rdma::rpc::trace_context trace_;        // of this call
  // Those that are neither answered nor cancelled.
  boost::intrusive::set<kept_call, boost::intrusive::key_of_value<number_of>> kept_;
  std::uint32_t running_ = 0; // calls whose handlers have not ended; some are cancelled
  std::list<queued_call> queue_;
  std::uint32_t flows_ = 0; // those of them that have items
  std::size_t held_ = 0;    // bytes of the requests of running and queued calls
  bool leaving_ = false;
  std::shared_ptr<kept_call> lost_; // whose handlers learn that the connection has ended

  const std::shared_ptr<queue_pair_core> queue_pair_; // null: by TCP
  const std::size_t request_max_;
  std::shared_ptr<call_memory> announced_; // of the next call
  std::size_t transfers_ = 0;
  std::list<std::shared_ptr<bulk_transfer>> by_messages_; // transfers, in the order of their start
  std::uint32_t unanswered_ = 0;                          // parts
  std::uint32_t next_transfer_ = 1;                       // the number of the next part
};

} // namespace rdma::detail::rpc

#endif // BOOST_RDMA_LIB_RPC_SERVER_CONNECTION_HPP

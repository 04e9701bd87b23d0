//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_CONNECTION_HPP
#define BOOST_RDMA_LIB_CONNECT_CONNECTION_HPP

#include "boost_rdma/detail/control_stream.hpp"
#include "completion/abandonable.hpp"
#include "completion/queue_pair_core.hpp"
#include "connect/control_channel_fsm.hpp"
#include "connect/control_frame.hpp"
#include "connect/inbox.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace rdma::detail {

// Completion token of asynchronous operations in coroutines; stores the error in ec.
inline auto into(error_code& ec)
{
  return boost::asio::redirect_error(boost::asio::use_awaitable, ec);
}

// Adapts a control_stream to the AsyncStream requirements of Asio and Beast.
class control_stream_ref
{
public:
  using executor_type = boost::asio::io_context::executor_type;

  control_stream_ref(control_stream& stream, executor_type executor)
    : stream_(&stream)
    , executor_(std::move(executor))
  {
  }

  executor_type get_executor() const noexcept { return executor_; }

  template <class Buffers, class CompletionToken>
  auto async_read_some(const Buffers& buffers, CompletionToken&& token)
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code, std::size_t)>(
      [stream = stream_, executor = executor_](auto&& handler, boost::asio::mutable_buffer to)
      { stream->read_some(to, here(executor, std::forward<decltype(handler)>(handler))); },
      token, boost::asio::mutable_buffer(*boost::asio::buffer_sequence_begin(buffers)));
  }

  template <class Buffers, class CompletionToken>
  auto async_write_some(const Buffers& buffers, CompletionToken&& token)
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code, std::size_t)>(
      [stream = stream_, executor = executor_](auto&& handler, boost::asio::const_buffer from)
      { stream->write_some(from, here(executor, std::forward<decltype(handler)>(handler))); },
      token, boost::asio::const_buffer(*boost::asio::buffer_sequence_begin(buffers)));
  }

private:
  // The handler of a coroutine has an any_io_executor. Boost 1.81's any_completion_handler
  // allocates memory for such an executor in functions that are noexcept (any_executor::prefer).
  template <class Handler>
  static auto here(const executor_type& executor, Handler&& handler)
  {
    return boost::asio::bind_executor(executor, std::forward<Handler>(handler));
  }

  control_stream* stream_;
  executor_type executor_;
};

// Returns the times that follow from the options of both sides.
heartbeat_times agree_on_heartbeats(
  const queue_pair_options& own, std::chrono::milliseconds peer_limit);

// The stream of a queue pair: it carries the handshake and is the control channel afterwards.
// Performs the actions of a control_channel_fsm.
//
// All members run on the service's thread unless stated otherwise. The coroutines and handlers
// there own the connection. The queue pair's guard and the connection refer to each other's owner
// weakly.
class connection final
  : public abandonable
  , public std::enable_shared_from_this<connection>
{
  using clock = std::chrono::steady_clock;

public:
  connection(boost::asio::io_context& io, std::shared_ptr<inbox> to_service,
    std::unique_ptr<control_stream> stream);

  // Progress of the handshake, by which an acceptor with too many of them selects one to evict.
  enum class stage
  {
    refused,     // the peer has only to read the reason
    unproven,    // the peer has not sent a valid request
    negotiating, // the peer has sent one
  };

  boost::beast::flat_buffer buffer; // bytes that follow the last message
  stage progress = stage::unproven;
  std::function<void()> on_close; // called before the stream is closed

  [[nodiscard]] control_stream& stream() const noexcept { return *stream_; }
  [[nodiscard]] control_stream_ref reference() { return {*stream_, io_.get_executor()}; }
  [[nodiscard]] boost::asio::io_context& io() const noexcept { return io_; }

  // Any thread. Assigns the queue pair; returns false if it cannot be connected.
  bool adopt(const std::shared_ptr<queue_pair_core>& core);
  [[nodiscard]] std::shared_ptr<queue_pair_core> core() const { return core_.lock(); }

  // Any thread. Runs the handshake, with this time limit, and all that follows.
  void run(clock::duration time_limit, boost::asio::awaitable<void> handshake);

  // The handshake fails with handshake_timeout unless establish() is called before.
  void set_deadline(clock::duration time_limit);
  void establish(const heartbeat_times& times);

  // Ends the handshake with this error, or an established connection with frame_type::bye. Only the
  // first call counts.
  void stop(const error_code& why);

  // As stop(), but leaves an established connection alone.
  void cancel_handshake();

  // Returns the error for an operation of this side that failed with ec: the reason of stop() if it
  // was called.
  [[nodiscard]] error_code failure(const error_code& ec) const
  {
    return stopped() ? fsm_.reason() : ec;
  }
  [[nodiscard]] bool stopped() const noexcept { return static_cast<bool>(fsm_.reason()); }

  // Sent in order, in the background. Reading reports a failure to send.
  void send(frame_type type, std::string_view payload = {});

  // Reads the next frame.
  boost::asio::awaitable<error_code> read_frame(frame_type& type);
  [[nodiscard]] const std::string& payload() const noexcept { return frames_.payload(); }

  // Reads until the connection has ended. For an established connection.
  boost::asio::awaitable<void> watch();

  // For other threads.
  class handle
  {
  public:
    explicit handle(connection& of);

    // Calls stop() because the queue pair is closed.
    void stop() const;
    void cancel_handshake() const;

    // All that this side sent has arrived.
    void finish() const;

    // Sends a message to the agent_attachment of the peer's queue pair.
    void send_agent_channel(agent_channel_event word, std::string text) const;

  private:
    template <class Function>
    void post(Function function) const;

    std::weak_ptr<connection> link_;
    std::shared_ptr<inbox> inbox_;
  };

  [[nodiscard]] const std::shared_ptr<inbox>& service_inbox() const noexcept { return inbox_; }

  void abandon() noexcept override {} // only the stream uses the user's execution context
  void end_in_child() override { stream_->end_in_child(); }

private:
  void perform(const control_channel_fsm::actions& list);
  void perform(const control_channel_fsm::action& what);
  void arm(clock::time_point time);
  void probe();
  void check_missing_receive();
  void report_agent_frame();
  void finish();
  [[nodiscard]] send_progress sends() const;
  void write(frame_type type, std::string_view payload);
  void write_rest(std::size_t written);
  void close();

  boost::asio::io_context& io_;
  const std::shared_ptr<inbox> inbox_;
  const std::unique_ptr<control_stream> stream_;
  boost::asio::steady_timer timer_;
  std::weak_ptr<queue_pair_core> core_;
  control_channel_fsm fsm_;
  frame_reader frames_;
  std::string outgoing_; // frames that wait
  std::string writing_;  // frames that are being written; not empty after writing has failed
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_CONNECT_CONNECTION_HPP

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
#include "completion/handler_slot.hpp"
#include "completion/inbox.hpp"
#include "completion/queue_pair_core.hpp"
#include "connect/control_channel_fsm.hpp"
#include "connect/control_frame.hpp"
#include "connect/service_executor.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace rdma::detail {

// Adapts a control_stream to the AsyncStream requirements of Asio and Beast.
class control_stream_ref
{
public:
  using executor_type = service_executor;

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
      [stream = stream_](auto&& handler, boost::asio::mutable_buffer to)
      { stream->read_some(to, std::forward<decltype(handler)>(handler)); },
      token, boost::asio::mutable_buffer(*boost::asio::buffer_sequence_begin(buffers)));
  }

  template <class Buffers, class CompletionToken>
  auto async_write_some(const Buffers& buffers, CompletionToken&& token)
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code, std::size_t)>(
      [stream = stream_](auto&& handler, boost::asio::const_buffer from)
      { stream->write_some(from, std::forward<decltype(handler)>(handler)); },
      token, boost::asio::const_buffer(*boost::asio::buffer_sequence_begin(buffers)));
  }

private:
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
  static constexpr std::chrono::milliseconds peer_silence_max{500};

  connection(boost::asio::io_context& io, std::shared_ptr<inbox> to_service,
    std::unique_ptr<control_stream> stream);
  ~connection() override;
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;

  boost::beast::flat_buffer buffer; // bytes that follow the last message
  // From this time on, an acceptor with too many handshakes may end this one: it waits for the
  // peer.
  clock::time_point yields_at = clock::time_point::max();
  bool agrees = false;            // on a path: the peer has sent a valid request
  std::function<void()> on_close; // called before the stream is closed

  [[nodiscard]] control_stream& stream() const noexcept { return *stream_; }
  [[nodiscard]] control_stream_ref reference() { return {*stream_, io_.get_executor()}; }
  [[nodiscard]] boost::asio::io_context& io() const noexcept { return io_; }

  // Any thread. Assigns the queue pair; returns false if it cannot be connected.
  bool adopt(const std::shared_ptr<queue_pair_core>& core);
  [[nodiscard]] std::shared_ptr<queue_pair_core> core() const { return core_.lock(); }

  // Any thread. Runs the handshake, with this time limit, and all that follows.
  void run(clock::duration time_limit, service_awaitable<void> handshake);

  // The handshake fails with handshake_timeout unless establish() is called before.
  void set_deadline(clock::duration time_limit);
  void establish(const heartbeat_times& times);

  // The handshake waits for the peer, which has this time before it may lose its place.
  void expect_peer(clock::duration patience = peer_silence_max)
  {
    yields_at = clock::now() + patience;
  }
  // The handshake does not wait for the peer.
  void expect_nothing() { yields_at = clock::time_point::max(); }

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
  service_awaitable<error_code> read_frame(frame_type& type);
  [[nodiscard]] const std::string& payload() const noexcept { return frames_.payload(); }

  // Reads until the connection has ended. For an established connection.
  service_awaitable<void> watch();

private:
  // The requests of other threads. A request needs no memory from the heap.
  enum class request : unsigned
  {
    finish = 1,
    cancel = 2,
    stop = 4,
  };
  struct requests
  {
    std::atomic<unsigned> pending{0}; // a function that performs them is queued unless it is 0
    handler_slot slot;                // of that function
  };

public:
  // For other threads.
  class handle
  {
  public:
    explicit handle(connection& of);

    // Calls stop() because the queue pair is closed.
    void stop() const noexcept { post(request::stop); }
    void cancel_handshake() const noexcept { post(request::cancel); }

    // All that this side sent has arrived.
    void finish() const noexcept { post(request::finish); }

    // Sends a message to the agent_attachment of the peer's queue pair. May throw std::bad_alloc.
    void send_agent_channel(agent_channel_event word, std::string text) const;

  private:
    void post(request what) const noexcept;

    std::weak_ptr<connection> link_;
    std::shared_ptr<inbox> inbox_;
    std::shared_ptr<requests> requests_;
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
  void perform_requests(unsigned which);
  [[nodiscard]] send_progress sends() const;
  void write(frame_type type, std::string_view payload);
  void write_rest(std::size_t written);
  void close();
  void end_without_memory();

  boost::asio::io_context& io_;
  const std::shared_ptr<inbox> inbox_;
  const std::shared_ptr<requests> requests_ = std::make_shared<requests>();
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

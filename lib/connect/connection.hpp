//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_CONNECTION_HPP
#define BOOST_RDMA_LIB_CONNECT_CONNECTION_HPP

#include "boost_rdma/detail/control_stream.hpp"
#include "boost_rdma/detail/queue_pair_core.hpp"
#include "completion/abandonable.hpp"
#include "connect/control_frame.hpp"
#include "connect/inbox.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace rdma::detail {

// What every step of a coroutine here waits with: the error goes to ec.
inline auto into(error_code& ec)
{
  return boost::asio::redirect_error(boost::asio::use_awaitable, ec);
}

// A control stream as what Asio and Beast read from and write to.
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

// How long a silent peer is endured, and how often this side says that it is there. Zero is never.
struct heartbeat_times
{
  std::chrono::milliseconds limit{0};
  std::chrono::milliseconds interval{0};
};

// What both sides' wishes amount to.
heartbeat_times agree_on_heartbeats(
  const queue_pair_options& own, std::chrono::milliseconds peer_limit);

// The stream behind a queue pair: first it carries the handshake, then it is the control channel.
//
// Lives on the service's thread, where all members run unless they say otherwise. Its owners are
// the coroutines and handlers there; the queue pair has a guard that refers to it, and it refers to
// the queue pair, both weakly: neither keeps the other.
class connection final
  : public abandonable
  , public std::enable_shared_from_this<connection>
{
public:
  // `words` is the inbox of io's service.
  connection(boost::asio::io_context& io, std::shared_ptr<inbox> words,
    std::unique_ptr<control_stream> stream);

  // How far the handshake has come. What counts for least is given up first when there are too
  // many.
  enum class stage
  {
    refused,     // only waits for the peer to read why
    unproven,    // the peer has not said anything of use
    negotiating, // it has
    established,
  };

  boost::beast::flat_buffer buffer; // what was read beyond the last message
  stage progress = stage::unproven;
  boost::asio::steady_timer* woken_by_stop = nullptr; // cancelled when the stream is closed

  [[nodiscard]] control_stream& stream() const noexcept { return *stream_; }
  [[nodiscard]] control_stream_ref reference() { return {*stream_, io_.get_executor()}; }
  [[nodiscard]] boost::asio::io_context& io() const noexcept { return io_; }

  // Any thread. The queue pair that the connection belongs to; false when it cannot be connected.
  bool adopt(const std::shared_ptr<queue_pair_core>& core);
  [[nodiscard]] std::shared_ptr<queue_pair_core> core() const { return core_.lock(); }

  // The handshake fails with handshake_timeout unless establish() is called before.
  void set_deadline(std::chrono::steady_clock::duration time_limit);
  void establish(const heartbeat_times& times);

  // Ends the handshake with this error, or an established connection with a farewell. Only the
  // first call counts.
  void stop(const error_code& why);

  // As stop(), but leaves an established connection alone.
  void cancel_handshake();

  // The error to report for an operation of ours that failed with ec: why it was stopped, if it
  // was.
  [[nodiscard]] error_code failure(const error_code& ec) const { return why_ ? why_ : ec; }
  [[nodiscard]] bool stopped() const noexcept { return static_cast<bool>(why_); }

  // Sent in order, in the background; what cannot be sent shows when reading.
  void send(frame_type type, std::string_view payload = {});

  // Waits for a frame of this type, or of one of these two; words about the agent_channel go to the
  // queue pair, others are skipped. payload() is its payload.
  boost::asio::awaitable<error_code> receive(frame_type type);
  boost::asio::awaitable<error_code> receive(frame_type one, frame_type other, frame_type& found);
  [[nodiscard]] const std::string& payload() const noexcept { return frames_.payload(); }

  // Watches the peer until either side closes, and tells the queue pair.
  boost::asio::awaitable<void> watch();

  // What other threads have of a connection.
  class handle
  {
  public:
    explicit handle(connection& of);

    // stop() for the user who closes the queue pair.
    void stop() const;
    void cancel_handshake() const;

    // The peer is told that all has arrived.
    void finish() const;

    // A word for the peer's agent_attachment of the queue pair.
    void send_agent_channel(agent_channel_event word, std::string text) const;

  private:
    template <class Function>
    void post(Function function) const;

    std::weak_ptr<connection> link_;
    std::shared_ptr<inbox> words_;
  };

  [[nodiscard]] const std::shared_ptr<inbox>& words() const noexcept { return words_; }

  void abandon() noexcept override {
  } // what it has of the user's execution context is the stream, which knows
  void end_in_child() override { stream_->end_in_child(); }

private:
  using clock = std::chrono::steady_clock;

  boost::asio::awaitable<error_code> read_frame(std::uint8_t& type);
  boost::asio::awaitable<void> let_sends_finish();
  boost::asio::awaitable<void> linger();
  void beat();
  void look_at_sends(clock::time_point now);
  void write_rest(std::size_t written);
  void send_close();
  void finish();
  void on_agent_channel(agent_channel_event word);
  void end_orderly();
  void end(const error_code& why);
  void close();

  boost::asio::io_context& io_;
  const std::shared_ptr<inbox> words_;
  const std::unique_ptr<control_stream> stream_;
  boost::asio::steady_timer timer_;
  std::weak_ptr<queue_pair_core> core_;
  error_code why_;
  frame_reader frames_;

  std::string outgoing_; // frames that wait
  std::string writing_;  // frames that are being written
  bool broken_ = false;  // writing failed

  heartbeat_times times_;
  clock::time_point heard_; // when the peer was heard last
  clock::time_point said_;  // when it was told something last
  clock::time_point due_;   // when beat() was to run
  bool probed_ = false; // who reads the stream for us is not busy, and nothing has been heard since
  // The send queue at the last beat(), for a warning when the peer has no receive for a send.
  struct
  {
    bool outstanding = false;
    bool reported = false;
    std::uint64_t completed = 0;
    clock::time_point since;
  } sends_;

  bool finished_ = false; // this side has sent frame_type::finished
  bool peer_finished_ = false;
  bool lingers_ = false; // all is said; waits for the peer to read it
  bool heard_all_ =
    false; // reading has ended; Asio tells an end of stream once, the next read waits for ever
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_CONNECT_CONNECTION_HPP

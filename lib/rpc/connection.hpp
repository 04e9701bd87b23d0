//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RPC_CONNECTION_HPP
#define BOOST_RDMA_LIB_RPC_CONNECTION_HPP

#include "boost_rdma/detail/process_mark.hpp"
#include "boost_rdma/detail/stream_core.hpp"
#include "completion/late_tasks.hpp"
#include "rpc/message_reader.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

namespace rdma::detail::rpc {

class flow;

// Carries the messages of one side of an RPC connection over a stream. Messages that are made while
// others are being written leave together.
//
// A connection without memory for its next step ends with no_memory, on the thread of connections.
class connection : public late_task
{
public:
  using io_executor = stream_core::io_executor;
  using lock_type = std::unique_lock<std::mutex>;

  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;

protected:
  connection(
    const io_executor& executor, std::size_t content_max, std::shared_ptr<stream_core> stream)
    : executor_(executor)
    , stream_(std::move(stream))
    , reader_(content_max)
  {
  }
  ~connection() override = default;

  // Called on the executor or in poll(), one after the other, without a lock. An error, such as
  // malformed_message, ends the connection. `content` may be moved from.
  virtual error_code take(const message& m, std::vector<std::byte>& content) = 0;

  // All messages that have arrived were taken. May throw what a handler of the program throws.
  virtual void on_taken() {}

  // The connection has ended. Called once, without a lock, by any thread.
  virtual void on_end(const error_code& ec) noexcept = 0;

  // There may be memory for what this side has kept for later. May throw std::bad_alloc.
  virtual void on_memory() {}

  // Returns true if messages are expected, so that the execution context must run for them.
  [[nodiscard]] virtual bool expects(const lock_type& lock) const = 0;

  // Returns true if the connection ends when all messages have left.
  [[nodiscard]] virtual bool is_done(const lock_type&) const { return false; }

  // The stream is connected.
  void open();

  // Some messages have left.
  virtual void on_room(const lock_type&) {}

  // Ends the connection, unless it has ended. What the stream has of the messages still leaves.
  void end(const error_code& ec) noexcept;

  // Something could not be done for lack of memory. Calls on_memory() later, and then ends the
  // connection if `ends`. Any thread, with and without the mutex.
  void do_later(bool ends) noexcept;

  // The messages that leave next. Call flush() when some were added.
  [[nodiscard]] std::vector<std::byte>& messages(const lock_type&) noexcept { return out_; }

  // Calls make(messages()). Without memory, what it has added is taken back, and the connection
  // ends.
  template <class Make>
  void add_messages(const lock_type& lock, Make make)
  {
    std::vector<std::byte>& to = messages(lock);
    const std::size_t at = to.size();
    try
    {
      make(to);
    }
    catch (const std::bad_alloc&)
    {
      to.resize(at);
      do_later(true);
    }
  }

  // Takes what has arrived while no messages were expected.
  void poll();

  // Writes, and reads if messages are expected.
  void flush(const lock_type& lock);

  [[nodiscard]] bool has_ended(const lock_type&) const noexcept { return ended_; }
  // This process is a child of the one that made the object: another thread there may have held
  // the mutex.
  [[nodiscard]] bool forked() const noexcept { return process_.foreign(); }
  // Bytes that have not left.
  [[nodiscard]] std::size_t unsent(const lock_type&) const noexcept
  {
    return out_.size() + sending_.size() - sent_;
  }

  const io_executor executor_;
  const std::shared_ptr<stream_core> stream_; // with the mutex
  mutable std::mutex mutex_;

private:
  void run() final;
  [[nodiscard]] std::shared_ptr<connection> self()
  {
    return std::static_pointer_cast<connection>(shared_from_this());
  }
  void read(const lock_type& lock);
  void on_readable(error_code ec);
  void finish_reading();
  [[nodiscard]] error_code read_all(const stream_core::sources& found);
  [[nodiscard]] error_code read_end();
  [[nodiscard]] std::size_t read(std::span<const std::byte> bytes, error_code& ec);
  void write(const lock_type& lock);
  void give_room(const lock_type& lock);
  void on_written(const error_code& ec, std::size_t size);

  friend class flow;

  const process_mark process_;
  message_reader reader_;
  boost::asio::cancellation_signal stop_reading_;
  std::vector<std::byte> out_;
  std::vector<std::byte> sending_;
  std::size_t sent_ = 0;                    // of sending_
  std::deque<std::weak_ptr<flow>> waiting_; // have credit, and wait until some messages have left
  bool open_ = false;
  bool writing_ = false;
  bool reading_ = false;
  bool taking_ = false;   // on_readable() runs, and flushes at its end
  std::size_t taken_ = 0; // bytes that it has read, and the stream still has
  bool ended_ = false;
  std::atomic<bool> must_end_{false}; // for lack of memory
};

} // namespace rdma::detail::rpc

#endif // BOOST_RDMA_LIB_RPC_CONNECTION_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_EXAMPLE_BULK_TRANSFER_CONNECTION_HPP
#define BOOST_RDMA_EXAMPLE_BULK_TRANSFER_CONNECTION_HPP

#include "protocol.hpp"

#include <boost_rdma/context.hpp>
#include <boost_rdma/queue_pair.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

namespace bulk_transfer {

namespace asio = boost::asio;

/// A queue pair that always has posted receives, and counts its writes.
/**
 * If a coroutine ends with an exception, its operations continue. Their handlers therefore share
 * the ownership of this object. Not thread-safe.
 */
class connection : public std::enable_shared_from_this<connection>
{
public:
  /// The longest silence of the peer while chunks are in flight.
  static constexpr std::chrono::seconds peer_silence_max{60};

  /// A chunk was written (number), a slot is free again (neither), or a frame arrived.
  struct arrival
  {
    std::optional<std::uint32_t> chunk;
    std::size_t bytes = 0;
    std::optional<frame> content;
  };

  connection(rdma::queue_pair peer, std::uint32_t slots)
    : peer_(std::move(peer))
    , outgoing_(peer_.context().allocate(frame_size_max))
    , event_(peer_.get_executor())
  {
    // One for each slot's message, and some for frames.
    for (std::uint32_t i = 0; i < slots + 4; ++i)
      receives_.push_back({peer_.context().allocate(frame_size_max), {}, false});
  }

  [[nodiscard]] rdma::queue_pair& peer() { return peer_; }

  void post_receives()
  {
    for (std::size_t i = 0; i < receives_.size(); ++i)
      post_receive(i);
  }

  /// Returns the next arrival, or nothing if a write of this side was acknowledged.
  /** Messages that arrived before a failure are returned before the failure is thrown. */
  asio::awaitable<std::optional<arrival>> next(std::optional<std::chrono::seconds> time_limit)
  {
    for (;;)
    {
      if (receives_[oldest_].arrived)
        co_return take();
      if (failure_)
      {
        // The diagnosis of the connection has more details than the error of the operation.
        if (const rdma::diagnosis cause = peer_.diagnose(); cause.code)
          throw std::runtime_error(cause.text());
        throw rdma::system_error(failure_);
      }
      if (std::exchange(acknowledged_, false))
        co_return std::nullopt;
      event_.expires_at(time_limit ? asio::steady_timer::clock_type::now() + *time_limit : never);
      const auto [ec] = co_await event_.async_wait(asio::as_tuple(asio::use_awaitable));
      if (!ec)
        throw rdma::system_error(asio::error::timed_out, "no message from the peer");
    }
  }

  /// Returns the next frame, which must be of this kind.
  template <class Frame>
  asio::awaitable<Frame> expect(std::optional<std::chrono::seconds> time_limit)
  {
    std::optional<arrival> got;
    while (!got)
      got = co_await next(time_limit);
    co_return expect<Frame>(*got);
  }

  template <class Frame>
  static Frame expect(const arrival& got)
  {
    throw_if_failure(got);
    if (!got.content || !std::holds_alternative<Frame>(*got.content))
      throw protocol_error("a message arrived out of order");
    return std::get<Frame>(*got.content);
  }

  static void throw_if_failure(const arrival& got)
  {
    if (got.content && std::holds_alternative<failure_frame>(*got.content))
      throw std::runtime_error("the peer failed: " + std::get<failure_frame>(*got.content).text);
  }

  asio::awaitable<void> send(const frame& content)
  {
    const std::vector<std::byte> bytes = encode(content);
    std::ranges::copy(bytes, outgoing_.data());
    co_await peer_.async_send(outgoing_.first(bytes.size()), asio::use_awaitable);
  }

  void free_slot()
  {
    peer_.async_send_with_immediate(rdma::no_data, 0,
      [self = shared_from_this()](rdma::error_code ec, std::size_t) { self->fail(ec); });
  }

  /// Writes a chunk. With a number, the receiver's program gets a message.
  void write_chunk(const rdma::const_buffer& local, const rdma::remote_buffer& slot,
    std::optional<std::uint32_t> number)
  {
    auto handler = [self = shared_from_this()](rdma::error_code ec, std::size_t)
    {
      self->fail(ec);
      if (!ec)
        ++self->written_;
      self->acknowledged_ = true;
      self->event_.cancel();
    };
    if (number)
      peer_.async_write_with_immediate(local, slot, *number, std::move(handler));
    else
      peer_.async_write(local, slot, std::move(handler));
  }

  /// The number of chunks in the peer's memory.
  [[nodiscard]] std::uint64_t written() const { return written_; }

private:
  static constexpr asio::steady_timer::time_point never = asio::steady_timer::time_point::max();

  struct receive
  {
    rdma::registered_buffer buffer;
    rdma::message message;
    bool arrived;
  };

  void post_receive(std::size_t index)
  {
    receives_[index].arrived = false;
    peer_.async_receive_message(receives_[index].buffer,
      [self = shared_from_this(), index](rdma::error_code ec, rdma::message message)
      {
        self->fail(ec);
        self->receives_[index].message = message;
        self->receives_[index].arrived = !ec;
        self->event_.cancel();
      });
  }

  // Messages arrive in the order of the receives.
  arrival take()
  {
    receive& from = receives_[oldest_];
    arrival got;
    got.bytes = from.message.size;
    if (from.message.written)
      got.chunk = from.message.immediate;
    else if (from.message.size != 0)
      got.content = decode(from.buffer.bytes().first(from.message.size));
    post_receive(std::exchange(oldest_, (oldest_ + 1) % receives_.size()));
    return got;
  }

  void fail(const rdma::error_code& ec)
  {
    if (!ec || failure_)
      return;
    failure_ = ec;
    event_.cancel();
  }

  rdma::queue_pair peer_;
  rdma::registered_buffer outgoing_;
  std::vector<receive> receives_;
  std::size_t oldest_ = 0;
  asio::steady_timer event_;
  rdma::error_code failure_;
  std::uint64_t written_ = 0;
  bool acknowledged_ = false;
};

} // namespace bulk_transfer

#endif // BOOST_RDMA_EXAMPLE_BULK_TRANSFER_CONNECTION_HPP

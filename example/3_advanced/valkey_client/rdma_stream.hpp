//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// The client's side of Valkey over RDMA
// (https://github.com/valkey-io/valkey-doc/blob/main/topics/RDMA.md): a byte stream in each
// direction.
//
// The receiver of a direction registers memory and describes it in a message. The sender fills that
// memory from beginning to end with RDMA writes. The immediate data of a write is its number of
// bytes. When the memory is full and its bytes are consumed, the receiver describes it again.

#ifndef BOOST_RDMA_EXAMPLE_VALKEY_CLIENT_RDMA_STREAM_HPP
#define BOOST_RDMA_EXAMPLE_VALKEY_CLIENT_RDMA_STREAM_HPP

#include <boost_rdma/cm/connect.hpp>
#include <boost_rdma/context.hpp>
#include <boost_rdma/memory_region.hpp>
#include <boost_rdma/queue_pair.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/promise.hpp> // Boost 1.81: use_promise.hpp does not include it
#include <boost/asio/experimental/use_promise.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/endian/arithmetic.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <utility>

namespace valkey {

namespace asio = boost::asio;

enum class opcode : std::uint16_t
{
  get_server_feature = 0,
  set_client_feature = 1,
  keepalive = 2,
  register_transfer_memory = 3,
};

/// A message of the protocol. A message with features has them instead of `length` and `key`. This
/// client uses none.
struct command
{
  boost::endian::big_uint16_t code;
  std::byte reserved[14];
  boost::endian::big_uint64_t address;
  boost::endian::big_uint32_t length;
  boost::endian::big_uint32_t key;
};
static_assert(sizeof(command) == 32);

/// A connection to a Valkey server. Not thread-safe. One coroutine uses it at a time.
class rdma_stream
{
public:
  rdma_stream(const asio::any_io_executor& executor, const rdma::context& context)
    : incoming_(context, incoming_size, rdma::access::local_write | rdma::access::remote_write)
    , commands_(context.allocate(receive_count * sizeof(command)))
    , peer_(executor, context)
  {
    for (std::size_t i = 0; i < receive_count; ++i)
      start_receive(i);
  }

  asio::awaitable<void> connect(asio::ip::tcp::endpoint server)
  {
    co_await rdma::cm::async_connect(peer_, server, asio::use_awaitable);
    co_await send(opcode::get_server_feature);
    while (!has_features_)
      co_await take_message();
    co_await send(opcode::set_client_feature);
    co_await describe_incoming();
  }

  /// Sends all bytes, which must be registered memory: the device may still read them when this
  /// function returns.
  asio::awaitable<void> write(rdma::const_buffer data)
  {
    while (data.size() != 0)
    {
      while (outgoing_.size() == 0)
        co_await take_message();
      const std::size_t n = std::min<std::size_t>(data.size(), outgoing_.size());
      // A write that fails ends the connection, and the next take_message() fails.
      peer_.async_write_with_immediate(
        data.first(n), outgoing_.first(n), static_cast<std::uint32_t>(n), asio::detached);
      outgoing_ = outgoing_.slice(n);
      data = data.slice(n);
    }
  }

  /// Waits for bytes of the server and copies at least one.
  asio::awaitable<std::size_t> read_some(asio::mutable_buffer to)
  {
    if (consumed_ == incoming_.size())
      co_await describe_incoming();
    while (consumed_ == arrived_)
      co_await take_message();
    const std::size_t n =
      asio::buffer_copy(to, asio::buffer(incoming_.data() + consumed_, arrived_ - consumed_));
    consumed_ += n;
    co_return n;
  }

private:
  // The server waits with a write while no receive is posted. At most
  // queue_pair_options::receive_depth.
  static constexpr std::uint32_t receive_count = 64;
  static constexpr std::size_t incoming_size = 256 * 1024;
  static constexpr auto use_promise = asio::experimental::use_promise;

  using receiving = decltype(std::declval<rdma::queue_pair&>().async_receive_message(
    std::declval<const rdma::mutable_buffer&>(), use_promise));

  rdma::mutable_buffer slot(std::size_t i) const
  {
    return commands_.slice(i * sizeof(command), sizeof(command));
  }

  void start_receive(std::size_t i)
  {
    receives_.push_back(peer_.async_receive_message(slot(i), use_promise));
  }

  asio::awaitable<void> send(opcode code, command message = {})
  {
    message.code = static_cast<std::uint16_t>(code);
    co_await peer_.async_send(asio::buffer(&message, sizeof(message)), asio::use_awaitable);
  }

  asio::awaitable<void> describe_incoming()
  {
    const rdma::remote_buffer memory = incoming_.remote();
    arrived_ = 0;
    consumed_ = 0;
    command description{};
    description.address = memory.address();
    description.length = incoming_size;
    description.key = memory.key(peer_.transport().kind);
    co_await send(opcode::register_transfer_memory, description);
  }

  /// Waits for the next message or write. Receives complete in the order in which they started.
  asio::awaitable<void> take_message()
  {
    const rdma::message received = co_await std::move(receives_.front())(asio::use_awaitable);
    receives_.pop_front();
    if (received.written)
      add_arrived(received);
    else if (received.size == sizeof(command))
      handle(*slot(next_).as<command>());
    else
      throw std::runtime_error("the server sent a message of another size than the protocol's");
    start_receive(next_);
    next_ = (next_ + 1) % receive_count;
  }

  void add_arrived(const rdma::message& received)
  {
    const std::size_t n = received.immediate.value_or(0);
    if (n != received.size || n > incoming_.size() - arrived_)
      throw std::runtime_error("the server reported another number of bytes than it wrote");
    arrived_ += n;
  }

  void handle(const command& message)
  {
    switch (static_cast<opcode>(message.code.value()))
    {
    case opcode::get_server_feature:
      has_features_ = true;
      break;
    case opcode::keepalive:
      break;
    case opcode::register_transfer_memory:
      if (outgoing_.size() != 0 || message.length == 0 || message.key == 0
        || message.address > UINT64_MAX - message.length)
        throw std::runtime_error("the server described its memory wrongly");
      outgoing_ =
        rdma::remote_buffer(peer_.transport().kind, message.address, message.length, message.key);
      break;
    default:
      throw std::runtime_error("the server sent an unknown message");
    }
  }

  rdma::memory_region incoming_; // the server writes to it
  std::size_t arrived_ = 0;
  std::size_t consumed_ = 0;
  rdma::remote_buffer outgoing_; // the part of the server's memory that is still to be filled
  bool has_features_ = false;

  rdma::registered_buffer commands_; // a ring of receives
  std::size_t next_ = 0;
  rdma::queue_pair peer_; // destroyed before the memory that its receives use
  std::deque<receiving> receives_;
};

} // namespace valkey

#endif // BOOST_RDMA_EXAMPLE_VALKEY_CLIENT_RDMA_STREAM_HPP

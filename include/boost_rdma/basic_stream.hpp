//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_BASIC_STREAM_HPP
#define BOOST_RDMA_BASIC_STREAM_HPP

#include <boost_rdma/basic_queue_pair.hpp>
#include <boost_rdma/detail/initiation.hpp>
#include <boost_rdma/detail/io_object.hpp>
#include <boost_rdma/detail/stream_core.hpp>
#include <boost_rdma/stream_options.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/socket_base.hpp>

#include <cstddef>
#include <utility>

namespace rdma {

/// A stream of bytes over a connected queue pair: Asio's AsyncReadStream and AsyncWriteStream.
/**
 * Programs that are written for any stream (asio::async_read, asio::async_read_until, Beast,
 * asio::ssl::stream) use it instead of a TCP socket. Both ends make a stream of their queue pair:
 * @code
 * rdma::stream peer(co_await acceptor.async_accept(asio::use_awaitable));
 * @endcode
 * The protocol is described in doc/stream_protocol.md. Nothing else may be received or sent by
 * the queue pair.
 *
 * @par Memory
 * Buffers are of plain memory. Writes of up to 64 KiB are copied and complete at once. Larger ones
 * complete when the peer's device has the bytes. Received bytes are in memory of the stream until
 * they are read.
 *
 * @par End
 * shutdown() ends this side's bytes; the peer reads boost::asio::error::eof after them. If the
 * connection ends otherwise, operations end with boost::asio::error::connection_reset. close() and
 * the destructor send the bytes that were written, and the end, within stream_options::close_limit;
 * if received bytes are unread, they reset the connection.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe. The context may run on any number of threads.
 */
template <class Executor = boost::asio::any_io_executor>
class basic_stream : public detail::io_object<Executor, detail::stream_core>
{
  using base = detail::io_object<Executor, detail::stream_core>;

public:
  /// The executor type, for handlers without an associated executor.
  using executor_type = Executor;

  /// The lowest layer is the stream itself.
  using lowest_layer_type = basic_stream;

  /// Direction of shutdown().
  using shutdown_type = boost::asio::socket_base::shutdown_type;

  /// Rebinds the type to another executor.
  template <class OtherExecutor>
  struct rebind_executor
  {
    /// The same type with that executor.
    using other = basic_stream<OtherExecutor>;
  };

  /// Makes a stream of a connected queue pair.
  /**
   * @param peer A queue pair that is connected, has no receives posted, and whose peer makes a
   * stream, too. The stream closes it.
   * @param options Sizes.
   *
   * @throws system_error With one of these errors:
   * @li error::not_connected: the queue pair is not connected.
   * @li boost::asio::error::invalid_argument: an option is out of range.
   * @li operation_not_supported: the device is iWARP.
   * @li the error of registering memory.
   */
  explicit basic_stream(
    basic_queue_pair<Executor>&& peer, const stream_options& options = stream_options())
    : base(peer.get_executor())
  {
    this->core_ = detail::stream_core::make(peer.release_core(), options);
  }

  /// Returns the stream.
  [[nodiscard]] lowest_layer_type& lowest_layer() noexcept { return *this; }
  /// Returns the stream.
  [[nodiscard]] const lowest_layer_type& lowest_layer() const noexcept { return *this; }

  /// Returns the queue pair's transport. Precondition: not moved from.
  [[nodiscard]] transport_choice transport() const { return this->core_->transport(); }

  /// Returns the number of bytes that can be read without waiting. Precondition: not moved from.
  [[nodiscard]] std::size_t available() const { return this->core_->available(); }

  /// Ends this side's bytes (shutdown_send, shutdown_both). Outstanding writes go first.
  /**
   * @param what shutdown_receive has no effect.
   * @param ec error::closed: the stream was closed or moved from.
   */
  void shutdown(shutdown_type what, error_code& ec)
  {
    ec = {};
    if (!this->core_)
      ec = error::closed;
    else if (what != boost::asio::socket_base::shutdown_receive)
      this->core_->shut_down(ec);
  }

  /// Ends this side's bytes; throws system_error.
  void shutdown(shutdown_type what)
  {
    error_code ec;
    shutdown(what, ec);
    if (ec)
      throw system_error(ec, "stream::shutdown");
  }

  /// Reads at least one byte, unless the buffers are empty.
  /**
   * @param buffers A mutable buffer sequence of plain memory, which must remain valid until the
   * handler is called.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::size_t) @endcode
   * The number of bytes read.
   *
   * @par Errors
   * @li boost::asio::error::eof: the peer has ended its bytes.
   * @li boost::asio::error::connection_reset: the connection has ended otherwise.
   * @li operation_aborted: the stream was closed, or the operation cancelled.
   * @li error::closed: the stream was closed or moved from before.
   * @li boost::system::errc::protocol_error: the peer has violated the protocol.
   * @li error::forked: the stream was made in the parent process.
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the operation. No bytes are lost.
   */
  template <class MutableBufferSequence,
    boost::asio::completion_token_for<void(error_code, std::size_t)> CompletionToken =
      boost::asio::default_completion_token_t<executor_type>>
  auto async_read_some(const MutableBufferSequence& buffers,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code, std::size_t)>(
      detail::initiation(this->executor_,
        [core = this->core_](const auto& executor, auto&& handler, const auto& to) {
          detail::start_read_some(
            executor, core.get(), to, std::forward<decltype(handler)>(handler));
        }),
      token, detail::stream_core::targets(buffers));
  }

  /// Writes at least one byte, unless the buffers are empty.
  /**
   * @param buffers A constant buffer sequence of plain memory, which must remain valid until the
   * handler is called.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::size_t) @endcode
   * The number of bytes written.
   *
   * @par Errors
   * Those of async_read_some() except eof, and
   * @li boost::asio::error::broken_pipe: after shutdown().
   *
   * @par Per-operation cancellation
   * terminal, partial and total end an operation that has moved no bytes.
   */
  template <class ConstBufferSequence,
    boost::asio::completion_token_for<void(error_code, std::size_t)> CompletionToken =
      boost::asio::default_completion_token_t<executor_type>>
  auto async_write_some(const ConstBufferSequence& buffers,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code, std::size_t)>(
      detail::initiation(this->executor_,
        [core = this->core_](const auto& executor, auto&& handler, const auto& from)
        {
          detail::start_write_some(
            executor, core.get(), from, std::forward<decltype(handler)>(handler));
        }),
      token, detail::stream_core::sources(buffers));
  }
};

} // namespace rdma

#endif // BOOST_RDMA_BASIC_STREAM_HPP

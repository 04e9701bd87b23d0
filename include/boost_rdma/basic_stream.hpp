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
#include <boost_rdma/detail/inner_executor.hpp>
#include <boost_rdma/detail/io_object.hpp>
#include <boost_rdma/detail/range_connect.hpp>
#include <boost_rdma/detail/stream_core.hpp>
#include <boost_rdma/detail/stream_teardown.hpp>
#include <boost_rdma/stream_options.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/compose.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/socket_base.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <memory>
#include <utility>

namespace rdma {

/// A stream of bytes by RDMA, or by TCP to a peer without it: Asio's AsyncReadStream and
/// AsyncWriteStream.
/**
 * Programs that are written for any stream (asio::async_read, asio::async_read_until, Beast,
 * asio::ssl::stream) use it instead of a TCP socket:
 * @code
 * rdma::stream server(io, context);
 * co_await server.async_connect({asio::ip::make_address("10.0.0.1"), 7471}, asio::use_awaitable);
 * co_await asio::async_write(server, asio::buffer("hello\n", 6), asio::use_awaitable);
 * @endcode
 * The server has a basic_stream_acceptor. Both ends can also make a stream of a connected queue
 * pair. The protocol is described in doc/stream_protocol.md.
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
 * if received bytes are unread, they reset the connection. For that the execution context must run
 * on.
 *
 * @par Synchronous functions
 * connect(), wait(), read_some() and write_some() wait in the call, for Asio's and Beast's
 * synchronous functions. They have the errors of the asynchronous ones. No thread need run the
 * execution context: the calling thread polls, and then sleeps. Writes are copied. One thread may
 * read while another one writes. If the last read, write or wait was synchronous, close() and the
 * destructor wait, too, until the bytes have left, at most stream_options::close_limit. An
 * execution context that no thread ever runs keeps some memory of each closed stream: call its
 * poll() sometimes.
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

  /// Condition of async_wait().
  using wait_type = boost::asio::socket_base::wait_type;
  /// Bytes have arrived, or there will be none.
  static constexpr wait_type wait_read = boost::asio::socket_base::wait_read;
  /// A write can move bytes, or fails.
  static constexpr wait_type wait_write = boost::asio::socket_base::wait_write;
  /// The connection has ended.
  static constexpr wait_type wait_error = boost::asio::socket_base::wait_error;

  /// Direction of shutdown().
  using shutdown_type = boost::asio::socket_base::shutdown_type;

  /// Rebinds the type to another executor.
  template <class OtherExecutor>
  struct rebind_executor
  {
    /// The same type with that executor.
    using other = basic_stream<OtherExecutor>;
  };

  /// The endpoint type of the server.
  using endpoint_type = boost::asio::ip::tcp::endpoint;

  /// Makes a stream that is not connected.
  /**
   * @param executor Executor for handlers.
   * @param domain Protection domain of the queue pair; a context converts to one.
   * @param options Options of the stream.
   * @param queue_pair Options of the queue pair.
   */
  basic_stream(const executor_type& executor, const protection_domain& domain,
    const stream_options& options = stream_options(),
    const queue_pair_options& queue_pair = queue_pair_options())
    : base(executor,
      detail::stream_core::make_client(
        executor, detail::inner_executor(executor), domain, options, queue_pair))
  {
  }

  /// Makes a stream that is not connected, in the context's own protection domain.
  basic_stream(const executor_type& executor, const rdma::context& context,
    const stream_options& options = stream_options(),
    const queue_pair_options& queue_pair = queue_pair_options())
    : basic_stream(executor, protection_domain(context), options, queue_pair)
  {
  }

  /// Makes a stream that is not connected, with the executor of an execution context.
  template <class ExecutionContext>
    requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
  basic_stream(ExecutionContext& owner, const protection_domain& domain,
    const stream_options& options = stream_options(),
    const queue_pair_options& queue_pair = queue_pair_options())
    : basic_stream(executor_type(owner.get_executor()), domain, options, queue_pair)
  {
  }

  /// Makes a stream that is not connected, with the executor of an execution context, in the
  /// context's own protection domain.
  template <class ExecutionContext>
    requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
  basic_stream(ExecutionContext& owner, const rdma::context& context,
    const stream_options& options = stream_options(),
    const queue_pair_options& queue_pair = queue_pair_options())
    : basic_stream(
      executor_type(owner.get_executor()), protection_domain(context), options, queue_pair)
  {
  }

  /// Makes a stream of a connected queue pair.
  /**
   * @param peer A queue pair that is connected, has no receives posted, and whose peer makes a
   * stream, too. The stream closes it. Nothing else may be received or sent by it.
   * @param options Sizes.
   *
   * @throws system_error With one of these errors:
   * @li error::not_connected: the queue pair is not connected.
   * @li boost::asio::error::invalid_argument: an option is out of range.
   * @li operation_not_supported: the queue pair was accepted on iWARP without
   *     queue_pair_options::for_stream.
   * @li the error of registering memory.
   */
  explicit basic_stream(
    basic_queue_pair<Executor>&& peer, const stream_options& options = stream_options())
    : base(peer.get_executor())
  {
    this->core_ = detail::stream_core::make(peer.release_core(), options);
  }

  /// For the library itself.
  basic_stream(const executor_type& executor, std::shared_ptr<detail::stream_core> core)
    : base(executor, std::move(core))
  {
  }

  /// Connects to a server, by RDMA if both sides allow it and can.
  /**
   * TCP connects first. Meanwhile a datagram to the UDP port with the same number asks the server
   * for RDMA. A server without RDMA receives no byte of this, and the stream goes on over TCP; see
   * transport() for the reason. This takes no longer than TCP, plus one round trip if the datagram
   * is slower, or 20 ms if it is not answered at all. A server that did not answer is not asked
   * again for a minute. A server with a basic_stream_acceptor must accept within
   * queue_pair_options::connect_timeout; otherwise the stream connects again for TCP.
   *
   * @param server Address and port of a basic_stream_acceptor or of any TCP server.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code) @endcode
   * After an error the stream may connect again.
   *
   * @par Errors
   * @li the error of connecting TCP.
   * @li with stream_transports::rdma, those of basic_queue_pair::async_connect().
   * @li error::already_connected: the stream connects, or is connected.
   * @li operation_aborted: the operation was cancelled, or the stream closed during it.
   * @li error::closed: the stream was closed or moved from before.
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the attempt.
   */
  template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_connect(const endpoint_type& server,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code)>(
      detail::initiation(this->executor_,
        [core = this->core_](const auto& executor, auto&& handler, const endpoint_type& to)
        {
          detail::start_connect_stream(
            executor, core.get(), to, std::forward<decltype(handler)>(handler));
        }),
      token, server);
  }

  /// Connects to the first server of a list that accepts the connection, in the order of the list.
  /**
   * @param servers Copyable range of endpoints, for example the results of asio::ip::tcp::resolver.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::basic_stream::endpoint_type) @endcode
   * The server, or the error of the last attempt.
   *
   * @par Errors
   * Those for one server, and
   * @li boost::asio::error::not_found: the list is empty.
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the attempt, and no other one follows.
   */
  template <detail::endpoint_range EndpointSequence,
    boost::asio::completion_token_for<void(error_code, endpoint_type)> CompletionToken =
      boost::asio::default_completion_token_t<executor_type>>
  auto async_connect(const EndpointSequence& servers,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return boost::asio::async_compose<CompletionToken, void(error_code, endpoint_type)>(
      detail::range_connect<basic_stream, EndpointSequence>(*this, servers), token, *this);
  }

  /// Connects to a server, as async_connect() does, and waits until it has.
  /** See "Synchronous functions". */
  void connect(const endpoint_type& server, error_code& ec)
  {
    if (this->core_)
      this->core_->connect(server, ec);
    else
      ec = error::closed;
  }

  /// Connects likewise; throws system_error.
  void connect(const endpoint_type& server)
  {
    error_code ec;
    connect(server, ec);
    detail::throw_if(ec, "stream::connect");
  }

  /// Connects to the first server of a list that accepts the connection, and returns it.
  template <detail::endpoint_range EndpointSequence>
  endpoint_type connect(const EndpointSequence& servers, error_code& ec)
  {
    ec = boost::asio::error::not_found;
    for (const endpoint_type& each : servers)
      if (connect(each, ec); !ec)
        return each;
    return {};
  }

  /// Connects likewise; throws system_error.
  template <detail::endpoint_range EndpointSequence>
  endpoint_type connect(const EndpointSequence& servers)
  {
    return detail::or_throw(
      "stream::connect", [&](error_code& ec) { return connect(servers, ec); });
  }

  /// Sets a time limit for connecting, waiting, reading and writing, in the manner of
  /// boost::beast::tcp_stream.
  /**
   * When it is exceeded during an asynchronous operation, the stream closes, and its operations end
   * with boost::beast::error::timeout. An operation that starts later ends so at once. One limit
   * applies to both directions, until another one is set. Synchronous functions have none.
   *
   * A handler of the stream's executor closes it: if several threads run the context, that executor
   * must be a strand.
   *
   * Precondition: not moved from, and no operation is outstanding.
   */
  void expires_after(std::chrono::nanoseconds time)
  {
    using clock = std::chrono::steady_clock;
    const clock::time_point now = clock::now();
    const bool never = time >= clock::time_point::max() - now;
    expires_at(never ? clock::time_point::max() : now + std::chrono::ceil<clock::duration>(time));
  }

  /// Sets the time limit likewise.
  void expires_at(std::chrono::steady_clock::time_point time)
  {
    detail::limit_stream(this->executor_, this->core_, time);
  }

  /// Ends the time limit.
  void expires_never()
  {
    if (this->core_->deadline)
      expires_at(std::chrono::steady_clock::time_point::max());
  }

  /// Sets whether the synchronous functions end with boost::asio::error::would_block instead of
  /// waiting.
  /** connect() always waits. Precondition: not moved from. */
  void non_blocking(bool mode) { this->core_->non_blocking = mode; }
  /// Sets it likewise; ec is always cleared.
  void non_blocking(bool mode, error_code& ec)
  {
    ec = {};
    non_blocking(mode);
  }
  /// Returns true if the synchronous functions do not wait. Initially they do.
  [[nodiscard]] bool non_blocking() const { return this->core_->non_blocking; }

  /// Returns the stream.
  [[nodiscard]] lowest_layer_type& lowest_layer() noexcept { return *this; }
  /// Returns the stream.
  [[nodiscard]] const lowest_layer_type& lowest_layer() const noexcept { return *this; }

  /// Returns the queue pair's transport. Precondition: not moved from.
  /** Over TCP its wire is wire::socket, and its member `declined` contains the reason. */
  [[nodiscard]] transport_choice transport() const { return this->core_->transport(); }

  /// Returns the local address and port of the TCP connection, or nothing specified for a stream
  /// that was made of a queue pair. Precondition: not moved from.
  [[nodiscard]] endpoint_type local_endpoint() const { return this->core_->local_endpoint(); }
  /// Returns the peer's address and port, likewise.
  [[nodiscard]] endpoint_type remote_endpoint() const { return this->core_->remote_endpoint(); }

  /// Returns the number of bytes that can be read without waiting. Precondition: not moved from.
  [[nodiscard]] std::size_t available() const { return this->core_->available(); }
  /// Returns it likewise; ec is always cleared.
  [[nodiscard]] std::size_t available(error_code& ec) const
  {
    ec = {};
    return available();
  }

  /// A sequence of up to 16 buffers with received bytes: Asio's ConstBufferSequence.
  using const_buffers_type = detail::stream_core::sources;

  /// Returns bytes that have arrived, in memory of the stream, without a copy.
  /**
   * They remain valid until consume() or the next read, also if the stream ends. After async_wait()
   * with wait_read there is at least one byte, unless the peer has ended its bytes or the
   * connection. A wait also ends at once for bytes that were seen before and not consumed. Over TCP
   * the bytes are copied from the kernel, at most 64 KiB at once.
   *
   * A hostile peer can change bytes until they are consumed: copy them before you check them.
   *
   * Precondition: not moved from, and no read is outstanding.
   */
  [[nodiscard]] const_buffers_type peek() { return this->core_->peek(); }

  /// Ends the use of the first bytes that peek() returned: the peer may write others.
  /**
   * Precondition: not moved from.
   *
   * @param size At most as many as peek() returned; otherwise all of them end.
   */
  void consume(std::size_t size) { this->core_->consume(size); }

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
    detail::throw_if(ec, "stream::shutdown");
  }

  /// Waits until the stream can be read or written without waiting, or has an error.
  /**
   * @param what wait_read: bytes have arrived, or the peer has ended its bytes or the connection.
   * wait_write: a write can move bytes, or fails. wait_error: the connection has ended.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code) @endcode
   *
   * @par Errors
   * @li operation_aborted: the stream was closed, or the operation cancelled.
   * @li error::not_connected: async_connect() has not completed.
   * @li error::closed: the stream was closed or moved from before.
   * @li error::forked: the stream was made in the parent process.
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the operation.
   */
  template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_wait(wait_type what,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code)>(
      detail::initiation(this->executor_,
        [core = this->core_](const auto& executor, auto&& handler, wait_type condition)
        {
          const bool on_executor = detail::is_on_executor(executor, handler);
          detail::start_wait(
            executor, core.get(), condition, std::forward<decltype(handler)>(handler), on_executor);
        }),
      token, what);
  }

  /// Waits likewise in the call.
  void wait(wait_type what, error_code& ec)
  {
    if (this->core_)
      this->core_->wait(what, !non_blocking(), ec);
    else
      ec = error::closed;
  }

  /// Waits likewise; throws system_error.
  void wait(wait_type what)
  {
    error_code ec;
    wait(what, ec);
    detail::throw_if(ec, "stream::wait");
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
        [core = this->core_](const auto& executor, auto&& handler, const auto& to)
        {
          const bool on_executor = detail::is_on_executor(executor, handler);
          detail::start_read_some(
            executor, core.get(), to, std::forward<decltype(handler)>(handler), on_executor);
        }),
      token, detail::stream_core::targets(buffers));
  }

  /// Reads likewise in the call, and returns the number of bytes.
  template <class MutableBufferSequence>
  std::size_t read_some(const MutableBufferSequence& buffers, error_code& ec)
  {
    ec = error::closed;
    return this->core_
      ? this->core_->read_some(detail::stream_core::targets(buffers), !non_blocking(), ec)
      : 0;
  }

  /// Reads likewise; throws system_error.
  template <class MutableBufferSequence>
  std::size_t read_some(const MutableBufferSequence& buffers)
  {
    return detail::or_throw(
      "stream::read_some", [&](error_code& ec) { return read_some(buffers, ec); });
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
          const bool on_executor = detail::is_on_executor(executor, handler);
          detail::start_write_some(
            executor, core.get(), from, std::forward<decltype(handler)>(handler), on_executor);
        }),
      token, detail::stream_core::sources(buffers));
  }

  /// Writes likewise in the call, and returns the number of bytes. They are copied.
  template <class ConstBufferSequence>
  std::size_t write_some(const ConstBufferSequence& buffers, error_code& ec)
  {
    ec = error::closed;
    return this->core_
      ? this->core_->write_some(detail::stream_core::sources(buffers), !non_blocking(), ec)
      : 0;
  }

  /// Writes likewise; throws system_error.
  template <class ConstBufferSequence>
  std::size_t write_some(const ConstBufferSequence& buffers)
  {
    return detail::or_throw(
      "stream::write_some", [&](error_code& ec) { return write_some(buffers, ec); });
  }
};

} // namespace rdma

#endif // BOOST_RDMA_BASIC_STREAM_HPP

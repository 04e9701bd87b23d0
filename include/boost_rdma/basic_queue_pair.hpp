//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_BASIC_QUEUE_PAIR_HPP
#define BOOST_RDMA_BASIC_QUEUE_PAIR_HPP

#include <boost_rdma/batch.hpp>
#include <boost_rdma/connect_options.hpp>
#include <boost_rdma/context.hpp>
#include <boost_rdma/detail/connector.hpp>
#include <boost_rdma/detail/initiate.hpp>
#include <boost_rdma/detail/initiation.hpp>
#include <boost_rdma/detail/inner_executor.hpp>
#include <boost_rdma/detail/io_object.hpp>
#include <boost_rdma/detail/queue_pair_handle.hpp>
#include <boost_rdma/diagnosis.hpp>
#include <boost_rdma/endpoint_description.hpp>
#include <boost_rdma/memory_window.hpp>
#include <boost_rdma/message.hpp>
#include <boost_rdma/queue_pair_options.hpp>
#include <boost_rdma/remote_buffer.hpp>
#include <boost_rdma/transport_choice.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace rdma {

template <class Executor>
class basic_agent;

/// A reliable connection (IBV_QPT_RC, IBA 9.7) as an Asio I/O object.
/**
 * Operations are posted to the device in the order of their initiating calls. Receives complete in
 * that order among themselves, and so do all other operations. Operations that do not fit into the
 * device's queue wait inside the queue pair object.
 *
 * @par Buffers
 * A buffer belongs to the operation from the initiating call until its handler is called. The
 * operation keeps the buffer registered for that time. Memory that the program allocated itself
 * must remain valid for that time.
 *
 * @par
 * Sends, receives, writes and reads also take plain memory, which is not registered
 * (boost::asio::buffer(), std::span). Buffers of at most queue_pair_options::copy_max bytes are
 * copied. Larger buffers are registered, and the registration is cached for later operations. When
 * the handler is called with success, the received or read data is in the plain memory. After an
 * error, buffers that would have been copied are unchanged. Batches and memory windows take
 * registered memory only.
 *
 * @par Handlers
 * Every handler is called exactly once, on its associated executor, and never inside the initiating
 * call. If the queue pair is closed or destroyed, outstanding operations complete with
 * boost::asio::error::operation_aborted, once the device no longer uses their buffers.
 *
 * @par Closing
 * close() and the destructor end the connection at once. Data that has not arrived may be lost; use
 * async_shutdown() to lose none. The peer is notified over the control channel (the TCP or TLS
 * stream of the handshake) or by RDMA-CM. A connection made by connect() has neither. There is no
 * cancel(): cancel single operations through their cancellation slots. is_open() returns false
 * after close() and after a move from the object. get_executor() returns the executor passed to the
 * constructor. On an object that was moved from, every operation completes with error::closed.
 *
 * @par Errors of the device
 * An error of the device (rdma::wc_status) moves the queue pair to the error state (IBA 10.3.1).
 * All outstanding operations complete with wc_status::flushed, although some may have been carried
 * out. The queue pair cannot be used again. diagnose() describes the first failure.
 *
 * @par
 * If the device fails or is removed, all operations end with error::device_lost; see
 * rdma::device_events. Features that the device lacks (atomics, immediate data) complete with
 * operation_not_supported, and diagnose() names the feature.
 *
 * @par Errors
 * The following errors are found before posting and affect only the operation. Every operation can
 * complete with:
 * @li error::closed: the queue pair was closed or moved from before the call.
 * @li error::not_connected: the queue pair is not connected yet. Receives do not need a connection.
 * @li error::peer_closed: the peer closed the connection.
 * @li error::peer_lost: the peer's process or host is gone.
 * @li error::queue_too_deep: 32768 operations are outstanding already.
 * @li error::forked: the queue pair was made in the parent process.
 * @li operation_not_supported: the device lacks the feature.
 *
 * @par
 * Operations with buffers:
 * @li error::empty_buffer: the buffers have no bytes.
 * @li error::wrong_context: a buffer is registered in another context or protection domain.
 * @li error::too_many_buffers: the sequence has more buffers than options() allow.
 * @li error::message_too_large: the message is larger than device::max_message_size().
 * @li error::read_only: a receive or read into memory that was registered as const.
 *
 * @par
 * Operations with remote memory:
 * @li error::remote_range_too_small: the remote range is smaller than the local buffers.
 * @li error::no_remote_key: the remote memory has no key for this queue pair's device.
 * @li error::remote_right_missing: the owner of the remote memory did not grant the right.
 * @li error::misaligned_atomic: the address of an atomic operation is not a multiple of 8, or the
 *     range is smaller than 8 bytes.
 *
 * @par
 * Operations with plain memory:
 * @li error::pool_exhausted: the pool for copies reached its limit.
 * @li ENOMEM: registering would exceed the limit of locked memory.
 * @li EFAULT: the memory is not mapped, or cannot be written to.
 * @li other errors of registering memory.
 *
 * @par
 * Windows and batches:
 * @li error::not_exposed: the memory of a window lacks access::window_bind, or is plain memory.
 * @li error::bad_batch: the batch is empty.
 * @li error::not_registered: a batch contains plain memory.
 *
 * @par After fork()
 * In the child process, every operation on a queue pair of the parent ends with error::forked.
 * Destroying the queue pair there does not affect the parent. If the child continues to use the
 * io_context, call io_context::notify_fork() around fork(), as Asio requires. Operations that were
 * outstanding then end with error::forked in the child and continue in the parent. async_connect()
 * is an exception: an outstanding one completes only in the parent. In the child it never
 * completes, and keeps run() from returning.
 *
 * @par Per-operation cancellation
 * terminal, partial and total cancellation withdraw an operation that has not been posted yet, for
 * instance because the device's queue is full. After it was posted, only terminal cancellation ends
 * it, by moving the queue pair to the error state (verbs provides no other way). The operation
 * completes with operation_aborted when the device has flushed it.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe, as with Asio's sockets: use a strand.
 */
template <class Executor = boost::asio::any_io_executor>
class basic_queue_pair : public detail::io_object<Executor, detail::queue_pair_core>
{
  using base = detail::io_object<Executor, detail::queue_pair_core>;

public:
  /// The executor type, for handlers without an associated executor.
  using executor_type = Executor;

  /// Rebinds the type to another executor.
  template <class OtherExecutor>
  struct rebind_executor
  {
    /// The same type with that executor.
    using other = basic_queue_pair<OtherExecutor>;
  };

  // Default arguments are spelt out because GCC 12 copies a `{}` default argument bit by bit if the
  // same expression has a co_await, as in queue_pair(co_await this_coro::executor, context).

  /// Creates a queue pair in the state INIT (ibv_create_qp(3), ibv_modify_qp(3)).
  /**
   * Receives can be posted to it before it is connected.
   *
   * @param executor Executor for handlers without an associated executor. If it is a strand,
   * handlers run on the strand, but completions are polled on the strand's inner executor.
   * @param domain Protection domain for the buffers; a context converts to one.
   * @param options Depths, limits, retries and devices. They cannot be changed later.
   *
   * @throws system_error With one of these errors:
   * @li error::queue_too_deep: a depth is beyond the device's limit.
   * @li error::no_device: the context has not opened a device of that name.
   * @li error::device_lost: the device failed or was removed.
   * @li error::wrong_context: the completion queue or shared receive queue belongs to another
   *     device, or the shared receive queue to another protection domain.
   * @li the error of ibv_create_qp or ibv_modify_qp.
   */
  basic_queue_pair(const executor_type& executor, const protection_domain& domain,
    const queue_pair_options& options = queue_pair_options())
    : base(executor,
      detail::make_queue_pair(detail::inner_executor(executor),
        detail::inner_executor(executor) == boost::asio::any_io_executor(executor), domain,
        options))
  {
  }

  /// Creates a queue pair in the context's own protection domain.
  basic_queue_pair(const executor_type& executor, const rdma::context& context,
    const queue_pair_options& options = queue_pair_options())
    : basic_queue_pair(executor, protection_domain(context), options)
  {
  }

  /// Creates a queue pair with the executor of an execution context.
  template <class ExecutionContext>
    requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
  basic_queue_pair(ExecutionContext& owner, const protection_domain& domain,
    const queue_pair_options& options = queue_pair_options())
    : basic_queue_pair(executor_type(owner.get_executor()), domain, options)
  {
  }

  /// Creates a queue pair with the executor of an execution context, in the context's own
  /// protection domain.
  template <class ExecutionContext>
    requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
  basic_queue_pair(ExecutionContext& owner, const rdma::context& context,
    const queue_pair_options& options = queue_pair_options())
    : basic_queue_pair(executor_type(owner.get_executor()), protection_domain(context), options)
  {
  }

  /// For the library itself: takes ownership of a core.
  basic_queue_pair(const executor_type& executor, std::shared_ptr<detail::queue_pair_core> core)
    : base(executor, std::move(core))
  {
  }

  /// Returns the context for this queue pair's buffers. Precondition: not moved from.
  [[nodiscard]] rdma::context context() const { return detail::context_of(*core_); }

  /// Returns the options, limited to what the device supports. Precondition: not moved from.
  [[nodiscard]] const queue_pair_options& options() const noexcept
  {
    return detail::options_of(*core_);
  }

  /// Returns the queue pair number, which is also in message::queue_pair_number (ibv_qp::qp_num).
  /** It changes if the queue pair falls back to another device during connecting. Precondition: not
   * moved from. */
  [[nodiscard]] std::uint32_t number() const { return detail::number_of(*core_); }

  /// Returns true if the queue pair is connected, not closed and not in the error state.
  [[nodiscard]] bool is_connected() const { return core_ && detail::is_connected(*core_); }

  /// Returns the reason for the error state; diagnosis::code is success outside the error state.
  /** Precondition: not moved from. */
  [[nodiscard]] diagnosis diagnose() const { return detail::diagnosis_of(*core_); }

  /// Returns the verbs queue pair, for direct calls (<boost_rdma/native.hpp>). Null if the object
  /// was moved from or the device has destroyed the queue pair.
  [[nodiscard]] ibv_qp* native_handle() const
  {
    return core_ ? detail::native_of(*core_) : nullptr;
  }

  /// Returns the description that the peer passes to connect().
  /**
   * The queue pair stays on its device after this call: it does not fall back.
   *
   * @param local The address by which the peer reaches this host. It selects the port and the GID,
   * RoCE v2 before v1. Without it, or with a loopback address that the device does not have, the
   * first GID that other hosts can reach is selected: IPv4 before IPv6, link-local last.
   * options().local_address takes precedence over this parameter.
   *
   * @throws system_error With one of these errors:
   * @li error::no_local_gid: no GID of the device belongs to the address.
   * @li error::closed: the queue pair was closed or moved from.
   * @li error::forked: the queue pair was made in the parent process.
   * @li error::device_lost: the device failed or was removed.
   * @li operation_not_supported: the device is iWARP, which connects by RDMA-CM only.
   * @li boost::asio::error::invalid_argument: an option is out of range.
   */
  [[nodiscard]] endpoint_description local_endpoint(
    const std::optional<boost::asio::ip::address>& local = {})
  {
    return detail::or_throw("queue_pair::local_endpoint",
      [&](error_code& ec) { return detail::local_endpoint_of(core_.get(), local, ec); });
  }

  /// Connects to a peer whose description the program exchanged itself.
  /**
   * Both sides call local_endpoint() first, exchange the results, and call connect(). It moves the
   * queue pair to RTR and RTS (ibv_modify_qp(3)) and returns at once. An absent peer is detected
   * only by the first operation (wc_status::retry_exceeded).
   *
   * The connection has no control channel. async_shutdown() and agent() need one, and only a
   * failing operation shows that the peer is gone.
   *
   * @param remote The result of the peer's local_endpoint().
   * @param ec Set to indicate the error, if any:
   * @li error::not_connected: local_endpoint() was not called before.
   * @li error::no_common_transport: the two devices have no transport in common.
   * @li error::other_address_family: one side uses IPv4 and the other IPv6.
   * @li error::already_connected: the queue pair was connected before.
   * @li error::closed: the queue pair was closed or moved from.
   * @li error::forked: the queue pair was made in the parent process.
   * @li error::device_lost: the device failed or was removed.
   * @li the error of ibv_modify_qp.
   */
  void connect(const endpoint_description& remote, error_code& ec)
  {
    detail::connect_core(core_.get(), remote, ec);
  }

  /// Connects to a peer whose description the program exchanged itself; throws system_error.
  void connect(const endpoint_description& remote)
  {
    error_code ec;
    connect(remote, ec);
    if (ec)
      throw system_error(ec, "queue_pair::connect");
  }

  /// Connects to an rdma::acceptor, or to a server that answers with async_upgrade().
  /**
   * The handshake is an HTTP/1.1 upgrade on a TCP connection. Both sides agree on a transport: that
   * of their NICs, if these use the same protocol (InfiniBand, RoCE v2, RoCE v1), otherwise the
   * software device. Each side then sends a message by RDMA. The handlers are called after both
   * messages have been acknowledged by the receiving devices. transport() returns the choice, and
   * why no better transport was chosen.
   *
   * The TCP connection remains open as the control channel. Its heartbeats detect that the peer's
   * process or host is gone or stopped (error::peer_lost; queue_pair_options::heartbeat_limit). A
   * thread of the library serves the channel. An idle connection does not keep io_context::run()
   * from returning.
   *
   * @param peer TCP endpoint of the server.
   * @param options Data and headers for the server.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code) @endcode
   * Success: messages can be sent in both directions by RDMA.
   *
   * @par Errors
   * @li the error of connecting the TCP socket.
   * @li error::not_an_acceptor: the peer did not answer as an rdma::acceptor does.
   * @li error::version_mismatch: the peer uses another version of the protocol.
   * @li error::refused: the peer refused the connection.
   * @li error::no_common_transport: the two sides have no transport in common; diagnose() contains
   *     the reasons.
   * @li error::path_not_confirmed: no message arrived on the chosen transport; diagnose() contains
   *     the reasons.
   * @li error::malformed_description: the peer's description cannot be read.
   * @li error::peer_lost: the peer closed the TCP connection during the handshake.
   * @li error::no_local_gid: the local address of the TCP connection, or
   *     queue_pair_options::local_address, is not an address of the device, and the queue pair must
   *     not fall back (queue_pair_options::fall_back).
   * @li error::other_address_family: one side uses IPv4 and the other IPv6.
   * @li error::handshake_timeout: options().connect_timeout expired.
   * @li error::already_connected: the queue pair was connected before, or a previous attempt
   *     failed. Create a new queue pair.
   * @li operation_aborted: the queue pair was closed during the operation.
   * @li error::closed: the queue pair was closed or moved from before the call.
   * @li error::device_lost: the device failed or was removed.
   * @li error::forked: the queue pair was made in the parent process.
   * @li boost::asio::error::invalid_argument: an option of the queue pair is out of range, or the
   *     connect_options do not fit into an HTTP request.
   * @li the error of starting a thread.
   *
   * @par Per-operation cancellation
   * terminal, partial and total. After a cancellation the queue pair can only be closed.
   */
  template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_connect(const boost::asio::ip::tcp::endpoint& peer, const connect_options& options,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code)>(
      detail::initiation(executor_,
        [core = core_](const auto& executor, auto&& handler, const auto& to, const auto& how) {
          detail::start_connect(executor, core, to, how, std::forward<decltype(handler)>(handler));
        }),
      token, peer, options);
  }

  /// Connects with default connect_options.
  /**
   * @param peer TCP endpoint of the server.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code) @endcode
   *
   * @par Per-operation cancellation
   * terminal, partial and total. After a cancellation the queue pair can only be closed.
   */
  template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_connect(const boost::asio::ip::tcp::endpoint& peer,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return async_connect(peer, connect_options(), std::forward<CompletionToken>(token));
  }

  /// Returns the transport of this connection, and why no better one was chosen. Precondition: not
  /// moved from.
  [[nodiscard]] transport_choice transport() const { return detail::transport_of(*core_); }

  /// Returns the data that the peer's program sent while connecting (connect_options::data,
  /// authorisation::data).
  /** Do not trust it. It has at most connect_options::data_size_max bytes. Precondition: not moved
   * from. */
  [[nodiscard]] std::string peer_data() const { return detail::peer_data_of(*core_); }

  /// Ends the connection after everything sent by both sides has arrived.
  /**
   * Operations of this side that were initiated before continue. Later ones, except receives, end
   * with boost::asio::error::shut_down. When the last send, write, read or atomic of this side has
   * completed, the peer is notified. On the peer's side, operations that were initiated before the
   * notification continue. Later ones, except receives, end with error::peer_closed.
   *
   * The connection ends when the peer's operations have completed, too. Receives that remain end
   * with operation_aborted on this side, and with error::peer_closed on the peer's side.
   *
   * If the peer posts no receive for a message, the shutdown waits for one. Combine it with a
   * timeout if that can happen.
   *
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code) @endcode
   * Success: everything that both sides sent has arrived. Also if a shutdown of the peer ended the
   * connection before this call.
   *
   * @par Errors
   * @li error::not_connected: the queue pair is not connected.
   * @li error::closed: the queue pair was closed or moved from.
   * @li operation_not_supported: the queue pair was connected by connect() and has no control
   *     channel.
   * @li error::peer_lost: the peer was lost before the shutdown finished.
   * @li error::peer_closed: the peer closed without a shutdown.
   * @li the error of the operation that ended the connection before.
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the wait, not the shutdown. close() ends the shutdown.
   */
  template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_shutdown(
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code)>(
      detail::initiation(executor_,
        [core = core_](const auto& executor, auto&& handler) {
          detail::start_shutdown(executor, core.get(), std::forward<decltype(handler)>(handler));
        }),
      token);
  }

  /// Waits until the connection has ended, for any reason.
  /**
   * Any number of waits may be outstanding, also before connecting. An outstanding wait keeps
   * io_context::run() from returning, as that of a timer does.
   *
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code) @endcode
   * Success: an async_shutdown() of this side ended the connection.
   *
   * @par Errors
   * @li error::peer_closed: the peer closed the connection or shut it down.
   * @li error::peer_lost: the peer's process or host is gone.
   * @li operation_aborted: the queue pair was closed.
   * @li error::forked: the queue pair was made in the parent process.
   * @li error::device_lost: the device failed or was removed.
   * @li the error of the operation that moved the queue pair to the error state.
   * @li the error of connecting, if that failed.
   *
   * @par Per-operation cancellation
   * terminal, partial and total withdraw the wait.
   */
  template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_wait_close(
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code)>(
      detail::initiation(executor_,
        [core = core_](const auto& executor, auto&& handler) {
          detail::start_wait_close(executor, core.get(), std::forward<decltype(handler)>(handler));
        }),
      token);
  }

  /// Sends a message and completes when the peer's device has received it (ibv_post_send(3),
  /// IBV_WR_SEND).
  /**
   * The message consumes the oldest receive that the peer has posted. If none is posted, the device
   * retries as set by queue_pair_options::rnr_retry_count.
   *
   * @pre Connected.
   *
   * @param buffers The data to send: at most options().max_send_sge buffers and
   * device::max_message_size() bytes. rdma::no_data sends a message without bytes.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::size_t) @endcode
   * The number of bytes sent: all or none.
   *
   * @par Errors
   * In addition to the errors of the class:
   * @li error::not_connected: the queue pair is not connected.
   * @li error::empty_buffer: the buffers have no bytes. Use rdma::no_data instead.
   * @li wc_status::rnr_retry_exceeded: the peer posted no receive in time.
   * @li wc_status::remote_invalid_request_error: the message is larger than the peer's receive.
   *
   * @par Per-operation cancellation
   * terminal, partial and total before the operation is posted. After that terminal only, which
   * moves the queue pair to the error state.
   *
   * @see The description of the class for buffers and errors.
   */
  template <const_buffer_sequence Buffers,
    boost::asio::completion_token_for<void(error_code, std::size_t)> CompletionToken =
      boost::asio::default_completion_token_t<executor_type>>
  auto async_send(const Buffers& buffers,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return initiate<CompletionToken, detail::bytes_result, void(error_code, std::size_t)>(
      token, {.kind = detail::request_kind::send}, buffers);
  }

  /// Sends a message with 32 bits of immediate data for the receiver's message::immediate
  /// (IBV_WR_SEND_WITH_IMM).
  /**
   * Otherwise the same as async_send().
   *
   * @param buffers See async_send().
   * @param immediate Immediate data in host byte order.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::size_t) @endcode
   * The number of bytes sent without the immediate data: all or none.
   *
   * @par Errors
   * In addition to the errors of async_send():
   * @li operation_not_supported: one of the two devices has no immediate data (iWARP); see
   *     device::has_immediate_data().
   *
   * @par Per-operation cancellation
   * terminal, partial and total before the operation is posted. After that terminal only, which
   * moves the queue pair to the error state.
   */
  template <const_buffer_sequence Buffers,
    boost::asio::completion_token_for<void(error_code, std::size_t)> CompletionToken =
      boost::asio::default_completion_token_t<executor_type>>
  auto async_send_with_immediate(const Buffers& buffers, std::uint32_t immediate,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return initiate<CompletionToken, detail::bytes_result, void(error_code, std::size_t)>(
      token, {.kind = detail::request_kind::send_with_immediate, .immediate = immediate}, buffers);
  }

  /// Sends a message and invalidates a key of the peer (IBV_WR_SEND_WITH_INV).
  /**
   * Otherwise the same as async_send(). When the peer's async_receive_message() completes, the
   * memory window with that key is closed. A key that the peer's device cannot invalidate ends the
   * connection.
   *
   * @param buffers See async_send().
   * @param key The key of a type 2 memory window that the peer bound for this queue pair:
   * remote_buffer::key(). The receiver finds it in message::invalidated_key.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::size_t) @endcode
   * The number of bytes sent: all or none.
   *
   * @par Per-operation cancellation
   * terminal, partial and total before the operation is posted. After that terminal only, which
   * moves the queue pair to the error state.
   */
  template <const_buffer_sequence Buffers,
    boost::asio::completion_token_for<void(error_code, std::size_t)> CompletionToken =
      boost::asio::default_completion_token_t<executor_type>>
  auto async_send_with_invalidate(const Buffers& buffers, std::uint32_t key,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return initiate<CompletionToken, detail::bytes_result, void(error_code, std::size_t)>(
      token, {.kind = detail::request_kind::send_with_invalidate, .immediate = key}, buffers);
  }

  /// Receives the next message (ibv_post_recv(3)).
  /**
   * Call it before the queue pair is connected if possible: a message that arrives without a posted
   * receive must be repeated (RNR NAK, IBA 9.7.5.2.8). Receives take messages in the order in which
   * they were initiated.
   *
   * @param buffers Destination: at most options().max_receive_sge buffers. A message larger than
   * the buffers moves the queue pairs of both sides to the error state. rdma::no_data receives
   * messages without bytes, and the immediate data of writes.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::size_t) @endcode
   * The number of bytes received into the buffers. It is 0 for a write with immediate data, whose
   * data is stored elsewhere.
   *
   * @par Errors
   * In addition to the errors of the class:
   * @li operation_not_supported: the queue pair uses a shared receive queue; receive on that.
   *
   * @par Per-operation cancellation
   * terminal, partial and total before the operation is posted. After that terminal only, which
   * moves the queue pair to the error state.
   */
  template <mutable_buffer_sequence Buffers,
    boost::asio::completion_token_for<void(error_code, std::size_t)> CompletionToken =
      boost::asio::default_completion_token_t<executor_type>>
  auto async_receive(const Buffers& buffers,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return initiate<CompletionToken, detail::receive_result, void(error_code, std::size_t)>(
      token, {.kind = detail::request_kind::receive}, buffers);
  }

  /// Receives the next message and describes it: size, immediate data, invalidated key.
  /**
   * Otherwise the same as async_receive().
   *
   * @param buffers See async_receive().
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::message) @endcode
   * The message has no meaning if there is an error.
   *
   * @par Per-operation cancellation
   * terminal, partial and total before the operation is posted. After that terminal only, which
   * moves the queue pair to the error state.
   */
  template <mutable_buffer_sequence Buffers,
    boost::asio::completion_token_for<void(error_code, message)> CompletionToken =
      boost::asio::default_completion_token_t<executor_type>>
  auto async_receive_message(const Buffers& buffers,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return initiate<CompletionToken, detail::message_result, void(error_code, message)>(
      token, {.kind = detail::request_kind::receive}, buffers);
  }

  /// Writes to memory that the peer exposed and completes when the peer's memory contains the data
  /// (IBV_WR_RDMA_WRITE, IBA 9.4.3).
  /**
   * The peer's processor is not involved.
   *
   * @pre Connected.
   *
   * @param local The data to write: at most options().max_send_sge buffers.
   * @param remote Destination; the data is written to its beginning.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::size_t) @endcode
   * The number of bytes written: all, or 0 if there is an error. Data may have been written even
   * then.
   *
   * @par Errors
   * In addition to the errors of the class:
   * @li error::not_connected: the queue pair is not connected.
   * @li error::remote_range_too_small: `remote` has fewer bytes than `local`.
   * @li error::remote_right_missing: `remote` lacks access::remote_write.
   * @li wc_status::remote_access_error: the peer did not expose that memory for writing. The
   *     connection ends.
   *
   * @par Per-operation cancellation
   * terminal, partial and total before the operation is posted. After that terminal only, which
   * moves the queue pair to the error state.
   */
  template <const_buffer_sequence Buffers,
    boost::asio::completion_token_for<void(error_code, std::size_t)> CompletionToken =
      boost::asio::default_completion_token_t<executor_type>>
  auto async_write(const Buffers& local, const remote_buffer& remote,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return initiate<CompletionToken, detail::bytes_result, void(error_code, std::size_t)>(
      token, {.kind = detail::request_kind::write, .remote = remote}, local);
  }

  /// Writes to memory that the peer exposed and completes a receive of the peer with 32 bits of
  /// immediate data (IBV_WR_RDMA_WRITE_WITH_IMM).
  /**
   * Otherwise the same as async_write(). When the peer's receive completes, the data is in its
   * memory. The operation consumes a receive that the peer posted, as a send does.
   *
   * @param local See async_write(). With rdma::no_data only the immediate data arrives, and
   * `remote` is ignored.
   * @param remote See async_write().
   * @param immediate Immediate data for message::immediate, in host byte order.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::size_t) @endcode
   * The number of bytes written: all, or 0 if there is an error. Data may have been written even
   * then.
   *
   * @par Errors
   * In addition to the errors of async_write():
   * @li operation_not_supported: one of the two devices has no immediate data (iWARP).
   *
   * @par Per-operation cancellation
   * terminal, partial and total before the operation is posted. After that terminal only, which
   * moves the queue pair to the error state.
   */
  template <const_buffer_sequence Buffers,
    boost::asio::completion_token_for<void(error_code, std::size_t)> CompletionToken =
      boost::asio::default_completion_token_t<executor_type>>
  auto async_write_with_immediate(const Buffers& local, const remote_buffer& remote,
    std::uint32_t immediate,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return initiate<CompletionToken, detail::bytes_result, void(error_code, std::size_t)>(token,
      {.kind = detail::request_kind::write_with_immediate,
        .immediate = immediate,
        .remote = remote},
      local);
  }

  /// Reads memory that the peer exposed (IBV_WR_RDMA_READ).
  /**
   * The peer's processor is not involved. The number of reads and atomics in flight is limited to
   * transport_choice::read_atomic_depth.
   *
   * @pre Connected.
   *
   * @param local Destination: at most options().max_send_sge buffers, in memory with
   * access::local_write.
   * @param remote Source; as many bytes as `local` holds are read from its beginning.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::size_t) @endcode
   * The number of bytes read: all or none. The content of the buffers is undefined if there is an
   * error.
   *
   * @par Errors
   * In addition to the errors of the class:
   * @li error::not_connected: the queue pair is not connected.
   * @li error::remote_range_too_small: `remote` has fewer bytes than `local`.
   * @li error::remote_right_missing: `remote` lacks access::remote_read.
   * @li wc_status::local_protection_error: the memory of `local` lacks access::local_write.
   * @li wc_status::remote_access_error: the peer did not expose that memory for reading. The
   *     connection ends.
   *
   * @par Per-operation cancellation
   * terminal, partial and total before the operation is posted. After that terminal only, which
   * moves the queue pair to the error state.
   */
  template <mutable_buffer_sequence Buffers,
    boost::asio::completion_token_for<void(error_code, std::size_t)> CompletionToken =
      boost::asio::default_completion_token_t<executor_type>>
  auto async_read(const Buffers& local, const remote_buffer& remote,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return initiate<CompletionToken, detail::bytes_result, void(error_code, std::size_t)>(
      token, {.kind = detail::request_kind::read, .remote = remote}, local);
  }

  /// Adds to a 64-bit number in memory that the peer exposed (IBV_WR_ATOMIC_FETCH_AND_ADD, IBA
  /// 9.4.5).
  /**
   * The operation is atomic with respect to other operations of the peer's device. For atomicity
   * with respect to the peer's processor see ibv_device_attr::atomic_cap (ibv_query_device(3)).
   * In the peer's memory, the number has the peer's byte order.
   *
   * @param remote The number: at least 8 bytes at an address that is a multiple of 8, exposed with
   * access::remote_atomic.
   * @param addend Value to add. The sum is modulo 2^64.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::uint64_t) @endcode
   * The previous value of the number.
   *
   * @par Errors
   * In addition to the errors of the class:
   * @li error::misaligned_atomic: the address is not a multiple of 8, or the range is smaller than
   *     8 bytes.
   * @li error::remote_right_missing: `remote` lacks access::remote_atomic.
   * @li operation_not_supported: one of the two devices has no atomics.
   *
   * @par Per-operation cancellation
   * terminal, partial and total before the operation is posted. After that terminal only, which
   * moves the queue pair to the error state.
   */
  template <boost::asio::completion_token_for<void(error_code, std::uint64_t)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_fetch_add(const remote_buffer& remote, std::uint64_t addend,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return initiate<CompletionToken, detail::value_result, void(error_code, std::uint64_t)>(token,
      {.kind = detail::request_kind::fetch_add, .remote = remote, .compare_or_add = addend},
      no_data);
  }

  /// Replaces a 64-bit number in memory that the peer exposed, if it equals `expected`
  /// (IBV_WR_ATOMIC_CMP_AND_SWP, IBA 9.4.5).
  /**
   * Atomicity, byte order and errors are those of async_fetch_add().
   *
   * @param remote The number, at an address that is a multiple of 8. Bytes after the first 8 are
   * ignored.
   * @param expected Value that the number is compared with.
   * @param desired The new value.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::uint64_t) @endcode
   * The previous value of the number. It equals `expected` if the number was replaced.
   *
   * @par Per-operation cancellation
   * terminal, partial and total before the operation is posted. After that terminal only, which
   * moves the queue pair to the error state.
   */
  template <boost::asio::completion_token_for<void(error_code, std::uint64_t)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_compare_exchange(const remote_buffer& remote, std::uint64_t expected,
    std::uint64_t desired,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return initiate<CompletionToken, detail::value_result, void(error_code, std::uint64_t)>(token,
      {.kind = detail::request_kind::compare_exchange,
        .remote = remote,
        .compare_or_add = expected,
        .swap = desired},
      no_data);
  }

  /// Binds a memory window to a part of a region, for this queue pair's peer (IBV_WR_BIND_MW, type
  /// 2, ibv_bind_mw(3)).
  /**
   * The region stays registered as long as the window is bound to it.
   *
   * @pre Connected.
   *
   * @param window An unbound or invalidated window of this queue pair's device and protection
   * domain.
   * @param range Part of a region with access::window_bind.
   * @param rights Rights of the peer; remote_ rights only. All except remote_read require a region
   * with access::local_write.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::remote_buffer) @endcode
   * The handle for the peer. Its key is different after each bind.
   *
   * @par Errors
   * In addition to the errors of the class:
   * @li error::not_connected: the queue pair is not connected.
   * @li error::wrong_context: the window belongs to another device or protection domain.
   * @li error::closed: the window was moved from.
   * @li error::not_exposed: the region lacks access::window_bind, or the memory is plain memory.
   * @li wc_status::memory_window_bind_error: the window is bound already. The connection ends.
   *
   * @par Per-operation cancellation
   * terminal, partial and total before the operation is posted. After that terminal only, which
   * moves the queue pair to the error state.
   */
  template <boost::asio::completion_token_for<void(error_code, remote_buffer)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_bind_window(const memory_window& window, const mutable_buffer& range, access rights,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return initiate<CompletionToken, detail::window_result, void(error_code, remote_buffer)>(token,
      {.kind = detail::request_kind::bind_window, .window_rights = rights}, range, window.impl());
  }

  /// Invalidates the key of a memory window of this side (IBV_WR_LOCAL_INV).
  /**
   * When it completes, the peer can no longer access the memory through that window.
   *
   * @pre Connected.
   *
   * @param key memory_window::key(), or the key of the remote_buffer that async_bind_window()
   * returned.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code) @endcode
   *
   * @par Per-operation cancellation
   * terminal, partial and total before the operation is posted. After that terminal only, which
   * moves the queue pair to the error state.
   */
  template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_invalidate(std::uint32_t key,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return initiate<CompletionToken, detail::plain_result, void(error_code)>(
      token, {.kind = detail::request_kind::invalidate, .immediate = key}, no_data);
  }

  /// Submits several operations to the device at once, with one handler for all of them (a list of
  /// work requests with one doorbell and one work completion, ibv_post_send(3)).
  /**
   * A batch larger than options().send_depth is posted in parts, without other operations between
   * them.
   *
   * The batch must exist until the operation starts. With a handler or asio::use_future it starts
   * inside this function; with asio::deferred and asio::use_awaitable it starts when the result is
   * called or awaited. After that the batch may be changed or destroyed. The memory of its buffers
   * must exist until the handler is called.
   *
   * @pre Connected.
   *
   * @param operations The batch.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::size_t) @endcode
   * The number of bytes transferred by all operations: all, or 0 if there is an error. Some of the
   * operations may have been carried out even then.
   *
   * @par Errors
   * In addition to the errors of the class:
   * @li error::not_connected: the queue pair is not connected.
   * @li error::bad_batch: the batch is empty.
   * @li error::not_registered: a buffer is plain memory.
   * @li the first error of an operation in the batch.
   *
   * @par Per-operation cancellation
   * terminal, partial and total before the first part is posted. After that terminal only, which
   * moves the queue pair to the error state.
   */
  template <boost::asio::completion_token_for<void(error_code, std::size_t)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_submit(const batch& operations,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code, std::size_t)>(
      start<detail::bytes_result>(), token, detail::request{.kind = detail::request_kind::batch},
      std::cref(operations));
  }

  /// Submits a temporary batch, or one that is moved from. The operation owns the batch until it
  /// starts.
  /**
   * Otherwise the same as the overload for an existing batch.
   *
   * @pre Connected.
   *
   * @param operations The batch.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::size_t) @endcode
   * The number of bytes transferred by all operations: all, or 0 if there is an error.
   *
   * @par Per-operation cancellation
   * terminal, partial and total before the first part is posted. After that terminal only, which
   * moves the queue pair to the error state.
   */
  template <boost::asio::completion_token_for<void(error_code, std::size_t)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_submit(batch&& operations,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code, std::size_t)>(
      start<detail::bytes_result>(), token, detail::request{.kind = detail::request_kind::batch},
      std::move(operations));
  }

  /// Returns a handle to the agent, which leases and lends memory between this host and the peer's.
  /// Requires <boost_rdma/agent.hpp>.
  /** The queue pair must be connected. Otherwise the agent's operations complete with the reason
   * why there is no agent. */
  [[nodiscard]] basic_agent<Executor> agent() const { return {executor_, core_}; }

  /// For the library itself.
  [[nodiscard]] const std::shared_ptr<detail::queue_pair_core>& core() const noexcept
  {
    return core_;
  }

  /// For the library itself: gives the core away. The object is then in the state of one that was
  /// moved from.
  [[nodiscard]] std::shared_ptr<detail::queue_pair_core> release_core() noexcept
  {
    return std::exchange(core_, nullptr);
  }

private:
  // async_initiate requires the token by reference and its type as a template argument. If the type
  // were deduced from the reference, the handler would be copied.
  template <class CompletionToken, class Result, class Signature, class Buffers, class... Owned>
  auto initiate(std::remove_reference_t<CompletionToken>& token, const detail::request& what,
    const Buffers& buffers, Owned... owned)
  {
    return boost::asio::async_initiate<CompletionToken, Signature>(
      start<Result>(), token, what, detail::kept_buffers(buffers), std::move(owned)...);
  }

  template <class Result>
  auto start() const
  {
    return detail::initiation_of<Result>(detail::as_work_source(core_.get()), executor_);
  }

  using base::core_;
  using base::executor_;
};

} // namespace rdma

#endif // BOOST_RDMA_BASIC_QUEUE_PAIR_HPP

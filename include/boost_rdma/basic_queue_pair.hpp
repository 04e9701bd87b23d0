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
#include <boost_rdma/detail/initiate_ending.hpp>
#include <boost_rdma/detail/io_object.hpp>
#include <boost_rdma/detail/queue_pair_core.hpp>
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
 * Operations are posted to the device in the order of their initiating calls, and complete in that
 * order within each direction. More of them than the device's queue holds wait their turn inside.
 *
 * @par Buffers
 * A buffer belongs to the operation from the initiating call until its handler is called. The
 * operation keeps it registered for that time; memory of the user's own must stay as well.
 *
 * Sends, receives, writes and reads take plain memory, too (boost::asio::buffer(), std::span): what
 * is small is copied, what is large is registered, and found again the next time;
 * queue_pair_options::copy_max is the bound between them. What has been received or read is in
 * plain memory when the handler is called with success; after an error the part that was to be
 * copied is as it was before. Batches and windows take registered memory only.
 *
 * @par Handlers
 * Every handler is called exactly once, on its associated executor, and never inside the initiating
 * call. Operations that are outstanding when the queue pair is closed or destroyed complete
 * with boost::asio::error::operation_aborted, once the device has let go of their buffers.
 *
 * @par Closing
 * close(), as destruction, ends the connection at once: the peer is told where there is a control
 * channel or RDMA-CM, and what has not arrived may be lost; async_shutdown() loses nothing. There
 * is no cancel(): cancel single operations by their slots. is_open() says whether it was neither
 * closed nor moved from, get_executor() what it was made with. Of an object that was moved from
 * every operation completes with error::closed.
 *
 * @par Errors
 * An error of the device (rdma::wc_status) takes the queue pair to the error state (IBA 10.3.1):
 * what is outstanding then completes with wc_status::flushed, and the queue pair is of no more use.
 * What a work request behind the failed one asked for may have been carried out all the same.
 * diagnose() tells more about the first failure.
 *
 * Errors that are found before concern only the operation. Of every operation: error::closed,
 * error::not_connected (but for receives), error::peer_closed and error::peer_lost once the peer is
 * gone, and error::queue_too_deep when 32768 operations are outstanding already. Where there are
 * buffers: error::empty_buffer, error::wrong_context, error::too_many_buffers,
 * error::message_too_large. Where there is remote memory: error::remote_range_too_small,
 * error::no_remote_key, error::remote_right_missing, and error::misaligned_atomic. Of plain memory:
 * error::pool_exhausted, and what registering says (ENOMEM beyond the limit of locked memory,
 * EFAULT where it is not mapped or cannot be written to). error::read_only for receives and reads
 * into a region of const memory. Of windows: error::not_exposed; of batches: error::bad_batch,
 * error::not_registered. operation_not_supported of what the device does not have.
 *
 * A device that fails, or is removed, ends everything with error::device_lost; see
 * rdma::device_events. What it lacks (atomics, immediate data) is refused with
 * operation_not_supported, and diagnose() names it.
 *
 * @par After fork()
 * In the child every operation on a queue pair of the parent's ends with error::forked, and
 * destroying the queue pair does nothing to the parent. As Asio wants it, io_context::notify_fork()
 * is to be called around fork() when the child goes on to use the io_context; operations that were
 * outstanding then end with error::forked there, and go on undisturbed in the parent. All but
 * connecting: a connect in progress ends in the parent alone, and keeps the child's run() from
 * returning.
 *
 * @par Per-operation cancellation
 * terminal, partial and total cancellation withdraw an operation that still waits for its turn.
 * Once the device has it, only terminal cancellation ends it, by taking the queue pair to the error
 * state (verbs knows no other way); the operation completes with operation_aborted when flushed.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe, as with Asio's sockets: use a strand.
 */
template <class Executor = boost::asio::any_io_executor>
class basic_queue_pair : public detail::io_object<Executor, detail::queue_pair_core>
{
  using base = detail::io_object<Executor, detail::queue_pair_core>;

public:
  /// What handlers run on that have no executor of their own.
  using executor_type = Executor;

  /// Rebinds the type to another executor.
  template <class OtherExecutor>
  struct rebind_executor
  {
    /// The same type with that executor.
    using other = basic_queue_pair<OtherExecutor>;
  };

  // Default arguments are spelt out, not `{}`: GCC 12 copies such a `{}` bit by bit where the same
  // expression has a co_await, as in queue_pair(co_await this_coro::executor, context).

  /// Makes a queue pair that receives can be posted to and that can be connected.
  /**
   * It is in the state INIT (ibv_create_qp(3), ibv_modify_qp(3)).
   *
   * @param executor For handlers that have none of their own. Of a strand the inner executor polls
   * for completions.
   * @param domain Where the buffers are to be registered; a context will do.
   * @param options Depths, limits, retries and devices, none of which can be changed later.
   *
   * Throws system_error: error::queue_too_deep for depths beyond the device's; error::no_device
   * when the context has not opened a device of that name; error::device_lost; error::wrong_context
   * for a completion queue or a shared receive queue of other devices or, of the latter, of another
   * domain; or what ibv_create_qp or ibv_modify_qp said.
   */
  basic_queue_pair(const executor_type& executor, const protection_domain& domain,
    const queue_pair_options& options = queue_pair_options())
    : base(executor,
      detail::queue_pair_core::make(detail::inner_executor(executor),
        detail::inner_executor(executor) == boost::asio::any_io_executor(executor), domain,
        options))
  {
  }

  /// As above, with a context's own domain.
  basic_queue_pair(const executor_type& executor, const rdma::context& context,
    const queue_pair_options& options = queue_pair_options())
    : basic_queue_pair(executor, protection_domain(context), options)
  {
  }

  /// As above, with the executor of an execution context.
  template <class ExecutionContext>
    requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
  basic_queue_pair(ExecutionContext& owner, const protection_domain& domain,
    const queue_pair_options& options = queue_pair_options())
    : basic_queue_pair(executor_type(owner.get_executor()), domain, options)
  {
  }

  /// As above, with the executor of an execution context and a context's own domain.
  template <class ExecutionContext>
    requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
  basic_queue_pair(ExecutionContext& owner, const rdma::context& context,
    const queue_pair_options& options = queue_pair_options())
    : basic_queue_pair(executor_type(owner.get_executor()), protection_domain(context), options)
  {
  }

  /// For the library itself: takes over a core that it made.
  basic_queue_pair(const executor_type& executor, std::shared_ptr<detail::queue_pair_core> core)
    : base(executor, std::move(core))
  {
  }

  /// The context that buffers for this queue pair come from. Precondition: not moved from.
  [[nodiscard]] rdma::context context() const { return core_->context(); }

  /// The queue pair's options, as far as the device could follow them. Precondition: not moved
  /// from.
  [[nodiscard]] const queue_pair_options& options() const noexcept { return core_->options(); }

  /// The number that message::queue_pair_number and the peer know it by (ibv_qp::qp_num).
  /** Another when the queue pair falls back while it connects. Precondition: not moved from. */
  [[nodiscard]] std::uint32_t number() const { return core_->number(); }

  /// Connected, and neither closed nor in the error state.
  [[nodiscard]] bool is_connected() const { return core_ && core_->is_connected(); }

  /// Why the queue pair is in the error state; diagnosis::code is success when it is not.
  /** Precondition: not moved from. */
  [[nodiscard]] diagnosis diagnose() const { return core_->diagnose(); }

  /// The verbs queue pair, for calls of one's own (<boost_rdma/native.hpp>); null when moved from,
  /// and when the device has it no more.
  [[nodiscard]] ibv_qp* native_handle() const { return core_ ? core_->native() : nullptr; }

  /// What the peer needs to connect to this queue pair by connect().
  /**
   * @param local The address by which the peer reaches this host; it chooses the port and the GID,
   * RoCE v2 before v1. Without one, or with a loopback address that the device does not have: the
   * first GID that other hosts reach, IPv4 before IPv6, link-local last. options().local_address
   * comes before it.
   *
   * From then on the queue pair stays on its device: it does not fall back.
   *
   * Throws system_error: error::no_local_gid when no GID of the device belongs to the address;
   * error::closed; error::forked; error::device_lost; operation_not_supported on iWARP, which
   * connects by RDMA-CM only; boost::asio::error::invalid_argument for options that are out of
   * range.
   */
  [[nodiscard]] endpoint_description local_endpoint(
    const std::optional<boost::asio::ip::address>& local = {})
  {
    error_code ec = error::closed; // when moved from
    endpoint_description result;
    if (core_)
      result = core_->local_endpoint(local, ec);
    if (ec)
      throw system_error(ec, "queue_pair::local_endpoint");
    return result;
  }

  /// Connects to a peer whose description came by means of the user's own.
  /**
   * Both sides call local_endpoint() first, exchange what it returns, and call connect(), which
   * takes the queue pair to RTR and RTS (ibv_modify_qp(3)). Returns at once: whether the peer is
   * there shows with the first operation (wc_status::retry_exceeded). There is no control channel
   * then: async_shutdown() and agent() need one, and nothing but an operation that fails tells of a
   * peer that is gone.
   *
   * @param remote The peer's local_endpoint().
   * @param ec error::not_connected when local_endpoint() was not called before,
   * error::no_common_transport, error::other_address_family, error::already_connected,
   * error::closed, error::forked, error::device_lost, or what ibv_modify_qp said.
   */
  void connect(const endpoint_description& remote, error_code& ec)
  {
    if (core_)
      core_->connect(remote, ec);
    else
      ec = error::closed;
  }

  /// As above; throws system_error.
  void connect(const endpoint_description& remote)
  {
    error_code ec;
    connect(remote, ec);
    if (ec)
      throw system_error(ec, "queue_pair::connect");
  }

  /// Connects to an rdma::acceptor, or to a server that answers with async_upgrade().
  /**
   * @param peer Where it listens.
   * @param options What to tell the server.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code) @endcode
   * Success: messages go both ways by RDMA.
   *
   * Both sides agree on a transport (a NIC's wire that they have in common, else the software
   * device), and each sends a message by RDMA that the other's device acknowledges, before either
   * handler is called. transport() tells what was chosen, and why nothing better.
   *
   * What can go wrong: what connecting a TCP socket says; error::not_an_acceptor,
   * error::version_mismatch, error::refused; error::no_common_transport and
   * error::path_not_confirmed, for which diagnose() says why; error::malformed_description,
   * error::peer_lost; error::no_local_gid when the device is on another network than the TCP
   * connection and must not fall back (see queue_pair_options::local_address and fall_back),
   * error::other_address_family; error::handshake_timeout after options().connect_timeout;
   * error::already_connected, also after an attempt that failed: make another queue pair;
   * operation_aborted when the queue pair is closed meanwhile, error::closed when it was before;
   * error::device_lost when the device has failed or been removed; error::forked in a child of the
   * process that made the queue pair; what starting a thread says;
   * boost::asio::error::invalid_argument for options that do not go into an HTTP request.
   *
   * The TCP connection that carried the handshake stays. Heartbeats on it tell when the peer's
   * process or host is gone, or stopped (error::peer_lost; queue_pair_options::heartbeat_limit). It
   * is served by a thread of the library's own, and does not keep io_context::run() from returning.
   *
   * @par Per-operation cancellation
   * terminal, partial and total; the queue pair can then only be closed.
   */
  template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_connect(const boost::asio::ip::tcp::endpoint& peer, const connect_options& options,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code)>(
      detail::initiate_connect<executor_type>(executor_, core_), token, peer, options);
  }

  /// As above, with nothing particular to say to the server.
  /**
   * @param peer Where it listens.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code) @endcode
   *
   * @par Per-operation cancellation
   * terminal, partial and total; the queue pair can then only be closed.
   */
  template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_connect(const boost::asio::ip::tcp::endpoint& peer,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return async_connect(peer, connect_options(), std::forward<CompletionToken>(token));
  }

  /// What carries this queue pair's messages, and why nothing better does. Precondition: not moved
  /// from.
  [[nodiscard]] transport_choice transport() const { return core_->transport(); }

  /// What the peer's program sent along with connecting (connect_options::data,
  /// authorisation::data).
  /** Not to be trusted; at most connect_options::data_size_max bytes. Precondition: not moved from.
   */
  [[nodiscard]] std::string peer_data() const { return core_->peer_data(); }

  /// Ends the connection when all that was sent has arrived, on both sides.
  /**
   * Operations that were initiated before go on; later ones end with boost::asio::error::shut_down.
   * When the last send, write, read or atomic has completed, the peer is told, which then lets its
   * own finish (later ones end with error::peer_closed there) and says so. Then the connection
   * ends: what is received before has been received, and receives that are left end with
   * operation_aborted here, and with error::peer_closed there.
   *
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code) @endcode
   * Success: all that this side sent has arrived, and all that the peer sent; also when the peer's
   * shutdown has ended the connection before this one was asked for.
   *
   * What can go wrong: error::not_connected, error::closed; operation_not_supported for a queue
   * pair that connect() connected, which has no control channel; and what ended the connection
   * before: error::peer_lost, error::peer_closed when the peer closed without a shutdown of its
   * own, or an operation's error. It waits for as long as the peer posts no receives for what is
   * sent; combine it with a time-out where that may be.
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the wait, not the shutdown; close() does that.
   */
  template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_shutdown(
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code)>(
      detail::initiate_ending<executor_type>(executor_, core_, &detail::queue_pair_core::shut_down),
      token);
  }

  /// Waits until the connection has ended, however that comes about.
  /**
   * Any number of waits may be outstanding, also before connecting.
   *
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code) @endcode
   * Why it ended: success after an async_shutdown() of this side; error::peer_closed when the peer
   * closed or shut down; error::peer_lost; operation_aborted when the queue pair was closed;
   * error::forked, error::device_lost; the error of the operation that took the queue pair to the
   * error state; why connecting failed.
   *
   * An outstanding wait keeps io_context::run() from returning, as a timer's does.
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
      detail::initiate_ending<executor_type>(
        executor_, core_, &detail::queue_pair_core::wait_close),
      token);
  }

  /// Sends a message (ibv_post_send(3), IBV_WR_SEND); completes when the peer's device has received
  /// it.
  /**
   * It takes the oldest receive that the peer has posted, and waits for one where there is none, as
   * queue_pair_options::rnr_retry_count says (wc_status::rnr_retry_exceeded). A message larger than
   * that receive fails with wc_status::remote_invalid_request_error.
   *
   * @pre Connected; error::not_connected before that.
   *
   * @param buffers What to send; at most options().max_send_sge buffers, and
   * device::max_message_size() bytes. rdma::no_data sends a message without bytes; buffers without
   * bytes are error::empty_buffer.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::size_t) @endcode
   * The number of bytes sent: all, or none.
   *
   * @par Per-operation cancellation
   * terminal, partial and total while it waits for its turn; terminal once the device has it, which
   * takes the queue pair to the error state.
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

  /// As async_send, with 32 bits for the receiver's message::immediate (IBV_WR_SEND_WITH_IMM).
  /**
   * operation_not_supported where this side's device or the peer's has no immediate data (iWARP):
   * see device::has_immediate_data().
   *
   * @param buffers As async_send's.
   * @param immediate In host byte order.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::size_t) @endcode
   * The number of bytes sent, without the immediate data: all, or none.
   *
   * @par Per-operation cancellation
   * terminal, partial and total while it waits for its turn; terminal once the device has it, which
   * takes the queue pair to the error state.
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

  /// As async_send; the peer's device also makes this key of the peer's invalid
  /// (IBV_WR_SEND_WITH_INV).
  /**
   * When the peer's async_receive_message() completes, the window is closed already. A key that is
   * not as below ends the connection.
   *
   * @param buffers As async_send's.
   * @param key The key of a type 2 memory window that the peer had bound for this queue pair:
   * remote_buffer::key(). The receiver finds it in message::invalidated_key.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::size_t) @endcode
   * The number of bytes sent: all, or none.
   *
   * @par Per-operation cancellation
   * terminal, partial and total while it waits for its turn; terminal once the device has it, which
   * takes the queue pair to the error state.
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
   * May be called before the queue pair is connected, and should: a message that meets no posted
   * receive must be repeated (RNR NAK, IBA 9.7.5.2.8). Receives take messages in the order in which
   * they were initiated. operation_not_supported where receives come from a shared receive queue:
   * receive on that.
   *
   * @param buffers Where to; at most options().max_receive_sge buffers. A message that is larger
   * than the buffers takes both sides to the error state. rdma::no_data takes messages without
   * bytes, and the immediate data of writes.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::size_t) @endcode
   * The number of bytes received into the buffers: 0 for a write with immediate data, which went
   * elsewhere.
   *
   * @par Per-operation cancellation
   * terminal, partial and total while it waits for its turn; terminal once the device has it, which
   * takes the queue pair to the error state.
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

  /// As async_receive, with all that is known of the message: immediate data, invalidated key.
  /**
   * @param buffers As async_receive's.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::message) @endcode
   * With an error the message has no meaning.
   *
   * @par Per-operation cancellation
   * terminal, partial and total while it waits for its turn; terminal once the device has it, which
   * takes the queue pair to the error state.
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

  /// Writes to memory that the peer exposed (IBV_WR_RDMA_WRITE, IBA 9.4.3); its processor takes no
  /// part.
  /**
   * Completes when the peer's memory has the data. wc_status::remote_access_error, which ends the
   * connection, when the peer did not expose that memory, or not for writing.
   *
   * @pre Connected; error::not_connected before that.
   *
   * @param local What to write; at most options().max_send_sge buffers.
   * @param remote Where to, from its beginning. error::remote_range_too_small when it holds fewer
   * bytes than `local`; error::remote_right_missing without access::remote_write.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::size_t) @endcode
   * The number of bytes written: all, or none as far as this side knows.
   *
   * @par Per-operation cancellation
   * terminal, partial and total while it waits for its turn; terminal once the device has it, which
   * takes the queue pair to the error state.
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

  /// As async_write; also completes a receive of the peer's, with 32 bits
  /// (IBV_WR_RDMA_WRITE_WITH_IMM).
  /**
   * When that receive completes the data are in the peer's memory. It needs one that the peer has
   * posted, as a send does. operation_not_supported where this side's device or the peer's has no
   * immediate data (iWARP).
   *
   * @param local As async_write's; or rdma::no_data: then only the immediate data arrives, and
   * `remote` does not count.
   * @param remote As async_write's.
   * @param immediate For message::immediate, in host byte order.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::size_t) @endcode
   * The number of bytes written: all, or none as far as this side knows.
   *
   * @par Per-operation cancellation
   * terminal, partial and total while it waits for its turn; terminal once the device has it, which
   * takes the queue pair to the error state.
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

  /// Reads memory that the peer exposed (IBV_WR_RDMA_READ); its processor takes no part.
  /**
   * As many are in flight as transport_choice::read_atomic_depth says.
   * wc_status::remote_access_error, which ends the connection, when the peer did not expose that
   * memory, or not for reading.
   *
   * @pre Connected; error::not_connected before that.
   *
   * @param local Where to; at most options().max_send_sge buffers, in memory with
   * access::local_write (wc_status::local_protection_error otherwise).
   * @param remote Where from: as many bytes as `local` holds, from its beginning.
   * error::remote_range_too_small when it holds fewer; error::remote_right_missing without
   * access::remote_read.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::size_t) @endcode
   * The number of bytes read: all, or none; with an error the buffers hold nothing to rely on.
   *
   * @par Per-operation cancellation
   * terminal, partial and total while it waits for its turn; terminal once the device has it, which
   * takes the queue pair to the error state.
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

  /// Adds to a 64-bit number in memory that the peer exposed (IBV_WR_ATOMIC_FETCH_AND_ADD,
  /// IBA 9.4.5).
  /**
   * Atomic among operations of the peer's device; as for its processor, see
   * ibv_device_attr::atomic_cap (ibv_query_device(3)). operation_not_supported where this side's
   * device or the peer's has no atomics.
   *
   * @param remote At least 8 bytes, at an address that is a multiple of 8
   * (error::misaligned_atomic), exposed with access::remote_atomic (error::remote_right_missing).
   * @param addend What to add, modulo 2^64, to a number in the peer's byte order.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::uint64_t) @endcode
   * The number that was there before.
   *
   * @par Per-operation cancellation
   * terminal, partial and total while it waits for its turn; terminal once the device has it, which
   * takes the queue pair to the error state.
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

  /// Replaces a 64-bit number in memory that the peer exposed, if it is `expected`
  /// (IBV_WR_ATOMIC_CMP_AND_SWP, IBA 9.4.5).
  /**
   * Atomic, and refused, as async_fetch_add() is.
   *
   * @param remote The number, at an address that is a multiple of 8; what is behind it does not
   * matter.
   * @param expected What it is replaced at, in the peer's byte order, as `desired` and the result
   * are.
   * @param desired What replaces it.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::uint64_t) @endcode
   * The number that was there before: `expected` when it has been replaced.
   *
   * @par Per-operation cancellation
   * terminal, partial and total while it waits for its turn; terminal once the device has it, which
   * takes the queue pair to the error state.
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

  /// Opens a memory window on a part of a region to this queue pair's peer (IBV_WR_BIND_MW, type 2,
  /// ibv_bind_mw(3)).
  /**
   * The region stays registered for as long as the window is open on it.
   *
   * @pre Connected; error::not_connected before that.
   *
   * @param window Of this queue pair's device and domain (error::wrong_context); unbound, or
   * invalidated since: otherwise wc_status::memory_window_bind_error, which ends the connection.
   * @param range Of a region with access::window_bind; error::not_exposed otherwise, and for plain
   * memory.
   * @param rights What the peer may do; remote_ rights only. All but remote_read need a region with
   * access::local_write.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::remote_buffer) @endcode
   * The handle to give to the peer. Its key is another each time.
   *
   * @par Per-operation cancellation
   * terminal, partial and total while it waits for its turn; terminal once the device has it, which
   * takes the queue pair to the error state.
   */
  template <boost::asio::completion_token_for<void(error_code, remote_buffer)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_bind_window(const memory_window& window, const mutable_buffer& range, access rights,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return initiate<CompletionToken, detail::window_result, void(error_code, remote_buffer)>(token,
      {.kind = detail::request_kind::bind_window, .window = window.impl(), .window_rights = rights},
      range);
  }

  /// Makes the key of a memory window of one's own invalid (IBV_WR_LOCAL_INV).
  /**
   * When it completes the peer reaches the memory by that window no more.
   *
   * @pre Connected; error::not_connected before that.
   *
   * @param key memory_window::key(), or the key of the remote_buffer that binding gave.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code) @endcode
   *
   * @par Per-operation cancellation
   * terminal, partial and total while it waits for its turn; terminal once the device has it, which
   * takes the queue pair to the error state.
   */
  template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_invalidate(std::uint32_t key,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return initiate<CompletionToken, detail::plain_result, void(error_code)>(
      token, {.kind = detail::request_kind::invalidate, .immediate = key}, no_data);
  }

  /// Submits several operations with one doorbell and one completion (a list of work requests,
  /// ibv_post_send(3)).
  /**
   * @pre Connected; error::not_connected before that.
   *
   * @param operations Must neither change nor go until the handler is called. error::bad_batch when
   * it is empty or larger than options().send_depth; error::not_registered for plain memory.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::size_t) @endcode
   * The number of bytes moved by all operations: all, or none as far as this side knows.
   *
   * @par Per-operation cancellation
   * terminal, partial and total while it waits for its turn; terminal once the device has it, which
   * takes the queue pair to the error state.
   */
  template <boost::asio::completion_token_for<void(error_code, std::size_t)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_submit(const batch& operations,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return initiate<CompletionToken, detail::bytes_result, void(error_code, std::size_t)>(
      token, {.kind = detail::request_kind::batch, .batch = &operations}, no_data);
  }

  /// Manages memory on the peer's host. Needs <boost_rdma/agent.hpp>.
  /** For a queue pair that is connected; of another, the agent's operations end with what stands in
   * the way. */
  [[nodiscard]] basic_agent<Executor> agent() const { return {executor_, core_}; }

  /// For the library itself.
  [[nodiscard]] const std::shared_ptr<detail::queue_pair_core>& core() const noexcept
  {
    return core_;
  }

private:
  // The token by reference and its type, as async_initiate wants them: deduced from the reference,
  // the type would be one that has the handler copied.
  template <class CompletionToken, class Result, class Signature, class Buffers>
  auto initiate(
    std::remove_reference_t<CompletionToken>& token, detail::request what, const Buffers& buffers)
  {
    return boost::asio::async_initiate<CompletionToken, Signature>(
      detail::initiate_operation<Result, executor_type>(core_.get(), executor_), token,
      std::move(what), detail::kept_buffers(buffers));
  }

  using base::core_;
  using base::executor_;
};

} // namespace rdma

#endif // BOOST_RDMA_BASIC_QUEUE_PAIR_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_CM_BASIC_CONNECTION_REQUEST_HPP
#define BOOST_RDMA_CM_BASIC_CONNECTION_REQUEST_HPP

#include <boost_rdma/basic_queue_pair.hpp>
#include <boost_rdma/cm/detail/cm_core.hpp>
#include <boost_rdma/detail/object_handler.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <memory>
#include <utility>

namespace rdma::cm {

/// A client that wants to connect by RDMA-CM and waits for an answer; see
/// basic_acceptor::async_get_request().
/**
 * Destroying the request without an answer, or assigning to it, rejects the client.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe.
 */
template <class Executor = boost::asio::any_io_executor>
class basic_connection_request
{
public:
  /// The acceptor's.
  using executor_type = Executor;

  /// What the client is accepted as.
  using queue_pair_type = basic_queue_pair<Executor>;

  /// For the library itself.
  basic_connection_request(
    const executor_type& executor, std::shared_ptr<detail::request_core> core)
    : executor_(executor)
    , core_(std::move(core))
  {
  }

  /// The one that was moved from is as one that was answered.
  // The executor is copied: operations on an object that was moved from still complete, with an
  // error.
  basic_connection_request(basic_connection_request&& other) noexcept
    : executor_(other.executor_)
    , core_(std::move(other.core_))
  {
  }

  /// Rejects the client that it was of, if that had no answer.
  basic_connection_request& operator=(basic_connection_request&& other) noexcept
  {
    executor_ = other.executor_;
    core_ = std::move(other.core_);
    return *this;
  }

  /// Rejects the client, if it had no answer (rdma_reject(3)).
  ~basic_connection_request() = default;

  /// What it was made with: the acceptor's.
  [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }

  /// Neither answered nor moved from.
  [[nodiscard]] bool is_open() const noexcept { return static_cast<bool>(core_); }

  /// What the client sent along; not to be trusted. Precondition: is_open().
  [[nodiscard]] const private_data& data() const noexcept { return core_->data(); }

  /// Where the client is. Precondition: is_open().
  [[nodiscard]] const boost::asio::ip::tcp::endpoint& remote_endpoint() const noexcept
  {
    return core_->remote_endpoint();
  }

  /// Accepts the client (rdma_accept(3)).
  /**
   * is_open() is false from the call on.
   *
   * @param answer For the client; at most private_data::accept_size_max bytes but on iWARP.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::basic_queue_pair<Executor>) @endcode
   * The queue pair is made as the acceptor's options say, and connected. With an error it is as one
   * that was moved from: error::peer_lost when the client did not wait, error::handshake_timeout,
   * error::other_device, error::message_too_large, error::closed when answered before, or what
   * making the queue pair said.
   *
   * @par Per-operation cancellation
   * terminal, partial and total reject the client; operation_aborted.
   */
  template <boost::asio::completion_token_for<void(error_code, queue_pair_type)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_accept(const private_data& answer,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code, queue_pair_type)>(
      rdma::detail::initiate_object<queue_pair_type, executor_type, detail::request_core,
        start_accept>(executor_, std::move(core_), {answer}),
      token);
  }

  /// As above, into a queue pair that the program made: receives may be posted before.
  /**
   * iWARP wants that: it has no RNR NAK, and ends a connection whose peer sends before a receive is
   * posted.
   *
   * @param queue_pair On the same device that the client came by, and not connected. It must stay
   * until the handler is called. After a failure it can only be closed.
   * @param answer See above.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code) @endcode
   * Errors as above, and error::already_connected, error::closed of the queue pair.
   *
   * @par Per-operation cancellation
   * terminal, partial and total reject the client; operation_aborted.
   */
  template <class OtherExecutor,
    boost::asio::completion_token_for<void(error_code)> CompletionToken =
      boost::asio::default_completion_token_t<executor_type>>
  auto async_accept(basic_queue_pair<OtherExecutor>& queue_pair, const private_data& answer,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code)>(
      start_accept_into{executor_, std::move(core_), queue_pair.core()}, token, answer);
  }

  /// Sends the client away, with a reason (rdma_reject(3)). Of a request that was answered:
  /// nothing.
  /** @param reason At most private_data::reject_size_max bytes but on iWARP; what is more is cut.
   */
  void reject(const private_data& reason = private_data())
  {
    if (core_)
      core_->reject(reason);
    core_.reset();
  }

private:
  struct start_accept
  {
    private_data answer;

    template <class Handler>
    void operator()(
      detail::request_core* core, const executor_type& executor, Handler&& handler) const
    {
      if (core != nullptr)
        core->accept(executor, answer, std::forward<Handler>(handler));
      else
        detail::refuse_accept(
          executor, detail::request_core::handler_type(std::forward<Handler>(handler)));
    }
  };

  struct start_accept_into
  {
    using executor_type = Executor;

    executor_type executor;
    std::shared_ptr<detail::request_core> core;
    std::shared_ptr<detail::queue_pair_core> queue_pair;

    executor_type get_executor() const noexcept { return executor; }

    template <class Handler>
    void operator()(Handler&& handler, const private_data& answer) const
    {
      if (core)
        core->accept(executor, queue_pair, answer, std::forward<Handler>(handler));
      else
        detail::refuse_accept(executor,
          boost::asio::any_completion_handler<void(error_code)>(std::forward<Handler>(handler)));
    }
  };

  executor_type executor_;
  std::shared_ptr<detail::request_core> core_;
};

/// The request of programs that do not choose an executor type.
using connection_request = basic_connection_request<>;

} // namespace rdma::cm

#endif // BOOST_RDMA_CM_BASIC_CONNECTION_REQUEST_HPP

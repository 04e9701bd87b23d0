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
#include <boost_rdma/detail/initiation.hpp>
#include <boost_rdma/detail/mapped_handler.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <memory>
#include <utility>

namespace rdma::cm {

/// A client's request to connect by RDMA-CM; see basic_acceptor::async_get_request().
/**
 * Destroying or overwriting an unanswered request rejects the client.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe.
 */
template <class Executor = boost::asio::any_io_executor>
class basic_connection_request
{
public:
  /// The acceptor's executor type.
  using executor_type = Executor;

  /// The queue pair type of an accepted client.
  using queue_pair_type = basic_queue_pair<Executor>;

  /// For the library itself.
  basic_connection_request(
    const executor_type& executor, std::shared_ptr<detail::request_core> core)
    : executor_(executor)
    , core_(std::move(core))
  {
  }

  /// Moves a request. `other` is then in the same state as an answered request.
  // The executor is copied: operations on an object that was moved from still complete, with an
  // error.
  basic_connection_request(basic_connection_request&& other) noexcept
    : executor_(other.executor_)
    , core_(std::move(other.core_))
  {
  }

  /// Rejects the client of this object's unanswered request, if any, and moves `other` into it.
  basic_connection_request& operator=(basic_connection_request&& other) noexcept
  {
    executor_ = other.executor_;
    core_ = std::move(other.core_);
    return *this;
  }

  /// Rejects the client if the request is unanswered (rdma_reject(3)).
  ~basic_connection_request() = default;

  /// Returns the acceptor's executor.
  [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }

  /// Returns true if the request was neither answered nor moved from.
  [[nodiscard]] bool is_open() const noexcept { return static_cast<bool>(core_); }

  /// Returns the data that the client sent with the request. Do not trust it. Precondition:
  /// is_open().
  [[nodiscard]] const private_data& data() const noexcept { return core_->data(); }

  /// Returns the client's address and port. Precondition: is_open().
  [[nodiscard]] const boost::asio::ip::tcp::endpoint& remote_endpoint() const noexcept
  {
    return core_->remote_endpoint();
  }

  /// Accepts the client (rdma_accept(3)) and creates a connected queue pair.
  /**
   * is_open() returns false after the call. The queue pair has the acceptor's options.
   *
   * @param answer Data for the client: at most private_data::accept_size_max bytes, except on
   * iWARP.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::basic_queue_pair<Executor>) @endcode
   * If there is an error, the queue pair is in the state of an object that was moved from.
   *
   * @par Errors
   * @li error::peer_lost: the client did not wait for the answer.
   * @li error::handshake_timeout: the client did not complete the connection in time.
   * @li error::other_device: the client's request arrived through another RDMA device.
   * @li error::message_too_large: `answer` is too large.
   * @li error::closed: the request was answered before.
   * @li the error of creating the queue pair.
   *
   * @par Per-operation cancellation
   * terminal, partial and total reject the client and complete with operation_aborted.
   */
  template <boost::asio::completion_token_for<void(error_code, queue_pair_type)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_accept(const private_data& answer,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code, queue_pair_type)>(
      rdma::detail::initiation(executor_,
        [core = std::move(core_)](const auto& executor, auto&& handler, const private_data& with)
        {
          detail::start_accept(executor, core.get(), with,
            rdma::detail::handler_of_object<queue_pair_type>(
              executor, std::forward<decltype(handler)>(handler)));
        }),
      token, answer);
  }

  /// Accepts the client with a queue pair that the program created; receives may be posted to it
  /// before.
  /**
   * Use this overload on iWARP. iWARP has no RNR NAK: a connection ends if the peer sends before a
   * receive is posted.
   *
   * @param queue_pair An unconnected queue pair on the device through which the request arrived. It
   * must remain valid until the handler is called. After a failure it can only be closed.
   * @param answer See the overload without a queue pair.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code) @endcode
   *
   * @par Errors
   * In addition to the errors of the overload without a queue pair:
   * @li error::already_connected: the queue pair was connected before.
   * @li error::closed: the queue pair was closed.
   *
   * @par Per-operation cancellation
   * terminal, partial and total reject the client and complete with operation_aborted.
   */
  template <class OtherExecutor,
    boost::asio::completion_token_for<void(error_code)> CompletionToken =
      boost::asio::default_completion_token_t<executor_type>>
  auto async_accept(basic_queue_pair<OtherExecutor>& queue_pair, const private_data& answer,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code)>(
      rdma::detail::initiation(executor_,
        [core = std::move(core_), own = queue_pair.core()](
          const auto& executor, auto&& handler, const private_data& with)
        {
          detail::start_accept_into(
            executor, core.get(), own, with, std::forward<decltype(handler)>(handler));
        }),
      token, answer);
  }

  /// Rejects the client with a reason (rdma_reject(3)). Has no effect on an answered request.
  /** @param reason Data for the client. More than private_data::reject_size_max bytes are cut off,
   * except on iWARP. */
  void reject(const private_data& reason = private_data())
  {
    if (core_)
      core_->reject(reason);
    core_.reset();
  }

private:
  executor_type executor_;
  std::shared_ptr<detail::request_core> core_;
};

/// Connection request with the default executor type.
using connection_request = basic_connection_request<>;

} // namespace rdma::cm

#endif // BOOST_RDMA_CM_BASIC_CONNECTION_REQUEST_HPP

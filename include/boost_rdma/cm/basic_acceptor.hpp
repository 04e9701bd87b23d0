//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_CM_BASIC_ACCEPTOR_HPP
#define BOOST_RDMA_CM_BASIC_ACCEPTOR_HPP

#include <boost_rdma/basic_queue_pair.hpp>
#include <boost_rdma/cm/basic_connection_request.hpp>
#include <boost_rdma/cm/detail/cm_core.hpp>
#include <boost_rdma/cm/options.hpp>
#include <boost_rdma/detail/inner_executor.hpp>
#include <boost_rdma/detail/object_handler.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <concepts>
#include <memory>
#include <utility>

namespace rdma::cm {

/// Listens by RDMA-CM (librdmacm) for any program that connects by it: cm::async_connect(), rdma_connect(3).
/**
 * The device's events are handled on a thread of the library's own, as rdma::basic_acceptor's TCP is; handlers
 * are never called there.
 *
 * On iWARP the client has to send first (RFC 6581, 4.1), and its first message must find a receive: accept it
 * into a queue pair that has one, by async_get_request() and basic_connection_request::async_accept(), or have
 * receives come from a shared receive queue.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe. The context may run on any number of threads.
 */
template <class Executor = boost::asio::any_io_executor>
class basic_acceptor
{
public:
  using executor_type = Executor;
  using endpoint_type = boost::asio::ip::tcp::endpoint;
  using queue_pair_type = basic_queue_pair<Executor>;
  using request_type = basic_connection_request<Executor>;

  /// Rebinds the type to another executor.
  template <class OtherExecutor>
  struct rebind_executor
  {
    using other = basic_acceptor<OtherExecutor>;
  };

  /// Listens (rdma_bind_addr(3), rdma_listen(3)).
  /**
   * Throws system_error: error::no_connection_manager, also for a domain that has the software device alone;
   * error::unreachable for an address that no RDMA device has; error::other_device; or what librdmacm said.
   *
   * @param executor For handlers and for accepted queue pairs.
   * @param domain Where accepted queue pairs belong; a context will do.
   * @param endpoint An address of an RDMA device's network interface, or the unspecified one (0.0.0.0): then
   * clients that come by another device than the domain's are rejected. Port 0 takes one that is free: see
   * local_endpoint().
   */
  basic_acceptor(const executor_type& executor, const protection_domain& domain,
    const endpoint_type& endpoint, const acceptor_options& options = acceptor_options())
    : executor_(executor)
  {
    error_code ec;
    core_ = open(domain, endpoint, options, ec);
    if (ec)
      throw system_error(ec, "cm::acceptor");
  }

  /// As above, with an error_code; on failure the acceptor is as one that was closed.
  basic_acceptor(const executor_type& executor, const protection_domain& domain,
    const endpoint_type& endpoint, const acceptor_options& options, error_code& ec)
    : executor_(executor)
    , core_(open(domain, endpoint, options, ec))
  {
  }

  /// As above, with a context's own domain. Throws system_error.
  basic_acceptor(const executor_type& executor, const rdma::context& context,
    const endpoint_type& endpoint, const acceptor_options& options = acceptor_options())
    : basic_acceptor(executor, protection_domain(context), endpoint, options)
  {
  }

  /// As above, with the executor of an execution context. Throws system_error.
  template <class ExecutionContext>
    requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
  basic_acceptor(ExecutionContext& owner, const protection_domain& domain,
    const endpoint_type& endpoint, const acceptor_options& options = acceptor_options())
    : basic_acceptor(executor_type(owner.get_executor()), domain, endpoint, options)
  {
  }

  /// As above, with the executor of an execution context and a context's own domain. Throws system_error.
  template <class ExecutionContext>
    requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
  basic_acceptor(ExecutionContext& owner, const rdma::context& context,
    const endpoint_type& endpoint, const acceptor_options& options = acceptor_options())
    : basic_acceptor(
        executor_type(owner.get_executor()), protection_domain(context), endpoint, options)
  {
  }

  /// As above, with an error_code.
  template <class ExecutionContext>
    requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
  basic_acceptor(ExecutionContext& owner, const rdma::context& context,
    const endpoint_type& endpoint, const acceptor_options& options, error_code& ec)
    : basic_acceptor(
        executor_type(owner.get_executor()), protection_domain(context), endpoint, options, ec)
  {
  }

  // The executor is copied: operations on an object that was moved from still complete, with an error.
  basic_acceptor(basic_acceptor&& other) noexcept
    : executor_(other.executor_)
    , core_(std::move(other.core_))
  {
  }

  basic_acceptor& operator=(basic_acceptor&& other) noexcept
  {
    if (this != &other)
    {
      close();
      executor_ = other.executor_;
      core_ = std::move(other.core_);
    }
    return *this;
  }

  /// Closes the acceptor; see close().
  ~basic_acceptor() { close(); }

  [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }

  /// Where it listens, with the port that was taken for port 0; stays when closed.
  /** Precondition: opened, and not moved from. */
  [[nodiscard]] endpoint_type local_endpoint() const { return core_->local_endpoint(); }

  /// Neither closed nor moved from.
  [[nodiscard]] bool is_open() const { return core_ && core_->is_open(); }

  /// Outstanding operations complete with operation_aborted. Clients wait for those to come.
  void cancel()
  {
    if (core_)
      core_->cancel();
  }

  /// Stops listening. Outstanding operations complete with operation_aborted; clients that have not been
  /// accepted are rejected, but for those whose request somebody holds.
  void close()
  {
    if (core_)
      core_->close();
  }

  /// Accepts the next client, with acceptor_options::data for an answer.
  /**
   * Any number of accepts may be outstanding; the oldest is served first. Where a request is waited for as
   * well, that comes first.
   *
   * @param token Completion signature:
   * @code void(rdma::error_code, rdma::basic_queue_pair<Executor>) @endcode
   * The queue pair lives on the acceptor's executor. With an error it is as one that was moved from.
   *
   * What can go wrong: operation_aborted; error::closed. A client's failure is no error of the accept; it is
   * logged (see rdma::basic_acceptor).
   *
   * @par Per-operation cancellation
   * terminal, partial and total withdraw the accept. No client is lost by it.
   */
  template <boost::asio::completion_token_for<void(error_code, queue_pair_type)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_accept(
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code, queue_pair_type)>(
      rdma::detail::initiate_object<queue_pair_type, executor_type, detail::acceptor_core, start_accept>(
        executor_, core_, {}),
      token);
  }

  /// Waits for the next client and leaves the answer to the program (RDMA_CM_EVENT_CONNECT_REQUEST).
  /**
   * @param token Completion signature:
   * @code void(rdma::error_code, rdma::cm::basic_connection_request<Executor>) @endcode
   * Errors: operation_aborted; error::closed.
   *
   * @par Per-operation cancellation
   * terminal, partial and total withdraw the operation. No client is lost by it.
   */
  template <boost::asio::completion_token_for<void(error_code, request_type)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_get_request(
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code, request_type)>(
      rdma::detail::initiate_object<request_type, executor_type, detail::acceptor_core, start_get_request>(
        executor_, core_, {}),
      token);
  }

private:
  struct start_accept
  {
    template <class Handler>
    void operator()(detail::acceptor_core* core, const executor_type& executor, Handler&& handler) const
    {
      if (core != nullptr)
        core->accept(executor, std::forward<Handler>(handler));
      else
        detail::refuse_accept(
          executor, detail::request_core::handler_type(std::forward<Handler>(handler)));
    }
  };
  struct start_get_request
  {
    template <class Handler>
    void operator()(detail::acceptor_core* core, const executor_type& executor, Handler&& handler) const
    {
      if (core != nullptr)
        core->get_request(executor, std::forward<Handler>(handler));
      else
        detail::refuse_request(executor, std::forward<Handler>(handler));
    }
  };

  std::shared_ptr<detail::acceptor_core> open(const protection_domain& domain,
    const endpoint_type& endpoint, const acceptor_options& options, error_code& ec) const
  {
    const auto inner = rdma::detail::inner_executor(executor_);
    return detail::acceptor_core::make(inner,
      inner == boost::asio::any_io_executor(executor_), domain, endpoint, options, ec);
  }

  executor_type executor_;
  std::shared_ptr<detail::acceptor_core> core_;
};

} // namespace rdma::cm

#endif // BOOST_RDMA_CM_BASIC_ACCEPTOR_HPP

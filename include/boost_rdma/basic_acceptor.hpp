//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_BASIC_ACCEPTOR_HPP
#define BOOST_RDMA_BASIC_ACCEPTOR_HPP

#include <boost_rdma/acceptor_options.hpp>
#include <boost_rdma/basic_queue_pair.hpp>
#include <boost_rdma/detail/acceptor_core.hpp>
#include <boost_rdma/detail/inner_executor.hpp>
#include <boost_rdma/detail/object_handler.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <concepts>
#include <memory>
#include <utility>

namespace rdma {

/// Listens on a TCP port for queue pairs that connect by basic_queue_pair::async_connect().
/**
 * The TCP connection carries the handshake (an HTTP/1.1 upgrade) and stays for as long as the queue pair
 * does: when the peer closes its queue pair, or is lost, the operations of ours end with
 * error::peer_closed or error::peer_lost. Data never goes through it.
 *
 * Clients are served side by side while an async_accept is outstanding: one that is slow, silent or
 * hostile is answered, forgotten and logged, and keeps nobody else waiting. No handler hears of it. The
 * log is the spdlog logger named "boost_rdma", if the program registered one.
 *
 * @par The background thread
 * TCP is handled on a thread of the library's own, one for each execution context that connects or
 * accepts. Thus a connected queue pair is watched while the program computes, and does not keep
 * io_context::run() from returning, as an idle socket does not. Handlers are never called there.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe, as with Asio's acceptors. The context may run on any
 * number of threads.
 */
template <class Executor = boost::asio::any_io_executor>
class basic_acceptor
{
public:
  using executor_type = Executor;
  using endpoint_type = boost::asio::ip::tcp::endpoint;
  using queue_pair_type = basic_queue_pair<Executor>;

  /// Rebinds the type to another executor.
  template <class OtherExecutor>
  struct rebind_executor
  {
    using other = basic_acceptor<OtherExecutor>;
  };

  // Default arguments are spelt out, not `{}`: GCC 12 copies such a `{}` bit by bit where the same
  // expression has a co_await, as in queue_pair(co_await this_coro::executor, context).

  /// Listens. Throws system_error with what opening, binding or listening said.
  /**
   * @param executor For handlers and for accepted queue pairs.
   * @param domain Where accepted queue pairs belong; a context will do.
   * @param endpoint Port 0 takes one that is free: see local_endpoint().
   */
  basic_acceptor(const executor_type& executor, const protection_domain& domain,
    const endpoint_type& endpoint, const acceptor_options& options = acceptor_options())
    : executor_(executor)
  {
    error_code ec;
    core_ = open(domain, endpoint, options, ec);
    if (ec)
      throw system_error(ec, "acceptor");
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

  /// Outstanding accepts complete with operation_aborted. Handshakes go on for the accepts to come.
  void cancel()
  {
    if (core_)
      core_->cancel();
  }

  /// Stops listening. Outstanding accepts complete with operation_aborted; handshakes that have not been
  /// accepted are dropped.
  void close()
  {
    if (core_)
      core_->close();
  }

  /// Accepts the next client that has finished its handshake, and so has a queue pair connected to ours.
  /**
   * Any number of accepts may be outstanding; the oldest is served first.
   *
   * @param token Completion signature:
   * @code void(rdma::error_code, rdma::basic_queue_pair<Executor>) @endcode
   * The queue pair lives on the acceptor's executor. With an error it is as one that was moved from.
   * Nothing is lost that the client sends before the first receive is posted: it is sent again (RNR).
   *
   * What can go wrong: operation_aborted; error::closed. A client's failure is no error of the accept.
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
      detail::initiate_object<queue_pair_type, executor_type, detail::acceptor_core, start_accept>(
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
        detail::refuse_accept(executor, std::forward<Handler>(handler));
    }
  };

  std::shared_ptr<detail::acceptor_core> open(const protection_domain& domain,
    const endpoint_type& endpoint, const acceptor_options& options, error_code& ec) const
  {
    const auto inner = detail::inner_executor(executor_);
    return detail::acceptor_core::make(inner,
      inner == boost::asio::any_io_executor(executor_), domain, endpoint, options, ec);
  }

  executor_type executor_;
  std::shared_ptr<detail::acceptor_core> core_;
};

} // namespace rdma

#endif // BOOST_RDMA_BASIC_ACCEPTOR_HPP

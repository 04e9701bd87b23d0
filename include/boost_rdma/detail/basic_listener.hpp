//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_BASIC_LISTENER_HPP
#define BOOST_RDMA_DETAIL_BASIC_LISTENER_HPP

#include <boost_rdma/detail/inner_executor.hpp>
#include <boost_rdma/detail/io_object.hpp>
#include <boost_rdma/error.hpp>
#include <boost_rdma/protection_domain.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <concepts>
#include <memory>

namespace rdma::detail {

/// Common base of acceptors: opens them and returns their local endpoint.
template <class Executor, class Core, class Options>
class basic_listener : public io_object<Executor, Core>
{
public:
  /// The executor type.
  using executor_type = Executor;
  /// Address and TCP port.
  using endpoint_type = boost::asio::ip::tcp::endpoint;

  // Default arguments are spelt out because GCC 12 copies a `{}` default argument bit by bit if the
  // same expression has a co_await, as in queue_pair(co_await this_coro::executor, context).

  /// Opens an acceptor. Throws system_error; the description of the class lists the errors.
  /**
   * @param executor Executor for handlers and for accepted queue pairs.
   * @param domain Protection domain of accepted queue pairs; a context converts to one.
   * @param endpoint Address and port to listen on. Port 0 selects a free port: see
   * local_endpoint().
   * @param options Options of the acceptor and of accepted queue pairs.
   */
  basic_listener(const executor_type& executor, const protection_domain& domain,
    const endpoint_type& endpoint, const Options& options = Options())
    : io_object<Executor, Core>(executor)
  {
    error_code ec;
    this->core_ = open(executor, domain, endpoint, options, ec);
    if (ec)
      throw system_error(ec, Core::name);
  }

  /// Opens an acceptor. On failure sets ec, and the acceptor is in the state of a closed one.
  basic_listener(const executor_type& executor, const protection_domain& domain,
    const endpoint_type& endpoint, const Options& options, error_code& ec)
    : io_object<Executor, Core>(executor, open(executor, domain, endpoint, options, ec))
  {
  }

  /// Opens an acceptor in the context's own protection domain. Throws system_error.
  basic_listener(const executor_type& executor, const rdma::context& context,
    const endpoint_type& endpoint, const Options& options = Options())
    : basic_listener(executor, protection_domain(context), endpoint, options)
  {
  }

  /// Opens an acceptor with the executor of an execution context. Throws system_error.
  template <class ExecutionContext>
    requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
  basic_listener(ExecutionContext& owner, const protection_domain& domain,
    const endpoint_type& endpoint, const Options& options = Options())
    : basic_listener(executor_type(owner.get_executor()), domain, endpoint, options)
  {
  }

  /// Opens an acceptor with the executor of an execution context, in the context's own protection
  /// domain. Throws system_error.
  template <class ExecutionContext>
    requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
  basic_listener(ExecutionContext& owner, const rdma::context& context,
    const endpoint_type& endpoint, const Options& options = Options())
    : basic_listener(
      executor_type(owner.get_executor()), protection_domain(context), endpoint, options)
  {
  }

  /// Opens an acceptor with the executor of an execution context, in the context's own protection
  /// domain. On failure sets ec.
  template <class ExecutionContext>
    requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
  basic_listener(ExecutionContext& owner, const rdma::context& context,
    const endpoint_type& endpoint, const Options& options, error_code& ec)
    : basic_listener(
      executor_type(owner.get_executor()), protection_domain(context), endpoint, options, ec)
  {
  }

  /// Opens an acceptor with the executor of an execution context. On failure sets ec.
  template <class ExecutionContext>
    requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
  basic_listener(ExecutionContext& owner, const protection_domain& domain,
    const endpoint_type& endpoint, const Options& options, error_code& ec)
    : basic_listener(executor_type(owner.get_executor()), domain, endpoint, options, ec)
  {
  }

  /// Returns the local address and port, also after close(). The port is the selected one if port 0
  /// was requested.
  /** Precondition: the acceptor was opened and not moved from. */
  [[nodiscard]] endpoint_type local_endpoint() const { return this->core_->local_endpoint(); }

private:
  static std::shared_ptr<Core> open(const executor_type& executor, const protection_domain& domain,
    const endpoint_type& endpoint, const Options& options, error_code& ec)
  {
    return Core::make(executor, inner_executor(executor), domain, endpoint, options, ec);
  }
};

} // namespace rdma::detail

#endif // BOOST_RDMA_DETAIL_BASIC_LISTENER_HPP

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

/// What acceptors have in common, whatever their clients connect by: how they are opened, and where
/// they listen.
template <class Executor, class Core, class Options>
class basic_listener : public io_object<Executor, Core>
{
public:
  /// Whose handlers they are.
  using executor_type = Executor;
  /// Address and TCP port.
  using endpoint_type = boost::asio::ip::tcp::endpoint;

  // Default arguments are spelt out, not `{}`: GCC 12 copies such a `{}` bit by bit where the same
  // expression has a co_await, as in queue_pair(co_await this_coro::executor, context).

  /// Listens. Throws system_error: see the class for what can go wrong.
  /**
   * @param executor For handlers and for accepted queue pairs.
   * @param domain Where accepted queue pairs belong; a context will do.
   * @param endpoint Port 0 takes one that is free: see local_endpoint().
   * @param options What clients are asked for, and get.
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

  /// As above, with an error_code; on failure the acceptor is as one that was closed.
  basic_listener(const executor_type& executor, const protection_domain& domain,
    const endpoint_type& endpoint, const Options& options, error_code& ec)
    : io_object<Executor, Core>(executor, open(executor, domain, endpoint, options, ec))
  {
  }

  /// As above, with a context's own domain. Throws system_error.
  basic_listener(const executor_type& executor, const rdma::context& context,
    const endpoint_type& endpoint, const Options& options = Options())
    : basic_listener(executor, protection_domain(context), endpoint, options)
  {
  }

  /// As above, with the executor of an execution context. Throws system_error.
  template <class ExecutionContext>
    requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
  basic_listener(ExecutionContext& owner, const protection_domain& domain,
    const endpoint_type& endpoint, const Options& options = Options())
    : basic_listener(executor_type(owner.get_executor()), domain, endpoint, options)
  {
  }

  /// As above, with the executor of an execution context and a context's own domain. Throws
  /// system_error.
  template <class ExecutionContext>
    requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
  basic_listener(ExecutionContext& owner, const rdma::context& context,
    const endpoint_type& endpoint, const Options& options = Options())
    : basic_listener(
      executor_type(owner.get_executor()), protection_domain(context), endpoint, options)
  {
  }

  /// As above, with an error_code.
  template <class ExecutionContext>
    requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
  basic_listener(ExecutionContext& owner, const rdma::context& context,
    const endpoint_type& endpoint, const Options& options, error_code& ec)
    : basic_listener(
      executor_type(owner.get_executor()), protection_domain(context), endpoint, options, ec)
  {
  }

  /// As above, with a domain and an error_code.
  template <class ExecutionContext>
    requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
  basic_listener(ExecutionContext& owner, const protection_domain& domain,
    const endpoint_type& endpoint, const Options& options, error_code& ec)
    : basic_listener(executor_type(owner.get_executor()), domain, endpoint, options, ec)
  {
  }

  /// Where it listens, with the port that was taken for port 0; stays when closed.
  /** Precondition: opened, and not moved from. */
  [[nodiscard]] endpoint_type local_endpoint() const { return this->core_->local_endpoint(); }

private:
  static std::shared_ptr<Core> open(const executor_type& executor, const protection_domain& domain,
    const endpoint_type& endpoint, const Options& options, error_code& ec)
  {
    const auto inner = inner_executor(executor);
    return Core::make(
      inner, inner == boost::asio::any_io_executor(executor), domain, endpoint, options, ec);
  }
};

} // namespace rdma::detail

#endif // BOOST_RDMA_DETAIL_BASIC_LISTENER_HPP

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
#include <boost_rdma/detail/basic_listener.hpp>
#include <boost_rdma/detail/object_handler.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>

#include <utility>

namespace rdma {

/// Listens on a TCP port for queue pairs that connect by basic_queue_pair::async_connect().
/**
 * The TCP connection carries the handshake (an HTTP/1.1 upgrade) and stays for as long as the queue
 * pair does: when the peer closes its queue pair, or is lost, the operations of ours end with
 * error::peer_closed or error::peer_lost. Data never goes through it.
 *
 * Clients are served side by side while an async_accept is outstanding: one that is slow, silent or
 * hostile is answered, forgotten and logged, and keeps nobody else waiting. No handler hears of it.
 * The log is the spdlog logger named "boost_rdma", if the program registered one.
 *
 * @par Opening and closing
 * @code
 * basic_acceptor(executor, domain, endpoint, options = acceptor_options())
 * basic_acceptor(executor, domain, endpoint, options, ec)
 * @endcode
 * For the executor an execution context will do (an io_context), and for the domain a context. Port
 * 0 takes one that is free; local_endpoint() returns it, also after close(). Opening one throws
 * system_error, or says by an error_code, what opening, binding or listening said; then it is as
 * one that was closed.
 *
 * close(), as destruction, drops the handshakes that have not been accepted, and ends accepts with
 * operation_aborted; cancel() ends the accepts alone and lets the handshakes go on. is_open() and
 * get_executor() are as Asio's acceptors have them.
 *
 * @par The background thread
 * TCP is handled on a thread of the library's own, one for each execution context that connects or
 * accepts. Thus a connected queue pair is watched while the program computes, and does not keep
 * io_context::run() from returning, as an idle socket does not. Handlers are never called there.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe, as with Asio's acceptors. The context may run on
 * any number of threads.
 */
template <class Executor = boost::asio::any_io_executor>
class basic_acceptor
  : public detail::basic_listener<Executor, detail::acceptor_core, acceptor_options>
{
public:
  /// What handlers run on that have no executor of their own, and accepted queue pairs.
  using executor_type = Executor;

  /// What clients are accepted as.
  using queue_pair_type = basic_queue_pair<Executor>;

  /// Rebinds the type to another executor.
  template <class OtherExecutor>
  struct rebind_executor
  {
    /// The same type with that executor.
    using other = basic_acceptor<OtherExecutor>;
  };

  using detail::basic_listener<Executor, detail::acceptor_core, acceptor_options>::basic_listener;

  /// Accepts the next client that has finished its handshake, and so has a queue pair connected to
  /// ours.
  /**
   * Any number of accepts may be outstanding; the oldest is served first.
   *
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::basic_queue_pair<Executor>) @endcode
   * The queue pair lives on the acceptor's executor. With an error it is as one that was moved
   * from. Nothing is lost that the client sends before the first receive is posted: it is sent
   * again (RNR).
   *
   * What can go wrong: operation_aborted, when it is cancelled or the acceptor is closed;
   * error::closed, when that was before; error::forked in a child of the process that made the
   * acceptor. A client's failure is no error of the accept, nor is it when no queue pair can be had
   * for one (503): both are logged.
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
        this->executor_, this->core_, {}),
      token);
  }

private:
  struct start_accept
  {
    template <class Handler>
    void operator()(
      detail::acceptor_core* core, const executor_type& executor, Handler&& handler) const
    {
      if (core != nullptr)
        core->accept(executor, std::forward<Handler>(handler));
      else
        detail::refuse_accept(executor, std::forward<Handler>(handler));
    }
  };
};

} // namespace rdma

#endif // BOOST_RDMA_BASIC_ACCEPTOR_HPP

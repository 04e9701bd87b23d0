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
#include <boost_rdma/detail/initiation.hpp>
#include <boost_rdma/detail/mapped_handler.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>

#include <utility>

namespace rdma {

/// Listens on a TCP port for queue pairs that connect by basic_queue_pair::async_connect().
/**
 * The TCP connection carries the handshake (an HTTP/1.1 upgrade) and remains open as long as the
 * queue pair is connected. If the peer closes its queue pair, or is lost, the operations of this
 * side's queue pair end with error::peer_closed or error::peer_lost. Data never goes through the
 * TCP connection.
 *
 * Clients are served concurrently while an async_accept is outstanding. A slow, silent or hostile
 * client is answered, removed and logged. It delays no other client, and no handler is called for
 * it. The log is the spdlog logger named "boost_rdma", if the program registered one.
 *
 * @par Opening and closing
 * @code
 * basic_acceptor(executor, domain, endpoint, options = acceptor_options())
 * basic_acceptor(executor, domain, endpoint, options, ec)
 * @endcode
 * The executor may also be an execution context (an io_context), and the domain a context. Port 0
 * selects a free port; local_endpoint() returns it, also after close(). If opening, binding or
 * listening fails, the constructor throws system_error, or sets ec and leaves the acceptor in the
 * state of a closed one.
 *
 * @par
 * close() and the destructor drop the handshakes that have not been accepted, and end accepts with
 * operation_aborted. cancel() ends only the accepts, and the handshakes continue. is_open() and
 * get_executor() work as those of Asio's acceptors.
 *
 * @par The background thread
 * A thread of the library handles TCP, one for each execution context that connects or accepts. A
 * connected queue pair is therefore monitored while the program computes. Like an idle socket, it
 * does not keep io_context::run() from returning. Handlers are never called on this thread.
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
  /// The executor type, for handlers without an associated executor and for accepted queue pairs.
  using executor_type = Executor;

  /// The queue pair type of accepted clients.
  using queue_pair_type = basic_queue_pair<Executor>;

  /// Rebinds the type to another executor.
  template <class OtherExecutor>
  struct rebind_executor
  {
    /// The same type with that executor.
    using other = basic_acceptor<OtherExecutor>;
  };

  using detail::basic_listener<Executor, detail::acceptor_core, acceptor_options>::basic_listener;

  /// Accepts the next client that has finished its handshake, and completes with a connected queue
  /// pair.
  /**
   * Any number of accepts may be outstanding; the oldest one receives the next client.
   *
   * A failure of a client does not end the accept. The same applies if no queue pair can be created
   * for a client (503). Both are logged.
   *
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::basic_queue_pair<Executor>) @endcode
   * The queue pair has the acceptor's executor. Messages that the client sends before the first
   * receive is posted are not lost: the client's device repeats them (RNR). If there is an error,
   * the queue pair is in the state of an object that was moved from.
   *
   * @par Errors
   * @li operation_aborted: the accept was cancelled, or the acceptor was closed during it.
   * @li error::closed: the acceptor was closed or moved from before.
   * @li error::forked: the call was made in a child of the process that made the acceptor.
   *
   * @par Per-operation cancellation
   * terminal, partial and total withdraw the accept. No client is lost.
   */
  template <boost::asio::completion_token_for<void(error_code, queue_pair_type)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_accept(
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code, queue_pair_type)>(
      detail::initiation(this->executor_,
        [core = this->core_](const auto& executor, auto&& handler)
        {
          detail::start_accept(executor, core.get(),
            detail::handler_of_object<queue_pair_type>(
              executor, std::forward<decltype(handler)>(handler)));
        }),
      token);
  }
};

} // namespace rdma

#endif // BOOST_RDMA_BASIC_ACCEPTOR_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_BASIC_AGENT_HPP
#define BOOST_RDMA_BASIC_AGENT_HPP

#include <boost_rdma/agent_options.hpp>
#include <boost_rdma/basic_queue_pair.hpp>
#include <boost_rdma/detail/agent_core.hpp>
#include <boost_rdma/detail/initiation.hpp>
#include <boost_rdma/remote_memory.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>

namespace rdma {

/// Manages memory on the other host. basic_queue_pair::agent() returns it.
/**
 * The agents of the two peers communicate through a queue pair of their own. It is created when one
 * of them first has a message to send. The agents' messages therefore never consume a receive that
 * the program posted. The agents run by themselves on the queue pairs' executors.
 *
 * The peer's memory is granted by its lessor (queue_pair_options::grant_from()). All other requests
 * require that the peer's program has called agent(), too. Until it does, requests wait, up to
 * their time limit.
 *
 * Any number of requests may be outstanding. At most 16 of them are sent to the peer at a time.
 * They are answered in any order. If a request times out or is cancelled and the peer grants it
 * later, the agent returns the grant to the peer.
 *
 * The agent keeps io_context::run() from returning while its operations are outstanding, and while
 * memory of this side is lent or leased to the peer. At other times it receives the peer's
 * notifications, such as memory that is lent or taken back, only while another operation is
 * outstanding on the completion queue. The agent belongs to the queue pair and ends with the
 * connection. A handle may be copied and kept.
 *
 * @par Errors
 * Every request can complete with:
 * @li error::not_connected: the queue pair is not connected yet.
 * @li error::closed: the queue pair was closed or moved from.
 * @li the error that ended the connection.
 * @li operation_not_supported: the connection has no control channel (it was made by connect() or
 *     RDMA-CM).
 * @li boost::asio::error::timed_out: the peer's agent did not answer in time.
 * @li error::agent_ended: the agents no longer communicate.
 * @li no_memory: there was no memory for the operation, or for a step of the agent, which ends it.
 * @li error::forked: the call was made in a child process.
 *
 * @par Per-operation cancellation
 * terminal, partial and total end the wait with operation_aborted.
 *
 * @par Thread safety
 * Distinct objects: safe, including objects of the same queue pair. Shared objects: safe, except
 * for assignment and destruction.
 */
template <class Executor = boost::asio::any_io_executor>
class basic_agent
{
public:
  /// The executor type, for handlers without an associated executor.
  using executor_type = Executor;

  /// Rebinds the type to another executor.
  template <class OtherExecutor>
  struct rebind_executor
  {
    /// The same type with that executor.
    using other = basic_agent<OtherExecutor>;
  };

  /// Creates a handle to the agent of a connected queue pair. If the queue pair cannot have an
  /// agent, each operation completes with the reason.
  explicit basic_agent(const basic_queue_pair<Executor>& owner)
    : basic_agent(owner.get_executor(), owner.core())
  {
  }

  /// For the library itself.
  basic_agent(const executor_type& executor, const std::shared_ptr<detail::queue_pair_core>& core)
    : executor_(executor)
    , core_(detail::agent_core::of(core, unavailable_reason_))
  {
  }

  /// Returns the queue pair's executor.
  [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }

  /// Sets the time that the peer has to answer requests made through this handle. Requests whose
  /// options contain a time limit use that one instead.
  void time_limit(std::chrono::milliseconds limit) noexcept { time_limit_ = limit; }

  /// Returns the time limit of this handle; initially agent_time_limit.
  [[nodiscard]] std::chrono::milliseconds time_limit() const noexcept { return time_limit_; }

  /// Leases memory of the peer, filled with zeros.
  /**
   * @param size Size in bytes; must be greater than 0.
   * @param options Alignment, lifetime, rights and time limit.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::remote_memory) @endcode
   * The memory is empty if there is an error.
   *
   * @par Errors
   * In addition to the errors of the class:
   * @li error::no_lessor: the peer's program grants no memory.
   * @li error::quota_exceeded: the peer's quota does not allow the request.
   * @li error::pool_exhausted: the peer's memory pool reached its limit.
   * @li error::bad_alignment: the alignment is not a power of two, or is greater than 4096.
   * @li error::remote_right_missing: the peer does not grant these rights.
   * @li error::lease_failed: the peer could not expose the memory.
   * @li error::empty_buffer: the size is 0.
   * @li error::bad_access: the rights are not one or more remote_ rights.
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the wait with operation_aborted. Memory that the peer grants
   * afterwards is returned to it.
   */
  template <boost::asio::completion_token_for<void(error_code, remote_memory)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_allocate(std::size_t size, const allocation_options& options,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return initiate<CompletionToken, remote_memory>(token,
      [size, options](detail::agent_core& core, const auto& executor, auto&& handler)
      { core.allocate(executor, size, options, std::move(handler)); });
  }

  /// Leases memory of the peer, with time_limit() and the default values of all other options.
  /**
   * @param size Size in bytes; must be greater than 0.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::remote_memory) @endcode
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the wait with operation_aborted. Memory that the peer grants
   * afterwards is returned to it.
   */
  template <boost::asio::completion_token_for<void(error_code, remote_memory)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_allocate(std::size_t size,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    allocation_options options;
    options.time_limit = time_limit_;
    return async_allocate(size, options, std::forward<CompletionToken>(token));
  }

  /// Extends a lease by a lifetime that begins now.
  /**
   * The peer may grant less: see remote_memory::expires_at(). Memory that the peer lent cannot be
   * renewed; its lifetime is set by the peer's program.
   *
   * @param memory The leased memory. It may be destroyed before the handler is called.
   * @param lifetime Lifetime from the moment that the peer receives the request.
   * milliseconds::max() means as long as the connection.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code) @endcode
   *
   * @par Errors
   * In addition to the errors of the class:
   * @li error::lease_ended: the lease had ended before, or the memory was lent by the peer.
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the wait with operation_aborted. The lease may be renewed
   * nevertheless: remote_memory::expires_at() changes when the answer arrives.
   */
  template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_renew(const remote_memory& memory, std::chrono::milliseconds lifetime,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return initiate<CompletionToken>(token,
      [lease = memory.lease(), lifetime, limit = time_limit_](
        detail::agent_core& core, const auto& executor, auto&& handler)
      { core.renew(executor, lease, lifetime, limit, std::move(handler)); });
  }

  /// Ends a lease and completes when the peer has its memory back.
  /**
   * Wait for the operations that use the memory first: their order relative to this one is
   * undefined.
   *
   * @param memory The leased memory.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code) @endcode
   *
   * @par Errors
   * In addition to the errors of the class:
   * @li error::lease_ended: the lease had ended before, or belongs to another agent.
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the wait with operation_aborted. The lease ends nevertheless.
   */
  template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_release(remote_memory memory,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return initiate<CompletionToken>(token,
      [lease = detail::take_lease(memory), limit = time_limit_](
        detail::agent_core& core, const auto& executor, auto&& handler) mutable
      { core.release(executor, std::move(lease), limit, std::move(handler)); });
  }

  /// Ends a lease and hands the memory, with the data written to it, to the peer's program.
  /**
   * The peer's async_receive_local() receives the memory. It must have been granted by the peer's
   * lessor: memory that the peer lent belongs to its program anyway. Wait for the operations that
   * use the memory first.
   *
   * @param memory The leased memory.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code) @endcode
   * Success: the memory belongs to the peer's program.
   *
   * @par Errors
   * In addition to the errors of the class:
   * @li error::lease_ended: the lease had ended before, belongs to another agent, or is for memory
   *     that the peer lent.
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the wait with operation_aborted. The memory is handed over
   * nevertheless.
   */
  template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_hand_over(remote_memory memory,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return initiate<CompletionToken>(token,
      [lease = detail::take_lease(memory), limit = time_limit_](
        detail::agent_core& core, const auto& executor, auto&& handler) mutable
      { core.hand_over(executor, std::move(lease), limit, std::move(handler)); });
  }

  /// Lends memory of this side to the peer, whose async_receive_remote() receives the lease.
  /**
   * @param region The memory to lend; all of it is lent. It is memory from a pool or a
   * memory_region with access::window_bind. If the device has no memory windows, it may be any
   * registered memory. It must remain valid, and is kept registered, until the loan is returned.
   * @param options Rights, lifetime and time limit.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::loan) @endcode
   * Nothing is lent if there is an error.
   *
   * @par Errors
   * In addition to the errors of the class:
   * @li error::not_registered: the memory is not registered.
   * @li error::wrong_context: the memory is registered in another context or protection domain.
   * @li error::empty_buffer: the region has no bytes.
   * @li error::bad_access: the rights are not one or more remote_ rights, or they include writing
   *     and the memory lacks access::local_write.
   * @li error::read_only: the memory was registered as const and the rights include writing.
   * @li error::not_exposed: the memory lacks access::window_bind.
   * @li error::inbox_full: the peer's program does not take what it is lent.
   * @li the error of binding a memory window, or of registering memory.
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the wait with operation_aborted. The memory is taken back.
   */
  template <boost::asio::completion_token_for<void(error_code, loan)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_lend(const mutable_buffer& region, const lend_options& options,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return initiate<CompletionToken, loan>(token,
      [region, options](detail::agent_core& core, const auto& executor, auto&& handler)
      { core.lend(executor, region, options, std::move(handler)); });
  }

  /// Lends memory of this side to the peer for reading, with time_limit() and the default values of
  /// all other options.
  /**
   * @param region See the overload with options.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::loan) @endcode
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the wait with operation_aborted. The memory is taken back.
   */
  template <boost::asio::completion_token_for<void(error_code, loan)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_lend(const mutable_buffer& region,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    lend_options options;
    options.time_limit = time_limit_;
    return async_lend(region, options, std::forward<CompletionToken>(token));
  }

  /// Waits until a loan has ended, for any reason.
  /**
   * Any number of waits may be outstanding. time_limit() does not apply.
   *
   * @param lent The loan. Destroying it takes the memory back, also before the handler is called.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code) @endcode
   * Success: the peer returned the memory, the loan's lifetime ended, or this side took the memory
   * back.
   *
   * @par Errors
   * @li error::lease_ended: `lent` is empty.
   * @li the error that ended the connection.
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the wait with operation_aborted. The memory remains lent.
   */
  template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_wait_return(const loan& lent,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return initiate<CompletionToken>(token,
      [lease = lent.lease()](detail::agent_core& core, const auto& executor, auto&& handler)
      { core.wait_return(executor, lease, std::move(handler)); });
  }

  /// Waits for memory that the peer lends.
  /**
   * There is no time limit. Any number of waits may be outstanding; the oldest one receives the
   * next lease. Leases that arrive while no wait is outstanding are kept, at most 64 of them.
   *
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::remote_memory) @endcode
   * The memory is empty if there is an error.
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the wait with operation_aborted. No lease is lost.
   */
  template <boost::asio::completion_token_for<void(error_code, remote_memory)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_receive_remote(
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return initiate<CompletionToken, remote_memory>(token,
      [](detail::agent_core& core, const auto& executor, auto&& handler)
      { core.receive_remote(executor, std::move(handler)); });
  }

  /// Waits for memory of this side that the peer hands over.
  /**
   * There is no time limit. Any number of waits may be outstanding; the oldest one receives the
   * next memory. Memory that is handed over while no wait is outstanding is kept, also after the
   * end of the connection. It is released when the queue pair and all handles of its agent are
   * destroyed, and counts towards the quotas until then.
   *
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::registered_buffer) @endcode
   * The memory comes from the lessor's pool. It is empty if there is an error.
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the wait with operation_aborted. No memory is lost.
   */
  template <boost::asio::completion_token_for<void(error_code, registered_buffer)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_receive_local(
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return initiate<CompletionToken, registered_buffer>(token,
      [](detail::agent_core& core, const auto& executor, auto&& handler)
      { core.receive_local(executor, std::move(handler)); });
  }

private:
  template <class CompletionToken, class... Results, class Start>
  auto initiate(std::remove_reference_t<CompletionToken>& token, Start start)
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code, Results...)>(
      detail::initiation(executor_,
        [core = core_, reason = unavailable_reason_, start = std::move(start)](
          const auto& executor, auto&& handler) mutable
        {
          detail::agent_core::handler_of<Results...> erased(
            std::forward<decltype(handler)>(handler));
          if (core)
            start(*core, executor, std::move(erased));
          else
            detail::refuse_request<Results...>(executor, reason, std::move(erased));
        }),
      token);
  }

  executor_type executor_;
  std::chrono::milliseconds time_limit_ = agent_time_limit;
  error_code unavailable_reason_;
  std::shared_ptr<detail::agent_core> core_;
};

} // namespace rdma

#endif // BOOST_RDMA_BASIC_AGENT_HPP

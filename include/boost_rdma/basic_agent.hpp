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
#include <boost_rdma/remote_memory.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>

namespace rdma {

/// Manages memory on the other host: what basic_queue_pair::agent() returns.
/**
 * The peers' agents talk by a queue pair of their own, made when one of them first has something to
 * say, so that no message of theirs takes a receive that the program posted. They work by
 * themselves on the queue pairs' executors.
 *
 * Memory of the peer's is granted by its lessor (queue_pair_options::grant_from()). For the rest
 * the peer's program needs to have asked for its agent, too: until then requests wait, for as long
 * as their time limit.
 *
 * Requests may be outstanding in any number, of which 16 are with the peer at a time, and are
 * answered in any order.
 *
 * The agent keeps io_context::run() from returning while operations of it are outstanding, and
 * while memory of this side is out to the peer. Otherwise it hears of what the peer says (that it
 * lends something, that it took something back) when anything else is outstanding on the completion
 * queue, such as a receive. It is the queue pair's, and ends with the connection; a handle may be
 * copied, and kept.
 *
 * @par Errors
 * Of every request: error::not_connected, error::closed, and what ended the connection;
 * operation_not_supported on a connection that has no control channel (by connect() or RDMA-CM);
 * boost::asio::error::timed_out when the peer's agent does not answer in time; error::agent_ended
 * when the agents talk no more; error::forked in a child process. What a request that timed out, or
 * was cancelled, would have given is given back when it comes.
 *
 * @par Per-operation cancellation
 * terminal, partial and total end the wait, with operation_aborted.
 *
 * @par Thread safety
 * Distinct objects: safe, also those of one queue pair. Shared objects: safe, except for assignment
 * and destruction.
 */
template <class Executor = boost::asio::any_io_executor>
class basic_agent
{
public:
  /// What handlers run on that have no executor of their own.
  using executor_type = Executor;

  /// Rebinds the type to another executor.
  template <class OtherExecutor>
  struct rebind_executor
  {
    /// The same type with that executor.
    using other = basic_agent<OtherExecutor>;
  };

  /// The agent of a connected queue pair. What stands in the way is the outcome of each operation.
  explicit basic_agent(const basic_queue_pair<Executor>& owner)
    : basic_agent(owner.get_executor(), owner.core())
  {
  }

  /// For the library itself.
  basic_agent(const executor_type& executor, const std::shared_ptr<detail::queue_pair_core>& core)
    : executor_(executor)
    , core_(detail::agent_core::of(core, why_none_))
  {
  }

  /// The queue pair's executor.
  [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }

  /// How long the peer may take to answer what is asked through this handle, but for what has
  /// options that say so.
  void time_limit(std::chrono::milliseconds limit) noexcept { time_limit_ = limit; }

  /// What was set, else agent_time_limit.
  [[nodiscard]] std::chrono::milliseconds time_limit() const noexcept { return time_limit_; }

  /// Leases memory of the peer's, all zero.
  /**
   * @param size Bytes, more than none.
   * @param options Alignment, lifetime, rights, and how long the peer may take.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::remote_memory) @endcode
   * With an error the memory is empty.
   *
   * Beside what the class lists: error::no_lessor, error::quota_exceeded, error::pool_exhausted,
   * error::bad_alignment, error::remote_right_missing for rights that the peer does not give,
   * error::lease_failed; error::empty_buffer, error::bad_access.
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the wait, with operation_aborted; what the peer grants then is
   * given back.
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

  /// As above, with time_limit() and otherwise the options' defaults.
  /**
   * @param size Bytes, more than none.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::remote_memory) @endcode
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the wait, with operation_aborted; what the peer grants then is
   * given back.
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

  /// Has a lease last this much longer from now on, or as much as the peer grants: see
  /// remote_memory::expires_at().
  /**
   * What the peer lent lasts as long as the peer's program said: error::lease_ended.
   *
   * @param memory May go before the handler is called.
   * @param lifetime From when the peer hears of it; milliseconds::max() is as long as the
   * connection.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code) @endcode
   * error::lease_ended when that was before.
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the wait, with operation_aborted; the lease may have been
   * renewed all the same.
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

  /// Ends a lease, and waits until the peer has its memory back.
  /**
   * Operations that use the memory should have completed before: they are carried out in no
   * particular order with this.
   *
   * @param memory Whose lease it is; of other agents: error::lease_ended.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code) @endcode
   * error::lease_ended when that was before.
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the wait, with operation_aborted; the lease ends all the same.
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

  /// Ends a lease, and gives the memory, with what has been written to it, to the peer's program.
  /**
   * For memory that the peer's lessor granted: what a peer lent is its program's anyway
   * (error::lease_ended). The peer's async_receive_local() has it. Operations that use the memory
   * should have completed before.
   *
   * @param memory Whose lease it is; of other agents: error::lease_ended.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code) @endcode
   * Success: the memory is the peer's program's. error::lease_ended when that was before.
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the wait, with operation_aborted; the memory is handed over all
   * the same.
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

  /// Gives the peer a lease of memory of this side's; its async_receive_remote() has it.
  /**
   * @param region All of it; memory from a pool, a memory_region with access::window_bind, or any
   * registered memory where the device has no windows. It has to stay, and is kept registered,
   * until the loan is back.
   * @param options Rights, lifetime, and how long the peer may take.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::loan) @endcode
   * With an error nothing is lent.
   *
   * Beside what the class lists: error::not_registered, error::wrong_context, error::empty_buffer,
   * error::bad_access (also for writing to memory without access::local_write), error::read_only,
   * error::not_exposed, error::inbox_full; what binding a window or registering said.
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the wait, with operation_aborted; the memory is taken back.
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

  /// As above, with time_limit() and otherwise the options' defaults: for reading.
  /**
   * @param region See above.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::loan) @endcode
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the wait, with operation_aborted; the memory is taken back.
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

  /// Waits until a loan is back, however that comes about.
  /**
   * Any number of waits may be outstanding; time_limit() does not count.
   *
   * @param lent May go before the handler is called, which takes the memory back.
   * error::lease_ended where it is empty.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code) @endcode
   * Success: the peer gave it back, its time is over, or this side took it back; else what ended
   * the connection.
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the wait, with operation_aborted; the memory stays lent.
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

  /// Waits for something that the peer lends. What nobody waits for is kept, 64 of them at most.
  /**
   * Without a time limit. Any number of waits may be outstanding; the oldest gets the next.
   *
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::remote_memory) @endcode
   * With an error the memory is empty.
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the wait, with operation_aborted; nothing is lost by it.
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

  /// Waits for memory of this side's that the peer hands over.
  /**
   * What nobody waits for is kept, also when the connection has ended, for as long as the queue
   * pair or a handle of its agent is, and counts for the quotas. Without a time limit. Any number
   * of waits may be outstanding; the oldest gets the next.
   *
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::registered_buffer) @endcode
   * The memory, which comes from the lessor's pool. With an error it is empty.
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the wait, with operation_aborted; nothing is lost by it.
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
      detail::initiate_request<executor_type, Start, Results...>(
        executor_, core_, why_none_, std::move(start)),
      token);
  }

  executor_type executor_;
  std::chrono::milliseconds time_limit_ = agent_time_limit;
  error_code why_none_;
  std::shared_ptr<detail::agent_core> core_;
};

} // namespace rdma

#endif // BOOST_RDMA_BASIC_AGENT_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_SHARED_RECEIVE_QUEUE_HPP
#define BOOST_RDMA_SHARED_RECEIVE_QUEUE_HPP

#include <boost_rdma/completion_queue.hpp>
#include <boost_rdma/detail/initiate.hpp>
#include <boost_rdma/protection_domain.hpp>
#include <boost_rdma/queue_pair_options.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace rdma {

/// How a shared receive queue is made (ibv_srq_init_attr).
struct shared_receive_queue_options
{
  std::uint32_t depth =
    1024; ///< receives that the device holds; more wait their turn; 0 counts as 1
  std::uint32_t max_sge = 4; ///< pieces of a buffer sequence; 32 at most

  /// As queue_pair_options::copy_max.
  std::size_t copy_max = queue_pair_options::copy_max_default;

  /// Which of the context's devices, by name; empty for the default one.
  std::string device;

  /// Where completions arrive; without one, the queue of the io_context and device.
  std::optional<completion_queue> completions;
};

namespace detail {
class shared_receive_core;
std::shared_ptr<shared_receive_core> make_shared_receive_core(
  const boost::asio::any_io_executor& executor, bool same_context, const protection_domain& domain,
  const shared_receive_queue_options& options);
void close_shared_receive_core(const std::shared_ptr<shared_receive_core>& core);
work_source* as_work_source(const std::shared_ptr<shared_receive_core>& core) noexcept;
} // namespace detail

/// Receives that serve any of several queue pairs (ibv_create_srq): memory by load, not by
/// connection.
/**
 * Make queue pairs with queue_pair_options::receive_from(). message::queue_pair_number tells which
 * one a message came in on.
 *
 * Destroying or closing the queue withdraws what the device does not hold yet; receives that it
 * holds complete with boost::asio::error::operation_aborted when the last queue pair that uses the
 * queue is gone, because only then the device lets go of the memory.
 *
 * A device that reports the queue as failed ends its queue pairs with
 * error::shared_receive_queue_failed.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe.
 */
template <class Executor = boost::asio::any_io_executor>
class basic_shared_receive_queue
{
public:
  /// What handlers run on that have no executor of their own.
  using executor_type = Executor;

  /// Rebinds the type to another executor.
  template <class OtherExecutor>
  struct rebind_executor
  {
    /// The same type with that executor.
    using other = basic_shared_receive_queue<OtherExecutor>;
  };

  /// Makes a queue that receives can be posted to (ibv_create_srq(3)).
  /**
   * @param executor For handlers that have none of their own.
   * @param domain The domain of the buffers, and of the queue pairs that are to use it; a context
   * will do.
   * @param options How deep it is, and on which device.
   *
   * Throws system_error: error::queue_too_deep, error::no_device, error::device_lost,
   * error::wrong_context for options.completions of other devices, operation_not_supported where
   * device::has_shared_receive_queues() is false, or what ibv_create_srq said.
   */
  basic_shared_receive_queue(const executor_type& executor, const protection_domain& domain,
    const shared_receive_queue_options& options = shared_receive_queue_options())
    : executor_(executor)
    , core_(detail::make_shared_receive_core(detail::inner_executor(executor),
        detail::inner_executor(executor) == boost::asio::any_io_executor(executor), domain,
        options))
  {
  }

  /// As above, with the executor of an execution context.
  template <class ExecutionContext>
    requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
  basic_shared_receive_queue(ExecutionContext& owner, const protection_domain& domain,
    const shared_receive_queue_options& options = shared_receive_queue_options())
    : basic_shared_receive_queue(executor_type(owner.get_executor()), domain, options)
  {
  }

  /// Receives on the one that was moved from complete with error::closed.
  // The executor is copied: receives on an object that was moved from still complete, with an
  // error.
  basic_shared_receive_queue(basic_shared_receive_queue&& other) noexcept
    : executor_(other.executor_)
    , core_(std::move(other.core_))
  {
  }

  /// Ends the queue that it was, as close() does.
  basic_shared_receive_queue& operator=(basic_shared_receive_queue&& other) noexcept
  {
    if (this != &other)
    {
      close();
      executor_ = other.executor_;
      core_ = std::move(other.core_);
    }
    return *this;
  }

  /// As close().
  ~basic_shared_receive_queue() { close(); }

  /// What it was made with.
  [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }

  /// Ends it; see the description of the class.
  void close()
  {
    if (core_)
      detail::close_shared_receive_core(core_);
  }

  /// Receives the next message of any of the queue pairs (ibv_post_srq_recv(3)).
  /**
   * May be called before there are queue pairs. Errors are those of
   * basic_queue_pair::async_receive(); error::closed after close().
   *
   * @param buffers Where to; at most shared_receive_queue_options::max_sge buffers. rdma::no_data
   * takes messages without bytes.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::message) @endcode
   * message::queue_pair_number tells which queue pair it came in on. With an error the message has
   * no meaning.
   *
   * @par Per-operation cancellation
   * A receive that the device does not hold yet is withdrawn by terminal, partial and total
   * cancellation. One that it holds cannot be cancelled: it ends with a message or with the queue.
   */
  template <mutable_buffer_sequence Buffers,
    boost::asio::completion_token_for<void(error_code, message)> CompletionToken =
      boost::asio::default_completion_token_t<executor_type>>
  auto async_receive_message(const Buffers& buffers,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code, message)>(
      detail::initiate_operation<detail::message_result, executor_type>(
        detail::as_work_source(core_), executor_),
      token, detail::request{.kind = detail::request_kind::receive}, detail::kept_buffers(buffers));
  }

  /// For the library itself.
  [[nodiscard]] const std::shared_ptr<detail::shared_receive_core>& core() const noexcept
  {
    return core_;
  }

private:
  executor_type executor_;
  std::shared_ptr<detail::shared_receive_core> core_;
};

/// The shared receive queue of programs that do not choose an executor type.
using shared_receive_queue = basic_shared_receive_queue<>;

} // namespace rdma

#endif // BOOST_RDMA_SHARED_RECEIVE_QUEUE_HPP

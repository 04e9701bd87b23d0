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
#include <boost_rdma/detail/inner_executor.hpp>
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

/// Options of a shared receive queue (ibv_srq_init_attr).
struct shared_receive_queue_options
{
  /// Number of receives in the device's queue; further receives wait inside the object. 0 means 1.
  std::uint32_t depth = 1024;
  /// Maximum number of buffers in a sequence; at most 32.
  std::uint32_t max_sge = 4;

  /// See queue_pair_options::copy_max.
  std::size_t copy_max = queue_pair_options::copy_max_default;

  /// Name of one of the context's devices; empty means the default one.
  std::string device;

  /// Completion queue. Without it the queue of the io_context and device is used.
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

/// A receive queue that several queue pairs share (ibv_create_srq(3)). Its memory depends on the
/// load, not on the number of connections.
/**
 * Select it with queue_pair_options::receive_from(). message::queue_pair_number identifies the
 * queue pair that received a message.
 *
 * Destroying or closing the queue withdraws receives that are not posted to the device yet. Posted
 * receives complete with boost::asio::error::operation_aborted after the last queue pair that uses
 * the queue is destroyed, because the device uses their memory until then.
 *
 * If the device reports the queue as failed, its queue pairs end with
 * error::shared_receive_queue_failed.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe.
 */
template <class Executor = boost::asio::any_io_executor>
class basic_shared_receive_queue
{
public:
  /// The executor type, for handlers without an associated executor.
  using executor_type = Executor;

  /// Rebinds the type to another executor.
  template <class OtherExecutor>
  struct rebind_executor
  {
    /// The same type with that executor.
    using other = basic_shared_receive_queue<OtherExecutor>;
  };

  /// Creates a shared receive queue (ibv_create_srq(3)).
  /**
   * @param executor Executor for handlers without an associated executor.
   * @param domain Protection domain of the buffers and of the queue pairs that use the queue; a
   * context converts to one.
   * @param options Depth, limits and device.
   *
   * @throws system_error With one of these errors:
   * @li error::queue_too_deep: an option is beyond the device's limit.
   * @li error::no_device: the context has not opened a device of that name.
   * @li error::device_lost: the device failed or was removed.
   * @li error::wrong_context: options.completions belongs to another device.
   * @li operation_not_supported: device::has_shared_receive_queues() is false.
   * @li the error of ibv_create_srq.
   */
  basic_shared_receive_queue(const executor_type& executor, const protection_domain& domain,
    const shared_receive_queue_options& options = shared_receive_queue_options())
    : executor_(executor)
    , core_(detail::make_shared_receive_core(detail::inner_executor(executor),
        detail::inner_executor(executor) == boost::asio::any_io_executor(executor), domain,
        options))
  {
  }

  /// Creates a shared receive queue with the executor of an execution context.
  template <class ExecutionContext>
    requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
  basic_shared_receive_queue(ExecutionContext& owner, const protection_domain& domain,
    const shared_receive_queue_options& options = shared_receive_queue_options())
    : basic_shared_receive_queue(executor_type(owner.get_executor()), domain, options)
  {
  }

  /// Moves a queue. Receives on the object that was moved from complete with error::closed.
  // The executor is copied so that these receives can complete.
  basic_shared_receive_queue(basic_shared_receive_queue&& other) noexcept
    : executor_(other.executor_)
    , core_(std::move(other.core_))
  {
  }

  /// Closes this object's queue, as close() does, and moves `other` into it.
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

  /// Closes the queue, as close() does.
  ~basic_shared_receive_queue() { close(); }

  /// Returns the executor passed to the constructor.
  [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }

  /// Closes the queue; see the description of the class.
  void close()
  {
    if (core_)
      detail::close_shared_receive_core(core_);
  }

  /// Receives the next message of any of the queue pairs (ibv_post_srq_recv(3)).
  /**
   * May be called before queue pairs exist.
   *
   * @param buffers Destination: at most shared_receive_queue_options::max_sge buffers.
   * rdma::no_data receives messages without bytes.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::message) @endcode
   * message::queue_pair_number identifies the queue pair. The message has no meaning if there is an
   * error.
   *
   * @par Errors
   * In addition to the errors of basic_queue_pair::async_receive():
   * @li error::closed: the queue was closed or moved from.
   *
   * @par Per-operation cancellation
   * terminal, partial and total withdraw a receive that is not posted to the device yet. A posted
   * receive cannot be cancelled: it ends with a message or with the queue.
   */
  template <mutable_buffer_sequence Buffers,
    boost::asio::completion_token_for<void(error_code, message)> CompletionToken =
      boost::asio::default_completion_token_t<executor_type>>
  auto async_receive_message(const Buffers& buffers,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code, message)>(
      detail::initiation_of<detail::message_result>(detail::as_work_source(core_), executor_),
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

/// Shared receive queue with the default executor type.
using shared_receive_queue = basic_shared_receive_queue<>;

} // namespace rdma

#endif // BOOST_RDMA_SHARED_RECEIVE_QUEUE_HPP

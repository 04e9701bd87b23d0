//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_BASIC_DEVICE_EVENTS_HPP
#define BOOST_RDMA_BASIC_DEVICE_EVENTS_HPP

#include <boost_rdma/context.hpp>
#include <boost_rdma/detail/device_events_core.hpp>
#include <boost_rdma/detail/initiation.hpp>
#include <boost_rdma/detail/inner_executor.hpp>
#include <boost_rdma/detail/io_object.hpp>
#include <boost_rdma/device_event.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/execution_context.hpp>

#include <concepts>
#include <memory>
#include <utility>

namespace rdma {

/// Reports the asynchronous events of one of a context's devices, as an Asio I/O object
/// (ibv_get_async_event(3)).
/**
 * Events are: a port that changes its state, an address that is added or removed, a queue that
 * fails, and the failure or removal of the device.
 *
 * @code
 * rdma::device_events events(io, rdma);
 * for (;;)
 * {
 *   rdma::device_event event = co_await events.async_wait_event(asio::use_awaitable);
 *   std::cerr << event.text() << '\n';
 * }
 * @endcode
 *
 * Using this class is optional. The library reads every event in any case and acts on it:
 * @li A device that failed or was removed: all operations of its queue pairs end with
 *     error::device_lost.
 * @li A queue pair that the device reports as failed: it enters the error state, and its operations
 *     end.
 * @li A failed completion queue or shared receive queue: its queue pairs end with
 *     error::completion_queue_failed or error::shared_receive_queue_failed.
 * @li A port that goes down: nothing ends. The device retries operations until
 *     queue_pair_options::retry_count is exhausted.
 *
 * close() and the destructor stop the reporting. cancel() only ends the waits; events are still
 * kept. is_open() and get_executor() work as those of Asio's I/O objects.
 *
 * Any number of objects may report the events of one device. Each one receives all events that
 * occur after its construction, including those between two waits, up to
 * device_events_options::capacity. Events of queue pairs of other contexts are not reported. Events
 * of ports and of the device are reported to all objects.
 *
 * The library reads the events of every device that it opened, on one thread for the process. Do
 * not call ibv_get_async_event() on device::native_handle().
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe, as with Asio's sockets. The context may run on
 * any number of threads.
 */
template <class Executor = boost::asio::any_io_executor>
class basic_device_events : public detail::io_object<Executor, detail::device_events_core>
{
public:
  /// The executor type, for handlers without an associated executor.
  using executor_type = Executor;

  /// Rebinds the type to another executor.
  template <class OtherExecutor>
  struct rebind_executor
  {
    /// The same type with that executor.
    using other = basic_device_events<OtherExecutor>;
  };

  /// Starts to report the events of a device.
  /**
   * @param executor Executor for handlers without an associated executor.
   * @param context The context that opened the device.
   * @param options `device` is the name of one of the context's devices; empty means the default
   * one. `capacity` is the number of events that are kept between two waits, 256 by default. Beyond
   * it the oldest event is dropped and counted in device_event::lost.
   *
   * @throws system_error with one of these errors:
   * @li error::no_device: the context has not opened a device of that name.
   * @li error::device_lost: the device failed or was removed.
   * @li error::forked: the context was made in the parent process.
   * @li the error of starting a thread.
   */
  basic_device_events(const executor_type& executor, const rdma::context& context,
    const device_events_options& options = device_events_options())
    : detail::io_object<Executor, detail::device_events_core>(executor,
      detail::device_events_core::make(detail::inner_executor(executor), context, options))
  {
  }

  /// Starts to report the events of a device, with the executor of an execution context.
  template <class ExecutionContext>
    requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
  basic_device_events(ExecutionContext& owner, const rdma::context& context,
    const device_events_options& options = device_events_options())
    : basic_device_events(executor_type(owner.get_executor()), context, options)
  {
  }

  /// Waits for the next event, or takes the oldest one that is kept.
  /**
   * Any number of waits may be outstanding; the oldest one receives the next event. An outstanding
   * wait keeps io_context::run() from returning, as that of a timer does.
   *
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::device_event) @endcode
   * The event has no meaning if there is an error.
   *
   * @par Errors
   * @li operation_aborted: the wait was cancelled, or the object was closed during it.
   * @li error::closed: the object was closed or moved from before.
   * @li error::forked: the object was made in the parent process.
   * @li error::device_lost: device_event_type::device_fatal was delivered before; no event follows
   *     it.
   *
   * @par Per-operation cancellation
   * terminal, partial and total withdraw the wait. No event is lost.
   */
  template <boost::asio::completion_token_for<void(error_code, device_event)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_wait_event(
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code, device_event)>(
      detail::initiation(this->executor_,
        [core = this->core_](const auto& executor, auto&& handler)
        { detail::start_wait(executor, core.get(), std::forward<decltype(handler)>(handler)); }),
      token);
  }
};

} // namespace rdma

#endif // BOOST_RDMA_BASIC_DEVICE_EVENTS_HPP
